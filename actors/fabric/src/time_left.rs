//! The time that a call has.

use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_actors::flow::earliest;

use crate::call::Call;

/// How long a call may take: its own limit, or the time that is left of the flow that makes it if that is shorter. To
/// be asked in the turn of the flow.
pub(crate) fn time_left(call: &Call) -> Option<Duration> {
    let of_flow = earliest(None).map(|deadline| deadline.saturating_since(clock::now()));
    [call.time_limit, of_flow].into_iter().flatten().min()
}
