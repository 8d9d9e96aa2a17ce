//! The keys of an issuer, as it publishes them (OpenID Connect Discovery 1.0).

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::clock::Clock;
use parking_lot::{Mutex, RwLock};
use serde::Deserialize;
use tokio::time::{sleep, timeout};

use super::jwt_keys::JwtKeys;

/// How long keys are used before they are read again, so that a key that is withdrawn is soon refused.
const FRESH: Duration = Duration::from_secs(600);

/// The least time between two readings: tokens with invented keys are no flood for the issuer, and a request with a new key
/// has the time to wait.
const PAUSE: Duration = Duration::from_secs(2);

/// How long a reading may take.
const LIMIT: Duration = Duration::from_secs(10);

type BoxError = Box<dyn Error + Send + Sync>;

type Fetching = Pin<Box<dyn Future<Output = Result<String, BoxError>> + Send>>;

/// Keys that requests are checked with while others replace them.
pub(super) type SharedKeys = Arc<RwLock<Arc<JwtKeys>>>;

/// Reads the keys of an issuer: one reading at a time, and none too soon after another.
#[derive(derive_more::Debug)]
pub(super) struct Discovery {
    issuer: String,
    /// Reads what is at a URL.
    #[debug(skip)]
    fetch: Box<dyn Fn(String) -> Fetching + Send + Sync>,
    #[debug(skip)]
    clock: Clock,
    turn: tokio::sync::Mutex<()>,
    readings: Mutex<Readings>,
}

/// The readings so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Readings {
    begun: u64,
    last_begun: Option<Duration>,
    /// The last one that succeeded.
    succeeded: Option<Duration>,
    is_failing: bool,
}

/// When keys are to be read again because of their age.
#[derive(PartialEq, Eq)]
pub(super) enum Due {
    Later,
    /// Beside the requests.
    Soon,
    /// Before a request is let in: there was none for so long that a key may have been withdrawn long ago.
    First,
}

/// OpenID Connect Discovery 1.0 §3.
#[derive(Deserialize)]
struct Configuration {
    issuer: String,
    jwks_uri: String,
}

impl Discovery {
    pub(super) fn new<F, E>(
        issuer: &str,
        fetch: impl Fn(String) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let fetch = move |url| {
            let fetching = fetch(url);
            Box::pin(async { fetching.await.map_err(Into::into) }) as Fetching
        };
        let (turn, readings) = Default::default();
        Self {
            issuer: issuer.to_owned(),
            fetch: Box::new(fetch),
            clock: Clock::start(),
            turn,
            readings,
        }
    }

    pub(super) fn readings(&self) -> Readings {
        *self.readings.lock()
    }

    pub(super) fn due(&self) -> Due {
        let (readings, now) = (self.readings(), self.clock.elapsed());
        let is_since = |at: Duration, time| now.saturating_sub(at) >= time;
        match readings.last_begun {
            Some(begun) if !is_since(begun, 2 * FRESH) => {
                let is_old = readings.succeeded.is_none_or(|at| is_since(at, FRESH));
                if is_old && is_since(begun, PAUSE) { Due::Soon } else { Due::Later }
            }
            _ => Due::First,
        }
    }

    /// Reads the keys, unless a reading has begun after `seen`, or they are no longer missed when it is this one's turn.
    /// Returns whether the last reading succeeded.
    pub(super) async fn renew(
        &self,
        seen: Readings,
        keys: &SharedKeys,
        are_missed: impl Fn() -> bool,
    ) -> bool {
        let _turn = self.turn.lock().await;
        let now = self.readings();
        if now.begun == seen.begun && are_missed() {
            let passed = |begun| self.clock.elapsed().saturating_sub(begun);
            let early = now.last_begun.map(|begun| PAUSE.saturating_sub(passed(begun)));
            sleep(early.unwrap_or_default()).await;
            {
                let mut readings = self.readings.lock();
                readings.begun += 1;
                readings.last_begun = Some(self.clock.elapsed());
            }
            let read = timeout(LIMIT, self.read()).await;
            let read = read.unwrap_or_else(|_| Err("it takes too long".into()));
            let mut readings = self.readings.lock();
            readings.is_failing = read.is_err();
            match read {
                Ok(read) => {
                    *keys.write() = Arc::new(read);
                    readings.succeeded = Some(self.clock.elapsed());
                }
                Err(error) => tracing::warn!(
                    issuer = self.issuer, %error, "the keys of an issuer cannot be read, those before are kept"
                ),
            }
        }
        !self.readings.lock().is_failing
    }

    async fn read(&self) -> Result<JwtKeys, BoxError> {
        let url = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let found: Configuration = serde_json::from_str(&(self.fetch)(url).await?)?;
        if found.issuer != self.issuer {
            return Err(format!("the configuration there is of {:?}", found.issuer).into());
        }
        if self.issuer.starts_with("https:") && !found.jwks_uri.starts_with("https:") {
            return Err(format!("the keys are at {:?}, not at https", found.jwks_uri).into());
        }
        Ok(JwtKeys::parse(&(self.fetch)(found.jwks_uri).await?)?)
    }
}
