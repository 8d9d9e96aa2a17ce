//! A provider that asks an AuthService (FTN8.1, FTN6 §1).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::budget::{self, Budget, Limits, Permit};
use asyncsteps_core::{Error, codes};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::auth_memory::UserMemory;
use super::mac_signer::MacSigner;
use super::{
    Attempt, AuthOutcome, Client, Credentials, Grant, MacAlgorithm, MacKey, MemoryOptions, Refusal,
    SECURITY_ERROR, Secret, SecurityLevel, SecurityProvider, User,
};
use crate::executor::{Caller, FailedCall, Invocation, Invoker};

/// The interface by which the AuthService is called (FTN8.1 §3.1).
const INTERFACE: &str = "futoin.auth.stateless:0.4";

/// FTN8 §3.1 `LocalUserID`: the characters of a UUID in base64 without padding.
const LOCAL_USER_ID: usize = 22;

/// FTN8 §3.1 `Password`: how many characters it has.
const PASSWORD: std::ops::RangeInclusive<usize> = 8..=32;

/// FTN8 §3.1 `UserAgent`: how many characters are sent.
const USER_AGENT: usize = 256;

/// FTN8 §3.1 `MACKey`: padding is optional.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Users of an AuthService, which is another service (FTN8.1): passwords and signatures are checked by
/// `futoin.auth.stateless:0.4`, called over an [`Invoker`], so no user has to be known in this process.
///
/// A password yields [`SafeOps`](SecurityLevel::SafeOps), a signature
/// [`PrivilegedOps`](SecurityLevel::PrivilegedOps). A caller names itself by its local user id, 22
/// characters of base64, unless [`names`](Self::names) says otherwise; credentials that do not have the form
/// that FTN8 §3.1 says are refused without a call, and so are signatures whose algorithm has no name in
/// FTN8. The answer to a signed request is signed here, with the user's secret from `getMACSecret`.
///
/// Credentials that the AuthService has confirmed are [remembered](Self::remember) for a minute, so that it is not
/// asked for each message; for different ones it is always asked. While the AuthService does not answer, users that are
/// not remembered get InternalError, "Authentication is not available", and the log has the reason.
///
/// A cheap handle: keep a clone to [forget](Self::forget) users.
///
/// ```
/// use asyncsteps_executor::security::AuthService;
/// use asyncsteps_executor::{ConfigError, Executor, Invoker};
///
/// fn shop(invoker: impl Invoker + 'static) -> Result<Executor, ConfigError> {
///     let users = AuthService::new(invoker);
///     Executor::builder().security(users).build()
/// }
/// ```
#[derive(Clone, derive_more::Debug)]
pub struct AuthService {
    #[debug(skip)]
    invoker: Arc<dyn Invoker>,
    #[debug(skip)]
    names: Option<Names>,
    memory: UserMemory,
    calls: Budget,
}

/// From the name that a caller shows to its local user id.
type Names = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// FTN8 §3.1 `AuthInfo`.
#[derive(Deserialize)]
struct AuthInfo {
    local_id: String,
    global_id: String,
}

impl AuthService {
    /// Asks the AuthService that `invoker` reaches, as this service itself: with the credentials that
    /// the invoker calls with.
    pub fn new(invoker: impl Invoker + 'static) -> Self {
        let invoker: Arc<dyn Invoker> = Arc::new(invoker);
        let memory = MemoryOptions { time: Duration::from_secs(60), ..MemoryOptions::default() };
        let limits = Limits { concurrent: 64, queued: 1_000, ..Limits::default() };
        Self { invoker, names: None, memory: UserMemory::new(memory), calls: Budget::new(limits) }
    }

    /// How long a user is remembered after the AuthService confirmed it, and how many users; a minute and
    /// 10,000 unless set. A user whom the AuthService no longer lets in is let in for that time, unless it is
    /// [forgotten](Self::forget).
    #[must_use]
    pub fn remember(self, options: MemoryOptions) -> Self {
        Self { memory: UserMemory::new(options), ..self }
    }

