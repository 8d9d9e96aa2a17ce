//! The interface between an executor and the directory of its users.

use std::fmt;

use super::attempt::{Attempt, RequestContext};
use super::auth_outcome::AuthOutcome;

/// A directory of users and their secrets.
///
/// One provider serves all threads of an executor. It must not block: for slow work it returns a
/// [`AuthOutcome`] that computes or waits.
///
/// ```
/// use asyncsteps_futoin::security::*;
///
/// #[derive(Debug)]
/// struct Directory;
///
/// impl SecurityProvider for Directory {
///     fn check(&self, attempt: &Attempt<'_>) -> AuthOutcome {
///         let Credentials::Password { user, password } = attempt.credentials() else {
///             return AuthOutcome::Known(Err(Refusal::credentials()));
///         };
///         let (user, password) = (user.clone(), password.clone());
///         AuthOutcome::wait(async move {
///             // ask a database here
///             if password.expose() == "open sesame" {
///                 Ok(Grant::new(User::new(user, SecurityLevel::SafeOps)))
///             } else {
///                 Err(Refusal::credentials())
///             }
///         })
///     }
/// }
/// ```
pub trait SecurityProvider: fmt::Debug + Send + Sync {
    /// Checks the credentials of a request: its field `sec`, or a header `Authorization: Basic`. The
    /// executor knows `-internal` itself.
    fn check(&self, attempt: &Attempt<'_>) -> AuthOutcome;

    /// The schemes of `Authorization` headers by which it knows callers, such as `Basic`, the default, or
    /// `Bearer`: answers with the HTTP status 401 and OpenAPI documents name them.
    fn schemes(&self) -> &[&str] {
        &["Basic"]
    }

    /// Identifies the caller of a request without such credentials by other data of the request: a
    /// token or key in a header, or the certificate of the connection. `None`, the default, leaves the
    /// caller anonymous, unless the request has a header `Authorization`: it is refused then, because nothing
    /// has checked what that says. Refuse a wrong token instead of returning `None`.
    ///
    /// The executor calls it for each message, of a WebSocket connection too.
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
    ///     fn check(&self, _: &Attempt<'_>) -> AuthOutcome {
    ///         AuthOutcome::Known(Err(Refusal::credentials()))
    ///     }
    ///
    ///     fn identify(&self, request: &RequestContext<'_>) -> Option<AuthOutcome> {
    ///         let token = request.header("authorization")?.strip_prefix("Bearer ")?;
    ///         let hash: [u8; 32] = Sha256::digest(token).into();
    ///         let user = self.0.get(&hash).map(|user| User::new(user, SecurityLevel::SafeOps));
    ///         let refused = || Refusal::new(SECURITY_ERROR, "Token is not valid");
    ///         Some(AuthOutcome::Known(user.map(Grant::new).ok_or_else(refused)))
    ///     }
    /// }
    ///
    /// let tokens = Tokens(HashMap::from([(Sha256::digest("s3cr3t").into(), "ann".to_owned())]));
    /// # assert!(!tokens.0.is_empty());
    /// // Executor::builder().security(tokens)
    /// ```
    fn identify(&self, request: &RequestContext<'_>) -> Option<AuthOutcome> {
        let _ = request;
        None
    }
}
