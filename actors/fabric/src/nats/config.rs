//! How a node joins.

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use asyncsteps_executor::security::Secret;

use super::credentials::NodeCredentials;
use super::error::NatsError;
use super::trust::Trust;
use crate::node::NodeId;

/// Default of [`Config::max_in_flight`]: some tens of megabytes of waiting flows.
const MAX_IN_FLIGHT: usize = 10_000;

/// Default of [`Config::max_bytes_in_flight`]: 64 of the largest messages of a server.
const MAX_BYTES_IN_FLIGHT: usize = 64 << 20;

/// Default of [`Config::max_calls`].
const MAX_CALLS: usize = 10_000;

/// Default of [`Config::call_timeout`], longer than requests may take by default.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Default of [`Config::connect_timeout`].
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Default of [`Config::ping_interval`]: a server that is silent costs three seconds.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// Default of [`Config::probe_interval`]: a caller that is gone costs two seconds at most.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// Default of [`Config::discovery_time`]: several ways there and back within a continent.
const DISCOVERY_TIME: Duration = Duration::from_millis(300);

/// Default of [`Config::view_interval`]: a node asks all others, so the number of messages grows
/// with the nodes.
const VIEW_INTERVAL: Duration = Duration::from_secs(1);

/// Default of [`Config::max_clock_difference`]: far more than between machines whose clocks are set by NTP.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);

/// How a node joins: servers, credentials, names, limits and times.
///
/// ```
/// use asyncsteps_fabric::nats::{Config, Secret};
///
/// let config = Config::new("tls://nats-1.example:4222,tls://nats-2.example:4222")
///     .user("shop", Secret::new("correct horse"))
///     .node("shop-1".parse()?);
/// # Ok::<(), asyncsteps_fabric::NodeIdError>(())
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Config {{ prefix: {prefix:?}, queue_group: {queue_group:?}, node: {node:?}, .. }}")]
#[must_use = "a fabric connects with it"]
pub struct Config {
    pub(super) servers: String,
    pub(super) credentials: NodeCredentials,
    pub(super) root_certificates: Option<PathBuf>,
    pub(super) client_certificate: Option<(PathBuf, PathBuf)>,
    pub(super) min_server: (u32, u32),
    pub(super) prefix: String,
    pub(super) queue_group: String,
    pub(super) node: Option<NodeId>,
    pub(super) trust: Trust,
    pub(super) max_in_flight: usize,
    pub(super) max_bytes_in_flight: usize,
    pub(super) max_calls: usize,
    pub(super) call_timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) ping_interval: Duration,
    pub(super) probe_interval: Duration,
    pub(super) discovery_time: Duration,
    pub(super) view_interval: Duration,
    pub(super) max_clock_difference: Duration,
}

impl Config {
    /// Servers of one cluster as URLs with commas between them: `nats://host:4222`, or `tls://` for TLS. Others of the
    /// cluster are found through them. Unless other credentials are set, the credentials in the first URL count, as
    /// they are written there: `nats://user:password@host` or `nats://token@host`.
    pub fn new(servers: impl Into<String>) -> Self {
        Self {
            servers: servers.into(),
            credentials: NodeCredentials::Anonymous,
            root_certificates: None,
            client_certificate: None,
            min_server: (2, 9),
            prefix: "ftn.v1".to_owned(),
            queue_group: "nodes".to_owned(),
            node: None,
            trust: Trust::default(),
            max_in_flight: MAX_IN_FLIGHT,
            max_bytes_in_flight: MAX_BYTES_IN_FLIGHT,
            max_calls: MAX_CALLS,
            call_timeout: CALL_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            ping_interval: PING_INTERVAL,
            probe_interval: PROBE_INTERVAL,
            discovery_time: DISCOVERY_TIME,
            view_interval: VIEW_INTERVAL,
            max_clock_difference: MAX_CLOCK_DIFFERENCE,
        }
    }

    /// The user of the server and the password; no credentials unless one is set.
    pub fn user(self, user: impl Into<String>, password: Secret) -> Self {
        Self { credentials: NodeCredentials::User(user.into(), password), ..self }
    }

    /// A token, in place of a user.
    pub fn token(self, token: Secret) -> Self {
        Self { credentials: NodeCredentials::Token(token), ..self }
    }

    /// A file with a token, in place of a user. As all files of a configuration it is read again whenever the node
    /// connects, and when it was written the node connects anew, without a call that fails.
    pub fn token_file(self, path: impl Into<PathBuf>) -> Self {
        Self { credentials: NodeCredentials::TokenFile(path.into()), ..self }
    }

    /// A file with JWT and seed as `nsc` writes it, in place of a user; read again as a
    /// [file with a token](Self::token_file) is.
    pub fn credentials_file(self, path: impl Into<PathBuf>) -> Self {
        Self { credentials: NodeCredentials::File(path.into()), ..self }
    }

    /// The certificates that sign the certificates of the servers, as PEM; the certificates of the
    /// system unless set. Read again as a [file with a token](Self::token_file) is.
    pub fn root_certificates(self, path: impl Into<PathBuf>) -> Self {
        Self { root_certificates: Some(path.into()), ..self }
    }

    /// A certificate of the node and its key, as PEM, for servers that ask for one. Read again as a
    /// [file with a token](Self::token_file) is.
    pub fn client_certificate(
        self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        Self { client_certificate: Some((certificate.into(), key.into())), ..self }
    }

