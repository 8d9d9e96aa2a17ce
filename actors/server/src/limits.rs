//! Limits of connections.

use std::time::Duration;

/// How many connections a [`Server`](super::Server) takes, and how long they may do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "users of a literal must decide on a new limit")]
pub struct ServerLimits {
    /// Connections in all; 25,000 unless set: idle ones take 210 MB, or 410 MB over TLS. The system must
    /// allow as many open files. A connection over a limit is closed at once.
    pub connections: usize,
    /// Connections of one client: an IPv4 address, or an IPv6 network (`/64`). Half of all unless set,
    /// so that no client alone keeps all others out. Behind a proxy, all connections are the proxy's.
    pub connections_of_client: usize,
    /// How long the head of a request may take from its first byte, the first one from the beginning
    /// of the connection; 5 s unless set. Zero for no limit of the first one.
    pub head_timeout: Duration,
    /// Bytes of the head of a request, with its target; 64 KiB unless set: functions are also called with
    /// their parameters in the target. A larger one is answered with 431. A connection reads no more
    /// ahead of an answer either, so a client that pipelines takes no more memory.
    pub head_size: usize,
    /// How long a connection is kept for the next request; 75 s unless set: longer than balancers and clients keep theirs, so
    /// that none sends a request on a connection that is just being closed. Answers over HTTP/1.1 say so
    /// (`Keep-Alive`) to clients that send `Connection: keep-alive`, and it is kept for a second more, in which a request that
    /// was sent in time arrives.
    /// While more than three quarters of the [`connections`](Self::connections) are open, or of those of the client, it is
    /// 5 s at most.
    pub keep_alive: Duration,
    /// How long a client may take nothing of its answer, or send nothing of a body that is waited
    /// for; 60 s unless set, as long as a raw result of the executor waits for its client.
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
    /// Requests at once of an HTTP/2 connection; 128 unless set. Clients wait with more.
    pub streams: u32,
    /// Bytes that each of them may send or be sent ahead; 64 KiB unless set, four times as much for
    /// all of a connection.
    pub stream_window: u32,
    /// Requests that a client may cancel within a second on an HTTP/2 connection, which ends with the
    /// next one; 100 unless set. Each costs the server more than the client (CVE-2023-44487).
    pub resets_per_second: u32,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 25_000,
            connections_of_client: 12_500,
            head_timeout: Duration::from_secs(5),
            head_size: 64 << 10,
            keep_alive: Duration::from_secs(75),
            stall_timeout: Duration::from_secs(60),
            least_rate: 1 << 10,
            handshake_timeout: Duration::from_secs(5),
            handshakes: 256,
            streams: 128,
            stream_window: 64 << 10,
            resets_per_second: 100,
        }
    }
}
