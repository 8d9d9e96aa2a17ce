//! Calls within the process as waits of a deadlock (FTN12 §1.11.5): a flow that has a lock and calls a
//! function waits for the flow of that function, on whichever arbiter that runs.

use std::sync::{Arc, OnceLock};

use asyncsteps_core::{AsyncSteps, Flow, FlowId, Identity, ask_step};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use smallvec::smallvec;

use super::deadlock::{self, Contended, GraphWait, Holders, HoldsUpCaller, Resource, WaitGuard};
use super::mutex;

/// A call whose caller has locks, in the table of waits until this is dropped.
#[derive(derive_more::Debug)]
#[debug("Calling({call:?})")]
pub struct Calling {
    call: Arc<Call>,
    _watch: WaitGuard,
}

/// The called side.
#[derive(Debug)]
pub struct Call {
    function: Arc<str>,
    /// The flow that carries out the call; set when that begins.
    flow: OnceLock<FlowId>,
}

/// Enters the call that the step which polls the calling future is about to make into the table of waits. `None`, soon or
/// at once, if no other flow may wait for the flow of the step, or if none polls.
pub fn calling(function: impl ToString) -> Option<LocalBoxFuture<'static, Option<Calling>>> {
    if !deadlock::is_enabled() || !mutex::may_hold_up_others() {
        return None;
    }
    let function = function.to_string();
    Some(Box::pin(ask_step(|asi| Calling::of_step(asi, function)).map(Option::flatten)))
}

impl Calling {
    /// Enters the call that the running step is about to make; `None` if no other flow may wait for its flow. A time limit
    /// that the step sets afterwards does not count.
    pub fn of_step(asi: &mut AsyncSteps, function: impl Into<Arc<str>>) -> Option<Self> {
        if !deadlock::is_enabled() || !mutex::holds_up_others(asi) {
            return None;
        }
        let call = Arc::new(Call { function: function.into(), flow: OnceLock::new() });
        let identity = asi.identity();
        let place = asi.locations().next()?;
        let resource: Arc<Call> = Arc::clone(&call);
        let wait = Arc::new(GraphWait::new(asi, identity, place, resource, None));
        Some(Self { _watch: wait.watch(), call })
    }

    /// The called side, to go with the request.
    #[must_use]
    pub fn call(&self) -> Arc<Call> {
        Arc::clone(&self.call)
    }
}

impl Call {
    /// This flow carries out the call.
    pub fn begin(&self, flow: &mut Flow) {
        self.flow.get_or_init(|| flow.id());
        flow.extend(HoldsUpCaller::default());
    }
}

impl Contended for Call {
    /// A call that has not begun waits for its admission, which is assumed to make progress.
    fn holders(&self) -> Option<Holders> {
        self.flow.get().map(|flow| smallvec![Identity { flow: *flow, branch: 0 }])
    }

    fn resource(&self) -> Resource {
        Resource::Call { function: Arc::clone(&self.function) }
    }
}
