//! What all flows of a program share: time, the trace, synchronisation objects, templates.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::sync::{ISync, Limiter, Mutex, Section, Throttle, limiter, mutex, throttle};
use asyncsteps_core::{AsyncSteps, StepResult, Template, Time, codes};

use super::branches::{Branches, Watch};
use super::interpret;
use super::program::{FlowSpec, Millis, Program, SyncObject};
use super::schedule::Schedule;
use super::trace::{Event, What};

/// Something that happens at a time of its own.
pub(crate) enum Due {
    Start(Rc<FlowSpec>),
    /// Cancels the flow with this name.
    Cancel(String),
    Act(Box<dyn FnOnce()>),
}

pub(crate) struct World {
    pub(crate) now: Cell<Time>,
    pub(crate) events: RefCell<Vec<Event>>,
    /// In the order of their time; the number keeps the order of those at the same time.
    pub(crate) timers: RefCell<BTreeMap<(Time, usize), Due>>,
    armed: Cell<usize>,
    objects: BTreeMap<String, Object>,
    pub(crate) templates: BTreeMap<String, Template>,
    pub(crate) children: BTreeMap<String, Rc<FlowSpec>>,
    pub(crate) schedule: RefCell<Schedule>,
}

/// The name and the world of a flow: what its steps find by its type.
#[derive(Clone)]
pub(crate) struct Inhabitant {
    pub(crate) flow: Rc<str>,
    pub(crate) world: Rc<World>,
    branches: Rc<RefCell<Branches>>,
}

enum Object {
    Mutex(Mutex),
    Throttle(Throttle),
    Limiter(Limiter),
}

/// A synchronisation object by its name: flows find it in their own world, so that templates can
/// name it from any thread.
#[derive(Clone)]
pub(crate) struct Named(pub(crate) Arc<str>);

impl World {
    pub(crate) fn new(program: &Program, schedule: Schedule) -> Self {
        let mut templates = BTreeMap::new();
        for (name, model) in &program.templates.0 {
            let template = interpret::template(model, &templates);
            templates.insert(name.clone(), template);
        }
        let objects = program.sync.iter().map(|(name, kind)| (name.clone(), Object::new(*kind)));
        let children = program
            .children
            .iter()
            .map(|(id, flow)| (id.clone(), Rc::new(FlowSpec { id: id.clone(), ..flow.clone() })));
        Self {
            now: Cell::new(Time::ZERO),
            events: RefCell::default(),
            timers: RefCell::default(),
            armed: Cell::new(0),
            objects: objects.collect(),
            templates,
            children: children.collect(),
            schedule: RefCell::new(schedule),
        }
    }

    /// Has something happen that much later, or a little after it.
    pub(crate) fn after(&self, delay: Millis, due: Due) {
        let late = match delay.0 {
            0 => Millis(0),
            _ => self.schedule.borrow_mut().lateness(),
        };
        let at = self.now.get() + delay.into() + late.into();
        let number = self.armed.replace(self.armed.get() + 1);
        self.timers.borrow_mut().insert((at, number), due);
    }
}

impl Inhabitant {
    /// The one that the running flow belongs to.
    pub(crate) fn of(asi: &AsyncSteps) -> Self {
        asi.extension::<Self>().expect("every flow of a program has one").clone()
    }

    pub(crate) fn new(flow: &str, world: &Rc<World>) -> Self {
        let branches = Rc::new(RefCell::new(Branches::new()));
        Self { flow: flow.into(), world: Rc::clone(world), branches }
    }

    /// What keeps the paths of the branches.
    pub(crate) fn watch(&self) -> Watch {
        Watch(Rc::clone(&self.branches))
    }

    /// The path of a branch of this flow.
    pub(crate) fn path(&self, branch: u32) -> Arc<str> {
        self.branches.borrow().path(branch)
    }

    /// Names the branch whose step is running.
    pub(crate) fn enter_branch(asi: &mut AsyncSteps, name: &str) {
        let branch = asi.identity().branch;
        Self::of(asi).branches.borrow_mut().name(branch, name);
    }

    pub(crate) fn emit(&self, path: &str, what: What) {
        let t = u64::try_from(self.world.now.get().since_epoch().as_millis()).ok();
        let event = Event { f: self.flow.to_string(), p: path.to_owned(), t, what };
        self.world.events.borrow_mut().push(event);
    }
}

impl Object {
    fn new(kind: SyncObject) -> Self {
        match kind {
            SyncObject::Mutex { max, max_queue } => {
                Self::Mutex(Mutex::new(mutex::Options { max, max_queue }))
            }
            SyncObject::Throttle { max, period, max_queue } => {
                let period = period.into();
                Self::Throttle(Throttle::new(throttle::Options { max, period, max_queue }))
            }
            SyncObject::Limiter { concurrent, max_queue, rate, period, burst } => {
                Self::Limiter(Limiter::new(limiter::Options {
                    concurrent,
                    max_queue: Some(max_queue),
                    rate,
                    period: period.into(),
                    burst: Some(burst),
                }))
            }
        }
    }
}

impl ISync for Named {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        let world = Inhabitant::of(asi).world;
        match world.objects.get(&*self.0) {
            Some(Object::Mutex(mutex)) => mutex.sync(asi, section),
            Some(Object::Throttle(throttle)) => throttle.sync(asi, section),
            Some(Object::Limiter(limiter)) => limiter.sync(asi, section),
            None => asi.error(codes::INVOKER_ERROR, format!("no object {}", self.0)),
        }
    }
}
