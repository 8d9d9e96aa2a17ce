//! Calls of this very node: they do not leave the process.

use std::sync::Arc;

use asyncsteps_actors::drain::DrainGuard;
use asyncsteps_executor::iface::FunctionName;

use super::config::Config;
use super::node_server::{NodeServer, ended};
use super::serve::Members;
use crate::call::{Call, Response};
use crate::call_error::CallError;
use crate::pending::wait;

/// A call that this node carries out itself.
pub(super) struct OwnCall {
    server: Arc<NodeServer>,
    entered: DrainGuard,
}

/// Admits a call of a function that this node serves; `None` if it does not, or has too many calls: then
/// the call goes the way of all others, and is answered there.
pub(super) fn admit(
    members: &Members,
    config: &Config,
    function: &FunctionName,
) -> Option<OwnCall> {
    let members = members.lock();
    members.iter().find_map(|member| {
        let member = member.upgrade()?;
        let serves = member.endpoints.iter().any(|endpoint| endpoint.serves(function));
        let takes = serves && !member.is_draining() && member.in_flight() < config.max_in_flight;
        let entered = takes.then(|| member.drain.admit())??;
        Some(OwnCall { server: member, entered })
    })
}

impl OwnCall {
    /// Carries the call out, within its time limit.
    pub(super) fn carry_out(self, call: Call) -> impl Future<Output = Result<Response, CallError>> {
        let Self { server, mut entered } = self;
        let Call { invocation, time_limit, .. } = call;
        let called = server.executor.invoke(invocation);
        async move {
            let result = tokio::select! {
                biased;
                result = called => {
                    result.map(Response::new).map_err(|error| CallError::of_flow(&error))
                }
                () = wait(time_limit) => Err(CallError::lost("no answer in time")),
                () = ended(&server.phase) => return Err(CallError::cancelled()),
            };
            entered.finish();
            result
        }
    }
}
