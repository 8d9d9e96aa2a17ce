//! A host in virtual time: it runs what is ready, then moves the clock (FORMAT.md, section 5).

use std::collections::VecDeque;
use std::mem;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use asyncsteps_core::{Execution, Outcome, Progress, Time};
use serde_json::{Map, Value};

use super::interpret;
use super::program::{FlowSpec, Program, Via};
use super::schedule::Schedule;
use super::trace::{Ending, Trace};
use super::value::{info_value, values};
use super::world::{Due, Inhabitant, World};

/// No program lasts longer than 4 s; a flow that never ends is found out before the sun sets.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Host {
    world: Rc<World>,
    flows: Vec<Running>,
    ready: Arc<Ready>,
}

struct Running {
    id: String,
    via: Via,
    execution: Execution,
    waker: Waker,
    wake_at: Option<Time>,
    outcome: Option<Outcome>,
}

/// The flows that can go on, each at most once.
#[derive(Default)]
struct Ready(Mutex<VecDeque<usize>>);

struct WakeFlow {
    ready: Arc<Ready>,
    flow: usize,
}

impl Wake for WakeFlow {
    fn wake(self: Arc<Self>) {
        self.ready.push(self.flow);
    }
}

impl Ready {
    fn push(&self, flow: usize) {
        let mut ready = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !ready.contains(&flow) {
            ready.push_back(flow);
        }
    }

    fn take(&self, choose: impl FnOnce(usize) -> usize) -> Option<usize> {
        let mut ready = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = choose(ready.len());
        ready.remove(at)
    }
}

/// Runs a program to its end.
pub(crate) fn run(program: &Program, schedule: Schedule) -> Trace {
    let world = Rc::new(World::new(program, schedule));
    for flow in &program.flows {
        world.after(flow.start_at, Due::Start(Rc::new(flow.clone())));
    }
    let mut host = Host { world, flows: Vec::new(), ready: Arc::default() };
    while host.run_ready() && host.advance() {}
    host.finish()
}

impl Host {
    /// Runs flows until all of them wait or are over; `false` after too long a time.
    fn run_ready(&mut self) -> bool {
        let world = Rc::clone(&self.world);
        while let Some(at) = self.ready.take(|count| world.schedule.borrow_mut().pick(count)) {
            let flow = &mut self.flows[at];
            if flow.outcome.is_some() {
                continue;
            }
            match flow.execution.run(world.now.get(), &flow.waker) {
                Progress::Done(outcome) => flow.outcome = Some(outcome),
                Progress::Ready => self.ready.push(at),
                Progress::Waiting => {}
            }
            let late = Duration::from(world.schedule.borrow_mut().lateness());
            flow.wake_at = flow.execution.deadline().map(|at| at.max(world.now.get()) + late);
            for launched in flow.execution.take_launched() {
                self.execute(launched.execute(), Via::Execute);
            }
        }
        world.now.get() < Time::ZERO + LIMIT
    }

    /// Goes to the next point in time at which something happens; `false` if nothing is left.
    fn advance(&mut self) -> bool {
        let timer = self.world.timers.borrow().first_key_value().map(|((at, _), _)| *at);
        let waking = self.flows.iter().filter_map(|flow| flow.wake_at).min();
        let Some(next) = timer.into_iter().chain(waking).min() else { return false };
        self.world.now.set(next.max(self.world.now.get()));
        for (at, flow) in self.flows.iter_mut().enumerate() {
            if flow.wake_at.is_some_and(|at| at <= next) {
                flow.wake_at = None;
                self.ready.push(at);
            }
        }
        while let Some(due) = self.due(next) {
            match due {
                Due::Start(spec) => self.start(&spec),
                Due::Cancel(id) => self.cancel(&id),
                Due::Act(act) => act(),
            }
        }
        true
    }

    fn due(&self, now: Time) -> Option<Due> {
        let mut timers = self.world.timers.borrow_mut();
        let first = timers.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    fn start(&mut self, spec: &FlowSpec) {
        let of = Inhabitant::new(&spec.id, &self.world);
        let enclosed = self.world.schedule.borrow_mut().pick(2) == 1;
        self.execute(interpret::flow(spec, &of, enclosed).execute(), spec.via);
        if let Some(after) = spec.cancel_at {
            self.world.after(after, Due::Cancel(spec.id.clone()));
        }
    }

    fn execute(&mut self, mut execution: Execution, via: Via) {
        let flow = self.flows.len();
        let waker = Waker::from(Arc::new(WakeFlow { ready: Arc::clone(&self.ready), flow }));
        let id = execution.extension_mut::<Inhabitant>().map(|of| of.flow.to_string());
        let id = id.expect("every flow of a program has a name");
        self.flows.push(Running { id, via, execution, waker, wake_at: None, outcome: None });
        self.ready.push(flow);
    }

    /// At once or by a message, which is the same for the flow.
    fn cancel(&mut self, id: &str) {
        let by_message = self.world.schedule.borrow_mut().pick(2) == 1;
        let flow = self.flows.iter_mut().find(|flow| flow.id == id && flow.outcome.is_none());
        let Some(flow) = flow else { return };
        if by_message {
            flow.execution.canceller().cancel();
            return;
        }
        flow.execution.cancel();
        flow.wake_at = None;
        flow.outcome = Some(Outcome::Cancelled);
    }

    fn finish(self) -> Trace {
        let events = mem::take(&mut *self.world.events.borrow_mut());
        let flows = self.flows.into_iter().map(|flow| (flow.id.clone(), flow.ending()));
        Trace { events, flows: flows.collect() }
    }
}

impl Running {
    fn ending(mut self) -> Ending {
        let state = self.state();
        match self.outcome.take() {
            Some(Outcome::Success(args)) => {
                let mut args = values(args).unwrap_or_default();
                if self.via == Via::Promise {
                    args.truncate(1);
                }
                Ending::Success { args, state }
            }
            Some(Outcome::Error(error)) => {
                let info = info_value(error.info());
                Ending::Error { code: error.code().to_owned(), info, state }
            }
            Some(Outcome::Cancelled) => Ending::Cancelled,
            None => Ending::Pending,
        }
    }

    fn state(&self) -> Map<String, Value> {
        let state = self.execution.state();
        let value = |name: &str| Some((name.to_owned(), state.get::<Value>(name)?.clone()));
        state.names().filter_map(value).collect()
    }
}
