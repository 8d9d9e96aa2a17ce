//! A flow in execution, as its host sees it (FTN12 §2.2.3).

use std::sync::Arc;
use std::task::Waker;

use super::identity::FlowId;
use super::progress::{BURST, Outcome, Progress};
use super::root::Flow;
use super::wait::{Wait, WaitCause};
use super::wait_id::{WaitId, WaitResult};
use crate::args::Arguments;
use crate::completion::{Canceller, Stale};
use crate::error::{Error, codes};
use crate::location::StepLocation;
use crate::machine::Machine;
use crate::observe::UndoneStep;
use crate::state::State;
use crate::time::Time;

/// A flow in execution, driven by its host (FTN12 §2.2.3).
///
/// A host works in this order:
///
/// 1. It calls [`run`](Self::run) with the current time and a waker.
/// 2. It starts the flows that [`take_launched`](Self::take_launched) returns, on the same event
///    loop.
/// 3. It reports the errors that [`take_unreported_errors`](Self::take_unreported_errors) returns.
/// 4. It looks at the progress that the run made. [`Done`](Progress::Done) is the end.
///    [`Ready`](Progress::Ready): it lets others run and goes back to 1. In
///    [`Waiting`](Progress::Waiting) it asks for the [`deadline`](Self::deadline), and goes back to
///    1 when that is reached or the waker is woken.
///
/// To end the flow early, the host calls [`cancel`](Self::cancel), then takes steps 2 and 3 for the
/// last time: cancel handlers may launch flows, and may fail, and launched flows undo what the flow
/// has done ([`Flow::is_part`]). Dropping an execution that is not done cancels it too, but drops
/// the flows that it launched: then nothing is undone. So a host that gives up a flow cancels it
/// first.
#[must_use = "a flow runs only while its host drives it"]
#[derive(Debug)]
pub struct Execution {
    machine: Machine,
}

impl Flow {
    /// Makes the flow ready to be driven (FTN12 §2.2.3 `execute`).
    ///
    /// It takes the flow, so that nothing can be added and nothing be executed twice:
    ///
    /// ```compile_fail,E0382
    /// # use asyncsteps_core::Flow;
    /// let flow = Flow::new();
    /// let once = flow.execute();
    /// let twice = flow.execute(); // the flow was moved
    /// ```
    ///
    /// ```compile_fail,E0599
    /// # use asyncsteps_core::Flow;
    /// let mut running = Flow::new().execute();
    /// running.add(|asi, ()| asi.success(())); // an execution has no `add`
    /// ```
    #[inline]
    pub fn execute(mut self) -> Execution {
        self.seal();
        Execution::of_sealed(self)
    }

    /// Ends the configuration of the flow.
    #[inline]
    pub(crate) fn seal(&mut self) {
        self.asi.fail_if_misconfigured();
        self.asi.strand.seal(0);
    }
}

impl Execution {
    #[inline]
    pub(crate) fn of_sealed(flow: Flow) -> Self {
        Self { machine: Machine::new(flow.asi) }
    }

    /// Runs the flow until it must wait, ends, or has used up its turn ([`BURST`]).
    ///
    /// `now` is the current time of the host; `waker` is woken, at most once, when a completion, a
    /// future or `cancel` from outside makes the flow runnable.
    pub fn run(&mut self, now: Time, waker: &Waker) -> Progress {
        self.machine.run(BURST, now, waker)
    }

    /// [`run`](Self::run) for a turn of `burst` steps: simulations interleave flows more finely.
    pub(crate) fn run_burst(&mut self, burst: u32, now: Time, waker: &Waker) -> Progress {
        self.machine.run(burst, now, waker)
    }

    /// The strands whose innermost step waits, for simulations.
    pub(crate) fn waiting_strands(&self) -> Vec<u32> {
        self.machine.waiting_strands()
    }

    /// Fails the step that waits in this strand, see [`waiting_strands`](Self::waiting_strands).
    pub(crate) fn fail_wait(&mut self, strand: u32, error: Error, now: Time) -> Option<Outcome> {
        self.machine.fail_wait(strand, error, now)
    }

    /// Ends the flow as a time limit around it would.
    pub(crate) fn expire(&mut self, now: Time) -> Option<Outcome> {
        self.machine.expire(now)
    }

    /// Whether the flow launched others or has errors for its host.
    #[inline]
    pub(crate) fn has_side_effects(&self) -> bool {
        self.machine.has_launched() || self.machine.has_unseen()
    }

    /// Flows that steps and cancel handlers launched since the last call: the host executes them on
    /// the same event loop, also after it cancelled this flow (FTN12 §2.2.1 `newInstance`).
    #[inline]
    pub fn take_launched(&mut self) -> Vec<Flow> {
        if !self.machine.has_launched() {
            return Vec::new();
        }
        self.machine.take_launched().into_iter().map(|asi| Flow { asi }).collect()
    }