    /// How many checks may be with the AuthService at once, and how many may wait, over all clients, which
    /// take turns; 64 and 1,000 unless set. `memory` is not counted. More are refused with DefenseRejected, so a flood of wrong
    /// credentials does not reach the AuthService.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { calls: Budget::new(limits), ..self }
    }

    /// Sets what turns the name that a caller shows into a local user id, `None` for a name without a user
    /// (FTN8.1 §2.4). It must be quick.
    #[must_use]
    pub fn names(self, id: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { names: Some(Arc::new(id)), ..self }
    }

    /// Forgets a user by its local user id, so that its next request is checked by the AuthService again: for
    /// a secret that has changed (FTN8.1 §2.3.1). A check that is in flight is not remembered.
    pub fn forget(&self, local_id: &str) {
        self.memory.forget(local_id);
    }

    /// The local user id of a caller with this name.
    fn local_id(&self, name: &str) -> Option<String> {
        let id = match &self.names {
            Some(names) => names(name)?,
            None => name.to_owned(),
        };
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        (id.len() == LOCAL_USER_ID && id.bytes().all(is_base64)).then_some(id)
    }

    /// The verdict about a password; `None` if it cannot be one.
    fn check_password(
        &self,
        client: &Client,
        name: &str,
        password: &Secret,
    ) -> Option<AuthOutcome> {
        let id = self.local_id(name)?;
        if !PASSWORD.contains(&password.expose().encode_utf16().count()) {
            return None;
        }
        if let Some(user) = self.memory.password(&id, password) {
            return Some(AuthOutcome::Known(Ok(Grant::new(user))));
        }
        let (this, began) = (self.clone(), self.memory.began());
        let (password, source, client) =
            (password.clone(), fingerprints(client), budget_of(client));
        Some(AuthOutcome::wait(async move {
            let _permit = this.permit(&client).await?;
            let sec = json!({ "user": id, "secret": password.expose() });
            let params = json!({ "sec": sec, "source": source });
            let user = this.user("checkClear", params, SecurityLevel::SafeOps).await?;
            this.memory.remember_password(began, &id, &password, &user);
            Ok(Grant::new(user))
        }))
    }

    /// The verdict about a signature; `None` if it cannot be one.
    fn check_mac(
        &self,
        attempt: &Attempt<'_>,
        name: &str,
        algorithm: MacAlgorithm,
        mac: &[u8],
    ) -> Option<AuthOutcome> {
        let (id, algo) = (self.local_id(name)?, algorithm.ftn8_name()?);
        let base = attempt.signed().base();
        let signed = move |user, key| Grant::signed(user, Arc::new(MacSigner::new(key, algorithm)));
        if let Some((key, user)) = self.memory.key(&id)
            && key.verify(algorithm, &base, mac)
        {
            return Some(AuthOutcome::Known(Ok(signed(user, key))));
        }
        let (this, began) = (self.clone(), self.memory.began());
        let (source, client) = (fingerprints(attempt.client()), budget_of(attempt.client()));
        let mac = mac.to_owned();
        Some(AuthOutcome::wait(async move {
            let _permit = this.permit(&client).await?;
            let sec = json!({ "user": id, "algo": algo, "sig": BASE64.encode(&mac) });
            let params = json!({ "base": BASE64.encode(&base), "sec": sec, "source": source });
            let user = this.user("checkMAC", params, SecurityLevel::PrivilegedOps).await?;
            let key = Arc::new(this.key(&id).await?);
            if !key.verify(algorithm, &base, &mac) {
                return Err(unavailable(
                    "getMACSecret",
                    &"the secret is not that of the signature",
                ));
            }
            this.memory.remember_key(began, &id, &key, &user);
            Ok(signed(user, key))
        }))
    }

    /// Waits for the permit to ask.
    async fn permit(&self, client: &budget::Client) -> Result<Permit, Refusal> {
        self.calls.admit(client, 0).await.map_err(|_| overloaded())
    }

    /// The user whom a check of the AuthService confirms.
    async fn user(
        &self,
        function: &str,
        params: Value,
        level: SecurityLevel,
    ) -> Result<User, Refusal> {
        let info: AuthInfo = self.ask(function, params).await?;
        Ok(User::new(info.local_id, level).with_global_id(info.global_id))
    }

    /// The secret that a user signs with.
    async fn key(&self, id: &str) -> Result<MacKey, Refusal> {
        let encoded: String = self.ask("getMACSecret", json!({ "user": id })).await?;
        match BASE64.decode(encoded) {
            Ok(raw) => Ok(MacKey::new(&raw)),
            Err(_) => Err(unavailable("getMACSecret", &"the secret is no base64")),
        }
    }

    async fn ask<T: for<'a> Deserialize<'a>>(
        &self,
        function: &str,
        params: Value,
    ) -> Result<T, Refusal> {
        let asked = async {
            let name = format!("{INTERFACE}:{function}").parse();
            let name = name.map_err(|error| Error::caused_by(codes::INVOKER_ERROR, error))?;
            let call = Invocation::new(name, params, Caller::system())?;
            let result = self.invoker.invoke(call).await?.unwrap_or_default();
            T::deserialize(result).map_err(|error| Error::caused_by(codes::INVOKER_ERROR, error))
        };
        asked.await.map_err(|error| refusal(function, &error))
    }
}

