//! Limits of connections.

use std::time::Duration;

/// How many connections a [`Server`](super::Server) takes, and how long they may do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "users of a literal must decide on a new limit")]
pub struct ServerLimits {
    /// Connections in all; 25,000 unless set: idle ones take some hundred megabytes. The system must
    /// allow as many open files. A connection over a limit is closed at once.
    pub connections: usize,
    /// Connections of one client: an IPv4 address, or an IPv6 network (`/64`). Half of all unless set,
    /// so that no client alone keeps all others out. Behind a proxy, all connections are the proxy's.
    pub connections_of_client: usize,
    /// How long the head of a request may take from its first byte, the first one from the beginning
    /// of the connection; 5 s unless set. Zero for no limit of the first one.
    pub head_timeout: Duration,
    /// How long a connection is kept for the next request; 5 s unless set, because most clients that
    /// send another one do so sooner.
    pub keep_alive: Duration,
    /// How long a client may take nothing of its answer, or send nothing of a body that is waited
    /// for; 60 s unless set, as long as a [raw result](crate::raw::RawOutput) waits for its client.
    pub stall_timeout: Duration,
    /// Bytes per second: each byte that moves buys so much of [`stall_timeout`](Self::stall_timeout)
    /// back, so that a trickle ends as well. 1,024 unless set: slower than any network that people
    /// use.
    pub least_rate: u64,
    /// How long a TLS handshake may take; 5 s unless set.
    pub handshake_timeout: Duration,
    /// TLS handshakes at once; 256 unless set, half of them at most of one client. More wait, and
    /// clients take turns. A connection that has sent nothing takes no place.
    pub handshakes: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 25_000,
            connections_of_client: 12_500,
            head_timeout: Duration::from_secs(5),
            keep_alive: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(60),
            least_rate: 1 << 10,
            handshake_timeout: Duration::from_secs(5),
            handshakes: 256,
        }
    }
}
