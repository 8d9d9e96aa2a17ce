//! The limits of a connection.

use std::time::Duration;

/// How a connection is watched and bounded; see [`Service::web_socket`](super::http::Service::web_socket).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a new limit must be thought of by everybody")]
pub struct WebSocketLimits {
    /// A client that said nothing for so long is asked whether it is still there.
    pub ping_after: Duration,
    /// A client that said nothing for so long is gone.
    pub gone_after: Duration,
    /// How many requests of a connection may be in flight; more stay in its socket. While the other
    /// end owes answers, there may be one more for each of them, up to twice as many.
    pub in_flight: usize,
    /// How many calls to the other end may wait for their answers; more are refused with
    /// DefenseRejected.
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
