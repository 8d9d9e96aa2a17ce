//! From the end of a flow to the reply of its request (FTN6 §1.2, FTN3 §1.7).

use std::any::Any;
use std::error::Error as _;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_actors::flow::{FlowEnd, FlowOwner, FlowRef};
use asyncsteps_actors::record::Recording;
use asyncsteps_actors::sync::deadlock::Deadlock;
use asyncsteps_core::{Error, Execution, Outcome, Time, codes};
use asyncsteps_futoin::message::Response;
use serde_json::Value;
use tracing::Span;

use super::error_text::causes;
use super::exchange::Exchange;
use super::failed_call::FailedCall;
use super::guarded::guarded;
use super::outcome::RequestOutcome;
use super::over::{Elapsed, EndPhase, request_over};
use super::recording::RequestRecording;
use super::reply::{Reply, ReplyBody};
use super::request::RequestInfo;
use super::standard::STANDARD;
use crate::observe::{Recorder, RequestRecord, TraceParent, Wanted};
use crate::raw::{BrokenOff, Head};
use crate::recorder::OfRequest;

/// The owner of a request's flow: it limits the flow in time, and replies when the flow has ended.
pub(super) struct RequestFlowOwner(pub(super) Rc<Exchange>);

impl FlowOwner for RequestFlowOwner {
    fn deadline(&self) -> Option<Time> {
        self.0.deadline()
    }

    fn span(&self) -> Option<&Span> {
        Some(&self.0.span)
    }

    fn trace(&self) -> Option<TraceParent> {
        Some(self.0.reply_to.trace.span)
    }

    fn recording(&self) -> Option<&Recording> {
        self.0.recording.as_ref().map(|recording| &recording.steps)
    }

    fn part_started(&mut self, part: &FlowRef) -> Option<Box<dyn Any>> {
        self.0.part_started(part.clone())
    }

    fn ended(&mut self, execution: &mut Execution, end: FlowEnd) -> Option<Outcome> {
        let exchange = &self.0;
        let finished = end.is_done();
        let is_ordered = match &end {
            FlowEnd::Done(Outcome::Error(error)) => self.is_ordered(execution, error),
            FlowEnd::Done(_) | FlowEnd::Cancelled | FlowEnd::Expired(_) => false,
        };
        if matches!(end, FlowEnd::Cancelled) && self.goes_on(execution) {
            exchange.hand_over();
        }
        let end = if is_ordered { FlowEnd::Cancelled } else { end };
        let (written, head, waited) = match execution.extension_mut::<RequestInfo>() {
            Some(info) => (info.response.take(), info.take_head(), info.waits.take()),
            None => (None, None, None),
        };
        let end = match (end, waited) {
            (FlowEnd::Expired(_), Some(front)) => FlowEnd::Done(Outcome::Error(front.too_late())),
            (end, _) => end,
        };
        // a value that the flow returned may panic when it is dropped
        let response = guarded("the result of a function panicked", || self.response(written, end))
            .unwrap_or_else(|| Err(not_expected()))
            .unwrap_or_else(|failure| failure);
        let succeeded = response.code().is_none();
        // released first, so that the caller finds the limits free
        exchange.release(finished);
        if exchange.is_abandoned() {
            self.over(RequestOutcome::Disconnected, None);
            exchange.end(succeeded, None);
            if !exchange.reply_to.channel.is_stateful() {
                // it was the channel of this request alone
                exchange.reply_to.channel.close();
            }
        } else if exchange.can_reply() {
            let reply = self.reply(response, head);
            exchange.end(succeeded, Some(reply));
        } else {
            self.over(RequestOutcome::of(&response), None);
            exchange.end(succeeded, None);
        }
        None
    }
}

impl RequestFlowOwner {
    /// Whether the host of the request has ended it with this error: that is no failure of the function.
    fn is_ordered(&self, execution: &mut Execution, error: &Error) -> bool {
        let memory = execution.extension_mut::<OfRequest>();
        let order = memory.and_then(|memory| memory.recorder.interruption());
        if order.is_none_or(|order| order.code() != error.code()) {
            return false;
        }
        let function = self.0.function.full_name();
        tracing::info!(
            error = error.code(),
            info = error.info(),
            function,
            "the request was ended"
        );
        true
    }

