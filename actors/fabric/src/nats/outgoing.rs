//! Calls of this node to others.

use async_nats::{HeaderMap, HeaderValue, Message};
use asyncsteps_core::codes;
use asyncsteps_executor::Invocation;
use asyncsteps_executor::message::{Coding, Message as FutoInMessage, Request};
use futures_util::FutureExt;
use futures_util::future::{self, Either};

use super::headers::{FENCE, KEY, TRACE, UID, UNSIGNED, from_fences, set_deadline};
use super::link::Link;
use crate::call::{Call, Response};
use crate::call_error::CallError;
use crate::on_behalf::on_behalf_of;
use crate::time_left::time_left;

/// Makes a call and waits for its answer.
pub(super) fn make_call(
    link: &Link,
    call: Call,
) -> impl Future<Output = Result<Response, CallError>> + '_ {
    let node = call.node.clone();
    // an async block would have room for the call and for all that is made of it
    match send(link, call) {
        Ok(answer) => Either::Left(answer.map(move |answered| {
            read_answer(&answered.map_err(|error| error.of_node(node.as_ref()))?)
        })),
        Err(error) => Either::Right(future::ready(Err(error))),
    }
}

/// Writes a call; the future sends it and waits for its answer.
fn send(
    link: &Link,
    call: Call,
) -> Result<impl Future<Output = Result<Message, CallError>> + '_, CallError> {
    let limit = time_left(&call).unwrap_or(link.config.call_timeout);
    if limit.is_zero() {
        return Err(CallError::not_made(codes::TIMEOUT, "no time is left for the call"));
    }
    let Call { invocation, key: uid, node, .. } = call;
    let Invocation { function, params, caller, trace, fences, key, .. } = invocation;
    let subject = link.subjects.call(&function, node.as_ref());
    let mut request = Request::to(function, params);
    let obf = on_behalf_of(&caller);
    let acts_for_user = obf.is_some();
    if let Some(obf) = obf {
        request = request.with_obf(obf);
    }
    let mut payload = Vec::with_capacity(256);
    request.write(Coding::Json, None, &mut payload);
    let mut headers = HeaderMap::new();
    for (name, key) in [(UID, uid), (KEY, key)] {
        if let Some(key) = key {
            headers.insert(name, key_header(&key)?);
        }
    }
    set_deadline(&mut headers, limit);
    if !fences.is_empty() {
        headers.insert(FENCE, from_fences(&fences));
    }
    if let Some(trace) = trace {
        headers.insert(TRACE, trace.to_string());
    }
    if acts_for_user {
        if !caller.is_signed() {
            headers.insert(UNSIGNED, "1");
        }
        link.config.trust.sign(&mut headers, &link.node, &subject, &payload);
    }
    Ok(link.call(subject, headers, payload.into(), limit))
}

/// A key as a header.
fn key_header(key: &str) -> Result<HeaderValue, CallError> {
    let not_made = |info| CallError::not_made(codes::INVOKER_ERROR, info);
    if key.trim().len() < key.len() {
        return Err(not_made("the key of the call begins or ends with white space"));
    }
    key.parse().map_err(|_| not_made("the key of the call has a line break"))
}

/// Reads the answer of a node.
fn read_answer(answer: &Message) -> Result<Response, CallError> {
    if answer.payload.is_empty() {
        return Ok(Response::new(None));
    }
    let wrong = || CallError::answered(codes::INVOKER_ERROR, "the answer is no message".to_owned());
    match FutoInMessage::parse(&answer.payload) {
        Ok(FutoInMessage::Response(response)) => match response.into_result() {
            Ok(result) => Ok(Response::new(result)),
            Err(error) => Err(CallError::answered(error.code, error.description)),
        },
        Ok(FutoInMessage::Request(_)) | Err(_) => Err(wrong()),
    }
}
