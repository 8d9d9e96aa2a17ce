//! The context that the bodies of a plan get: the state of the service, and facts of request and
//! step.

use std::any::{Any, TypeId, type_name};
use std::cell::{OnceCell, RefCell};
use std::fmt::{self, Write as _};
use std::iter;
use std::ops::Deref;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use asyncsteps_actors::sync::{CallerFences, FencingToken};
use asyncsteps_actors::{clock, random};
use asyncsteps_core::{AsyncSteps, Error, codes};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::around::Around;
use super::place::{Inside, StepId, write_step};
use super::recorded::{Host, RecordedLevel, RecordedStep};
use super::service::{Service, errors_of};
use crate::executor::{InboxGuard, RequestSteps, ServedRequest};
use crate::raw::{Head, RawOutput};
use crate::recorder::{DefinedStep, Form, OfRequest as Recorded, StepRecorder};

/// The context that the body of a step gets: the state of the service, to which it dereferences, the
/// parameters, and facts of the request and of the step.
///
/// Cloning shares state and parameters.
#[derive(derive_more::Debug)]
#[debug(
    "Cx {{ service: {:?}, request: {:?}, step: {step:?}, attempt: {attempt:?}, .. }}",
    type_name::<S>(), self.request.served
)]
pub struct Cx<S: Service, P> {
    /// The parameters, checked by the definition.
    pub params: Rc<P>,
    request: Rc<OfRequest<S>>,
    around: Option<Rc<Around>>,
    /// `None` for the function as a whole.
    step: Option<Arc<StepId>>,
    /// The step as the host of the request records it, if it does.
    recorded: Option<Rc<RecordedStep>>,
    attempt: u32,
    key: OnceCell<Box<str>>,
}

/// The state that all steps of a request share.
struct OfRequest<S> {
    service: Arc<S>,
    served: ServedRequest,
    /// Made when it is first asked for.
    id: OnceCell<Box<str>>,
    /// Its signals, if it takes some and no host records it.
    inbox: Option<InboxGuard>,
    /// The tokens of the locks that the caller holds.
    fences: Vec<FencingToken>,
    /// The values that the request keeps for its steps, by type.
    state: RefCell<Vec<(TypeId, Rc<dyn Any>)>>,
    head: RefCell<Option<Box<Head>>>,
    /// Where the application passed the function to the executor.
    source: &'static Location<'static>,
    /// Records the request.
    host: Option<Host>,
}

