//! The engine's side: a program as a real flow, hosted by hand in virtual time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use asyncsteps::sync::Mutex;
use asyncsteps::tool::{AsyncTool, Manual};
use asyncsteps::{
    Added, Args, Arguments, AsyncSteps, Completion, Error, Flow, Outcome, Parallel, Progress,
    StepResult, Time,
};

use super::program::{
    self, Body, COUNTERS, Decision, End, Handler, Id, Kind, Late, Leave, Loop, NEVER, Node,
    Outside, Pause, Program, Step, Story, Takes, Wait, counter,
};

fn at(nanos: u64) -> Time {
    Time::from_epoch(Duration::from_nanos(nanos))
}

fn nanos(at: Time) -> u64 {
    u64::try_from(at.since_epoch().as_nanos()).expect("programs are short")
}

/// What all steps of a program share.
struct World {
    now: Cell<u64>,
    /// What comes from outside, and when.
    outside: Manual,
    events: RefCell<Vec<(u64, String)>>,
    mutexes: RefCell<BTreeMap<Id, Mutex>>,
}

/// The world as the steps of one branch see it; 0 is the root.
#[derive(Clone)]
struct Here {
    world: Rc<World>,
    branch: Id,
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
    let outcome = loop {
        match execution.run(at(world.now.get()), Waker::noop()) {
            Progress::Done(outcome) => break outcome,
            Progress::Ready => continue,
            Progress::Waiting => {}
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
    drop(execution);
    for mutex in world.mutexes.borrow().values() {
        assert_eq!((mutex.holders(), mutex.queued()), (0, 0), "a lock is still held");
    }
    let ending = match outcome {
        Outcome::Success(args) => format!("success {:?}", values(args)),
        Outcome::Error(error) => program::shown(error.code(), error.info()),
        Outcome::Cancelled => "cancelled".to_owned(),
    };
    Story { events: world.events.take(), ending, ended_at: world.now.get(), counts }
}

fn args(values: &[i64]) -> Args {
    match *values {
        [] => ().into_args(),
        [one] => one.into_args(),
        [one, two] => (one, two).into_args(),
        _ => unreachable!("programs use up to two"),
    }
}

fn values(args: Args) -> Vec<i64> {
    match args.len() {
        0 => Vec::new(),
        1 => args.into_typed::<i64>().map(|one| vec![one]).expect("one number"),
        _ => args.into_typed::<(i64, i64)>().map(|(a, b)| vec![a, b]).expect("two numbers"),
    }
}

impl Here {
    fn log(&self, event: String) {
        self.world.events.borrow_mut().push((self.world.now.get(), event));
    }

    /// Has something happen outside at the end of a pause that begins now.
    fn after(&self, pause: Pause, act: impl FnOnce() + 'static) {
        let now = self.world.now.get();
        self.world.outside.deferred(Duration::from_nanos(pause.end(now) - now), act);
    }

    fn mutex(&self) -> Mutex {
        self.world.mutexes.borrow_mut().entry(self.branch).or_default().clone()
    }

    fn add(&self, asi: &mut AsyncSteps, nodes: Vec<Node>) {
        for node in nodes {
            self.add_node(asi, node);
        }
    }

    fn add_node(&self, asi: &mut AsyncSteps, node: Node) {
        let here = self.clone();
        match node {
            Node::Step(Step { id, takes, body, handler }) => {
                let added = asi.add(move |asi, args: Args| here.step(asi, args, id, takes, body));
                self.handled(added, handler);
            }
            Node::Sync(Step { id, takes, body, handler }) => {
                let added = asi.sync(&self.mutex(), move |asi, args: Args| {
                    here.step(asi, args, id, takes, body)
                });
                self.handled(added, handler);
            }
            Node::Parallel { branches, handler } => {
                // with a whole turn before them, all branches start before one of them goes on
                asi.add(|asi, ()| asi.relinquish());
                let added = asi.parallel(|parallel| self.add_branches(parallel, branches));
                self.handled(added, handler);
            }
            Node::Loop(looped) => self.add_loop(asi, looped),
            Node::Result(result) => {
                asi.success_step(args(&result));
            }
            Node::Await { wait, handler } => {
                let added = asi.await_(Awaited { here, wait, state: Awaiting::New });
                self.handled(added, handler);
            }
        }
    }

    fn add_branches(&self, parallel: &mut Parallel, branches: Vec<Step>) {
        for Step { id, takes, body, handler } in branches {
            let here = Self { branch: id, ..self.clone() };
            let inside = here.clone();
            let added =
                parallel.add(move |asi, ()| inside.step(asi, Args::none(), id, takes, body));
            here.handled(added, handler);
        }
    }

    fn add_loop(&self, asi: &mut AsyncSteps, looped: Loop) {
        let Loop { id, label, kind, count, body } = looped;
        let here = self.clone();
        let iteration = move |asi: &mut AsyncSteps, i: usize| {
            here.log(format!("@{id} {i}"));
            here.body(asi, id, body.clone())
        };
        let mut added = match kind {
            Kind::Repeat => asi.repeat(count, iteration),
            Kind::ForEach => {
                let list: Vec<usize> = (0..count).collect();
                asi.for_each(list, move |asi, key, value| {
                    assert_eq!(key, value);
                    iteration(asi, value)
                })
            }
            Kind::Endless => {
                let (here, mut numbers) = (self.clone(), 0..);
                asi.make_loop(move |asi| match numbers.next() {
                    Some(i) if i < count => iteration(asi, i),
                    _ => {
                        here.log(format!("@{id} {count}"));
                        asi.break_loop(None)
                    }
                })
            }
        };
        if let Some(label) = label {
            added.label(label);
        }
    }

    /// Sets the handler of a step that was just added.
    fn handled(&self, mut added: Added<'_>, handler: Option<Handler>) {
        let here = self.clone();
        if let Some(handler) = handler {
            added.on_error(move |asi, error| here.handle(asi, error, handler));
        }
    }

    fn step(
        &self,
        asi: &mut AsyncSteps,
        args: Args,
        id: Id,
        takes: Takes,
        body: Body,
    ) -> StepResult {
        let taken = match takes {
            Takes::Anything => values(args),
            Takes::Nothing => args.into_typed::<()>().map(|()| Vec::new())?,
            Takes::One => args.into_typed::<i64>().map(|one| vec![one])?,
            Takes::Two => args.into_typed::<(i64, i64)>().map(|(a, b)| vec![a, b])?,
        };
        self.log(format!(">{id} {}", takes.shown(&taken)));
        self.body(asi, id, body)
    }

    fn body(&self, asi: &mut AsyncSteps, id: Id, body: Body) -> StepResult {
        if let Some(limit) = body.limit {
            let now = self.world.now.get();
            asi.set_timeout(Duration::from_nanos(limit.end(now) - now));
        }
        if body.cancel {
            let here = self.clone();
            asi.set_cancel(move |_| here.log(format!("x{id}")));
        }
        if body.value {
            let _ = asi.stack(Kept { here: self.clone(), id });
        }
        if body.count {
            let count = asi.state_mut().get_mut::<i64>(&counter(id).to_string());
            *count.expect("set at the start") += 1;
        }
        match body.end {
            End::Return => Ok(()),
            End::Success(result) => asi.success(args(&result)),
            End::Error(info) => asi.error(program::code(id), program::info(id, info)),
            // without the hook, which would print it
            End::Panic => resume_unwind(Box::new("a panic of the program")),
            End::Leave(Leave { again, label }) => leave(asi, again, label),
            End::Wait(wait) => {
                self.wait(asi, wait);
                Ok(())
            }
            End::Until(pause) => {
                asi.wait_until(at(pause.end(self.world.now.get())));
                Ok(())
            }
            End::Steps(nodes) => {
                self.add(asi, nodes);
                Ok(())
            }
            End::StepsAnd(nodes, late) => {
                self.add(asi, nodes);
                too_late(asi, late)
            }
            End::SuccessAnd(late) => {
                asi.success(())?;
                if let Late::Add = late {
                    asi.success_step(());
                }
                too_late(asi, late)
            }
        }
    }

    fn wait(&self, asi: &mut AsyncSteps, Wait { pause, result }: Wait) {
        let done = asi.wait_external();
        self.after(pause, move || {
            // the step may be over by then
            let _ = match result {
                Outside::Success(values) => succeed(&done, &values),
                Outside::Error(info) => {
                    done.error(program::code(pause.id), program::info(pause.id, info))
                }
                Outside::Abandoned => Ok(()),
            };
        });
    }

    fn handle(&self, asi: &mut AsyncSteps, error: &Error, handler: Handler) -> StepResult {
        let Handler { id, end } = handler;
        assert_eq!(asi.error_info(), error.info(), "the last error is the one that is handled");
        self.log(format!("!{id} {}", program::shown(error.code(), error.info())));
        match end {
            Decision::Silent => Ok(()),
            Decision::Success(values) => asi.success(args(&values)),
            Decision::Error(info) => asi.error(program::code(id), program::info(id, info)),
            Decision::Steps(nodes) => {
                self.add(asi, nodes);
                Ok(())
            }
            Decision::Leave(Leave { again, label }) => leave(asi, again, label),
            Decision::Panic => resume_unwind(Box::new("a panic of the program")),
            Decision::Wait => {
                drop(asi.wait_external());
                Ok(())
            }
            Decision::StepsAndSuccess => {
                asi.success_step(());
                asi.success(())
            }
        }
    }
}

fn succeed(done: &Completion, values: &[i64]) -> Result<(), asyncsteps::Stale> {
    match *values {
        [] => done.success(()),
        [one] => done.success(one),
        [one, two] => done.success((one, two)),
        _ => unreachable!("programs use up to two"),
    }
}

fn leave(asi: &mut AsyncSteps, again: bool, label: Option<&str>) -> StepResult {
    if again { asi.continue_loop(label) } else { asi.break_loop(label) }
}

fn too_late(asi: &mut AsyncSteps, late: Late) -> StepResult {
    match late {
        Late::Success => asi.success(()),
        Late::Error => asi.error("Late", ()),
        Late::Add => Ok(()),
        Late::Leave(Leave { again, label }) => leave(asi, again, label),
    }
}

/// A value with the lifetime of a step.
struct Kept {
    here: Here,
    id: Id,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.here.log(format!("-{}", self.id));
    }
}

/// A future that is ready at its time; an abandoned one never is.
struct Awaited {
    here: Here,
    wait: Wait,
    state: Awaiting,
}

enum Awaiting {
    New,
    Until(u64),
    Over,
}

impl Future for Awaited {
    type Output = Result<Args, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let now = self.here.world.now.get();
        let Wait { pause, .. } = self.wait;
        match self.state {
            Awaiting::Until(end) if now >= end => {}
            Awaiting::Until(_) => return Poll::Pending,
            Awaiting::New => {
                let abandoned = matches!(self.wait.result, Outside::Abandoned);
                self.state = Awaiting::Until(if abandoned { u64::MAX } else { pause.end(now) });
                let waker = cx.waker().clone();
                self.here.after(pause, move || waker.wake());
                return Poll::Pending;
            }
            Awaiting::Over => unreachable!("it was ready before"),
        }
        self.state = Awaiting::Over;
        Poll::Ready(match &self.wait.result {
            Outside::Success(values) => Ok(args(values)),
            Outside::Error(info) => {
                let info = program::info(pause.id, *info);
                Err(Error::with_info(program::code(pause.id), info))
            }
            Outside::Abandoned => unreachable!("it is never ready"),
        })
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if let Awaiting::Until(_) = self.state {
            self.here.log(format!("~{}", self.wait.pause.id));
        }
    }
}
