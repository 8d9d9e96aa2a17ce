//! The context that goes from step to step, whatever service and parameters its function has: so the plan is compiled
//! once, and not for each function.

use std::any::{Any, TypeId};
use std::cell::{OnceCell, RefCell};
use std::fmt::{self, Write as _};
use std::iter;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use asyncsteps_actors::sync::CallerFences;
use asyncsteps_actors::{clock, random};
use asyncsteps_core::{AsyncSteps, Error};
use serde_json::Value;

use super::around::Around;
use super::place::{Inside, StepId, write_step};
use super::recorded::{Host, RecordedLevel, RecordedStep};
use crate::executor::{InboxGuard, RequestSteps, Sent, ServedRequest};
use crate::raw::Head;
use crate::recorder::{DefinedStep, ErrorsOfService, Form, OfRequest as Recorded, StepRecorder};

/// The input of steps: the context of the step before them, and its result.
pub(super) type With<A> = (Context, A);

/// The context of a step in a request.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) request: Rc<OfRequest>,
    around: Option<Rc<Around>>,
    /// `None` for the function as a whole.
    pub(super) step: Option<Arc<StepId>>,
    /// The step as the host of the request records it, if it does.
    recorded: Option<Rc<RecordedStep>>,
    attempt: u32,
    key: OnceCell<Box<str>>,
}

/// The state that all steps of a request share.
pub(super) struct OfRequest {
    /// The parameters, as the type that the function has.
    params: Rc<dyn Any>,
    /// The state of the service.
    pub(super) service: Arc<dyn Any + Send + Sync>,
    pub(super) served: ServedRequest,
    /// Made when it is first asked for.
    id: OnceCell<Box<str>>,
    /// Its signals, if it takes some and no host records it.
    inbox: Option<InboxGuard>,
    /// The signals that were taken in items of races, and around which step.
    taken: RefCell<Vec<(Rc<Around>, Sent)>>,
    /// The values that the request keeps for its steps, by type.
    state: RefCell<Vec<(TypeId, Rc<dyn Any>)>>,
    pub(super) head: RefCell<Option<Box<Head>>>,
    /// Where the application passed the function to the executor.
    source: &'static Location<'static>,
    /// Records the request.
    host: Option<Host>,
}

/// A value that the steps of a request find as [`Cx::state`](super::Cx::state) of its type, without making it: from the
/// [front](crate::Functions::on_behind) of its function, which attaches it to the flow with
/// [`extend`](AsyncSteps::extend) before it adds the [own steps](crate::RequestInfo::own_steps) of the function.
#[derive(Clone, derive_more::Debug)]
#[debug("GivenState {{ .. }}")]
pub struct GivenState {
    of: TypeId,
    value: Rc<dyn Any>,
}

impl GivenState {
    /// This value.
    #[must_use]
    pub fn new<T: 'static>(value: Rc<T>) -> Self {
        Self { of: TypeId::of::<T>(), value }
    }
}

/// What the context of a request needs of its function.
pub(super) struct OfFunction {
    pub(super) service: Arc<dyn Any + Send + Sync>,
    pub(super) errors: ErrorsOfService,
    pub(super) source: &'static Location<'static>,
    pub(super) takes_signals: bool,
    /// A host carries its requests out.
    pub(super) is_hosted: bool,
}

