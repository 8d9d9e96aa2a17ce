//! The engine's side: a program as a real flow, hosted by hand in virtual time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use asyncsteps_core::sync::Mutex;
use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{Args, Arguments, Execution, Flow, Outcome, Progress, Time};

use super::program::{self, COUNTERS, Id, NEVER, Pause, Program, Story};

pub(crate) fn at(nanos: u64) -> Time {
    Time::from_epoch(Duration::from_nanos(nanos))
}

fn nanos(at: Time) -> u64 {
    u64::try_from(at.since_epoch().as_nanos()).expect("programs are short")
}

/// What all steps of a program share.
pub(crate) struct World {
    pub(crate) now: Cell<u64>,
    /// What comes from outside, and when.
    outside: Manual,
    events: RefCell<Vec<(u64, String)>>,
    mutexes: RefCell<BTreeMap<Id, Mutex>>,
}

/// The world as the steps of one branch see it; 0 is the root.
#[derive(Clone)]
pub(crate) struct Here {
    pub(crate) world: Rc<World>,
    pub(crate) branch: Id,
}

/// What the program does.
pub(crate) fn run(program: &Program) -> Story {
    let world = Rc::new(World {
        now: Cell::new(0),
        outside: Manual::new(Time::ZERO),
        events: RefCell::default(),
        mutexes: RefCell::default(),
    });
    let here = Here { world: Rc::clone(&world), branch: 0 };
    let mut flow = Flow::new();
    let nodes = program.steps.clone();
    flow.add(move |asi, ()| here.add(asi, nodes));
    for counter in 0..COUNTERS {
        flow.state_mut().set(counter.to_string(), 0i64);
    }
    let mut execution = flow.execute();
    let mut bodies = Vec::new();
    let outcome = loop {
        match execution.run(at(world.now.get()), Waker::noop()) {
            Progress::Done(outcome) => break outcome,
            Progress::Ready => continue,
            Progress::Waiting => {}
        }
        if world.run(&mut execution, &mut bodies) {
            continue;
        }
        let outside = world.outside.iterate(at(world.now.get()), Waker::noop());
        let next = outside.into_iter().chain(execution.deadline()).min().map_or(NEVER, nanos);
        let cancelled = next > program.cancelled_at() || next == NEVER;
        world.now.set(next.min(program.cancelled_at()));
        if cancelled {
            execution.cancel();
            break Outcome::Cancelled;
        }
        world.outside.iterate(at(world.now.get()), Waker::noop());
    };
    let state = |counter: usize| execution.state().get(&counter.to_string()).copied();
    let counts = std::array::from_fn(|counter| state(counter).expect("set at the start"));
    let ended_at = world.now.get();
    world.run(&mut execution, &mut bodies);
    drop(execution);
    world.end(bodies);
    for mutex in world.mutexes.borrow().values() {
        assert_eq!((mutex.holders(), mutex.queued()), (0, 0), "a lock is still held");
    }
    let ending = match outcome {
        Outcome::Success(args) => format!("success {:?}", values(args)),
        Outcome::Error(error) => program::shown(error.code(), error.info()),
        Outcome::Cancelled => "cancelled".to_owned(),
    };
    Story { events: world.events.take(), ending, ended_at, counts }
}

pub(crate) fn args(values: &[i64]) -> Args {
    match *values {
        [] => ().into_args(),
        [one] => one.into_args(),
        [one, two] => (one, two).into_args(),
        _ => unreachable!("programs use up to two"),
    }
}

pub(crate) fn values(args: Args) -> Vec<i64> {
    match args.len() {
        0 => Vec::new(),
        1 => args.into_typed::<i64>().map(|one| vec![one]).expect("one number"),
        _ => args.into_typed::<(i64, i64)>().map(|(a, b)| vec![a, b]).expect("two numbers"),
    }
}

impl World {
    /// Runs the shielded bodies of a flow; whether one has ended.
    fn run(&self, flow: &mut Execution, bodies: &mut Vec<Execution>) -> bool {
        bodies.extend(flow.take_launched().into_iter().map(Flow::execute));
        let before = bodies.len();
        bodies.retain_mut(|body| {
            !matches!(body.run(at(self.now.get()), Waker::noop()), Progress::Done(_))
        });
        bodies.len() < before
    }

    /// Runs the bodies that the flow has left behind to their end.
    fn end(&self, mut bodies: Vec<Execution>) {
        while !bodies.is_empty() {
            let outside = self.outside.iterate(at(self.now.get()), Waker::noop());
            self.now.set(nanos(outside.expect("a body has an end")));
            self.outside.iterate(at(self.now.get()), Waker::noop());
            bodies.retain_mut(|body| {
                !matches!(body.run(at(self.now.get()), Waker::noop()), Progress::Done(_))
            });
        }
    }
}

impl Here {
    pub(crate) fn log(&self, event: String) {
        self.world.events.borrow_mut().push((self.world.now.get(), event));
    }

    /// Has something happen outside at the end of a pause that begins now.
    pub(crate) fn after(&self, pause: Pause, act: impl FnOnce() + 'static) {
        let now = self.world.now.get();
        self.world.outside.deferred(Duration::from_nanos(pause.end(now) - now), act);
    }

    pub(crate) fn mutex(&self) -> Mutex {
        self.world.mutexes.borrow_mut().entry(self.branch).or_default().clone()
    }
}
