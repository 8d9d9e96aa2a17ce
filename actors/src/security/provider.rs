//! The seam between an executor and whoever knows its users.

use std::{fmt, net::IpAddr, pin::Pin, sync::Arc};

use super::{Credentials, Denied, SecurityLevel};
use crate::message::Signed;

/// Knows users and their secrets.
///
/// One provider serves all arbiters. It must not block: what takes long is its verdict's business.
///
/// ```
/// use asyncsteps_actors::security::*;
///
/// #[derive(Debug)]
/// struct Directory;
///
/// impl SecurityProvider for Directory {
///     fn check(&self, attempt: &Attempt<'_>) -> Verdict {
///         let Credentials::Password { user, password } = attempt.credentials() else {
///             return Verdict::Known(Err(Denied::credentials()));
///         };
///         let (user, password) = (user.clone(), password.clone());
///         Verdict::wait(async move {
///             // ask a database here
///             if password.expose() == "open sesame" {
///                 Ok(Grant::new(User::new(user, SecurityLevel::SafeOps)))
///             } else {
///                 Err(Denied::credentials())
///             }
///         })
///     }
/// }
/// ```
pub trait SecurityProvider: fmt::Debug + Send + Sync {
    /// Checks the credentials of a request. The executor knows `-internal` itself.
    fn check(&self, attempt: &Attempt<'_>) -> Verdict;
}

/// A request with credentials.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    credentials: &'a Credentials,
    signed: &'a Signed<'a>,
    client: &'a Client,
}

impl<'a> Attempt<'a> {
    /// Puts together what a provider may look at.
    #[must_use]
    pub fn new(credentials: &'a Credentials, signed: &'a Signed<'a>, client: &'a Client) -> Self {
        Self { credentials, signed, client }
    }

    /// What the caller shows.
    #[must_use]
    pub fn credentials(&self) -> &'a Credentials {
        self.credentials
    }

    /// What a signature must cover.
    #[must_use]
    pub fn signed(&self) -> &'a Signed<'a> {
        self.signed
    }

    /// Where the request came from.
    #[must_use]
    pub fn client(&self) -> &'a Client {
        self.client
    }
}

/// What is known of a client without credentials (FTN8 §2.13).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Client {
    /// The source address.
    pub source: Option<IpAddr>,
    /// Whether nobody in between can read or change the messages.
    pub secure: bool,
    /// The header `User-Agent`.
    pub user_agent: Option<String>,
}

/// The answer of a [`SecurityProvider`].
#[expect(clippy::exhaustive_enums, reason = "an executor must know what to do")]
pub enum Verdict {
    /// It was quick.
    Known(Result<Grant, Denied>),
    /// Work for a thread that may block.
    Compute(Box<dyn FnOnce() -> Result<Grant, Denied> + Send>),
    /// It depends on somebody else. Dropping the future gives up.
    Wait(Pin<Box<dyn Future<Output = Result<Grant, Denied>> + Send>>),
}

impl Verdict {
    /// Work for a thread that may block.
    #[must_use]
    pub fn compute(work: impl FnOnce() -> Result<Grant, Denied> + Send + 'static) -> Self {
        Self::Compute(Box::new(work))
    }

    /// A verdict to wait for.
    #[must_use]
    pub fn wait(verdict: impl Future<Output = Result<Grant, Denied>> + Send + 'static) -> Self {
        Self::Wait(Box::pin(verdict))
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(result) => f.debug_tuple("Known").field(result).finish(),
            Self::Compute(_) => f.write_str("Compute(..)"),
            Self::Wait(_) => f.write_str("Wait(..)"),
        }
    }
}

/// A caller that is who it says.
#[derive(Debug, Clone)]
pub struct Grant {
    user: User,
    signer: Option<Arc<dyn Signer>>,
}

impl Grant {
    /// For a request that was not signed.
    #[must_use]
    pub fn new(user: User) -> Self {
        Self { user, signer: None }
    }

    /// For a signed request: its answer must be signed with the same key and algorithm (FTN8
    /// §2.11.3).
    #[must_use]
    pub fn signed(user: User, signer: Arc<dyn Signer>) -> Self {
        Self { user, signer: Some(signer) }
    }

    /// Who calls.
    #[must_use]
    pub fn user(&self) -> &User {
        &self.user
    }

    /// What signs the answer; `None` if it is not signed.
    #[must_use]
    pub fn signer(&self) -> Option<&Arc<dyn Signer>> {
        self.signer.as_ref()
    }
}

/// Signs the answer to a signed request.
pub trait Signer: fmt::Debug + Send + Sync {
    /// The field `sec` of the answer. It must be quick.
    fn sign(&self, answer: &Signed<'_>) -> String;
}

/// An authenticated user (FTN8 §2.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    local_id: String,
    global_id: String,
    level: SecurityLevel,
}

impl User {
    /// A user whose global id is its local one.
    #[must_use]
    pub fn new(local_id: impl Into<String>, level: SecurityLevel) -> Self {
        let local_id = local_id.into();
        Self { global_id: local_id.clone(), local_id, level }
    }

    /// The same with a global id, usually an address of electronic mail.
    #[must_use]
    pub fn with_global_id(self, global_id: impl Into<String>) -> Self {
        Self { global_id: global_id.into(), ..self }
    }

    /// The id that this service uses.
    #[must_use]
    pub fn local_id(&self) -> &str {
        &self.local_id
    }

    /// The id that all services use.
    #[must_use]
    pub fn global_id(&self) -> &str {
        &self.global_id
    }

    /// How well the user is known by this request.
    #[must_use]
    pub fn level(&self) -> SecurityLevel {
        self.level
    }
}
