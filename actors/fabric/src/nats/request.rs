//! One request of another node: from its bytes to the bytes of its answer.

use std::rc::Rc;

use async_nats::{HeaderMap, HeaderValue, Message, Subject};
use asyncsteps_actors::clock;
use asyncsteps_core::{Time, codes};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::{Coding, Request, Response, Rid};
use asyncsteps_executor::observe::Traffic;
use asyncsteps_executor::security::Refusal;
use asyncsteps_executor::{Caller, Direction, Executor, Incoming, Reply, ReplyBody};
use bytes::Bytes;
use tokio::time::Instant;

use super::headers::{CallHeaders, SERVICE_ERROR, SERVICE_ERROR_CODE, fences};
use super::link::Link;

/// More than the headers of an error have, without its code.
const ERROR_HEADERS: usize = 128;

/// Carries out a request, and answers it. One whose deadline has passed is not carried out.
///
/// # Cancel safety
/// Dropping the future cancels the request; it is not answered.
pub(super) async fn carry_out(
    link: &Link,
    executor: &Executor,
    traffic: &Traffic,
    message: Message,
    deadline: Option<Instant>,
) {
    let Message { subject, reply: Some(reply_to), payload, headers, .. } = message else { return };
    let channel = Channel::new(ChannelKind::Node);
    executor.trace_message(&payload, Direction::In, &channel);
    let deadline = deadline.map(clock::time);
    let headers = headers.unwrap_or_default();
    let (bytes, error) = match Request::parse(&payload) {
        Err(refusal) => into_bytes(link, executor.refuse(refusal, &channel)),
        // permissions of the server are by subject
        Ok(request) if !is_of(link, &subject, &request) => {
            let refusal = request.refuse("The subject is not that of the function");
            into_bytes(link, executor.refuse(refusal, &channel))
        }
        Ok(request) if deadline.is_some_and(|deadline| deadline <= clock::now()) => {
            let (rid, coding) = (request.rid(), request.coding());
            error_bytes(codes::TIMEOUT, "The time of the request is over", rid, coding)
        }
        Ok(request) => {
            let caller = link.config.trust.caller(&request, &headers, &subject, &payload);
            let beside = (headers, reply_to.clone(), deadline, caller);
            into_bytes(link, dispatch(executor, &channel, request, beside, payload).await)
        }
    };
    executor.trace_message(&bytes, Direction::Out, &channel);
    answer(link, traffic, reply_to, bytes, error.as_deref()).await;
}

/// Sends an answer, with its error code for tools that do not read FutoIn messages.
pub(super) async fn answer(
    link: &Link,
    traffic: &Traffic,
    reply_to: Subject,
    bytes: Bytes,
    error: Option<&str>,
) {
    traffic.sent(bytes.len());
    let code = error.and_then(|code| code.parse::<HeaderValue>().ok());
    let Some(code) = code else { return link.publish(reply_to, bytes).await };
    let mut headers = HeaderMap::new();
    headers.insert(SERVICE_ERROR, code);
    headers.insert(SERVICE_ERROR_CODE, "500");
    link.publish_with_headers(reply_to, Some(headers), bytes).await;
}

/// Whether a request came on the subject of its function. One without a function is refused for that.
fn is_of(link: &Link, subject: &str, request: &Request) -> bool {
    request.f().is_empty() || link.subjects.is_of(subject, request.f(), &link.node)
}

async fn dispatch(
    executor: &Executor,
    channel: &Channel,
    request: Request,
    (headers, reply_to, deadline, caller): (HeaderMap, Subject, Option<Time>, Option<Caller>),
    payload: Bytes,
) -> Reply {
    let fences = match fences(&headers) {
        Ok(fences) => fences,
        Err(wrong) => {
            let refusal = Refusal::new(codes::INVALID_REQUEST, wrong.to_string());
            return executor.refuse(refusal.into(), channel);
        }
    };
    let permit = match executor.admit(channel).await {
        Ok(permit) => permit,
        Err(refused) => return Reply::refused(&refused, request.rid(), request.coding()),
    };
    let mut incoming =
        Incoming::new(request, channel.clone()).with_size(payload.len()).with_client_permit(permit);
    incoming = incoming.with_fences(fences);
    if let Some(deadline) = deadline {
        incoming = incoming.with_time_left(deadline.saturating_since(clock::now()));
    }
    if let Some(caller) = caller {
        incoming = incoming.with_caller(caller);
    }
    drop(payload);
    executor.dispatch(incoming.with_headers(Rc::new(CallHeaders::new(headers, reply_to)))).await
}

/// The bytes of a reply, and its error code; an InternalError if it is larger than the server takes.
fn into_bytes(link: &Link, reply: Reply) -> (Bytes, Option<String>) {
    match reply.into_parts().1 {
        ReplyBody::Message(message) => {
            let error = message.response().code().map(ToOwned::to_owned);
            let coding = message.coding();
            let bytes = message.into_bytes();
            let headers = error.as_ref().map_or(0, |code| ERROR_HEADERS + code.len());
            if bytes.len() + headers > link.connection.max_payload() {
                let text = "Response size has exceeded the limit of the NATS server";
                // without the id, which may be the part that is too large
                return error_bytes(codes::INTERNAL_ERROR, text, None, coding);
            }
            (bytes.into(), error)
        }
        // functions with raw results are refused on this channel
        ReplyBody::Nothing | ReplyBody::Raw(_) => (Bytes::new(), None),
    }
}

/// The bytes of an answer of the node itself, and its error code.
fn error_bytes(
    code: &'static str,
    text: &'static str,
    rid: Option<&Rid>,
    coding: Coding,
) -> (Bytes, Option<String>) {
    let mut bytes = Vec::with_capacity(128);
    Response::error(code, Some(text)).with_rid(rid).write(coding, None, &mut bytes);
    (bytes.into(), Some(code.to_owned()))
}
