//! The context of a step in a request, whatever service and parameters its function has: so the plan is compiled once, and
//! not for each function.

use std::any::{Any, TypeId};
use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use asyncsteps_actors::clock;
use asyncsteps_core::{AsyncSteps, Error};
use serde_json::Value;

use super::around::Around;
use super::of_request::OfRequest;
use super::place::{StepId, write_step};
use super::recorded::{Host, RecordedLevel};
use crate::recorder::{Part, RecordedStep, StepRecorder, Sublevel};

/// The context of a step in a request.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) around: Rc<Around>,
    pub(super) step: Arc<StepId>,
    /// The recorder of the step, if the host of the request records it.
    recorded: Option<Rc<dyn StepRecorder>>,
    attempt: u32,
    key: OnceCell<Box<str>>,
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
        let recorded = around.level().and_then(|level| level.find(step));
        let recorded = recorded.map(|step| Rc::clone(&step.recorder));
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
        let of_step = of_step.map(|step| step.now(&Sublevel::of(1)));
        let of_level = || self.around.level().map(|level| level.around.now(&level.at));
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
        let recorded = || self.around.level()?.find(&self.step);
        recorded().map_or_else(|| self.step.numbered(), |RecordedStep { name, .. }| *name)
    }

    /// The host of the request, if one records it.
    pub(super) fn host(&self) -> Option<&Host> {
        self.request().host.as_ref()
    }

    /// The recorder of the step, if the host of the request records it.
    pub(super) fn recorded(&self) -> Option<&Rc<dyn StepRecorder>> {
        self.recorded.as_ref()
    }

    /// The host's recorder of the step, or of the steps that it is a part of.
    pub(super) fn recorder(&self) -> Option<Rc<dyn StepRecorder>> {
        let of_level = || self.around.level().map(|level| Rc::clone(&level.around));
        self.recorded.clone().or_else(of_level)
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
        part: Option<Part>,
        recorded: Option<Rc<RecordedLevel>>,
    ) -> Rc<Around> {
        Rc::new(Around {
            request: Rc::clone(&self.around.request),
            outer: Some(Rc::clone(&self.around)),
            step: (!self.step.name.is_empty()).then(|| self.name()),
            source: self.source(),
            attempt: self.attempt,
            has_undo,
            part,
            recorded,
            taken: RefCell::default(),
        })
    }

    /// Where the application wrote the step.
    pub(super) fn source(&self) -> &'static Location<'static> {
        self.step.source
    }
}
