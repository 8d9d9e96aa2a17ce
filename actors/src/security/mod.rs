//! Who calls: credentials, signatures and security levels (FTN8), pure.
//!
//! An executor reads [`Credentials`] from the field `sec` or from an `Authorization` header and
//! asks its [`SecurityProvider`], which tells at once, or gives work for another thread, or a
//! future. The [`Grant`] has the [`User`] and, for a signed request, what signs the answer.
//!
//! A provider also knows callers by other things that came with a request, such as a bearer token or
//! the certificate of a connection: see [`SecurityProvider::identify`].
//!
//! What is secret is in no `Debug` output. Comparisons take the same time wherever they fail, and
//! an unknown user costs what a wrong password does.
//!
//! ```
//! use asyncsteps_actors::message::Request;
//! use asyncsteps_actors::security::{
//!     Attempt, Client, Credentials, SecurityLevel, SecurityProvider, StaticUsers, Verdict,
//! };
//!
//! let users = StaticUsers::new().with_mac_key("bob", b"MyLongTestSecretKey");
//! let body = br#"{"f":"a.b:1.0:f","sec":"-hmac:bob:MD5:BRk8HOKF1FCWP3XRUWgbqw=="}"#;
//! let request = Request::parse(body)?;
//!
//! let credentials = Credentials::parse(request.sec().expect("it is there"))?;
//! let (signed, client) = (request.signed_fields(), Client::default());
//! match users.check(&Attempt::new(&credentials, &signed, &client)) {
//!     Verdict::Known(Ok(grant)) => assert_eq!(grant.user().level(), SecurityLevel::PrivilegedOps),
//!     other => panic!("{other:?}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod credentials;
mod denied;
mod level;
mod mac;
mod memory;
mod password;
mod provider;
mod users;

pub use self::{
    credentials::{Credentials, Secret},
    denied::{Denied, PLEASE_REAUTH, SECURITY_ERROR},
    level::{SecurityLevel, UnknownLevel},
    mac::{MacAlgorithm, MacKey},
    memory::{MemoryOptions, PasswordMemory},
    password::{PasswordHash, PasswordHashError},
    provider::{Attempt, Client, Grant, RequestContext, SecurityProvider, Signer, User, Verdict},
    users::StaticUsers,
};
