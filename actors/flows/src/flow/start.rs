//! Starting flows on this arbiter.

use asyncsteps_core::{Arguments, Flow};

use super::guarded::discard;
use super::owner::KeepsOutcome;
use super::task::{self, Spawned, StartedFlow};
use super::{FlowActor, FlowHandle, FlowOwner, FlowRef, IntoFlow};
use crate::span::trace_started;

/// Starts a flow on this arbiter (FTN12 §2.2.3 `execute`, `promise`).
///
/// The first turn runs before this returns; a flow that completes in it costs no actor. The handle is
/// a future with the typed result. Started by a step of another flow, it inherits that flow's
/// deadline; start a flow that has to outlive it from a task of its own.
///
/// # Panics
/// Outside of an actix arbiter or a tokio `LocalSet`, if the flow has to wait.
pub fn start_flow<A: Arguments>(flow: impl IntoFlow) -> FlowHandle<A> {
    let owner = KeepsOutcome::inherit(flow.limit());
    prepare();
    let mut flow = flow.into_flow();
    trace(&mut flow, &owner);
    FlowHandle::new(task::run_inline(flow, owner))
}

/// Like [`start_flow`], but the first turn runs when the arbiter gets to it.
///
/// # Panics
/// Outside of an actix arbiter or a tokio `LocalSet`.
pub fn spawn_flow<A: Arguments>(flow: impl IntoFlow) -> FlowHandle<A> {
    let owner = KeepsOutcome::inherit(flow.limit());
    prepare();
    let mut flow = flow.into_flow();
    trace(&mut flow, &owner);
    FlowHandle::new(StartedFlow::Waits(task::spawn(FlowActor::new(flow.execute()), owner, None)))
}

/// Starts a flow on this arbiter for an owner; `None` if it ended in its first turn.
///
/// # Panics
/// Outside of an actix arbiter or a tokio `LocalSet`, if the flow has to wait.
pub fn host_flow(flow: Flow, owner: impl FlowOwner) -> Option<FlowRef> {
    prepare();
    match task::run_inline(flow, owner) {
        StartedFlow::Ended(outcome) => {
            discard(outcome);
            None
        }
        StartedFlow::Waits(Spawned { cell, canceller, .. }) => Some(FlowRef::new(cell, canceller)),
    }
}

/// Traces the steps of a flow if that is wanted.
#[inline]
fn trace(flow: &mut Flow, owner: &impl FlowOwner) {
    trace_started(flow, || (owner.trace(), owner.span().cloned()));
}

/// Lets foreign steps of the flow find their event loop.
fn prepare() {
    #[cfg(feature = "ffi")]
    crate::ffi::register();
}
