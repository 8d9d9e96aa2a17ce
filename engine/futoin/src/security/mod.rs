//! Callers: credentials, signatures and security levels (FTN8).
//!
//! An executor reads [`Credentials`] from the field `sec` or from an `Authorization` header and passes them to its
//! [`SecurityProvider`], whose [`AuthOutcome`] is a result, work for another thread, or a future. The [`Grant`] has the
//! [`User`] and, for a signed request, the [`Signer`] of the answer.
//!
//! A provider can also identify callers by a bearer token or the certificate of a connection: see
//! [`SecurityProvider::identify`].
//!
//! Secrets are not in any `Debug` output. Comparisons take the same time wherever they fail, and the
//! password of an unknown user takes as long as a wrong one.

mod attempt;
mod auth_outcome;
mod credentials;
mod level;
mod mac;
mod password;
mod provider;
mod refusal;
mod user;

pub use self::attempt::{Attempt, Client, RequestContext};
pub use self::auth_outcome::{AuthOutcome, Grant, Signer};
pub use self::credentials::{Credentials, Secret};
pub use self::level::{PLEASE_REAUTH, SecurityLevel, UnknownLevel};
pub use self::mac::{MacAlgorithm, MacKey};
pub use self::password::{PasswordHash, PasswordHashError};
pub use self::provider::SecurityProvider;
pub use self::refusal::SECURITY_ERROR;
pub use self::user::User;
pub use crate::refusal::Refusal;
