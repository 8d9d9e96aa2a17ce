//! The messages of an [`ExecutorActor`](super::ExecutorActor).

use std::sync::Arc;

use actix::Message as ActixMessage;
use asyncsteps_actors::record::Recorded;
use asyncsteps_actors::sync::FencingToken;
use asyncsteps_actors::trace::{self, TraceParent};
use asyncsteps_futoin::message::Request;
use tokio::sync::oneshot;

use super::caller::Caller;
use super::incoming::Incoming;
use super::invoker::Invocation;
use super::reply::Message;
use crate::channel::Channel;

/// Carries out a call within the process, on the arbiter of the actor (FTN6 §1.4).
///
/// It is answered by the message to the caller, or by `None` for a function without a result. The
/// call comes over [`Channel::local`](crate::channel::Channel::local), so it cannot have a raw
/// result. [`Executor::call_for`](super::Executor::call_for) sends it from threads without an
/// arbiter.
#[derive(Debug)]
pub struct Dispatch {
    pub(super) request: Request,
    pub(super) caller: Caller,
    /// The span that makes the call.
    pub(super) trace: Option<TraceParent>,
    /// The tokens of the locks that are held around the call.
    pub(super) fences: Vec<FencingToken>,
    /// The key of its caller.
    pub(super) key: Option<Arc<str>>,
    /// A request in flight of the executor makes it.
    pub(super) is_inside: bool,
    /// Closed when the reply is not wanted any more.
    pub(super) wanted: Option<oneshot::Receiver<()>>,
}

impl ActixMessage for Dispatch {
    type Result = Option<Message>;
}

impl Dispatch {
    /// A request on behalf of a caller. Made in the turn of a flow, it is in the trace of the flow.
    #[must_use]
    pub fn new(request: Request, caller: impl Into<Caller>) -> Self {
        let (caller, trace) = (caller.into(), trace::current());
        let (fences, key, wanted) = (Vec::new(), None, None);
        Self { request, caller, trace, fences, key, is_inside: false, wanted }
    }

    /// A call.
    pub(super) fn of_invocation(invocation: Invocation) -> Self {
        let Invocation { function, params, caller, trace, fences, key, is_inside, .. } = invocation;
        let request = Request::to(function, params);
        Self { request, caller, trace, fences, key, is_inside, wanted: None }
    }

    /// The request for the arbiter that carries it out.
    pub(super) fn into_incoming(self) -> Incoming {
        let Self { request, caller, trace, fences, key, is_inside, wanted: _ } = self;
        let mut incoming = Incoming::new(request, Channel::local()).with_caller(caller);
        incoming.0.parts.is_inside = is_inside;
        incoming.with_fences(fences).with_key(key).with_trace(trace)
    }

    /// The same, cancelled when the sender is dropped.
    pub(super) fn cancellable(self) -> (oneshot::Sender<()>, Self) {
        let (wants, wanted) = oneshot::channel();
        (wants, Self { wanted: Some(wanted), ..self })
    }
}

/// Asks what the steps of a request in flight have done so far, if it is one of the arbiter of the
/// actor; [`Executor::steps`](super::Executor::steps) sends it.
#[derive(Clone, Copy, Debug)]
pub struct InspectSteps {
    /// [`InFlightRequest::number`](super::InFlightRequest::number).
    pub number: u64,
}

impl ActixMessage for InspectSteps {
    type Result = Option<Recorded>;
}

/// Cancels the flow of a request, if it waits on the arbiter of the actor; answers whether it does.
/// [`Executor::cancel`](super::Executor::cancel) sends it.
#[derive(Clone, Copy, Debug)]
pub struct CancelRequest {
    /// [`InFlightRequest::number`](super::InFlightRequest::number).
    pub number: u64,
}

impl ActixMessage for CancelRequest {
    type Result = bool;
}

/// Asks for nothing but an answer, which shows how long the arbiter of the actor takes to get to a
/// message; [`Executor::arbiter_delays`](super::Executor::arbiter_delays) sends it.
#[derive(Clone, Copy, Debug)]
pub struct Answer;

impl ActixMessage for Answer {
    type Result = ();
}

/// Cancels the requests whose flows wait on the arbiter of the actor;
/// [`Executor::close`](super::Executor::close) sends it at the end of its grace.
#[derive(Clone, Copy, Debug)]
pub struct CancelRequests;

impl ActixMessage for CancelRequests {
    type Result = ();
}
