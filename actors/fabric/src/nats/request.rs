//! One request of another node: from its bytes to the bytes of its answer.

use std::rc::Rc;
use std::time::Duration;

use async_nats::{HeaderMap, HeaderValue, Message, Subject};
use asyncsteps_actors::clock;
use asyncsteps_core::{Time, codes};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::{Coding, Request, Response, Rid};
use asyncsteps_executor::observe::Traffic;
use asyncsteps_executor::security::Refusal;
use asyncsteps_executor::{Direction, Executor, Incoming, Reply, ReplyBody};
use bytes::Bytes;
use tokio::time::Instant;

use super::headers::{CallHeaders, SERVICE_ERROR, SERVICE_ERROR_CODE, fences};
use super::link::Link;

/// More than the headers of an error have, without its code.
const ERROR_HEADERS: usize = 128;

/// How much longer than its caller waits a request may take: the end of its time is known from clocks of whole
/// milliseconds, and a caller that still waits learns more from the function than from the end.
const AFTER_CALLER: Duration = Duration::from_millis(10);

/// The bytes of an answer, and its error code.
pub(super) type Answer = (Bytes, Option<String>);

/// Carries out a request, and answers it. One whose deadline has passed is not carried out: its caller knows that it
/// failed, and may have repeated it.
///
/// # Cancel safety
/// Dropping the future cancels the request; it is not answered.
pub(super) fn carry_out<'a>(
    link: &'a Link,
    executor: &'a Executor,
    traffic: &'a Traffic,
    message: Message,
    reply: Subject,
    deadline: Option<Instant>,
) -> impl Future<Output = ()> + use<'a> {
    let channel = Channel::new(ChannelKind::Node);
    let (deadline, coding) = (deadline.map(clock::time), Coding::detect(&message.payload));
    // outside of the async block, which would keep room for each part of the message
    let received = receive(link, executor, &channel, message, &reply, deadline);
    async move {
        let (bytes, error) = match received {
            Ok(incoming) => {
                let reply = dispatch(executor, &channel, incoming, deadline).await;
                unless_cut(into_bytes(link, reply), deadline, coding)
            }
            Err(answer) => answer,
        };
        executor.trace_message(&bytes, Direction::Out, &channel);
        answer(link, traffic, reply, bytes, error.as_deref()).await;
    }
}

/// Reads a request.
///
/// # Errors
/// The answer, if it is not to be carried out.
fn receive(
    link: &Link,
    executor: &Executor,
    channel: &Channel,
    message: Message,
    reply: &Subject,
    deadline: Option<Time>,
) -> Result<Incoming, Answer> {
    let Message { subject, payload, headers, .. } = message;
    executor.trace_message(&payload, Direction::In, channel);
    let refused = |refusal| Err(into_bytes(link, executor.refuse(refusal, channel)));
    let request = match Request::parse(&payload) {
        Ok(request) => request,
        Err(refusal) => return refused(refusal),
    };
    // permissions of the server are by subject
    if !is_of(link, &subject, &request) {
        return refused(request.refuse("The subject is not that of the function"));
    }
    if deadline.is_some_and(|deadline| deadline <= clock::now()) {
        return Err(too_late(request.rid(), request.coding()));
    }
    let headers = headers.unwrap_or_default();
    let caller = link.config.trust.caller(&request, &headers, &subject, &payload);
    let fences = match fences(&headers) {
        Ok(fences) => fences,
        Err(wrong) => {
            return refused(Refusal::new(codes::INVALID_REQUEST, wrong.to_string()).into());
        }
    };
    let mut incoming =
        Incoming::new(request, channel.clone()).with_size(payload.len()).with_fences(fences);
    if let Some(caller) = caller {
        incoming = incoming.with_caller(caller);
    }
    Ok(incoming.with_headers(Rc::new(CallHeaders::new(headers, reply.clone()))))
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
    mut incoming: Incoming,
    deadline: Option<Time>,
) -> Reply {
    match executor.admit(channel).await {
        Ok(permit) => incoming = incoming.with_client_permit(permit),
        Err(refused) => return incoming.refused(&refused),
    }
    if let Some(deadline) = deadline {
        incoming = incoming.with_deadline(deadline + AFTER_CALLER);
    }
    executor.dispatch(incoming).await
}

/// The answer, unless the request was ended because its caller waits no more, as far as the clocks of two nodes say that:
/// a caller that does wait must not take that for a failure of the function.
fn unless_cut(answer: Answer, deadline: Option<Time>, coding: Coding) -> Answer {
    let is_over = deadline.is_some_and(|deadline| deadline <= clock::now());
    match answer.1.as_deref() {
        Some(codes::INTERNAL_ERROR) if is_over => {
            error_bytes(codes::COMM_ERROR, "no answer in time", None, coding)
        }
        _ => answer,
    }
}

/// The bytes of a reply, and its error code; an InternalError if it is larger than the server takes.
fn into_bytes(link: &Link, reply: Reply) -> Answer {
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

/// The answer to a request whose caller does not wait any more.
pub(super) fn too_late(rid: Option<&Rid>, coding: Coding) -> Answer {
    error_bytes(codes::CONNECT_ERROR, "The time of the request is over", rid, coding)
}

/// The bytes of an answer of the node itself, and its error code.
fn error_bytes(
    code: &'static str,
    text: &'static str,
    rid: Option<&Rid>,
    coding: Coding,
) -> Answer {
    let mut bytes = Vec::with_capacity(128);
    Response::error(code, Some(text)).with_rid(rid).write(coding, None, &mut bytes);
    (bytes.into(), Some(code.to_owned()))
}
