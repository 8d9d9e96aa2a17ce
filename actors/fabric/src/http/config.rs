//! Limits and times of calls.

use std::time::Duration;

use rustls::ClientConfig;

use super::error::HttpError;

/// Default of [`Config::max_calls`]: with messages of some kilobytes, tens of megabytes.
const MAX_CALLS: usize = 10_000;

/// Default of [`Config::max_connections`]: the number that a service with default limits takes from
/// one client.
const MAX_CONNECTIONS: usize = 64;

/// Default of [`Config::max_message`]: sixteen times what a function takes unless it declares more.
const MAX_MESSAGE: usize = 1024 * 1024;

/// Default of [`Config::call_timeout`], as of the released invoker.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Default of [`Config::connect_timeout`].
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How services elsewhere are called: limits, times and TLS.
#[derive(Clone, derive_more::Debug)]
#[must_use = "a fabric is made with it"]
pub struct Config {
    #[debug(skip)]
    pub(super) tls: Option<ClientConfig>,
    pub(super) max_calls: usize,
    pub(super) max_connections: usize,
    pub(super) max_message: usize,
    pub(super) call_timeout: Duration,
    pub(super) connect_timeout: Duration,
}

impl Config {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            tls: None,
            max_calls: MAX_CALLS,
            max_connections: MAX_CONNECTIONS,
            max_message: MAX_MESSAGE,
            call_timeout: CALL_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
        }
    }

    /// TLS of `https://` and `wss://`; unless set, the certificates of the system are trusted. Its list of
    /// protocols (ALPN) has to be empty.
    pub fn tls(self, tls: ClientConfig) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// How many calls may be in flight at once, of all services; 10,000 unless set. More fail with
    /// DefenseRejected.
    pub fn max_calls(self, max_calls: usize) -> Self {
        Self { max_calls, ..self }
    }

    /// How many calls of one service may be in flight over HTTP at once, each on its connection; 64 unless set. More
    /// wait for their turn, within their time limits.
    pub fn max_connections(self, max_connections: usize) -> Self {
        Self { max_connections, ..self }
    }

    /// The largest message in bytes, of a call or an answer; 1 MiB unless set. A larger call is not made;
    /// of a larger answer no more is read. A definition may say less (`maxrspsize`, FTN3 §1.10).
    pub fn max_message(self, max_message: usize) -> Self {
        Self { max_message, ..self }
    }

    /// How long a call may take that has no time limit and is made by no flow that has one; 30 seconds
    /// unless set.
    pub fn call_timeout(self, call_timeout: Duration) -> Self {
        Self { call_timeout, ..self }
    }

    /// How long it may take to open a connection, with all handshakes; 5 seconds unless set.
    pub fn connect_timeout(self, connect_timeout: Duration) -> Self {
        Self { connect_timeout, ..self }
    }

    /// Whether calls can be made with this.
    pub(super) fn check(&self) -> Result<(), HttpError> {
        let options = [
            ("max_calls", self.max_calls == 0),
            ("max_connections", self.max_connections == 0),
            ("max_message", self.max_message == 0),
            ("call_timeout", self.call_timeout.is_zero()),
            ("connect_timeout", self.connect_timeout.is_zero()),
        ];
        match options.into_iter().find(|(_, is_zero)| *is_zero) {
            Some((option, _)) => Err(HttpError::Zero { option }),
            None if self.tls.as_ref().is_some_and(|tls| !tls.alpn_protocols.is_empty()) => {
                Err(HttpError::Protocols)
            }
            None => Ok(()),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}
