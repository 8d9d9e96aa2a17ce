//! The report about flows that still run when the grace of a shutdown has passed.

use std::time::Duration;

use actix::{Addr, ArbiterHandle};
use tokio::sync::oneshot;

use crate::flow::{FlowActor, FlowRef, Inspect, running_flows};

/// Flows of an arbiter that the log names: enough to see what holds a shutdown up.
const REPORTED: usize = 10;

/// How long the arbiters have to answer: a step that blocks its arbiter cannot be asked.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Logs the stacks of the flows of these arbiters.
pub(super) async fn log_flows(arbiters: impl Iterator<Item = &ArbiterHandle>) {
    let asked: Vec<_> = arbiters.map(addresses).collect();
    let log = async {
        for (arbiter, addresses) in asked.into_iter().enumerate() {
            // an arbiter that is gone has no flows
            let Ok((addresses, others)) = addresses.await else { continue };
            for address in addresses {
                // a flow may have ended meanwhile
                let Ok(stack) = address.send(Inspect).await else { continue };
                let stack = stack.one_line();
                tracing::warn!(arbiter, stack, "the grace is over: a flow is cancelled");
            }
            if others > 0 {
                tracing::warn!(arbiter, others, "the grace is over: more flows are cancelled");
            }
        }
    };
    if tokio::time::timeout(PATIENCE, log).await.is_err() {
        tracing::warn!("the grace is over, and an arbiter does not answer");
    }
}

/// Asks an arbiter for the addresses of some of its flows, and how many others it has.
fn addresses(arbiter: &ArbiterHandle) -> oneshot::Receiver<(Vec<Addr<FlowActor>>, usize)> {
    let (reply, addresses) = oneshot::channel();
    // false if the arbiter is gone: then the reply is dropped
    let _: bool = arbiter.spawn_fn(move || {
        let mut flows = running_flows();
        // parts of other flows go on for a while
        flows.retain(|flow| !flow.is_part());
        let others = flows.len().saturating_sub(REPORTED);
        let addresses = flows.iter().take(REPORTED).map(FlowRef::address).collect();
        // the shutdown may have stopped waiting
        let _ = reply.send((addresses, others));
    });
    addresses
}
