//! The context that the bodies of a plan get: the state of the service, and facts of request and
//! step.

use std::any::type_name;
use std::marker::PhantomData;
use std::ops::Deref;
use std::rc::Rc;
use std::time::SystemTime;

use asyncsteps_actors::sync::FencingToken;
use asyncsteps_core::{Error, codes};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::context::Context;
use super::service::Service;
use crate::executor::ServedRequest;
use crate::raw::{Head, RawInput, RawOutput};
use crate::recorder::{Stored, Work};

/// The context that the body of a step gets: the state of the service, to which it dereferences, the
/// parameters, and facts of the request and of the step.
///
/// Cloning shares state and parameters.
#[derive(derive_more::Debug)]
#[debug(
    "Cx {{ service: {:?}, request: {:?}, step: {:?}, attempt: {:?}, .. }}",
    type_name::<S>(), self.request(), self.context.step, self.attempt()
)]
pub struct Cx<S: Service, P> {
    /// The parameters, checked by the definition.
    pub params: Rc<P>,
    pub(super) context: Context,
    service: PhantomData<fn() -> S>,
}

impl<S: Service, P: 'static> Cx<S, P> {
    /// The context for a body of a function of this service with these parameters.
    #[inline]
    pub(super) fn of(context: Context) -> Self {
        Self { params: context.params(), context, service: PhantomData }
    }
}

impl<S: Service, P> Cx<S, P> {
    /// The request that the function serves.
    #[must_use]
    pub fn request(&self) -> &ServedRequest {
        &self.context.request().served
    }

    /// The tokens of the locks between machines that the caller of the request holds, for what the function
    /// writes to. Calls that steps make with [`CallSteps`](crate::CallSteps) and bodies with
    /// [`ServedRequest::call`] hand them on; other calls in a body name them with
    /// [`Invocation::with_fences`](crate::Invocation::with_fences).
    #[must_use]
    pub fn fences(&self) -> &[FencingToken] {
        self.request().fences()
    }

    /// Which attempt of the step this is, from 1; see [`Retry`](asyncsteps_core::Retry).
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.context.attempt()
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
        self.context.state(|| new(self))
    }

    /// The head of the answer over HTTP: its status, headers and cookies. It is to be set before the answer begins.
    ///
    /// # Errors
    /// InternalError if the request did not come over HTTP, and what `change` returns.
    pub fn head<T>(&self, change: impl FnOnce(&mut Head) -> Result<T, Error>) -> Result<T, Error> {
        self.request().change_head(change)
    }

    /// Takes the raw upload (FTN6 §2.2 `rawInput`), unless the first step of the function takes it. While it comes, the
    /// request's time limit counts from the last chunk.
    ///
    /// # Errors
    /// InternalError if there is none or it was taken, and those of [`ServedRequest::received`].
    pub fn raw_input(&self) -> Result<RawInput, Error> {
        self.request().received()?.raw_input()
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
        self.request().open_plan_output()
    }

    /// The time of day. In a [durable](crate::recorder) request it is recorded when the step first asks for it, and is
    /// the same for all attempts of the step, for its undo, and after a crash. So it may decide which steps run.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.context.now()
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
        self.context.key()
    }

    /// Has the host of a durable request do work of its own for the step, and returns what it stores.
    ///
    /// # Errors
    /// InternalError in other requests, and those of the host.
    pub async fn by_host(&self, work: Work) -> Result<Stored, Error> {
        match self.context.recorder() {
            Some(recorder) => recorder.carry_out(work).await,
            None => Err(Error::unexpected("only a durable request has such a step")),
        }
    }

    /// The id of the request: random, and the same for all of its steps and attempts. A [durable](crate::recorder)
    /// request has its uid. Each [key](Self::key) begins with it.
    #[must_use]
    pub fn id(&self) -> &str {
        self.context.request().id()
    }
}

impl<S: Service, P> Clone for Cx<S, P> {
    fn clone(&self) -> Self {
        let Self { params, context, .. } = self;
        Self { params: Rc::clone(params), context: context.clone(), service: PhantomData }
    }
}

impl<S: Service, P> Deref for Cx<S, P> {
    type Target = S;

    fn deref(&self) -> &S {
        match self.context.request().service.downcast_ref() {
            Some(service) => service,
            None => unreachable!("the steps of a function have the service of the function"),
        }
    }
}

/// An async closure that takes a [`Cx`] of this service and these parameters, which its own type does not name.
pub(super) struct CxBody<S, P, F> {
    pub(super) call: F,
    of: PhantomData<fn(S, P)>,
}

impl<S, P, F> CxBody<S, P, F> {
    pub(super) fn new(call: F) -> Self {
        Self { call, of: PhantomData }
    }
}

/// Reads the parameters of a request; a function without any may take `()`.
pub(crate) fn read<P: DeserializeOwned>(params: Map<String, Value>) -> Result<P, Error> {
    if params.is_empty()
        && let Ok(nothing) = P::deserialize(Value::Null)
    {
        return Ok(nothing);
    }
    P::deserialize(params).map_err(|error| Error::caused_by(codes::INTERNAL_ERROR, error))
}