impl SecurityProvider for AuthService {
    fn check(&self, attempt: &Attempt<'_>) -> AuthOutcome {
        let verdict = match attempt.credentials() {
            Credentials::Password { user, password } => {
                self.check_password(attempt.client(), user, password)
            }
            Credentials::Mac { user, algorithm, mac } => {
                self.check_mac(attempt, user, *algorithm, mac)
            }
            Credentials::Internal => Some(AuthOutcome::Known(Err(Refusal::not_internal()))),
            // kinds of credentials that this provider does not know
            _ => None,
        };
        verdict.unwrap_or_else(|| AuthOutcome::Known(Err(Refusal::credentials())))
    }
}

/// FTN8 §2.13 `ClientFingerprints`. The type `IPAddress` of FTN3.1 takes few addresses of IPv6, so they are
/// among the fields that it leaves open.
fn fingerprints(client: &Client) -> Value {
    let mut source = Map::new();
    if let Some(agent) = &client.user_agent {
        let units: Vec<u16> = agent.encode_utf16().take(USER_AGENT).collect();
        source.insert("user_agent".to_owned(), String::from_utf16_lossy(&units).into());
    }
    match client.source {
        Some(address) if address.is_ipv4() => {
            source.insert("source_ip".to_owned(), address.to_string().into());
        }
        Some(address) => {
            source.insert("misc".to_owned(), json!({ "source_ip": address.to_string() }));
        }
        None => {}
    }
    source.into()
}

/// The client that a check is counted for.
fn budget_of(client: &Client) -> budget::Client {
    client.source.map_or(budget::Client::Unknown, budget::Client::from)
}

/// The refusal of a caller if the AuthService answers with an error, or does not answer.
fn refusal(function: &str, error: &Error) -> Refusal {
    let is_answer = error.find::<FailedCall>().is_some();
    match error.code() {
        SECURITY_ERROR | "UnknownUser" | "NotSet" if is_answer => {
            // an AuthService that refuses this service itself answers in the same way
            tracing::debug!(function, %error, "the AuthService refused credentials");
            Refusal::credentials()
        }
        codes::DEFENSE_REJECTED => overloaded(),
        _ => unavailable(function, error),
    }
}

fn overloaded() -> Refusal {
    Refusal::new(codes::DEFENSE_REJECTED, "Too many checks of credentials")
}

fn unavailable(function: &str, why: &dyn fmt::Display) -> Refusal {
    tracing::error!(function, %why, "the AuthService cannot be asked");
    Refusal::new(codes::INTERNAL_ERROR, "Authentication is not available")
}
