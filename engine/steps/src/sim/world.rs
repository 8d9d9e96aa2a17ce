//! The state of a simulation: its clock, its agenda, and the flows that can go on.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;
use std::mem;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use super::check::in_full;
use super::faults::{FlowProbe, ScriptedFaults};
use super::plan::SharedCutPlan;
use super::{Options, Random};
use crate::completion::Canceller;
use crate::error::Error;
use crate::flow::{BURST, Execution, Flow, Outcome, Progress, Wait, WaitReason};
use crate::time::Time;

/// How many lines of the trace a failure shows.
const TRACE_LINES: usize = 40;

/// Half of the turns are cut short to this number of steps, to interleave flows finely.
const SHORT_BURST: usize = 4;

pub(super) struct World {
    pub(super) seed: u64,
    pub(super) options: Options,
    pub(super) random: RefCell<Random>,
    pub(super) now: Cell<Time>,
    pub(super) turns: Cell<u64>,
    pub(super) checks: RefCell<Vec<Rc<dyn Fn()>>>,
    pub(super) flows: RefCell<Vec<SimFlow>>,
    pub(super) trace: RefCell<VecDeque<String>>,
    pub(super) faults: Rc<ScriptedFaults>,
    /// Where a flow is to be cut.
    pub(super) cut: Rc<SharedCutPlan>,
    /// The events to come; the number orders those at the same time.
    agenda: RefCell<BTreeMap<Moment, Due>>,
    numbers: Cell<u64>,
    /// The errors of flows within futures that nothing else shows.
    reported: RefCell<Vec<Error>>,
    ready: Arc<ReadyFlows>,
    running: Cell<bool>,
}

/// The time and the number of an event.
pub(super) type Moment = (Time, u64);

/// An event of the agenda.
pub(super) enum Due {
    /// A flow starts, or reaches its deadline.
    Run(usize),
    Cancel(usize),
    Task(Box<dyn FnOnce()>),
}

/// A flow of the simulation.
pub(super) struct SimFlow {
    /// Taken while it runs.
    pub(super) execution: Option<Execution>,
    pub(super) canceller: Canceller,
    waker: Arc<WakeFlow>,
    deadline: Option<Moment>,
    pub(super) outcome: Option<Outcome>,
    pub(super) over: bool,
    /// A test started it, and has to know if it fails.
    is_started: bool,
    /// A check knows how it ended.
    pub(super) is_expected: bool,
    /// It waits, or has not started.
    pub(super) waits: bool,
}

/// The flows that can go on, each at most once.
#[derive(Default)]
struct ReadyFlows(Mutex<Vec<usize>>);

struct WakeFlow {
    ready: Arc<ReadyFlows>,
    flow: usize,
    queued: AtomicBool,
}

impl Wake for WakeFlow {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ready.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.flow);
        }
    }
}

impl ReadyFlows {
    fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn take(&self, at: usize) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).swap_remove(at)
    }
}

impl World {
    pub(super) fn new(seed: u64, options: Options) -> Self {
        Self {
            seed,
            options,
            random: RefCell::new(Random::new(seed)),
            now: Cell::new(Time::ZERO),
            turns: Cell::new(0),
            checks: RefCell::default(),
            flows: RefCell::default(),
            trace: RefCell::default(),
            faults: Rc::default(),
            cut: Rc::default(),
            agenda: RefCell::default(),
            numbers: Cell::new(0),
            reported: RefCell::default(),
            ready: Arc::default(),
            running: Cell::new(false),
        }
    }

    pub(super) fn log(&self, line: impl Display) {
        let mut trace = self.trace.borrow_mut();
        if trace.len() == TRACE_LINES {
            trace.pop_front();
        }
        trace.push_back(format!("{}: {line}", self.now.get()));
    }

    pub(super) fn add_due(&self, at: Time, due: Due) -> Moment {
        let number = self.numbers.get();
        self.numbers.set(number + 1);
        self.agenda.borrow_mut().insert((at, number), due);
        (at, number)
    }

    pub(super) fn remove_due(&self, moment: Moment) -> Option<Due> {
        self.agenda.borrow_mut().remove(&moment)
    }

    pub(super) fn has_due(&self, moment: Moment) -> bool {
        self.agenda.borrow().contains_key(&moment)
    }

    /// Adds a flow, which runs when it is woken; returns its number.
    pub(super) fn add_flow(&self, mut flow: Flow) -> usize {
        let mut flows = self.flows.borrow_mut();
        let number = flows.len();
        let waker = WakeFlow {
            ready: Arc::clone(&self.ready),
            flow: number,
            queued: AtomicBool::new(false),
        };
        flow.seed(self.seed ^ Random::new(number as u64).number());
        let canceller = flow.canceller();
        if !flow.asi.is_part() {
            flow.asi.cold().probe = Some(Rc::new(FlowProbe {
                faults: Rc::clone(&self.faults),
                cut: Rc::clone(&self.cut),
                flow: number,
                canceller: canceller.clone(),
            }));
        }
        flows.push(SimFlow {
            canceller,
            execution: Some(flow.execute()),
            waker: Arc::new(waker),
            deadline: None,
            outcome: None,
            over: false,
            is_started: false,
            is_expected: false,
            waits: true,
        });
        number
    }

