//! Addresses of clients: ranges and proxies.
//!
//! ```
//! use asyncsteps_futoin::net::{Cidr, Scope};
//!
//! let inside: Cidr = "10.0.0.0/8".parse()?;
//! assert!(inside.contains("10.1.2.3".parse()?));
//! assert!(!inside.contains("192.0.2.1".parse()?));
//!
//! // a household has many IPv6 addresses of one /64
//! let client = Scope::default().of("2001:db8:1:2:3:4:5:6".parse()?);
//! assert_eq!(client.to_string(), "2001:db8:1:2::/64");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cidr;
mod proxies;
mod scope;
mod source_address;

pub use self::cidr::{Cidr, CidrError};
pub use self::proxies::TrustedProxies;
pub use self::scope::Scope;
pub use self::source_address::SourceAddress;
