//! The counts that transports keep of their connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts connections and bytes of a transport on one arbiter; returned by
/// [`Executor::traffic`](crate::Executor::traffic). Cheap to clone.
///
/// Each arbiter has counters of its own, so that none waits for the memory of another.
#[derive(Clone, Debug, Default)]
pub struct Traffic(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    accepted: [AtomicU64; Protocol::ALL.len()],
    ended: [AtomicU64; Protocol::ALL.len()],
    over_limit: AtomicU64,
    failed: AtomicU64,
    cut: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
}

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// Nothing so far.
    New,
    /// HTTP/1.
    Http1,
    /// HTTP/2.
    Http2,
    /// WebSocket, after an upgrade.
    WebSocket,
    /// NATS, over which other nodes call.
    Nats,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::New, Self::Http1, Self::Http2, Self::WebSocket, Self::Nats];

    /// One word, for labels: `new`, `http1`, `http2`, `websocket` or `nats`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Http1 => "http1",
            Self::Http2 => "http2",
            Self::WebSocket => "websocket",
            Self::Nats => "nats",
        }
    }
}

/// The connections and bytes of an executor so far; returned by
/// [`Executor::traffic_figures`](crate::Executor::traffic_figures).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrafficFigures {
    /// The connections of each protocol.
    pub connections: Vec<ConnectionFigures>,
    /// Connections that were refused because there were too many, in all or of one client.
    pub over_limit: u64,
    /// Connections that failed before they were made, such as in a TLS handshake.
    pub failed: u64,
    /// Connections that were cut before their client had all of its answers: it took nothing for too long, or the
    /// server has ended.
    pub cut: u64,
    /// Bytes that were read, without the overhead of TLS; from other nodes, bytes of FutoIn
    /// messages.
    pub received: u64,
    /// Bytes that were written, without the overhead of TLS; to other nodes, bytes of FutoIn
    /// messages.
    pub sent: u64,
}

/// The connections of a protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionFigures {
    /// The protocol.
    pub protocol: Protocol,
    /// Connections on which that began. One may go from protocol to protocol.
    pub accepted: u64,
    /// Those on which it is spoken now.
    pub open: u64,
}

/// A connection that is open, until this is dropped.
#[derive(Debug)]
pub struct OpenConnection {
    traffic: Traffic,
    protocol: Protocol,
}

impl Traffic {
    /// A connection was made.
    #[must_use = "dropping it counts the connection out"]
    pub fn open(&self, protocol: Protocol) -> OpenConnection {
        self.0.accepted[protocol as usize].fetch_add(1, Ordering::Relaxed);
        OpenConnection { traffic: self.clone(), protocol }
    }

    /// A connection was refused, because there were too many.
    pub fn over_limit(&self) {
        self.0.over_limit.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection failed before it was made.
    pub fn failed(&self) {
        self.0.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection was cut before its client had all of its answers.
    pub fn cut(&self) {
        self.0.cut.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts bytes that were read.
    #[inline]
    pub fn received(&self, bytes: usize) {
        self.0.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes that were written.
    #[inline]
    pub fn sent(&self, bytes: usize) {
        self.0.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl OpenConnection {
    /// Another protocol is spoken from now on.
    pub fn speak(&mut self, protocol: Protocol) {
        let next = self.traffic.open(protocol);
        *self = next;
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.traffic.0.ended[self.protocol as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl TrafficFigures {
    /// The sums over these.
    pub(crate) fn of(all: &[Traffic]) -> Self {
        let sum = |of: fn(&Counts) -> &AtomicU64| -> u64 {
            all.iter().map(|Traffic(counts)| of(counts).load(Ordering::Relaxed)).sum()
        };
        let connections = Protocol::ALL.into_iter().map(|protocol| {
            let at = protocol as usize;
            let sum = |of: fn(&Counts) -> &[AtomicU64; Protocol::ALL.len()]| -> u64 {
                all.iter().map(|Traffic(counts)| of(counts)[at].load(Ordering::Relaxed)).sum()
            };
            // in this order, so that none has ended that was not accepted
            let ended = sum(|counts| &counts.ended);
            let accepted = sum(|counts| &counts.accepted);
            ConnectionFigures { protocol, accepted, open: accepted.saturating_sub(ended) }
        });
        Self {
            connections: connections.collect(),
            over_limit: sum(|counts| &counts.over_limit),
            failed: sum(|counts| &counts.failed),
            cut: sum(|counts| &counts.cut),
            received: sum(|counts| &counts.received),
            sent: sum(|counts| &counts.sent),
        }
    }
}
