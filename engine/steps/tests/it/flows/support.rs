//! What the tests of flows share: a log that steps write to, and hosts in virtual time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use asyncsteps_core::{Arguments, Error, Execution, Flow, Outcome, Progress, Time};

pub(crate) use crate::log::{Dropped, Log};

/// The point in time `ms` milliseconds after the epoch.
pub(crate) fn at(ms: u64) -> Time {
    Time::from_epoch(Duration::from_millis(ms))
}

/// Runs one flow at this time until it waits or is over.
pub(crate) fn run(execution: &mut Execution, ms: u64) -> Progress {
    loop {
        let progress = execution.run(at(ms), Waker::noop());
        if !matches!(progress, Progress::Ready) {
            return progress;
        }
    }
}

/// Runs one flow at this time; it must wait after that.
pub(crate) fn wait(execution: &mut Execution, ms: u64) {
    let progress = run(execution, ms);
    assert!(matches!(progress, Progress::Waiting), "{progress:?}");
}

/// Runs one flow at this time; it must end.
pub(crate) fn end<A: Arguments>(execution: &mut Execution, ms: u64) -> Result<A, Error> {
    match run(execution, ms) {
        Progress::Done(outcome) => outcome.into_result(),
        progress @ (Progress::Waiting | Progress::Ready) => panic!("{progress:?}"),
    }
}

/// The code of the error that ends a flow which never waits.
pub(crate) fn code(flow: Flow) -> String {
    end::<()>(&mut flow.execute(), 0).expect_err("it fails").code().to_owned()
}

/// Several flows on one event loop.
#[derive(Default)]
pub(crate) struct Sim {
    flows: Vec<(Execution, Waker, Option<Outcome>)>,
    ready: Arc<Ready>,
    now: u64,
}

#[derive(Default)]
struct Ready(Mutex<VecDeque<usize>>);

struct WakeFlow(Arc<Ready>, usize);

impl Wake for WakeFlow {
    fn wake(self: Arc<Self>) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.1);
    }
}

impl Sim {
    /// Executes a flow, and runs all flows that can go on; gives its number.
    pub(crate) fn start(&mut self, flow: Flow) -> usize {
        let number = self.flows.len();
        let waker = Waker::from(Arc::new(WakeFlow(Arc::clone(&self.ready), number)));
        waker.wake_by_ref();
        self.flows.push((flow.execute(), waker, None));
        self.settle();
        number
    }

    /// Moves the clock to this time, from one deadline to the next.
    pub(crate) fn advance(&mut self, ms: u64) {
        let deadline = |(flow, _, outcome): &(Execution, Waker, Option<Outcome>)| {
            flow.deadline().filter(|_| outcome.is_none())
        };
        while let Some(next) = self.flows.iter().filter_map(deadline).min()
            && next <= at(ms)
        {
            self.now = u64::try_from(next.since_epoch().as_millis()).expect("a short test");
            for flow in &self.flows {
                if deadline(flow).is_some_and(|at| at <= next) {
                    flow.1.wake_by_ref();
                }
            }
            self.settle();
        }
        self.now = ms;
    }

    pub(crate) fn cancel(&mut self, flow: usize) {
        self.flows[flow].0.cancel();
        self.flows[flow].2 = Some(Outcome::Cancelled);
        self.settle();
    }

    /// The error code of a flow that failed, else a word for its end or its progress.
    pub(crate) fn outcome(&self, flow: usize) -> &str {
        match &self.flows[flow].2 {
            Some(Outcome::Success(_)) => "success",
            Some(Outcome::Error(error)) => error.code(),
            Some(Outcome::Cancelled) => "cancelled",
            None => "waits",
        }
    }

    fn settle(&mut self) {
        loop {
            let next = self.ready.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(next) = next else { return };
            let (flow, waker, outcome) = &mut self.flows[next];
            if outcome.is_some() {
                continue;
            }
            match flow.run(at(self.now), waker) {
                Progress::Done(end) => *outcome = Some(end),
                Progress::Ready => waker.wake_by_ref(),
                Progress::Waiting => {}
            }
        }
    }
}