impl<S: Service, P: DeserializeOwned> Cx<S, P> {
    /// The context of the request that the flow serves.
    pub(super) fn of_request(
        asi: &AsyncSteps,
        service: &Arc<S>,
        source: &'static Location<'static>,
        takes_signals: bool,
    ) -> Result<Self, Error> {
        let info = asi.request()?;
        let host = asi.extension::<Recorded>().map(|Recorded(request)| Host {
            request: Rc::clone(request),
            function: request.step(Rc::new(DefinedStep::new(
                (Vec::new(), 0),
                None,
                source,
                (Form::Nested, errors_of::<S>()),
            ))),
            level: OnceCell::new(),
        });
        let id = host.as_ref().map(|host| Box::from(host.request.id()));
        let id = id.map_or_else(OnceCell::new, OnceCell::from);
        let takes_signals = takes_signals && host.is_none();
        let executor = takes_signals.then(|| info.executor());
        let inbox =
            executor.map(|executor| executor.takes_signals(id.get_or_init(|| random::id().into())));
        Ok(Self {
            params: Rc::new(read(info.params())?),
            request: Rc::new(OfRequest {
                service: Arc::clone(service),
                served: info.handle(),
                id,
                inbox,
                // no step is around the function, so there are only the fencing tokens of the
                // caller
                fences: asi
                    .extension()
                    .map(|CallerFences(fences)| fences.clone())
                    .unwrap_or_default(),
                state: RefCell::default(),
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
}

/// The input of steps: the context of the step before them, and its result.
pub(super) type With<S, P, A> = (Cx<S, P>, A);

impl<S: Service, P> Cx<S, P> {
    /// The request that the function serves.
    #[must_use]
    pub fn request(&self) -> &ServedRequest {
        &self.request.served
    }

    /// The tokens of the locks between machines that the caller of the request holds, for what the function
    /// writes to. Calls that steps make with [`CallSteps`](crate::CallSteps) hand them on; a call in a body
    /// names them with [`Invocation::with_fences`](crate::Invocation::with_fences).
    #[must_use]
    pub fn fences(&self) -> &[FencingToken] {
        &self.request.fences
    }

    /// Which attempt of the step this is, from 1; see [`Retry`](asyncsteps_core::Retry).
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The state that the steps of the request share, one value of each type: `new` makes it when it is first asked for
    /// (FTN12 §2.2.1 `state`).
    ///
    /// ```
    /// # use std::cell::Cell;
    /// # use asyncsteps_executor::{Cx, Returns, Service, Steps};
    /// #[derive(Default)]
    /// struct Asked(Cell<u32>);
    ///
    /// fn count(steps: &Steps<(), ()>) -> Returns<u32> {
    ///     steps
    ///         .run("ask", async |cx, ()| Ok(cx.state(|_| Asked::default()).0.set(1)))
    ///         .then("count", async |cx, ()| Ok(cx.state(|_| Asked::default()).0.get()))
    ///         .returns()
    /// }
    /// ```
    pub fn state<T: 'static>(&self, new: impl FnOnce(&S) -> T) -> Rc<T> {
        let is_of_type = |(id, _): &&(TypeId, Rc<dyn Any>)| *id == TypeId::of::<T>();
        let known =
            self.request.state.borrow().iter().find(is_of_type).map(|(_, it)| Rc::clone(it));
        if let Some(Ok(known)) = known.map(Rc::downcast) {
            return known;
        }
        let made = Rc::new(new(&self.request.service));
        self.request.state.borrow_mut().push((TypeId::of::<T>(), Rc::<T>::clone(&made)));
        made
    }

    /// The head of the answer over HTTP: its status, headers and cookies. It is to be set before the answer begins.
    ///
    /// # Errors
    /// InternalError if the request did not come over HTTP, and what `change` returns.
    pub fn head<T>(&self, change: impl FnOnce(&mut Head) -> Result<T, Error>) -> Result<T, Error> {
        let mut head = self.request.head.borrow_mut();
        if head.is_none() {
            *head = Some(Box::new(self.request.served.head()?));
        }
        head.as_mut().map_or_else(|| unreachable!("it was just made"), |head| change(head))
    }

    /// Answers with raw data of this media type, and with what [`head`](Self::head) has (FTN6 §2.2 `rawOutput`).
    /// The last step returns what this one wrote to, as the result of the function. An error of the function breaks
    /// the answer off. While it is taken, the request's time limit counts from the last chunk, and the client has
    /// at least a minute to take one.
    ///
    /// # Errors
    /// InternalError if the function is not declared with `rawresult`, the answer was sent, or its status has no body.
    pub fn raw_output(&self, content_type: &str) -> Result<RawOutput, Error> {
        self.head(|head| head.set_header("content-type", content_type).map(|_| ()))?;
        self.request.served.open_output(self.request.head.take())
    }

    /// The head of the answer, if a step has set it and it was not sent.
    pub(super) fn take_head(&self) -> Option<Box<Head>> {
        self.request.head.take()
    }

    /// The time of day. In a [durable](crate::recorder) request it is recorded when the step first asks for it, and is
    /// the same for all attempts of the step, for its undo, and after a crash. So it may decide which steps run.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        let of_step = self.recorded.as_ref();
        let of_step = of_step.map(|step| step.memory.now(&step.path_of(1, None)));
        let of_level = || self.level().map(|level| level.around.now(&level.path));
        of_step.or_else(of_level).unwrap_or_else(clock::wall)
    }

    /// The idempotency key of the step: send it along with calls of another service, so that the
    /// other side carries them out once. All attempts of the step and its undo have the same key,
    /// other steps, other items and iterations and other requests have other ones.
    ///
    /// If a step with sub-steps is tried again, and some of them can be undone, all of them have new
    /// keys in each attempt: the effects under the old keys are undone. If none of them can be undone,
    /// they keep their keys, so that nothing is carried out twice. So among sub-steps that are tried
    /// again together, either all that have an effect elsewhere can be undone, or none.
    ///
    /// The key is the random id of the request, then the names of the function and of the step, with
    /// the steps around it and a slash between them. A further attempt of one of those has its number
    /// behind a dot, a further step of the same name has its number behind a `~`, and an item or an
    /// iteration behind a `#`.
    #[must_use]
    pub fn key(&self) -> &str {
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

    /// The id of the request: random, and the same for all of its steps and attempts. A [durable](crate::recorder)
    /// request has its uid. Each [key](Self::key) begins with it.
    #[must_use]
    pub fn id(&self) -> &str {
        self.request.id.get_or_init(|| random::id().into())
    }

    /// The signals of the request.
    pub(super) fn inbox(&self) -> Result<&InboxGuard, Error> {
        self.request.inbox.as_ref().ok_or_else(|| {
            let info =
                "the request takes no signals, because its plan has no step that waits for one";
            Error::with_info(codes::INTERNAL_ERROR, info)
        })
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

impl<S: Service, P> Clone for Cx<S, P> {
    fn clone(&self) -> Self {
        Self {
            params: Rc::clone(&self.params),
            request: Rc::clone(&self.request),
            around: self.around.clone(),
            step: self.step.clone(),
            recorded: self.recorded.clone(),
            attempt: self.attempt,
            key: self.key.clone(),
        }
    }
}

impl<S: Service, P> Deref for Cx<S, P> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.request.service
    }
}

/// Reads the parameters of a request; a function without any may take `()`.
pub(crate) fn read<P: DeserializeOwned>(params: &Map<String, Value>) -> Result<P, Error> {
    if params.is_empty()
        && let Ok(nothing) = P::deserialize(Value::Null)
    {
        return Ok(nothing);
    }
    P::deserialize(params).map_err(|error| Error::caused_by(codes::INTERNAL_ERROR, error))
}
