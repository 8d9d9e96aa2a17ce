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
mod denied;
mod level;
mod mac;
mod password;
mod provider;

pub use self::{
    credentials::{Credentials, Secret},
    denied::{Denied, PLEASE_REAUTH, SECURITY_ERROR},
    level::{SecurityLevel, UnknownLevel},
    mac::{MacAlgorithm, MacKey},
    password::{PasswordHash, PasswordHashError},
    provider::{Attempt, Client, Grant, RequestContext, SecurityProvider, Signer, User, Verdict},
};
