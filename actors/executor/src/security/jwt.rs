//! Callers with bearer tokens (RFC 6750) that are JSON Web Tokens (RFC 7519).

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use asyncsteps_core::codes;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, crypto, decode, decode_header};
use serde_json::{Map, Value};

use super::jwt_discovery::{Discovery, Due, Readings, SharedKeys};
use super::jwt_keys::JwtKeys;
use super::{
    Attempt, AuthOutcome, Grant, PLEASE_REAUTH, Refusal, RequestContext, SECURITY_ERROR,
    SecurityLevel, SecurityProvider, User,
};

/// Longest token, in bytes. Tokens with dozens of roles have two or three thousand.
const MAX_TOKEN: usize = 8 << 10;

/// Longest `sub`, in bytes, as of the other names of users.
const MAX_SUBJECT: usize = 1024;

/// How far the clocks of issuer and service may be apart, in seconds: `exp` and `nbf` are checked with it.
const LEEWAY: u64 = 60;

/// Users who show a bearer token, `Authorization: Bearer ..`, that is a JSON Web Token of one issuer. Over a WebSocket a page
/// shows it by `Sec-WebSocket-Protocol: bearer, ..`.
///
/// A token is accepted if
/// - it is signed by the key that its `kid` and `alg` name;
/// - its `iss` is the issuer, and its `aud` has the audience; Cognito's access tokens have no `aud`, and their `client_id` is
///   the audience;
/// - it is an access token, and not an ID token for the client that signed a user in, see below;
/// - `exp` has not passed and `nbf`, if there is one, has; clocks may differ by 60 seconds;
/// - it has a `sub` of at most 1024 bytes, and itself at most 8 KiB.
///
/// An access token has the `typ` `at+jwt` (RFC 9068) in its header. Issuers that do not go by it have `JWT` or nothing there,
/// and then the claims decide: `token_use` must be `access` (Cognito) and the claim `typ` `Bearer` (Keycloak) if they are
/// there; without both, `nonce`, `at_hash` and `c_hash` are those of an ID token. One without any mark differs by its
/// audience alone, so let the audience be a name of the service, and not the id of a client.
///
/// Then the user is its `sub`, and the claims are the [details](User::details) of the user. Its level is that of its
/// [roles](Self::role), the highest one, or [`Info`](SecurityLevel::Info) without any, and is
/// [final](User::with_final_level): the answer of a function of a higher level is Unauthorized, because signing in again
/// would not help.
///
/// A request without the header is anonymous, and one with another scheme in it is refused. One whose token has expired gets PleaseReauth, "Info (the token has
/// expired)"; every other wrong token gets SecurityError, "Token is not valid", and the reason is in the log at the
/// level `debug`. A password or a signature is refused: a service that takes them too has a [`SecurityProvider`] of its
/// own, whose `check` asks the provider of passwords and whose `identify` asks this one.
///
/// A cheap handle: keep a clone to [replace the keys](Self::set_keys), unless they are [discovered](Self::discover).
///
/// ```
/// use asyncsteps_executor::security::{JwtKeys, JwtProvider, SecurityLevel};
/// use asyncsteps_executor::{ConfigError, Executor};
///
/// fn shop(keys: JwtKeys) -> Result<Executor, ConfigError> {
///     let users = JwtProvider::new("https://id.acme.com/", "acme.shop", keys)
///         .role("clerk", SecurityLevel::SafeOps)
///         .role("manager", SecurityLevel::PrivilegedOps);
///     Executor::builder().security(users).build()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct JwtProvider {
    keys: SharedKeys,
    discovery: Option<Arc<Discovery>>,
    audience: String,
    /// For every algorithm: that of the key is set for each token.
    validation: Validation,
    roles: BTreeMap<String, SecurityLevel>,
    roles_at: String,
}

impl JwtProvider {
    /// Accepts tokens of an issuer (`iss`) for an audience (`aud`), signed by one of these keys.
    #[must_use]
    pub fn new(issuer: &str, audience: &str, keys: JwtKeys) -> Self {
        // an application may have both backends of the crate, which then wants one of them to be named; if
        // it has named one, that one stays
        let _ = crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_issuer(&[issuer]);
        // see `is_for`
        validation.validate_aud = false;
        validation.set_required_spec_claims(&["iss", "exp", "sub"]);
        validation.validate_nbf = true;
        validation.leeway = LEEWAY;
        Self {
            keys: SharedKeys::new(Arc::new(keys).into()),
            discovery: None,
            audience: audience.to_owned(),
            validation,
            roles: BTreeMap::new(),
            roles_at: "/roles".to_owned(),
        }
    }

