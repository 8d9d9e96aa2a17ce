//! The flows inside of one step of a foreign engine: the one that it hosts, and the flows that this
//! launched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use asyncsteps_core::{Execution, Flow, Outcome, Progress, Time};

use crate::guard::report;

/// Turns of the undos of a cancelled step, which nothing can wake later: a bound for undos that never
/// end.
const LAST_TURNS: u32 = 10_000;

/// A flow and the flows that it launched, which run as long as their foreign step.
pub(crate) struct WrappedFlows {
    main: Execution,
    /// The outcome of the main flow, when only launched flows are left.
    outcome: Option<Outcome>,
    launched: Vec<Execution>,
}

/// The result of a turn.
pub(crate) enum FlowTurn {
    Over(Outcome),
    /// There is more to do at once.
    Ready,
    /// The flows wait, at most until then.
    Waiting(Option<Time>),
}

impl WrappedFlows {
    pub(crate) fn new(flow: Flow) -> Self {
        Self { main: flow.execute(), outcome: None, launched: Vec::new() }
    }

    /// Runs one turn of each flow. The step has ended when its flow has, with all of its parts;
    /// other flows that were launched end with it, and are undone as well.
    pub(crate) fn run(&mut self, now: Time, waker: &Waker) -> FlowTurn {
        let mut is_ready = false;
        if self.outcome.is_none() {
            let progress = self.main.run(now, waker);
            take(&mut self.main, &mut self.launched);
            match progress {
                Progress::Done(outcome) => self.outcome = Some(outcome),
                Progress::Ready => is_ready = true,
                Progress::Waiting => {}
            }
        }
        is_ready |= self.run_launched(now, waker);
        if self.outcome.is_some() && !self.launched.iter().any(Execution::is_part) {
            is_ready |= self.cancel_others();
        }
        if self.launched.is_empty()
            && let Some(outcome) = self.outcome.take()
        {
            return FlowTurn::Over(outcome);
        }
        if is_ready { FlowTurn::Ready } else { FlowTurn::Waiting(self.deadline()) }
    }

    /// Runs one turn of each flow that was launched; says whether one of them has more to do at once.
    fn run_launched(&mut self, now: Time, waker: &Waker) -> bool {
        let (mut is_ready, mut next) = (false, 0);
        while let Some(flow) = self.launched.get_mut(next) {
            let progress = flow.run(now, waker);
            let mut launched = Vec::new();
            take(flow, &mut launched);
            match progress {
                Progress::Done(_) => drop(self.launched.remove(next)),
                Progress::Ready | Progress::Waiting => {
                    is_ready |= matches!(progress, Progress::Ready);
                    next += 1;
                }
            }
            self.launched.append(&mut launched);
        }
        is_ready
    }

    /// Cancels the launched flows that are no parts of others; says whether there were any. Flows
    /// that are launched undo their effects.
    fn cancel_others(&mut self) -> bool {
        let mut any = false;
        while let Some(other) = self.launched.iter().position(|flow| !flow.is_part()) {
            let mut flow = self.launched.remove(other);
            flow.cancel();
            take(&mut flow, &mut self.launched);
            any = true;
        }
        if any {
            report("wrap: a launched flow is cancelled at the end of its foreign step");
        }
        any
    }

    fn deadline(&self) -> Option<Time> {
        let all = std::iter::once(&self.main).chain(&self.launched);
        all.filter(|flow| flow.is_valid()).filter_map(Execution::deadline).min()
    }

    /// The foreign step is cancelled, after which its engine runs nothing for it: undos that need
    /// not wait run now, and the rest is reported.
    pub(crate) fn cancel(mut self, now: Time) {
        self.main.cancel();
        take(&mut self.main, &mut self.launched);
        self.cancel_others();
        let woken = Arc::new(FlowWoken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        for _ in 0..LAST_TURNS {
            if !woken.0.swap(false, Ordering::SeqCst) {
                break;
            }
            if self.run_launched(now, &waker) {
                waker.wake_by_ref();
            }
        }
        // waiting flows give up
        while let Some(mut flow) = self.launched.pop() {
            flow.cancel();
            take(&mut flow, &mut self.launched);
        }
    }
}

/// Takes from a flow what a host has to do for it.
fn take(flow: &mut Execution, launched: &mut Vec<Execution>) {
    launched.extend(flow.take_launched().into_iter().map(Flow::execute));
    for error in flow.take_unreported_errors() {
        let step = error.location().map(|step| step.to_string()).unwrap_or_default();
        match error.failed_undo() {
            Some(outcome) => report(&format!(
                "wrap: the undo of the step {step} failed, which was {outcome:?}: {error}"
            )),
            None => report(&format!("wrap: in the step {step}: {error}")),
        }
    }
}

/// Whether something woke a flow.
struct FlowWoken(AtomicBool);

impl Wake for FlowWoken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}
