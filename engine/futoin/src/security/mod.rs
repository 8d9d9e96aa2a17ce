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

mod credentials;
mod level;
mod mac;
mod password;
mod provider;
mod refusal;

pub use self::credentials::{Credentials, Secret};
pub use self::level::{PLEASE_REAUTH, SecurityLevel, UnknownLevel};
pub use self::mac::{MacAlgorithm, MacKey};
pub use self::password::{PasswordHash, PasswordHashError};
pub use self::provider::{
    Attempt, Client, Grant, RequestContext, SecurityProvider, Signer, User, Verdict,
};
pub use self::refusal::SECURITY_ERROR;
pub use crate::refusal::Refusal;
/// The former name of [`Refusal`].
pub use crate::refusal::Refusal as Denied;