    /// Accepts tokens of an issuer for an audience, signed by the keys that it publishes: `fetch` reads the text at a URL, of
    /// the issuer's `/.well-known/openid-configuration` and then of the `jwks_uri` in it, over HTTPS. The one of
    /// `asyncsteps-fabric` is `http::fetch`.
    ///
    /// The keys are read at the first token and every ten minutes beside the requests, and at once for a token whose key is
    /// not known, which waits for it: a rotation refuses none. Two readings are at least 2 seconds apart, whatever
    /// tokens come. Where reading fails the keys before are kept, the log has a warning, and tokens whose key is not known
    /// get InternalError, "Authentication is not available". A reading takes 10 seconds at most.
    #[must_use]
    pub fn discover<F, E>(
        issuer: &str,
        audience: &str,
        fetch: impl Fn(String) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let discovery = Some(Arc::new(Discovery::new(issuer, fetch)));
        Self { discovery, ..Self::new(issuer, audience, JwtKeys::default()) }
    }

    /// Sets the level of users with a role. Roles that are not named here change no level.
    #[must_use]
    pub fn role(mut self, role: &str, level: SecurityLevel) -> Self {
        self.roles.insert(role.to_owned(), level);
        self
    }

    /// Sets where the roles are in the claims, as a JSON pointer (RFC 6901): `/roles` unless set, and
    /// `/realm_access/roles` for Keycloak. There is a list of names, or a text with names between spaces, as in
    /// `/scope`.
    #[must_use]
    pub fn roles_at(self, pointer: &str) -> Self {
        Self { roles_at: pointer.to_owned(), ..self }
    }

    /// Replaces all keys, of all clones: a token of a key that is not among them is refused from the next
    /// request on, on open WebSocket connections too.
    pub fn set_keys(&self, keys: JwtKeys) {
        *self.keys.write() = Arc::new(keys);
    }

    fn user(&self, token: &str) -> Result<User, Invalid> {
        if token.len() > MAX_TOKEN {
            return Err(Invalid::Other("it is too long"));
        }
        let header = decode_header(token)?;
        if header.crit.is_some() {
            return Err(Invalid::Other("it has critical extensions"));
        }
        let kid = header.kid.ok_or(Invalid::Other("it names no key"))?;
        let keys = Arc::clone(&self.keys.read());
        let key = keys.get(&(kid, header.alg)).ok_or(Invalid::UnknownKey)?;
        let mut validation = self.validation.clone();
        validation.algorithms = vec![header.alg];
        let claims: Map<String, Value> = decode(token, key, &validation)?.claims;
        if !is_for(&claims, &self.audience) {
            return Err(Invalid::Other("it is for another audience"));
        }
        if !is_access(header.typ.as_deref(), &claims) {
            return Err(Invalid::Other("it is no access token"));
        }
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        if subject.is_empty() || subject.len() > MAX_SUBJECT {
            return Err(Invalid::Other("its `sub` is no name of a user"));
        }
        let (subject, claims) = (subject.to_owned(), Value::Object(claims));
        let user = User::new(subject, self.level(&claims)).with_final_level();
        let Value::Object(claims) = claims else { return Ok(user) };
        Ok(claims.into_iter().fold(user, |user, (name, value)| user.with_detail(name, value)))
    }

    /// The outcome when the keys have been read again, unless another reading suffices.
    fn renewed(&self, discovery: Arc<Discovery>, token: String, seen: Readings) -> AuthOutcome {
        let this = self.clone();
        // as a task: others wait for the reading too when this caller is gone
        let judged = tokio::spawn(async move {
            let is_missed = || match this.user(&token) {
                Ok(_) => discovery.due() == Due::First,
                Err(invalid) => matches!(invalid, Invalid::UnknownKey),
            };
            let is_known = discovery.renew(seen, &this.keys, is_missed).await;
            match this.user(&token) {
                Err(Invalid::UnknownKey) if !is_known => Err(Invalid::Unavailable),
                user => user,
            }
        });
        AuthOutcome::wait(async {
            let user = judged.await.unwrap_or(Err(Invalid::Unavailable));
            user.map(Grant::new).map_err(Invalid::refusal)
        })
    }

