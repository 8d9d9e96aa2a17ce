//! The seam between an executor and whoever knows its users.

use std::{fmt, net::IpAddr, pin::Pin, sync::Arc};

use serde_json::{Map, Value};

use super::{Credentials, Denied, SecurityLevel};
use crate::message::{Headers, Signed};

/// Knows users and their secrets.
///
/// One provider serves all arbiters. It must not block: what takes long is its verdict's business.
///
/// ```
/// use asyncsteps_futoin::security::*;
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
    /// Checks the credentials of a request: its field `sec`, or a header `Authorization: Basic`. The
    /// executor knows `-internal` itself.
    fn check(&self, attempt: &Attempt<'_>) -> Verdict;

    /// Knows the caller of a request without such credentials by what came beside the message: a
    /// token or key in a header, or the certificate of the connection. `None`, which is what this does
    /// unless it is implemented, leaves the caller anonymous; a wrong token is better denied.
    ///
    /// It is asked for each message, of a WebSocket connection too.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use asyncsteps_futoin::security::*;
    /// use sha2::{Digest, Sha256};
    ///
    /// /// Users by the hashes of their tokens: how long a look-up takes tells nothing of a token.
    /// #[derive(Debug)]
    /// struct Tokens(HashMap<[u8; 32], String>);
    ///
    /// impl SecurityProvider for Tokens {
    ///     fn check(&self, _: &Attempt<'_>) -> Verdict {
    ///         Verdict::Known(Err(Denied::credentials()))
    ///     }
    ///
    ///     fn identify(&self, request: &RequestContext<'_>) -> Option<Verdict> {
    ///         let token = request.header("authorization")?.strip_prefix("Bearer ")?;
    ///         let hash: [u8; 32] = Sha256::digest(token).into();
    ///         let user = self.0.get(&hash).map(|user| User::new(user, SecurityLevel::SafeOps));
    ///         let denied = || Denied::new(SECURITY_ERROR, "Token is not valid");
    ///         Some(Verdict::Known(user.map(Grant::new).ok_or_else(denied)))
    ///     }
    /// }
    ///
    /// let tokens = Tokens(HashMap::from([(Sha256::digest("s3cr3t").into(), "ann".to_owned())]));
    /// # assert!(!tokens.0.is_empty());
    /// // Executor::builder().security(tokens)
    /// ```
    fn identify(&self, request: &RequestContext<'_>) -> Option<Verdict> {
        let _ = request;
        None
    }
}

/// What came with a request beside its message.
#[derive(Clone, Copy)]
pub struct RequestContext<'a> {
    client: &'a Client,
    headers: Option<&'a dyn Headers>,
}

impl<'a> RequestContext<'a> {
    /// A request of this client, without headers.
    #[must_use]
    pub fn new(client: &'a Client) -> Self {
        Self { client, headers: None }
    }

    /// The same with the headers of its HTTP request.
    #[must_use]
    pub fn with_headers(self, headers: impl Into<Option<&'a dyn Headers>>) -> Self {
        Self { headers: headers.into(), ..self }
    }

    /// Where the request came from.
    #[must_use]
    pub fn client(&self) -> &'a Client {
        self.client
    }

    /// The first header of this name; `name` is in lower case. On a WebSocket connection it is that of
    /// the upgrade.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers?.header(name)
    }

    /// The request in the terms of its transport, if that is of this type.
    ///
    /// Over the HTTP transport of `asyncsteps-executor` it is an `actix_web::HttpRequest`.
    #[must_use]
    pub fn transport<T: 'static>(&self) -> Option<&'a T> {
        self.headers?.transport()?.downcast_ref()
    }
}

impl fmt::Debug for RequestContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // headers may be secrets
        f.debug_struct("RequestContext").field("client", self.client).finish_non_exhaustive()
    }
}

/// A request with credentials.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    credentials: &'a Credentials,
    signed: &'a Signed<'a>,
    context: RequestContext<'a>,
}

impl<'a> Attempt<'a> {
    /// Puts together what a provider may look at.
    #[must_use]
    pub fn new(credentials: &'a Credentials, signed: &'a Signed<'a>, client: &'a Client) -> Self {
        Self { credentials, signed, context: RequestContext::new(client) }
    }

    /// The same with all that came beside the message.
    #[must_use]
    pub fn with_context(self, context: RequestContext<'a>) -> Self {
        Self { context, ..self }
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
        self.context.client
    }

    /// What came beside the message: headers, and what the transport knows.
    #[must_use]
    pub fn context(&self) -> RequestContext<'a> {
        self.context
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

/// An authenticated user (FTN8 §2.5), and what its provider knows of it beside that.
///
/// ```
/// use asyncsteps_futoin::security::{SecurityLevel, User};
///
/// let ann = User::new("ann", SecurityLevel::SafeOps)
///     .with_global_id("ann@example.com")
///     .with_detail("tenant", "acme");
/// assert_eq!(ann.details()["tenant"], "acme");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    local_id: String,
    global_id: String,
    level: SecurityLevel,
    details: Map<String, Value>,
}

impl User {
    /// A user whose global id is its local one.
    #[must_use]
    pub fn new(local_id: impl Into<String>, level: SecurityLevel) -> Self {
        let local_id = local_id.into();
        Self { global_id: local_id.clone(), local_id, level, details: Map::new() }
    }

    /// The same with a global id, usually an address of electronic mail.
    #[must_use]
    pub fn with_global_id(self, global_id: impl Into<String>) -> Self {
        Self { global_id: global_id.into(), ..self }
    }

    /// The same with a detail, such as a name, a tenant, roles, or the client's token: what functions
    /// need to know and the provider has read anyway. A detail of the same name is replaced.
    #[must_use]
    pub fn with_detail(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.details.insert(name.into(), value.into());
        self
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

    /// The details that the provider gave with the user (FTN6 §2.3 `details`); none for a user that
    /// a message names with `obf`. What is costly to find out is better asked for by the function that
    /// needs it.
    #[must_use]
    pub fn details(&self) -> &Map<String, Value> {
        &self.details
    }

    /// How well the user is known by this request.
    #[must_use]
    pub fn level(&self) -> SecurityLevel {
        self.level
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // details may be personal data, which a log must not have
        f.debug_struct("User")
            .field("local_id", &self.local_id)
            .field("global_id", &self.global_id)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}
