//! Addresses of clients: ranges, values per range, and proxies.
//!
//! ```
//! use asyncsteps_futoin::net::{RangeMap, Scope};
//!
//! let mut limiters = RangeMap::new();
//! limiters.insert("0.0.0.0/0".parse()?, "default");
//! limiters.insert("10.0.0.0/8".parse()?, "inside");
//! assert_eq!(limiters.get("10.1.2.3".parse()?), Some(&"inside"));
//! assert_eq!(limiters.get("192.0.2.1".parse()?), Some(&"default"));
//!
//! // a household has many IPv6 addresses of one /64
//! let client = Scope::default().of("2001:db8:1:2:3:4:5:6".parse()?);
//! assert_eq!(client.to_string(), "2001:db8:1:2::/64");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cidr;
mod proxies;
mod range_map;
mod scope;
mod source_address;

pub use self::cidr::{Cidr, CidrError};
pub use self::proxies::TrustedProxies;
pub use self::range_map::RangeMap;
pub use self::scope::Scope;
pub use self::source_address::SourceAddress;