    /// Whether the request is cut here, and its host has it go on elsewhere or later.
    fn goes_on(&self, execution: &mut Execution) -> bool {
        let memory = execution.extension_mut::<OfRequest>();
        memory.is_some_and(|memory| memory.recorder.interruption().is_none())
    }

    /// The response of a flow that ended like this, and wrote this result.
    pub(super) fn response(
        &self,
        written: Option<Response>,
        end: FlowEnd,
    ) -> Result<Response, Response> {
        match end {
            // none was written if there was a raw one
            FlowEnd::Done(Outcome::Success(_)) => {
                Ok(written.unwrap_or_else(|| Response::success(Value::Null)))
            }
            FlowEnd::Done(Outcome::Error(error)) => Err(self.failure(&error)),
            FlowEnd::Expired(stack) => {
                tracing::warn!(stack = stack.one_line(), "request timeout");
                Err(self.unknown().unwrap_or_else(|| Response::error(codes::INTERNAL_ERROR, None)))
            }
            FlowEnd::Done(Outcome::Cancelled) | FlowEnd::Cancelled => {
                if let Some(unknown) = self.unknown() {
                    return Err(unknown);
                }
                let is_closing = self.0.reply_to.shared.drain.is_closing();
                let text = if is_closing { "Executor is closing" } else { "Request was cancelled" };
                Err(Response::error(codes::INTERNAL_ERROR, Some(text)))
            }
        }
    }

    /// The response to a request that was ended while it was forwarded.
    fn unknown(&self) -> Option<Response> {
        self.0.function.is_forwarded().then(|| forwarded(codes::COMM_ERROR)).flatten()
    }

    /// The response to an error: declared errors and errors that FTN3 allows every function pass;
    /// any other goes to the log and the hooks only. What is known of a request that was forwarded passes too.
    fn failure(&self, error: &Error) -> Response {
        let exchange = &self.0;
        let code = error.code();
        let place = error.location().map(tracing::field::display);
        let (cause, attempts) = (error.source().map(causes), error.attempts());
        let is_forwarded = exchange.function.is_forwarded();
        let is_known = match is_forwarded && error.find::<FailedCall>().is_some() {
            // the node that hosts the function has looked at it
            true => true,
            false => {
                let declared = exchange.function.declared().throws(code);
                declared || STANDARD.contains(&code) && !is_mistake_in_call(error)
            }
        };
        if is_known && error.is_deliberate() {
            if cause.is_some() {
                tracing::info!(error = %code, cause, attempts, place, "the function failed");
            }
            return Response::error(code, error.info());
        }
        if is_forwarded && let Some(response) = forwarded(code) {
            let function = exchange.called.as_str();
            tracing::warn!(error = %code, info = error.info(), cause, function, "a forwarded request failed");
            return response;
        }
        if error.find::<BrokenOff>().is_some() {
            // it is no fault of the function
            tracing::info!(error = %code, cause, place, "the client broke its upload off");
            return not_expected();
        }
        let limit = error.limit().map(tracing::field::debug);
        let hint =
            (!is_known && !is_forwarded && error.is_deliberate() && !STANDARD.contains(&code))
                .then(|| undeclared(code, &exchange.function.full_name()));
        tracing::error!(error = %code, info = error.info(), limit, cause, attempts, place, hint, "not expected error");
        if let Some(hooks) = &exchange.reply_to.shared.config.hooks {
            hooks.not_expected(&exchange.function.full_name(), error);
        }
        // of a call that the function has made, too
        if error.find::<Deadlock>().is_some() || error.info() == Some(DEADLOCK) {
            return Response::error(codes::INTERNAL_ERROR, Some(DEADLOCK));
        }
        not_expected()
    }