    /// Notes that the test started this flow.
    pub(super) fn expect_success(&self, flow: usize) {
        if let Some(slot) = self.flows.borrow_mut().get_mut(flow) {
            slot.is_started = true;
        }
    }

    /// Runs until nothing is left to do, or nothing before `end`.
    ///
    /// # Panics
    /// With the failure of the simulation.
    pub(super) fn run(&self, end: Option<Time>) {
        assert!(!self.running.replace(true), "`run` was called inside of the simulation");
        while self.turn(end) {
            self.turns.set(self.turns.get() + 1);
            let limit = self.options.max_turns;
            assert!(self.turns.get() <= limit, "it did not end within {limit} turns");
            self.look_at_errors("the flow of a future", &self.reported.take());
            for check in 0.. {
                let Some(check) = self.checks.borrow().get(check).cloned() else { break };
                check();
            }
        }
        if let Some(end) = end {
            self.now.set(end.max(self.now.get()));
        }
        self.running.set(false);
    }

    /// Runs one of the flows that can go on, or the next event, by chance; `false` if there is none.
    fn turn(&self, end: Option<Time>) -> bool {
        let ready = self.ready.len();
        let due = self.agenda.borrow().first_key_value().map(|(moment, _)| *moment);
        let is_due = due.filter(|(at, _)| *at <= self.now.get());
        let choice = self.random.borrow_mut().below(ready + usize::from(is_due.is_some()));
        if choice < ready {
            self.run_flow(self.ready.take(choice));
            return true;
        }
        let Some(next) = due.filter(|(at, _)| end.is_none_or(|end| *at <= end)) else {
            return false;
        };
        self.now.set(next.0.max(self.now.get()));
        match self.remove_due(next) {
            Some(Due::Run(flow)) => self.wake(flow),
            Some(Due::Cancel(flow)) => self.cancel(flow),
            Some(Due::Task(task)) => task(),
            None => {}
        }
        true
    }

    pub(super) fn cancel(&self, flow: usize) {
        let canceller = {
            let flows = self.flows.borrow();
            flows.get(flow).filter(|flow| !flow.over).map(|flow| flow.canceller.clone())
        };
        if let Some(canceller) = canceller {
            self.log(format_args!("flow {flow} is cancelled"));
            canceller.cancel();
        }
    }

    /// Drops a flow that was made of a future.
    pub(super) fn abandon(&self, flow: usize) {
        let taken = self.flows.borrow_mut().get_mut(flow).and_then(|slot| {
            slot.over = true;
            // a future that cancels itself is running: its flow ends after this turn
            slot.canceller.cancel();
            slot.execution.take()
        });
        if let Some(mut execution) = taken {
            execution.cancel();
            self.start_launched(flow, &mut execution);
        }
    }