impl Context {
    /// The context of the request that the flow serves.
    pub(super) fn of_request(
        asi: &AsyncSteps,
        params: Rc<dyn Any>,
        function: &OfFunction,
    ) -> Result<Self, Error> {
        let info = asi.request()?;
        let OfFunction { service, errors, source, takes_signals, is_hosted } = function;
        let host = asi.extension::<Recorded>().map(|Recorded(request)| Host {
            request: Rc::clone(request),
            function: request.step(Rc::new(DefinedStep::new(
                (Vec::new(), 0),
                None,
                source,
                (Form::Nested, *errors),
            ))),
            level: OnceCell::new(),
        });
        let id = host.as_ref().map(|host| Box::from(host.request.id()));
        let id = id.map_or_else(OnceCell::new, OnceCell::from);
        let takes_signals = *takes_signals && host.is_none();
        let executor = takes_signals.then(|| info.executor());
        let inbox =
            executor.map(|executor| executor.takes_signals(id.get_or_init(|| random::id().into())));
        Ok(Self {
            request: Rc::new(OfRequest {
                params,
                service: Arc::clone(service),
                // no step is around the function, so there are only the fencing tokens of the
                // caller
                served: info.handle().hosted(*is_hosted).with_fences(
                    asi.extension().map(|CallerFences(fences)| fences.clone()).unwrap_or_default(),
                ),
                id,
                inbox,
                taken: RefCell::default(),
                state: RefCell::new(
                    asi.extension()
                        .map(|GivenState { of, value }| (*of, Rc::clone(value)))
                        .into_iter()
                        .collect(),
                ),
                head: RefCell::default(),
                source,
                host,
            }),
            around: None,
            step: None,
            recorded: None,
            attempt: 1,
            key: OnceCell::new(),
        })
    }

