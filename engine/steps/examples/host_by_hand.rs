//! A host without a runtime, which follows the order of calls that `Execution` documents.
//!
//! A flow runs once to start it, and again when its waker was woken, its deadline is reached, or its
//! last run ended with `Progress::Ready`. After each run the host starts the flows that it launched
//! and reports its errors. Here three flows share one thread; another thread answers two of them and
//! sends the time.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use asyncsteps_core::{Completion, Error, Execution, Flow, Outcome, Progress, Time};

/// The flows, and which of them can go on.
struct Host {
    flows: Vec<(Execution, Waker)>,
    ready: Arc<Ready>,
    inputs: Receiver<Input>,
    now: Time,
    /// Panics and errors of cancel handlers.
    reports: Vec<Error>,
}

/// Why the host goes on when nothing is ready.
enum Input {
    Woken,
    Time(Time),
}

struct Ready {
    flows: Mutex<VecDeque<usize>>,
    inputs: Sender<Input>,
}

/// Wakes one flow, from any thread.
struct WakeFlow {
    ready: Arc<Ready>,
    flow: usize,
}

impl Ready {
    fn queue(&self) -> MutexGuard<'_, VecDeque<usize>> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<usize> {
        self.queue().pop_front()
    }
}

impl Wake for WakeFlow {
    fn wake(self: Arc<Self>) {
        self.ready.queue().push_back(self.flow);
        // the host may be gone
        let _ = self.ready.inputs.send(Input::Woken);
    }
}

impl Host {
    /// A host, and the other end of its inputs.
    fn new() -> (Self, Sender<Input>) {
        let (sender, inputs) = mpsc::channel();
        let ready = Arc::new(Ready { flows: Mutex::default(), inputs: sender.clone() });
        let (flows, reports) = (Vec::new(), Vec::new());
        (Self { flows, ready, inputs, now: Time::ZERO, reports }, sender)
    }

    fn start(&mut self, flow: Flow) {
        let number = self.flows.len();
        let waker =
            Waker::from(Arc::new(WakeFlow { ready: Arc::clone(&self.ready), flow: number }));
        waker.wake_by_ref();
        self.flows.push((flow.execute(), waker));
    }

    /// Runs all flows to their ends; gives the outcomes in the order in which they came.
    fn run(&mut self) -> Vec<(usize, Outcome)> {
        let mut ends = Vec::new();
        while ends.len() < self.flows.len() {
            match self.ready.next() {
                Some(flow) => ends.extend(self.turn(flow).map(|outcome| (flow, outcome))),
                None => self.wait(),
            }
        }
        ends
    }

    fn turn(&mut self, number: usize) -> Option<Outcome> {
        let (flow, waker) = &mut self.flows[number];
        if !flow.is_valid() {
            return None;
        }
        let progress = flow.run(self.now, waker);
        let (launched, unseen) = (flow.take_launched(), flow.take_unreported_errors());
        if matches!(progress, Progress::Ready) {
            // the turn was long: the others go first
            waker.wake_by_ref();
        }
        launched.into_iter().for_each(|flow| self.start(flow));
        self.reports.extend(unseen);
        match progress {
            Progress::Done(outcome) => Some(outcome),
            // the deadline is looked at when the time changes
            Progress::Ready | Progress::Waiting => None,
        }
    }

    /// Nothing is ready: waits until a flow is woken or time has passed.
    fn wait(&mut self) {
        let Ok(Input::Time(now)) = self.inputs.recv() else { return };
        self.now = now;
        for (flow, waker) in &self.flows {
            if flow.deadline().is_some_and(|at| at <= now) {
                waker.wake_by_ref();
            }
        }
    }
}

/// Asks the other thread and waits for the answer, at most an hour.
fn ask(questions: &Sender<(u64, Completion)>, question: u64) -> Flow {
    let questions = questions.clone();
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.set_timeout(Duration::from_secs(3600));
        let answer = asi.wait_external();
        let _ = questions.send((question, answer));
    });
    flow
}

fn main() {
    let hour = Time::from_epoch(Duration::from_secs(3600));
    let (mut host, inputs) = Host::new();
    let (questions, asked) = mpsc::channel::<(u64, Completion)>();
    let answering = thread::spawn(move || {
        let mut unanswered = Vec::new();
        for (question, answer) in asked {
            match question {
                0 => unanswered.push(answer),
                _ => answer.success(question * 2).expect("the flow waits"),
            }
            if question == 2 {
                inputs.send(Input::Time(hour)).expect("the host waits");
            }
        }
    });

    for question in [0, 1, 2] {
        host.start(ask(&questions, question));
    }
    let mut ends = host.run();
    ends.sort_by_key(|(flow, _)| *flow);
    let results: Vec<_> =
        ends.into_iter().map(|(_, outcome)| outcome.into_result::<u64>()).collect();
    assert!(matches!(&results[0], Err(error) if error.code() == "Timeout"), "never answered");
    assert!(matches!(results[1..], [Ok(2), Ok(4)]), "{results:?}");
    assert_eq!(host.now, hour);
    assert!(host.reports.is_empty(), "{:?}", host.reports);

    drop((host, questions));
    answering.join().expect("the other thread ends too");
}
