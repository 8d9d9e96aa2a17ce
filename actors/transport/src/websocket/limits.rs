//! The limits of a connection.

use std::time::Duration;

/// How a connection is watched and bounded; see [`Service::web_socket`](super::super::http::Service::web_socket).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "code that sets limits has to decide on a new one too"
)]
pub struct WebSocketLimits {
    /// The silence after which a client gets a ping.
    pub ping_after: Duration,
    /// The silence after which a client is taken as gone.
    pub gone_after: Duration,
    /// Requests of a connection that may be in flight; more stay in its socket. For each call that the
    /// other end has not answered there may be one more, up to twice as many.
    pub in_flight: usize,
    /// Calls to the other end that may wait for their answers; more are refused with DefenseRejected.
    pub calls: usize,
    /// How long the other end may take to answer a call, which fails with Timeout then.
    pub call_timeout: Duration,
}

impl Default for WebSocketLimits {
    /// 60 s, 90 s and 128 requests; as many calls, and 30 s for each, as FutoIn invokers have it
    /// (FTN7).
    fn default() -> Self {
        Self {
            ping_after: Duration::from_secs(60),
            gone_after: Duration::from_secs(90),
            in_flight: 128,
            calls: 128,
            call_timeout: Duration::from_secs(30),
        }
    }
}
