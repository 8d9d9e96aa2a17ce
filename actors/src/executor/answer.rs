//! From the end of a flow to the answer of its request (FTN6 §1.2, FTN3 §1.7).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use asyncsteps::{Args, Error, Execution, Outcome, Time, codes};
use serde_json::{Map, Value};
use slab::Slab;
use tokio::sync::oneshot;
use tracing::Span;

use super::RequestInfo;
use super::admission::Flight;
use super::registry::Target;
use crate::budget::Permit;
use crate::flow::{End, Owner};
use crate::message::{Coding, Refusal, Response, Rid};

/// What a request is answered with.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a transport must know what to send")]
pub enum Reply {
    /// A message.
    Message {
        /// The message.
        response: Response,
        /// The largest answer that the function may give, in bytes (FTN3 §1.10).
        max_size: usize,
    },
    /// The function has no result and the caller did not ask for one.
    Nothing,
}

impl Reply {
    pub(super) fn message(response: Response) -> Self {
        Self::Message { response, max_size: usize::MAX }
    }

    /// The message as bytes, an InternalError if it would be larger than the function may answer;
    /// `None` for no message.
    #[must_use]
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        let Self::Message { response, max_size } = self else { return None };
        let mut bytes = Vec::with_capacity(128);
        response.write(Coding::Json, None, &mut bytes);
        if bytes.len() > max_size {
            bytes.clear();
            let text = "Response size has exceeded the limit";
            let too_large = Response::error(codes::INTERNAL_ERROR, Some(text));
            too_large.with_rid(response.rid()).write(Coding::Json, None, &mut bytes);
        }
        Some(bytes)
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        Self::message(refusal.into_response())
    }
}

/// The waiting flows of one arbiter, so that closing can cancel them.
#[derive(Default)]
pub(super) struct Live {
    wakers: RefCell<Slab<Waker>>,
    cancelled: Cell<bool>,
}

impl Live {
    pub(super) fn cancel_all(&self) {
        self.cancelled.set(true);
        let wakers: Vec<Waker> =
            self.wakers.borrow().iter().map(|(_, waker)| waker.clone()).collect();
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// What is needed to answer a request.
pub(super) struct Answering {
    pub(super) target: Target,
    pub(super) rid: Option<Rid>,
    /// `forcersp`: answer although there is no result.
    pub(super) forced: bool,
    pub(super) reply: oneshot::Sender<Reply>,
    pub(super) flight: Flight,
    pub(super) permit: Permit,
    pub(super) deadline: Time,
    pub(super) span: Span,
}

/// Waits for the flow of a request and answers it: the owner of the flow.
pub(super) struct Answer {
    target: Target,
    rid: Option<Rid>,
    forced: bool,
    reply: Option<oneshot::Sender<Reply>>,
    flight: Flight,
    permit: Option<Permit>,
    deadline: Time,
    span: Span,
    live: Rc<Live>,
    /// Where the waker of the flow is kept, once it waits.
    place: Option<usize>,
}

impl Owner for Box<Answer> {
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.live.cancelled.get() {
            return Poll::Ready(());
        }
        if self.place.is_none() {
            self.place = Some(self.live.wakers.borrow_mut().insert(cx.waker().clone()));
        }
        match &mut self.reply {
            Some(reply) => reply.poll_closed(cx),
            None => Poll::Ready(()),
        }
    }

    fn deadline(&self) -> Option<Time> {
        Some(self.deadline)
    }

    fn span(&self) -> Option<&Span> {
        Some(&self.span)
    }

    fn ended(&mut self, execution: &mut Execution, end: End) -> Option<Outcome> {
        if let Some(place) = self.place.take() {
            self.live.wakers.borrow_mut().try_remove(place);
        }
        let reply = self.reply.take()?;
        if let End::Flow(_) = end {
            self.flight.finish();
        }
        // whoever hears the answer finds the place free
        self.permit = None;
        if reply.is_closed() {
            self.span.record("outcome", "disconnected");
            return None;
        }
        let response = self.response(execution, end);
        self.span.record("outcome", response.code().unwrap_or("success"));
        // the client may have gone away just now
        let _ = reply.send(self.finish(response));
        None
    }
}

impl Answer {
    pub(super) fn new(answering: Answering, live: Rc<Live>) -> Self {
        let Answering { target, rid, forced, reply, flight, permit, deadline, span } = answering;
        let (reply, permit) = (Some(reply), Some(permit));
        Self { target, rid, forced, reply, flight, permit, deadline, span, live, place: None }
    }

    fn response(&self, execution: &mut Execution, end: End) -> Response {
        match end {
            End::Flow(Outcome::Success(args)) => self.success(execution, args),
            End::Flow(Outcome::Error(error)) => self.failure(&error),
            End::Expired => {
                tracing::warn!("request timeout");
                Response::error(codes::INTERNAL_ERROR, None)
            }
            End::Flow(Outcome::Cancelled) | End::Gone => {
                Response::error(codes::INTERNAL_ERROR, Some("Executor is closing"))
            }
        }
    }

    /// The result set with `reply`, else the value that the last step gave.
    fn success(&self, execution: &mut Execution, args: Args) -> Response {
        let replied = execution.extension_mut::<RequestInfo>().and_then(RequestInfo::take_result);
        let given = || args.into_typed::<(Value,)>().ok().map(|(value,)| value);
        let function = self.target.function();
        let mut result = replied.or_else(given).unwrap_or_else(|| Value::Object(Map::new()));
        match function.check_result(&mut result) {
            Ok(()) => Response::success(result),
            Err(violation) => {
                tracing::error!(%violation, "the result does not follow the interface");
                Response::error(violation.code(), Some(&violation.to_string()))
            }
        }
    }

    /// Declared and standard errors pass; anything else is nobody's business but ours.
    fn failure(&self, error: &Error) -> Response {
        let code = error.code();
        let known = STANDARD.contains(&code) || self.target.function().throws(code);
        if known && error.is_deliberate() {
            return Response::error(code, error.info());
        }
        let place = error.place().map(tracing::field::display);
        tracing::error!(error = %code, info = error.info(), place, "not expected error");
        Response::error(codes::INTERNAL_ERROR, Some("Not expected error"))
    }

    fn finish(&self, response: Response) -> Reply {
        let function = self.target.function();
        if response.code().is_none() && !function.has_result() && !self.forced {
            return Reply::Nothing;
        }
        let response = response.with_rid(self.rid.as_ref());
        Reply::Message { response, max_size: function.max_response_size() }
    }
}

/// Errors that a handler may raise without declaring them (FTN3 §1.9.1).
const STANDARD: [&str; 13] = [
    codes::CONNECT_ERROR,
    codes::COMM_ERROR,
    codes::UNKNOWN_INTERFACE,
    codes::NOT_SUPPORTED_VERSION,
    codes::NOT_IMPLEMENTED,
    codes::UNAUTHORIZED,
    codes::INTERNAL_ERROR,
    codes::INVOKER_ERROR,
    codes::INVALID_REQUEST,
    codes::DEFENSE_REJECTED,
    codes::PLEASE_REAUTH,
    codes::SECURITY_ERROR,
    codes::TIMEOUT,
];
