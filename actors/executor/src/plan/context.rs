//! The context of a step in a request, whatever service and parameters its function has: so the plan is compiled once, and
//! not for each function.

use std::any::{Any, TypeId};
use std::cell::{OnceCell, RefCell};
use std::fmt;
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
use crate::executor::{InboxGuard, RequestSteps, ServedRequest};
use crate::recorder::{DefinedStep, ErrorsOfService, Form, OfRequest as Recorded, StepRecorder};

/// The context of a step in a request.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) around: Rc<Around>,
    pub(super) step: Arc<StepId>,
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
    pub(super) inbox: Option<InboxGuard>,
    /// The values that the request keeps for its steps, by type.
    state: RefCell<Vec<(TypeId, Rc<dyn Any>)>>,
    /// Where the application passed the function to the executor.
    pub(super) source: &'static Location<'static>,
    /// Records the request.
    pub(super) host: Option<Host>,
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

impl OfRequest {
    /// The state of the request that the flow serves.
    pub(super) fn new(
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
        let fences = asi.extension().map(|CallerFences(fences)| fences.clone()).unwrap_or_default();
        let state = asi.extension().map(|GivenState { of, value }| (*of, Rc::clone(value)));
        Ok(Self {
            params,
            service: Arc::clone(service),
            // no step is around the function, so there are only the fencing tokens of the caller
            served: info.handle().hosted(*is_hosted).with_fences(fences),
            id,
            inbox,
            state: RefCell::new(state.into_iter().collect()),
            source,
            host,
        })
    }

    /// See [`Cx::id`](super::Cx::id).
    pub(super) fn id(&self) -> &str {
        self.id.get_or_init(|| random::id().into())
    }

    /// Closes the inbox for signals when the running step fails, which is the function as a whole: what it did is undone
    /// then.
    pub(super) fn close_inbox_at_end(&self, asi: &mut AsyncSteps) {
        if let Some(inbox) = &self.inbox {
            let inbox = Arc::clone(inbox.inbox());
            asi.set_cancel(move |_| inbox.close());
        }
    }
}

impl Context {
    /// The context of this step, which the running one is.
    pub(super) fn of_running(asi: &AsyncSteps, step: &Arc<StepId>) -> Self {
        match asi.surroundings() {
            Some(around) => Self::at(around, step),
            None => unreachable!("the function is around its steps"),
        }
    }

    /// The context of this step in these surroundings.
    pub(super) fn at(around: Rc<Around>, step: &Arc<StepId>) -> Self {
        let host = around.request.host.as_ref();
        let recorded = host.and_then(|_| around.level()?.find(step));
        Self { around, step: Arc::clone(step), recorded, attempt: 1, key: OnceCell::new() }
    }

    /// The state that all steps of the request share.
    pub(super) fn request(&self) -> &OfRequest {
        &self.around.request
    }

    /// The parameters, as their type.
    pub(super) fn params_ref<P: 'static>(&self) -> &P {
        match self.request().params.downcast_ref() {
            Some(params) => params,
            None => unreachable!("the steps of a function have the parameters of the function"),
        }
    }

    /// The same, shared.
    pub(super) fn params<P: 'static>(&self) -> Rc<P> {
        match Rc::clone(&self.request().params).downcast() {
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
        let state = &self.request().state;
        let known = state.borrow().iter().find(is_of_type).map(|(_, it)| Rc::clone(it));
        if let Some(Ok(known)) = known.map(Rc::downcast) {
            return known;
        }
        let made = Rc::new(new());
        state.borrow_mut().push((TypeId::of::<T>(), Rc::<T>::clone(&made)));
        made
    }

    /// See [`Cx::now`](super::Cx::now).
    pub(super) fn now(&self) -> SystemTime {
        let of_step = self.recorded.as_ref();
        let of_step = of_step.map(|step| step.memory.now(&step.path_of(1, None)));
        let of_level = || self.around.level().map(|level| level.around.now(&level.path));
        of_step.or_else(of_level).unwrap_or_else(clock::wall)
    }

    /// See [`Cx::key`](super::Cx::key).
    pub(super) fn key(&self) -> &str {
        self.key.get_or_init(|| {
            let request = self.request();
            let mut key = format!("{}-{}-", request.id(), request.served.function().func());
            match self.around.write(&mut key).and_then(|()| write_step(self.name(), &mut key)) {
                Ok(()) => key.into(),
                Err(fmt::Error) => unreachable!("a string takes what is written"),
            }
        })
    }

    /// Waits for a signal of this name, no longer than `within`.
    pub(super) async fn signal(
        &self,
        name: &str,
        within: Option<Duration>,
    ) -> Result<Value, Error> {
        let inbox = self.request().inbox.as_ref().ok_or_else(|| {
            let info =
                "the request takes no signals, because its plan has no step that waits for one";
            Error::unexpected(info)
        })?;
        let Some(sent) = inbox.take(name, within).await else { return Ok(Value::Null) };
        self.around.takes(&sent);
        Ok(sent.value)
    }

    /// The name of the step and its number among steps of that name, as the host of the request knows them.
    fn name(&self) -> (&'static str, usize) {
        self.recorded.as_ref().map_or_else(|| self.step.numbered(), |step| step.name())
    }

    /// The host of the request, if one records it.
    pub(super) fn host(&self) -> Option<&Host> {
        self.request().host.as_ref()
    }

    /// The step as the host of the request records it.
    pub(super) fn recorded(&self) -> Option<&Rc<RecordedStep>> {
        self.recorded.as_ref()
    }

    /// The host's recorder of the step, or of the steps that it is a part of.
    pub(super) fn recorder(&self) -> Option<Rc<dyn StepRecorder>> {
        let of_step = self.recorded.as_ref().map(|step| Rc::clone(&step.memory));
        of_step.or_else(|| self.around.level().map(|level| Rc::clone(&level.around)))
    }

    /// The context of an attempt of the step.
    pub(super) fn in_attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// The surroundings of the steps inside of this attempt of the step, which the host of the request records like this.
    /// A group without a name has no part in keys.
    pub(super) fn inside(
        &self,
        has_undo: bool,
        inside: Option<Inside>,
        recorded: Option<Rc<RecordedLevel>>,
    ) -> Rc<Around> {
        Rc::new(Around {
            request: Rc::clone(&self.around.request),
            outer: Some(Rc::clone(&self.around)),
            step: (!self.step.name.is_empty()).then(|| self.name()),
            source: self.source(),
            attempt: self.attempt,
            has_undo,
            inside,
            recorded,
            taken: RefCell::default(),
        })
    }

    /// Where the application wrote the step.
    pub(super) fn source(&self) -> &'static Location<'static> {
        self.step.source
    }
}
