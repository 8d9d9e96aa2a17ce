//! Calls within the process as waits that can be part of a deadlock (FTN12 §1.11.5): a flow that has
//! a lock and calls a function waits for the flow of that function.

use std::fmt;
use std::sync::{Arc, OnceLock};

use asyncsteps::{AsyncSteps, Flow, FlowId, Identity};
use smallvec::smallvec;

use super::deadlock::{self, Awaited, Contended, Holders, Target, Wait, Watch};
use super::mutex;

/// A call that holds up others while its caller waits for the answer, until this is dropped.
pub struct Calling {
    call: Arc<Call>,
    _watch: Watch,
}

/// The called side.
#[derive(Debug)]
pub struct Call {
    function: Arc<str>,
    /// The flow that carries the call out; set when it begins.
    flow: OnceLock<FlowId>,
}

/// The call that the running step is about to make; `None` if it holds up no others.
pub fn calling(asi: &mut AsyncSteps, function: &Arc<str>) -> Option<Calling> {
    if !deadlock::is_enabled() || !mutex::holds_up_others(asi) {
        return None;
    }
    let call = Arc::new(Call { function: Arc::clone(function), flow: OnceLock::new() });
    let identity = asi.identity();
    let place = asi.places().next()?;
    let target: Arc<Call> = Arc::clone(&call);
    let wait = Arc::new(Wait::new(asi, identity, place, target));
    Some(Calling { _watch: wait.watch(), call })
}

impl fmt::Debug for Calling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Calling").field(&self.call).finish()
    }
}

impl Calling {
    /// What goes with the request.
    #[must_use]
    pub fn call(&self) -> Arc<Call> {
        Arc::clone(&self.call)
    }
}

impl Call {
    /// The call is carried out by this flow.
    pub fn begin(&self, flow: &mut Flow) {
        self.flow.get_or_init(|| flow.id());
        flow.extend(Awaited);
    }
}

impl Contended for Call {
    /// A call that has not begun waits for its admission, which goes on.
    fn holders(&self) -> Option<Holders> {
        self.flow.get().map(|flow| smallvec![Identity { flow: *flow, branch: 0 }])
    }

    fn target(&self) -> Target {
        Target::Call { function: Arc::clone(&self.function) }
    }
}