    /// Errors since the last call that the host has to report, because nothing else may show them:
    /// panics of callbacks, also those from which an error handler recovered, errors of cancel
    /// handlers, and errors of undos, which are left to be done by hand
    /// ([`failed_undo`](Error::failed_undo)).
    #[inline]
    pub fn take_unreported_errors(&mut self) -> Vec<Error> {
        if self.machine.has_unseen() { self.machine.take_unreported_errors() } else { Vec::new() }
    }

    /// The steps that this flow has undone since the last call, if it is one that
    /// [undoes](Self::is_undo): for the log. Undos that failed are among the
    /// [errors](Self::take_unreported_errors) instead.
    #[inline]
    pub fn take_undone(&mut self) -> Vec<UndoneStep> {
        if self.machine.has_undone() { self.machine.take_undone() } else { Vec::new() }
    }

    /// The earliest time at which the flow has to run without being woken; `None` if it has no
    /// timer.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.machine.deadline()
    }

    /// Cancels the flow (FTN12 §2.2.3 `cancel`): timers off, cancel handlers innermost to outermost,
    /// no error handlers. Cancelling a finished flow does nothing.
    pub fn cancel(&mut self) {
        self.machine.cancel();
    }

    /// Whether the flow is not over.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.machine.is_done()
    }

    /// Whether the flow is a part of another one that goes on after it, see [`Flow::is_part`].
    #[must_use]
    #[inline]
    pub fn is_part(&self) -> bool {
        self.machine.asi.is_part()
    }

    /// Whether the flow undoes what another one has done, see [`Added::undo`](crate::Added::undo).
    #[must_use]
    #[inline]
    pub fn is_undo(&self) -> bool {
        self.machine.asi.is_undo()
    }

    /// The steps in progress of the active branch and those around it, outermost first (FTN12 §1.7
    /// `async_stack`). [`waits`](Self::waits) has all branches.
    #[must_use]
    pub fn stack(&self) -> Vec<StepLocation> {
        self.machine.asi.async_stack()
    }

    /// The branches of the flow that are not over, and why each of them does not go on, in the
    /// order in which they started (FTN12 §1.7).
    #[must_use]
    pub fn waits(&mut self) -> Vec<Wait> {
        let flow = self.id();
        self.machine.waits(flow)
    }

    /// The kind of what each of these branches waits for, in no particular order: to count waits, at
    /// less cost than [`waits`](Self::waits), which describes them.
    pub fn causes(&self) -> impl Iterator<Item = WaitCause> {
        self.machine.causes()
    }

    /// The values of a type that steps in progress keep, such as locks, each with its branch and step; see
    /// [`AsyncSteps::kept`](crate::AsyncSteps::kept).
    pub fn kept<T: 'static>(&self) -> impl Iterator<Item = (u32, StepLocation, &T)> {
        self.machine.kept()
    }

    /// The number of the flow (FTN12 §1.11.4), assigned when it is first asked for.
    pub fn id(&mut self) -> FlowId {
        self.machine.asi.flow_id()
    }

    /// Completes a wait by its name: the flow takes the result in its next turn, like the result of
    /// a [`Completion`](crate::Completion).
    ///
    /// # Errors
    /// [`Stale`] if the wait has ended, was completed before, or belongs to another flow, or if the
    /// flow is being cancelled; then nothing happens.
    pub fn complete(&mut self, wait: WaitId, result: WaitResult) -> Result<(), Stale> {
        let is_own = !self.machine.is_done() && self.machine.asi.id == Some(wait.flow());
        let taken = is_own && self.machine.asi.inbox().send(wait.key, result.0).is_ok();
        if taken { Ok(()) } else { Err(Stale) }
    }

    /// When the flow had its last turn; a flow of one branch has waited since then.
    #[must_use]
    pub fn last_turn(&self) -> Time {
        self.machine.asi.now()
    }

    /// The state variables.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.machine.asi.state
    }

    /// The state variables, to take results out.
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.machine.asi.state
    }

    /// A value attached to the flow with [`Flow::extend`].
    #[must_use]
    pub fn extension_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.machine.asi.extension_mut()
    }

    /// A handle that cancels the flow from anywhere.
    pub fn canceller(&mut self) -> Canceller {
        Canceller(Arc::clone(self.machine.asi.inbox()))
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// Runs a flow to its end at once (FTN12 §2.2.3 `execute`); for examples and tests of flows that
/// never wait.
///
/// # Errors
/// The error that ended the flow, or `InternalError` if the flow had to wait, or its result has
/// another type.
pub fn run_to_end<A: Arguments>(flow: Flow) -> Result<A, Error> {
    let mut execution = flow.execute();
    loop {
        match execution.run(Time::ZERO, Waker::noop()) {
            Progress::Done(outcome) => return outcome.into_result(),
            Progress::Ready => {}
            Progress::Waiting => {
                return Err(Error::with_info(codes::INTERNAL_ERROR, "the flow waits"));
            }
        }
    }
}
