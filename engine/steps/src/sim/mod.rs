#![doc = include_str!("../docs/sim.md")]

mod check;
mod cut;
mod faults;
pub mod linear;
mod moment;
mod options;
mod plan;
mod seed;
mod started;
mod world;

use std::cell::RefMut;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use crate::error::{Error, StepError};
use crate::flow::Flow;
use crate::stack::AsyncSteps;
use crate::time::Time;
use crate::tool::AsyncTool;
use faults::FaultEffect;
use plan::CutPlan;
use world::{Due, Moment, World};

pub use crate::random::Random;
pub use check::{check, check_with};
pub use cut::{cancel_everywhere, cut_everywhere};
pub use options::Options;
pub use plan::Cut;
pub(crate) use seed::seeded_number;
pub use seed::{fill_seeded, seed_thread};
pub use started::Started;

/// One simulation: a host in virtual time whose every choice comes from a seed.
///
/// It is a handle; clones share the simulation. It is an [`AsyncTool`] too, so that code for event
/// loops runs in it.
#[derive(Clone)]
pub struct Sim(Rc<World>);

/// A callback or a future in a simulation (FTN12 §2.6 `Handle`).
#[derive(Clone, Copy, Debug)]
pub struct Handle(Scheduled);

#[derive(Clone, Copy, Debug)]
enum Scheduled {
    Task(Moment),
    Flow(usize),
}

impl Sim {
    fn new(seed: u64, options: Options) -> Self {
        Self(Rc::new(World::new(seed, options)))
    }

    /// The simulation that runs this flow, for steps that cannot capture it, such as the steps of a
    /// [`Template`](crate::Template).
    ///
    /// # Panics
    /// If the flow was not started by a simulation; inside a step that becomes an `InternalError`.
    #[must_use]
    pub fn of(asi: &AsyncSteps) -> Self {
        match asi.extension::<Self>() {
            Some(sim) => sim.clone(),
            None => panic!("the flow was not started by a simulation"),
        }
    }

    /// Starts a flow now: it runs when it is chosen (FTN12 §2.2.3 `execute`).
    #[expect(clippy::must_use_candidate, reason = "most flows are started and not looked at again")]
    pub fn start(&self, flow: Flow) -> Started {
        self.start_within(Duration::ZERO, flow)
    }

    /// Starts a flow at some time up to `most` from now.
    #[expect(clippy::must_use_candidate, reason = "most flows are started and not looked at again")]
    pub fn start_within(&self, most: Duration, mut flow: Flow) -> Started {
        flow.extend(self.clone());
        let number = self.0.add_flow(flow);
        self.0.expect_success(number);
        let at = self.now() + self.random().within(most);
        self.0.add_due(at, Due::Run(number));
        let options = &self.0.options;
        if self.random().one_in(options.cancel_one_in) {
            let at = at + self.random().within(options.cancel_within);
            self.0.add_due(at, Due::Cancel(number));
        }
        Started { sim: self.clone(), flow: number }
    }

    /// Starts the flow that a plan cuts.
    fn start_cut(&self, mut flow: Flow, plan: impl FnOnce(usize) -> CutPlan) -> Started {
        flow.extend(self.clone());
        let number = self.0.add_flow(flow);
        *self.0.cut.borrow_mut() = Some(plan(number));
        self.0.wake(number);
        Started { sim: self.clone(), flow: number }
    }

    /// Has every body of the steps of this name fail with `error` instead of running: each attempt
    /// of a step that is tried again, within its locks and time limits. It goes for all flows, from
    /// now on. Any error will do, as it does for `?`.
    pub fn fail(&self, step: &str, error: impl Into<StepError>) {
        self.0.faults.add(step, None, FaultEffect::Fail(error.into().into_error()));
    }

    /// [`fail`](Self::fail) for one body: the `nth` that starts from now on, over all flows and
    /// attempts, from 1.
    pub fn fail_nth(&self, step: &str, nth: u32, error: impl Into<StepError>) {
        self.0.faults.add(step, Some(nth), FaultEffect::Fail(error.into().into_error()));
    }

    /// Cancels each flow in which a body of the steps of this name starts (FTN12 §2.2.3 `cancel`):
    /// the body was begun, and is cut where it first waits. Its effect may have happened.
    pub fn cancel_at(&self, step: &str) {
        self.0.faults.add(step, None, FaultEffect::Cancel);
    }