    /// The oldest server to work with, as its two first numbers; 2.9 unless set, the oldest that the tests
    /// run with.
    pub fn min_server(self, major: u32, minor: u32) -> Self {
        Self { min_server: (major, minor), ..self }
    }

    /// The prefix of all subjects of calls; `ftn.v1` unless set. Nodes with another prefix are in another fabric.
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// The queue group of the nodes that share calls; `nodes` unless set.
    pub fn queue_group(self, queue_group: impl Into<String>) -> Self {
        Self { queue_group: queue_group.into(), ..self }
    }

    /// The name of the node; a random one unless set. No two nodes have the same.
    pub fn node(self, node: NodeId) -> Self {
        Self { node: Some(node), ..self }
    }

    /// Which nodes may make calls on behalf of users; none unless set, so that all calls are
    /// anonymous or have credentials of their own.
    pub fn trust(self, trust: Trust) -> Self {
        Self { trust, ..self }
    }

    /// How many calls of others the node carries out at once; 10,000 unless set. More are answered with
    /// DefenseRejected. The [`Budget`](asyncsteps_actors::budget::Budget) of the executor counts too.
    pub fn max_in_flight(self, max_in_flight: usize) -> Self {
        Self { max_in_flight, ..self }
    }

    /// How many bytes the calls of others have together that the node carries out at once, as messages;
    /// 64 MiB unless set. A call that does not fit is answered with DefenseRejected.
    pub fn max_bytes_in_flight(self, max_bytes_in_flight: usize) -> Self {
        Self { max_bytes_in_flight, ..self }
    }

    /// How many calls of the node may be in flight at once; 10,000 unless set. More fail with
    /// DefenseRejected.
    pub fn max_calls(self, max_calls: usize) -> Self {
        Self { max_calls, ..self }
    }

    /// How long a call may take that has no time limit and is made by no flow that has one; 30 seconds unless
    /// set.
    pub fn call_timeout(self, call_timeout: Duration) -> Self {
        Self { call_timeout, ..self }
    }

    /// How long it may take to connect to a server; 5 seconds unless set.
    pub fn connect_timeout(self, connect_timeout: Duration) -> Self {
        Self { connect_timeout, ..self }
    }

    /// How often the server is asked whether it is there; 1 second unless set. One that is silent for three times as long
    /// is lost, also if it only does not hear the node: the next server is dialled, within the
    /// [time](Self::connect_timeout) to connect for each.
    pub fn ping_interval(self, ping_interval: Duration) -> Self {
        Self { ping_interval, ..self }
    }

    /// How often callers are asked whether they still wait; 0.5 seconds unless set. A caller that is gone is
    /// noticed after three times as long.
    pub fn probe_interval(self, probe_interval: Duration) -> Self {
        Self { probe_interval, ..self }
    }

    /// How long nodes may take to say what they serve when they are [asked](crate::Fabric::nodes); 0.3
    /// seconds unless set.
    pub fn discovery_time(self, discovery_time: Duration) -> Self {
        Self { discovery_time, ..self }
    }

    /// The pause between two looks at the [live nodes](crate::Fabric::live_nodes); 1 second unless set, and as much more
    /// for each 32 nodes. They are as old as this and the [discovery time](Self::discovery_time) together at the most,
    /// while the server can be reached. The node looks from its first call on. A node that stands still gets no calls
    /// of it then; a node that does not answer three questions, for which it has this long each, is gone.
    pub fn view_interval(self, view_interval: Duration) -> Self {
        Self { view_interval, ..self }
    }

    /// The files that are read when the node connects.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        let certificate = self.client_certificate.iter().flat_map(|(it, key)| [it, key]);
        let certificates = self.root_certificates.iter().chain(certificate).map(PathBuf::as_path);
        self.credentials.file().into_iter().chain(certificates)
    }

    /// How far the clocks of machines may differ; 1 second unless set. A request that waited on its way until its caller
    /// had given it up is not carried out. How long it waited is known from the times of day of both machines, and from
    /// the fastest request of the same caller within the last 10 to 20 seconds: a difference of the clocks does not
    /// matter then. The first request of a caller may have waited this much longer. Where clocks differ by more, calls
    /// are refused that have less time than that.
    pub fn max_clock_difference(self, max_clock_difference: Duration) -> Self {
        Self { max_clock_difference, ..self }
    }

    /// Whether this can be connected with.
    pub(super) fn check(&self) -> Result<(), NatsError> {
        let is_token = |token: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            !token.is_empty() && token.bytes().all(is_plain)
        };
        if !self.prefix.split('.').all(is_token) {
            return Err(NatsError::Name { option: "prefix", name: self.prefix.clone() });
        }
        if !is_token(&self.queue_group) {
            return Err(NatsError::Name { option: "queue_group", name: self.queue_group.clone() });
        }
        for (option, number) in [
            ("max_in_flight", self.max_in_flight),
            ("max_bytes_in_flight", self.max_bytes_in_flight),
            ("max_calls", self.max_calls),
        ] {
            if number == 0 {
                return Err(NatsError::Zero { option });
            }
        }
        for (option, time) in [
            ("call_timeout", self.call_timeout),
            ("connect_timeout", self.connect_timeout),
            ("ping_interval", self.ping_interval),
            ("probe_interval", self.probe_interval),
            ("discovery_time", self.discovery_time),
            ("view_interval", self.view_interval),
        ] {
            if time.is_zero() {
                return Err(NatsError::Zero { option });
            }
        }
        Ok(())
    }
}