    /// The reply with this response, which ends the request.
    pub(super) fn reply(&self, response: Response, head: Option<Box<Head>>) -> Reply {
        let Exchange { reply_to, function, has_no_result, .. } = &*self.0;
        let succeeded = response.code().is_none();
        let has_result = function.declared().has_result() && !has_no_result.get();
        if succeeded && !has_result && !reply_to.is_forced() {
            self.over(RequestOutcome::Success, None);
            return Reply::new(ReplyBody::Nothing, head);
        }
        let response = reply_to.complete(response, Some(function));
        self.over(RequestOutcome::of(&response), Some(&response));
        // an error is sent whatever head was meant for the success
        let head = head.filter(|head| succeeded || head.has_body());
        reply_to.reply(response, Some(Arc::clone(function))).with_head(head)
    }

    fn over(&self, outcome: RequestOutcome<'_>, response: Option<&Response>) {
        let Exchange { reply_to, called, times, span, .. } = &*self.0;
        let took = times.over();
        self.record(took, outcome);
        let stage = EndPhase::Flow(span);
        request_over(reply_to, called.as_str(), took, &stage, outcome, response);
    }

    /// Keeps or exports the request, if it is wanted.
    fn record(&self, took: Elapsed, outcome: RequestOutcome<'_>) {
        let Exchange { reply_to, recording, .. } = &*self.0;
        let recorder = reply_to.shared.config.recorder.as_ref();
        let Some((recorder, recording)) = recorder.zip(recording.as_ref()) else { return };
        let is_error = outcome != RequestOutcome::Success;
        let span = reply_to.trace.span;
        if let Some(wanted) = recorder.wanted(recording.number, span, took.total, is_error) {
            self.take(recorder, recording, wanted, took, outcome);
        }
    }

    /// The line of the log gets what the steps did until now, the record all that they do.
    #[cold]
    fn take(
        &self,
        recorder: &Arc<Recorder>,
        recording: &RequestRecording,
        wanted: Wanted,
        took: Elapsed,
        outcome: RequestOutcome<'_>,
    ) {
        let Exchange { reply_to, called, span, .. } = &*self.0;
        let RequestRecording { number, steps } = recording;
        if wanted.is_kept {
            span.record("steps", tracing::field::display(steps.recorded()));
        }
        let started = Some(took.total.saturating_sub(steps.elapsed()));
        let record = RequestRecord { started, ..reply_to.record(*number, called, took, outcome) };
        let recorder = Arc::clone(recorder);
        steps.when_over(move |steps| recorder.take(wanted, RequestRecord { steps, ..record }));
    }
}

/// What callers see of a deadlock.
const DEADLOCK: &str = "deadlock: calls wait for each other";

fn not_expected() -> Response {
    Response::error(codes::INTERNAL_ERROR, Some("Not expected error"))
}

/// What the caller of a forwarded request learns of a failure of the way there; texts of the way go to the log only.
fn forwarded(code: &str) -> Option<Response> {
    let (code, text) = match code {
        // no time was left for the call
        codes::CONNECT_ERROR | codes::TIMEOUT => {
            (codes::CONNECT_ERROR, "The request was not carried out")
        }
        codes::COMM_ERROR => (code, "It is not known whether the request was carried out"),
        _ => return None,
    };
    Some(Response::error(code, Some(text)))
}

/// Advice about a code that the function may not raise.
fn undeclared(code: &str, function: &str) -> String {
    format!(
        "{function} does not declare {code}: to have callers see it, add it to the function's `throws` in \
         the definition, or its type to `Service::Errors`"
    )
}

/// Whether the error says that the function itself made a wrong call, which is not the fault of its
/// caller. An error that says what the user may not do is true for the caller too.
fn is_mistake_in_call(error: &Error) -> bool {
    const MISTAKES: [&str; 4] = [
        codes::UNKNOWN_INTERFACE,
        codes::NOT_SUPPORTED_VERSION,
        codes::NOT_IMPLEMENTED,
        codes::INVALID_REQUEST,
    ];
    MISTAKES.contains(&error.code()) && error.source().is_some_and(|cause| cause.is::<FailedCall>())
}