    /// Runs each undo that succeeded a second time, from now on, with the same outcome and the key of its step: a host
    /// whose flows survive a crash does so when the crash came before the end of the undo was stored. An undo has to
    /// have the same effect by that key however often it runs; [`Cut::Undo`] cuts the first run.
    pub fn undo_twice(&self) {
        self.0.faults.undo_twice();
    }

    /// Calls `task` after a random delay, see [`Random::delay`]: the answer of a network, a database,
    /// or a user.
    pub fn later(&self, typical: Duration, task: impl FnOnce() + 'static) {
        let delay = self.random().delay(typical);
        self.0.add_due(self.now() + delay, Due::Task(Box::new(task)));
    }

    /// Has `check` called after every turn; it panics if something is wrong.
    pub fn always(&self, check: impl Fn() + 'static) {
        self.0.checks.borrow_mut().push(Rc::new(check));
    }

    /// Runs until every flow has ended and nothing is left to do.
    ///
    /// # Panics
    /// If the simulation fails, see [`check`](check()).
    pub fn run(&self) {
        self.0.run(None);
        self.0.check_all_over();
    }

    /// Runs what the scenario left, and checks that it was no failed run.
    fn finish(&self) {
        self.run();
        self.0.check_some_succeed();
    }

    /// Runs for this long in virtual time; flows may go on waiting.
    ///
    /// # Panics
    /// If the simulation fails, see [`check`](check()).
    pub fn run_for(&self, time: Duration) {
        self.0.run(Some(self.now() + time));
    }

    /// The random choices of this simulation, for choices of the scenario. Keep it no longer than one
    /// statement: it is borrowed from the simulation.
    #[must_use]
    pub fn random(&self) -> RefMut<'_, Random> {
        self.0.random.borrow_mut()
    }

    /// Adds a line to what a failure shows.
    pub fn log(&self, line: impl fmt::Display) {
        self.0.log(line);
    }

    /// The last lines of what happened, the oldest first, each with its time.
    #[must_use]
    pub fn trace(&self) -> Vec<String> {
        self.0.trace.borrow().iter().cloned().collect()
    }

    /// The seed of all choices.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    /// How many turns there were.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.0.turns.get()
    }

    fn clear(&self) {
        self.0.clear();
    }
}

impl AsyncTool for Sim {
    type Handle = Handle;

    fn immediate(&self, task: impl FnOnce() + 'static) -> Handle {
        self.deferred(Duration::ZERO, task)
    }

    /// A delay of zero is exact; others are late by chance.
    fn deferred(&self, delay: Duration, task: impl FnOnce() + 'static) -> Handle {
        let late = match delay {
            Duration::ZERO => delay,
            _ => self.random().within(self.0.options.lateness),
        };
        let at = self.now() + delay + late;
        Handle(Scheduled::Task(self.0.add_due(at, Due::Task(Box::new(task)))))
    }

    fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Handle {
        let mut flow = Flow::new();
        flow.await_(async move {
            future.await;
            Ok::<(), Error>(())
        })
        .named("spawned future");
        let number = self.0.add_flow(flow);
        self.0.wake(number);
        Handle(Scheduled::Flow(number))
    }

    fn cancel(&self, handle: &Handle) {
        match handle.0 {
            Scheduled::Task(moment) => drop(self.0.remove_due(moment)),
            Scheduled::Flow(number) => self.0.abandon(number),
        }
    }

    fn is_valid(&self, handle: &Handle) -> bool {
        match handle.0 {
            Scheduled::Task(moment) => self.0.has_due(moment),
            Scheduled::Flow(flow) => Started { sim: self.clone(), flow }.is_valid(),
        }
    }

    /// The panic of a callback fails the simulation after this turn, as it does in a flow that
    /// [`start`](Self::start) started; an undo that failed is in the [`trace`](Self::trace).
    fn report(&self, error: Error) {
        self.0.report(error);
    }

    fn report_end(&self, error: Error) {
        self.log(format_args!("the flow of a future fails: {error}"));
    }

    fn now(&self) -> Time {
        self.0.now.get()
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("seed", &self.0.seed).field("now", &self.now()).finish()
    }
}
