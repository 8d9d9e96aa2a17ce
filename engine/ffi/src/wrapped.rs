//! The flows inside of one step of a foreign engine: the one that it hosts, and what that launched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use asyncsteps::{Execution, Flow, Outcome, Progress, Time};

use crate::guard::report;

/// Turns of the undos of a cancelled step, which nothing can wake later: a bound for those that go on
/// for ever.
const LAST_TURNS: u32 = 10_000;

/// A flow and those that it launched, which run as long as their foreign step.
pub(crate) struct WrappedFlows {
    main: Execution,
    /// That of the main flow, which waits for its undos then.
    outcome: Option<Outcome>,
    launched: Vec<Execution>,
}

/// What a turn came to.
pub(crate) enum Turn {
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

    /// Runs one turn of each flow. The step is over when its flow is, and everything is undone that is
    /// to be undone; other flows that were launched end with it.
    pub(crate) fn run(&mut self, now: Time, waker: &Waker) -> Turn {
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
        let mut next = 0;
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
        let is_undone = !self.launched.iter().any(Execution::is_undo);
        if let Some(outcome) = self.outcome.take_if(|_| is_undone) {
            self.drop_others();
            return Turn::Over(outcome);
        }
        if is_ready { Turn::Ready } else { Turn::Waiting(self.deadline()) }
    }

    /// Cancels the launched flows that undo nothing.
    fn drop_others(&mut self) {
        let before = self.launched.len();
        self.launched.retain(Execution::is_undo);
        if self.launched.len() < before {
            report("wrap: a launched flow is cancelled at the end of its foreign step");
        }
    }

    fn deadline(&self) -> Option<Time> {
        let all = std::iter::once(&self.main).chain(&self.launched);
        all.filter(|flow| flow.is_valid()).filter_map(Execution::deadline).min()
    }

    /// The foreign step is cancelled, after which its engine runs nothing for it: what can be undone
    /// without waiting is undone now, and the rest is reported.
    pub(crate) fn cancel(mut self, now: Time) {
        self.main.cancel();
        take(&mut self.main, &mut self.launched);
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        self.drop_others();
        for mut undo in self.launched {
            let mut launched = Vec::new();
            for _ in 0..LAST_TURNS {
                if !undo.is_valid() || !woken.0.swap(false, Ordering::SeqCst) {
                    break;
                }
                if matches!(undo.run(now, &waker), Progress::Ready) {
                    waker.wake_by_ref();
                }
            }
            // an undo that waits gives up
            undo.cancel();
            take(&mut undo, &mut launched);
            waker.wake_by_ref();
        }
    }
}

/// Takes from a flow what a host has to do for it.
fn take(flow: &mut Execution, launched: &mut Vec<Execution>) {
    launched.extend(flow.take_launched().into_iter().map(Flow::execute));
    for error in flow.take_unseen() {
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
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}