    pub(super) fn wake(&self, flow: usize) {
        let waker = self.flows.borrow().get(flow).map(|slot| Arc::clone(&slot.waker));
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn run_flow(&self, number: usize) {
        let is_cut = self.cut.borrow().as_ref().is_some_and(|plan| plan.flow == number);
        if is_cut && self.flows.borrow()[number].waits {
            self.pass_moment(number);
        }
        self.run_turn(number, is_cut);
        if is_cut {
            self.pass_moment(number);
        }
    }

    fn run_turn(&self, number: usize, is_cut: bool) {
        let taken = {
            let mut flows = self.flows.borrow_mut();
            let slot = &mut flows[number];
            slot.waker.queued.store(false, Ordering::Release);
            let deadline = slot.deadline.take();
            (slot.execution.take(), Waker::from(Arc::clone(&slot.waker)), deadline)
        };
        let (Some(mut execution), waker, deadline) = taken else { return };
        drop(deadline.and_then(|moment| self.remove_due(moment)));
        // the moments of a cut are between steps
        let burst = if is_cut { 1 } else { self.burst() };
        let progress = execution.run_burst(burst, self.now.get(), &waker);
        self.start_launched(number, &mut execution);
        self.look_at_errors(format_args!("flow {number}"), &execution.take_unreported_errors());
        match progress {
            Progress::Done(outcome) => self.end_flow(number, outcome),
            Progress::Ready => {
                waker.wake();
                self.keep(number, execution, false);
            }
            Progress::Waiting => self.keep(number, execution, true),
        }
    }

    /// Takes an error of a flow within a future; it is looked at after the turn.
    pub(super) fn report(&self, error: Error) {
        self.reported.borrow_mut().push(error);
    }

    /// Logs undos that failed.
    ///
    /// # Panics
    /// With the panic of a callback, if it fails the simulation.
    fn look_at_errors(&self, flow: impl Display, errors: &[Error]) {
        for error in errors.iter().filter(|error| error.failed_undo().is_some()) {
            self.log(format_args!("{flow} cannot undo: {error}"));
        }
        let panic = errors.iter().find(|error| error.panic_message().is_some());
        if let Some(panic) = panic.filter(|_| !self.options.allow_panics) {
            panic!("{}", panic.info().unwrap_or_default());
        }
    }

    /// Has `change` end steps of a flow that is not running.
    pub(super) fn interrupt(
        &self,
        number: usize,
        change: impl FnOnce(&mut Execution) -> Option<Outcome>,
    ) {
        let Some(mut execution) = self.flows.borrow_mut()[number].execution.take() else { return };
        let outcome = change(&mut execution);
        self.start_launched(number, &mut execution);
        self.look_at_errors(format_args!("flow {number}"), &execution.take_unreported_errors());
        match outcome {
            Some(outcome) => self.end_flow(number, outcome),
            None => {
                self.flows.borrow_mut()[number].execution = Some(execution);
                self.wake(number);
            }
        }
    }

    fn start_launched(&self, number: usize, execution: &mut Execution) {
        for flow in execution.take_launched() {
            let what = if flow.is_undo() { "is undone by" } else { "launches" };
            let launched = self.add_flow(flow);
            self.log(format_args!("flow {number} {what} flow {launched}"));
            self.wake(launched);
        }
    }

    fn burst(&self) -> u32 {
        let mut random = self.random.borrow_mut();
        if random.one_in(2) {
            u32::try_from(1 + random.below(SHORT_BURST)).unwrap_or(1)
        } else {
            BURST
        }
    }

    fn keep(&self, number: usize, execution: Execution, waits: bool) {
        let deadline = execution.deadline().map(|at| {
            let late = self.random.borrow_mut().within(self.options.lateness);
            self.add_due(at.max(self.now.get()) + late, Due::Run(number))
        });
        let slot = &mut self.flows.borrow_mut()[number];
        slot.execution = Some(execution);
        slot.deadline = deadline;
        slot.waits = waits;
    }

    fn end_flow(&self, number: usize, outcome: Outcome) {
        match &outcome {
            Outcome::Success(_) => self.log(format_args!("flow {number} succeeds")),
            Outcome::Error(error) => self.log(format_args!("flow {number} fails: {error}")),
            Outcome::Cancelled => self.log(format_args!("flow {number} was cancelled")),
        }
        let slot = &mut self.flows.borrow_mut()[number];
        slot.outcome = Some(outcome);
        slot.over = true;
    }

    /// Fails if a flow is not over: nothing is left that could end it.
    pub(super) fn check_all_over(&self) {
        let mut hanging = Vec::new();
        for (number, slot) in self.flows.borrow_mut().iter_mut().enumerate() {
            if let Some(execution) = slot.execution.as_mut().filter(|_| !slot.over) {
                hanging.push(format!("flow {number} waits in {:?}", execution.stack()));
                hanging.extend(execution.waits().iter().filter_map(why));
            }
        }
        let text = hanging.join("\n");
        assert!(text.is_empty(), "nothing is left that could end these flows:\n{text}");
    }

    /// Fails if all flows that the test started failed, and it looked at none of them.
    pub(super) fn check_some_succeed(&self) {
        let flows = self.flows.borrow();
        let mut failures = Vec::new();
        for (number, slot) in flows.iter().enumerate().filter(|(_, slot)| slot.is_started) {
            match &slot.outcome {
                Some(Outcome::Error(error)) if !slot.is_expected => {
                    failures.push(format!("flow {number}: {}", in_full(error)));
                }
                Some(_) | None => return,
            }
        }
        let text = failures.join("\n");
        assert!(
            text.is_empty(),
            "every flow failed; a test that expects it says so with `assert_error`:\n{text}"
        );
    }

    /// Drops everything that may hold this world.
    pub(super) fn clear(&self) {
        let flows = mem::take(&mut *self.flows.borrow_mut());
        drop(flows);
        let agenda = mem::take(&mut *self.agenda.borrow_mut());
        drop(agenda);
        let checks = mem::take(&mut *self.checks.borrow_mut());
        drop(checks);
    }
}

/// Why a branch does not go on, with the step that waits.
fn why(wait: &Wait) -> Option<String> {
    let step = wait.stack.last()?;
    Some(match &wait.reason {
        WaitReason::Future => format!("step {step} waits for a future that nothing here wakes"),
        WaitReason::External => {
            format!("step {step} waits for a completion that nothing here sends")
        }
        reason @ (WaitReason::Turn
        | WaitReason::Object(_)
        | WaitReason::Until(_)
        | WaitReason::Undo
        | WaitReason::End) => format!("step {step} waits for {reason}"),
    })
}
