//! A request that has ended, as it is kept and exported.

use std::fmt;
use std::time::{Duration, SystemTime};

use asyncsteps_actors::record::Recorded;
use asyncsteps_actors::trace::TraceParent;
use asyncsteps_futoin::iface::FunctionName;

use crate::channel::ChannelKind;

/// A request that has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestRecord {
    /// Its number among the requests of its executor, which it has had in flight.
    pub number: u64,
    /// The function as the caller named it.
    pub function: FunctionName,
    /// The caller's number of the request; one of more than 2,048 bytes is cut, and ends with `…` and its length.
    pub rid: Option<String>,
    /// Its span in its trace.
    pub trace: TraceParent,
    /// The span of its caller, if the caller has named one.
    pub parent: Option<TraceParent>,
    /// The local id of the user; `None` for an anonymous caller.
    pub user: Option<String>,
    /// The kind of the channel that it came over.
    pub channel: ChannelKind,
    /// When it arrived.
    pub arrived: SystemTime,
    /// How long it waited in the queue of the [`Budget`](asyncsteps_actors::budget::Budget).
    pub queued: Duration,
    /// The time from its arrival to the beginning of its flow, which the times of its steps count from;
    /// `None` if it was refused before.
    pub started: Option<Duration>,
    /// How long it took in all, from its arrival to its reply.
    pub total: Duration,
    /// `success`, the code of its error, or `disconnected`.
    pub outcome: String,
    /// The history of its steps and their undos.
    pub steps: Recorded,
}

/// One line: `demo.shop:1.0:order 463ms success { pay 456ms { .. } }`.
impl fmt::Display for RequestRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, outcome, total, steps, .. } = self;
        write!(f, "{function} {}ms {outcome} {{ {steps} }}", total.as_millis())
    }
}