    /// The parameters, as their type.
    pub(super) fn params_ref<P: 'static>(&self) -> &P {
        match self.request.params.downcast_ref() {
            Some(params) => params,
            None => unreachable!("the steps of a function have the parameters of the function"),
        }
    }

    /// The same, shared.
    pub(super) fn params<P: 'static>(&self) -> Rc<P> {
        match Rc::clone(&self.request.params).downcast() {
            Ok(params) => params,
            Err(_) => unreachable!("the steps of a function have the parameters of the function"),
        }
    }

    /// Which attempt of the step this is, from 1.
    pub(super) fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The value of this type that the steps of the request share; `new` makes it when it is first asked for.
    pub(super) fn state<T: 'static>(&self, new: impl FnOnce() -> T) -> Rc<T> {
        let is_of_type = |(id, _): &&(TypeId, Rc<dyn Any>)| *id == TypeId::of::<T>();
        let known =
            self.request.state.borrow().iter().find(is_of_type).map(|(_, it)| Rc::clone(it));
        if let Some(Ok(known)) = known.map(Rc::downcast) {
            return known;
        }
        let made = Rc::new(new());
        self.request.state.borrow_mut().push((TypeId::of::<T>(), Rc::<T>::clone(&made)));
        made
    }

    /// See [`Cx::now`](super::Cx::now).
    pub(super) fn now(&self) -> SystemTime {
        let of_step = self.recorded.as_ref();
        let of_step = of_step.map(|step| step.memory.now(&step.path_of(1, None)));
        let of_level = || self.level().map(|level| level.around.now(&level.path));
        of_step.or_else(of_level).unwrap_or_else(clock::wall)
    }

    /// See [`Cx::key`](super::Cx::key).
    pub(super) fn key(&self) -> &str {
        self.key.get_or_init(|| {
            let id = self.id();
            let function = self.request.served.function();
            let mut key = format!("{id}-{}-", function.func());
            let written =
                Around::write(self.around.as_ref(), &mut key).and_then(|()| match self.name() {
                    Some(name) => write_step(name, &mut key),
                    None => key.write_str(function.func()),
                });
            match written {
                Ok(()) => key.into(),
                Err(fmt::Error) => unreachable!("a string takes what is written"),
            }
        })
    }

    /// See [`Cx::id`](super::Cx::id).
    pub(super) fn id(&self) -> &str {
        self.request.id.get_or_init(|| random::id().into())
    }

    /// Closes the inbox for signals when the running step fails, which is the function as a whole: what it did is undone
    /// then.
    pub(super) fn close_inbox_at_end(&self, asi: &mut AsyncSteps) {
        if let Some(inbox) = &self.request.inbox {
            let inbox = Arc::clone(inbox.inbox());
            asi.set_cancel(move |_| inbox.close());
        }
    }

    /// Waits for a signal of this name, no longer than `within`.
    pub(super) async fn signal(
        &self,
        name: &str,
        within: Option<Duration>,
    ) -> Result<Value, Error> {
        let inbox = self.request.inbox.as_ref().ok_or_else(|| {
            let info =
                "the request takes no signals, because its plan has no step that waits for one";
            Error::unexpected(info)
        })?;
        let Some(sent) = inbox.take(name, within).await else { return Ok(Value::Null) };
        if let Some(around) = self.around.as_ref().filter(|around| around.is_in_item()) {
            self.request.taken.borrow_mut().push((Rc::clone(around), sent.clone()));
        }
        Ok(sent.value)
    }

    /// The item of a race of which this is the context has lost: the signals that its steps took are there again.
    pub(super) fn give_back_signals(&self) {
        let Some((inbox, item)) = self.request.inbox.as_ref().zip(self.around.as_ref()) else {
            return;
        };
        let is_of_item = |(around, _): &mut (Rc<Around>, Sent)| {
            let mut outer = iter::successors(Some(&*around), |around| around.outer.as_ref());
            outer.any(|around| Rc::ptr_eq(around, item))
        };
        let taken: Vec<_> = self.request.taken.borrow_mut().extract_if(.., is_of_item).collect();
        inbox.put_back(taken.into_iter().map(|(_, sent)| sent));
    }

    /// The context of this step, which is reached after others.
    pub(super) fn at(mut self, step: &Arc<StepId>) -> Self {
        let depth = step.depth();
        while let Some(around) = self.around.take() {
            if around.depth <= depth {
                self.around = Some(around);
                break;
            }
            self.around = around.outer.clone();
        }
        if self.request.host.is_some() {
            self.recorded = self.level().and_then(|level| level.find(step));
        }
        self.step = Some(Arc::clone(step));
        self.attempt = 1;
        self.key.take();
        self
    }

    /// The name of the step and its number among steps of that name, as the host of the request knows them.
    fn name(&self) -> Option<(&'static str, usize)> {
        let recorded = self.recorded.as_ref().map(|step| step.name());
        recorded.or_else(|| self.step.as_ref().map(|step| step.numbered()))
    }

    /// The host of the request, if one records it.
    pub(super) fn host(&self) -> Option<&Host> {
        self.request.host.as_ref()
    }

    /// The step as the host of the request records it.
    pub(super) fn recorded(&self) -> Option<&Rc<RecordedStep>> {
        self.recorded.as_ref()
    }

    /// The host's recorder of the step, or of the steps that it is a part of.
    pub(super) fn recorder(&self) -> Option<Rc<dyn StepRecorder>> {
        let of_step = self.recorded.as_ref().map(|step| Rc::clone(&step.memory));
        of_step.or_else(|| self.level().map(|level| Rc::clone(&level.around)))
    }

    /// The steps of the same level as the step, if a host records them.
    pub(super) fn level(&self) -> Option<&Rc<RecordedLevel>> {
        let host = self.host()?;
        let around = iter::successors(self.around.as_deref(), |around| around.outer.as_deref());
        around.filter_map(|around| around.recorded.as_ref()).next().or_else(|| host.level.get())
    }

    /// The steps that are directly around the step, if a host records them.
    pub(super) fn own_level(&self) -> Option<&Rc<RecordedLevel>> {
        self.around.as_ref()?.recorded.as_ref()
    }

    /// The context of an attempt of the step.
    pub(super) fn in_attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// The context of the steps inside of this attempt of the step, which the host of the request records like this. A
    /// group without a name has no part in keys.
    pub(super) fn inside(
        mut self,
        has_undo: bool,
        inside: Option<Inside>,
        recorded: Option<Rc<RecordedLevel>>,
    ) -> Self {
        let (source, depth, step) = (self.source(), 1 + self.depth(), self.name());
        let is_named = self.step.take().is_some_and(|step| !step.name.is_empty());
        let step = step.filter(|_| is_named);
        let (outer, attempt) = (self.around.take(), self.attempt);
        let around = Around { outer, step, source, attempt, has_undo, inside, depth, recorded };
        self.around = Some(Rc::new(around));
        self
    }

    /// Where the application wrote the step.
    pub(super) fn source(&self) -> &'static Location<'static> {
        match (&self.step, &self.around) {
            (Some(step), _) => step.source,
            (None, Some(around)) => around.source,
            (None, None) => self.request.source,
        }
    }

    /// How many steps are around the step.
    pub(super) fn depth(&self) -> usize {
        self.around.as_ref().map_or(0, |around| around.depth)
    }
}
