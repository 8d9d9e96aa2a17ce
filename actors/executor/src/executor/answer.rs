//! From the end of a flow to the answer of its request (FTN6 §1.2, FTN3 §1.7).

use std::error::Error as StdError;
use std::rc::Rc;

use asyncsteps::{Args, Error, Execution, Outcome, Time, codes};
use serde_json::Value;
use tracing::Span;

use super::call::FailedCall;
use super::exchange::Exchange;
use super::reply::{Reply, ReplyBody};
use super::request::RequestInfo;
use super::result_draft::{NotMerged, ResultDraft};
use crate::channel::ChannelKind;
use crate::raw::Head;
use asyncsteps_actors::flow::{FlowEnd, FlowOwner};
use asyncsteps_futoin::message::Response;

/// Waits for the flow of a request and answers it: the owner of the flow.
pub(super) struct Answer(pub(super) Rc<Exchange>);

impl FlowOwner for Answer {
    fn deadline(&self) -> Option<Time> {
        self.0.deadline()
    }

    fn span(&self) -> Option<&Span> {
        Some(&self.0.span)
    }

    fn ended(&mut self, execution: &mut Execution, end: FlowEnd) -> Option<Outcome> {
        let exchange = &self.0;
        let finished = end.is_done();
        let (draft, head) = match execution.extension_mut::<RequestInfo>() {
            Some(info) => (info.take_result(), info.take_head()),
            None => (ResultDraft::default(), None),
        };
        let answered = exchange.is_answered();
        let response = self.response(draft, end).unwrap_or_else(|failure| failure);
        // whoever hears the answer finds the place free
        exchange.leave(finished, response.code().is_none());
        if exchange.is_gone() {
            exchange.span.record("outcome", "disconnected");
            if exchange.origin.channel.kind() == ChannelKind::Http {
                exchange.origin.channel.close();
            }
            return None;
        }
        exchange.span.record("outcome", response.code().unwrap_or("success"));
        if answered {
            exchange.end();
        } else {
            // an error is told whatever was meant for the success
            let head = head.filter(|head| response.code().is_none() || head.has_body());
            exchange.answer(self.reply(response, head));
        }
        None
    }
}

impl Answer {
    fn response(&self, draft: ResultDraft, end: FlowEnd) -> Result<Response, Response> {
        match end {
            FlowEnd::Done(Outcome::Success(args)) => self.success(draft, args),
            FlowEnd::Done(Outcome::Error(error)) => Err(self.failure(&error)),
            FlowEnd::Expired(stack) => {
                tracing::warn!(stack = stack.one_line(), "request timeout");
                Err(Response::error(codes::INTERNAL_ERROR, None))
            }
            FlowEnd::Done(Outcome::Cancelled) | FlowEnd::Cancelled => {
                Err(Response::error(codes::INTERNAL_ERROR, Some("Executor is closing")))
            }
        }
    }

    /// What the function gave, in the order of FTN6 §2.9, checked unless that is switched off.
    fn success(&self, draft: ResultDraft, args: Args) -> Result<Response, Response> {
        let exchange = &self.0;
        let function = exchange.target.function();
        if function.rawresult() && exchange.is_answered() {
            return Ok(Response::success(Value::Null));
        }
        let mut result = draft.merge(args).map_err(|NotMerged(types)| {
            tracing::error!(returned = %types, "what the last step returned cannot be in the result");
            Response::error(codes::INTERNAL_ERROR, Some("Invalid message: r"))
        })?;
        if exchange.origin.shared.config.checks_results {
            function.check_result(&mut result).map_err(|violation| {
                tracing::error!(%violation, "the result does not follow the interface");
                Response::error(violation.code(), Some(&violation.to_string()))
            })?;
        }
        Ok(Response::success(result))
    }

    /// Declared errors and those that FTN3 allows every function pass; any other is told to the log
    /// and the hooks only.
    fn failure(&self, error: &Error) -> Response {
        let exchange = &self.0;
        let code = error.code();
        let place = error.place().map(tracing::field::display);
        let cause = error.source().map(causes);
        let declared = exchange.target.function().throws(code);
        let is_known = declared || STANDARD.contains(&code) && !is_mistake_in_call(error);
        if is_known && error.is_deliberate() {
            if cause.is_some() {
                tracing::info!(error = %code, cause, place, "the function failed");
            }
            return Response::error(code, error.info());
        }
        let limit = error.limit().map(tracing::field::debug);
        tracing::error!(error = %code, info = error.info(), limit, cause, place, "not expected error");
        if let Some(hooks) = &exchange.origin.shared.config.hooks {
            hooks.not_expected(&exchange.target.full_name(), error);
        }
        Response::error(codes::INTERNAL_ERROR, Some("Not expected error"))
    }

    fn reply(&self, response: Response, head: Option<Box<Head>>) -> Reply {
        let Exchange { origin, target, .. } = &*self.0;
        if response.code().is_none() && !target.function().has_result() && !origin.forced {
            return Reply::new(ReplyBody::Nothing, head);
        }
        origin.reply(response, Some(target)).with_head(head)
    }
}

/// Whether this says that the function itself made a wrong call: its caller did nothing wrong. What
/// says that its user may not do something is as true for the caller.
fn is_mistake_in_call(error: &Error) -> bool {
    const MISTAKES: [&str; 4] = [
        codes::UNKNOWN_INTERFACE,
        codes::NOT_SUPPORTED_VERSION,
        codes::NOT_IMPLEMENTED,
        codes::INVALID_REQUEST,
    ];
    MISTAKES.contains(&error.code()) && error.source().is_some_and(|cause| cause.is::<FailedCall>())
}

/// The texts of an error and of what caused it.
fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

/// Errors that a handler may raise without declaring them. Those of the calling side alone are not
/// among them: Timeout, ConnectError, CommError and InvokerError of what a handler calls itself say
/// nothing true about the call that it serves (FTN3 §1.9.1).
const STANDARD: [&str; 9] = [
    codes::UNKNOWN_INTERFACE,
    codes::NOT_SUPPORTED_VERSION,
    codes::NOT_IMPLEMENTED,
    codes::UNAUTHORIZED,
    codes::INTERNAL_ERROR,
    codes::INVALID_REQUEST,
    codes::DEFENSE_REJECTED,
    codes::PLEASE_REAUTH,
    codes::SECURITY_ERROR,
];