    fn level(&self, claims: &Value) -> SecurityLevel {
        let level = |role: &str| self.roles.get(role).copied();
        let highest = match claims.pointer(&self.roles_at) {
            Some(Value::String(roles)) => roles.split_whitespace().filter_map(level).max(),
            Some(Value::Array(roles)) => {
                roles.iter().filter_map(Value::as_str).filter_map(level).max()
            }
            _ => None,
        };
        highest.unwrap_or(SecurityLevel::Info)
    }
}

impl SecurityProvider for JwtProvider {
    fn check(&self, _: &Attempt<'_>) -> AuthOutcome {
        AuthOutcome::Known(Err(Refusal::credentials()))
    }

    fn schemes(&self) -> &[&str] {
        &["Bearer"]
    }

    fn identify(&self, request: &RequestContext<'_>) -> Option<AuthOutcome> {
        let header = request.header("authorization")?;
        let (scheme, token) = header.split_once(' ').unwrap_or((header, ""));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let token = token.trim();
        let Some(discovery) = &self.discovery else { return Some(known(self.user(token))) };
        let seen = discovery.readings();
        let user = self.user(token);
        match (&user, discovery.due()) {
            (Err(Invalid::UnknownKey), _) | (Ok(_), Due::First) => {
                return Some(self.renewed(Arc::clone(discovery), token.to_owned(), seen));
            }
            (Ok(_), Due::Soon) => {
                let (discovery, keys) = (Arc::clone(discovery), Arc::clone(&self.keys));
                tokio::spawn(async move { discovery.renew(seen, &keys, || true).await });
            }
            _ => {}
        }
        Some(known(user))
    }
}

fn known(user: Result<User, Invalid>) -> AuthOutcome {
    AuthOutcome::Known(user.map(Grant::new).map_err(Invalid::refusal))
}

/// Whether a token is for this audience.
fn is_for(claims: &Map<String, Value>, audience: &str) -> bool {
    match claims.get("aud") {
        Some(Value::Array(all)) => all.iter().any(|one| one == audience),
        Some(one) => one == audience,
        None => {
            let has = |name, value| claims.get(name).is_some_and(|has| has == value);
            has("token_use", "access") && has("client_id", audience)
        }
    }
}

/// Whether it is an access token, by the type in its header or by the claims of issuers that have none there.
fn is_access(typ: Option<&str>, claims: &Map<String, Value>) -> bool {
    let typ = typ.map(str::to_ascii_lowercase);
    // RFC 7515 §4.1.9: the prefix may be left out
    match typ.as_deref().map(|typ| typ.strip_prefix("application/").unwrap_or(typ)) {
        Some("at+jwt") => return true,
        None | Some("jwt") => {}
        Some(_) => return false,
    }
    match (claims.get("token_use"), claims.get("typ")) {
        (None, None) => !["nonce", "at_hash", "c_hash"].iter().any(|it| claims.contains_key(*it)),
        (kind, typ) => {
            kind.is_none_or(|kind| kind == "access") && typ.is_none_or(|typ| typ == "Bearer")
        }
    }
}

/// Why a token is not accepted: for the log.
#[derive(Debug, thiserror::Error)]
enum Invalid {
    #[error(transparent)]
    Token(#[from] jsonwebtoken::errors::Error),
    #[error("its key is not known")]
    UnknownKey,
    #[error("the keys of its issuer cannot be read")]
    Unavailable,
    #[error("{0}")]
    Other(&'static str),
}

impl Invalid {
    fn refusal(self) -> Refusal {
        if matches!(&self, Self::Token(error) if *error.kind() == ErrorKind::ExpiredSignature) {
            // the first word is the level to sign in for (FTN3 §1.12)
            return Refusal::new(PLEASE_REAUTH, "Info (the token has expired)");
        }
        tracing::debug!(reason = %self, "a bearer token is refused");
        if matches!(self, Self::Unavailable) {
            return Refusal::new(codes::INTERNAL_ERROR, "Authentication is not available");
        }
        Refusal::new(SECURITY_ERROR, "Token is not valid")
    }
}
