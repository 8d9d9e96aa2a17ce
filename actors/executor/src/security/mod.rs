//! Users and credentials (FTN8): the parts of `asyncsteps-futoin`, users in memory ([`StaticUsers`]), users of an
//! AuthService ([`AuthService`]), and passwords that were right a short while ago.
//!
//! ```
//! use asyncsteps_executor::message::Request;
//! use asyncsteps_executor::security::{
//!     Attempt, Client, Credentials, SecurityLevel, SecurityProvider, StaticUsers, AuthOutcome,
//! };
//!
//! let users = StaticUsers::new().with_mac_key("bob", b"MyLongTestSecretKey");
//! let body = br#"{"f":"a.b:1.0:f","sec":"-hmac:bob:MD5:BRk8HOKF1FCWP3XRUWgbqw=="}"#;
//! let request = Request::parse(body)?;
//!
//! let credentials = Credentials::parse(request.sec().expect("it is there"))?;
//! let (signed, client) = (request.signed_fields(), Client::default());
//! match users.check(&Attempt::new(&credentials, &signed, &client)) {
//!     AuthOutcome::Known(Ok(grant)) => assert_eq!(grant.user().level(), SecurityLevel::PrivilegedOps),
//!     other => panic!("{other:?}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`RequestContext::transport`] returns what the transport knows of a request: over HTTP the `RequestHead` of
//! `asyncsteps-transport`, with what the server has kept of the connection, such as the certificate of its client.

mod auth_memory;
mod auth_service;
#[cfg(feature = "jwt")]
mod jwt;
#[cfg(feature = "jwt")]
mod jwt_discovery;
#[cfg(feature = "jwt")]
mod jwt_keys;
mod mac_signer;
mod memory;
mod users;

pub use asyncsteps_futoin::security::*;

pub use self::{
    auth_service::AuthService,
    memory::{MemoryOptions, PasswordMemory},
    users::StaticUsers,
};
#[cfg(feature = "jwt")]
pub use self::{
    jwt::JwtProvider,
    jwt_keys::{JwtKeys, JwtKeysError},
};
