//! One request of another node: from its bytes to those of its answer.

use std::rc::Rc;

use async_nats::{HeaderMap, HeaderValue, Message, Subject};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::Request;
use asyncsteps_executor::{Executor, Incoming, Reply, ReplyBody, Way};
use bytes::Bytes;

use super::headers::{CallHeaders, SERVICE_ERROR, SERVICE_ERROR_CODE, time_left};
use super::link::Link;

/// Carries out a request, and answers it.
///
/// # Cancel safety
/// Dropping the future cancels the request; it is not answered.
pub(super) async fn carry_out(link: &Link, executor: &Executor, message: Message) {
    let Message { reply: Some(reply_to), payload, headers, .. } = message else { return };
    let channel = Channel::new(ChannelKind::Node);
    executor.trace_message(&payload, Way::In, &channel);
    let headers = headers.unwrap_or_default();
    let reply = match Request::parse(&payload) {
        Err(refusal) => executor.refuse(refusal, &channel),
        Ok(request) => {
            let beside = (headers, reply_to.clone());
            dispatch(link, executor, &channel, request, beside, payload).await
        }
    };
    let (bytes, error) = into_bytes(reply);
    executor.trace_message(&bytes, Way::Out, &channel);
    answer(link, reply_to, bytes, error.as_deref()).await;
}

/// Sends an answer, with its error code for tools that do not read FutoIn messages.
pub(super) async fn answer(link: &Link, reply_to: Subject, bytes: Bytes, error: Option<&str>) {
    let code = error.and_then(|code| code.parse::<HeaderValue>().ok());
    let Some(code) = code else { return link.publish(reply_to, bytes).await };
    let mut headers = HeaderMap::new();
    headers.insert(SERVICE_ERROR, code);
    headers.insert(SERVICE_ERROR_CODE, "500");
    link.publish_with_headers(reply_to, headers, bytes).await;
}

async fn dispatch(
    link: &Link,
    executor: &Executor,
    channel: &Channel,
    request: Request,
    (headers, reply_to): (HeaderMap, Subject),
    payload: Bytes,
) -> Reply {
    let permit = match executor.admit(channel).await {
        Ok(permit) => permit,
        Err(refused) => return Reply::refused(&refused, request.rid(), request.coding()),
    };
    let caller = link.config.trust.caller(&request, &headers, &payload);
    let mut incoming =
        Incoming::new(request, channel.clone()).with_size(payload.len()).with_client_permit(permit);
    if let Some(time_left) = time_left(&headers) {
        incoming = incoming.with_time_left(time_left);
    }
    if let Some(caller) = caller {
        incoming = incoming.with_caller(caller);
    }
    drop(payload);
    executor.dispatch(incoming.with_headers(Rc::new(CallHeaders::new(headers, reply_to)))).await
}

/// The bytes of a reply, and its error code.
fn into_bytes(reply: Reply) -> (Bytes, Option<String>) {
    match reply.into_parts().1 {
        ReplyBody::Message(message) => {
            let error = message.response().code().map(ToOwned::to_owned);
            (message.into_bytes().into(), error)
        }
        // functions with raw results are refused on this channel
        ReplyBody::Nothing | ReplyBody::Raw(_) => (Bytes::new(), None),
    }
}
