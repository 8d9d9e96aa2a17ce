//! Calls of this node to others.

use async_nats::header::HeaderName;
use async_nats::{HeaderMap, HeaderValue, Message};
use asyncsteps_actors::{carried, clock};
use asyncsteps_core::codes;
use asyncsteps_executor::Invocation;
use asyncsteps_executor::iface::FunctionName;
use asyncsteps_executor::message::{Coding, Message as FutoInMessage, Request};
use bytes::Bytes;
use futures_util::future::{self, Either};
use tokio::time::Instant;

use super::headers::{FENCE, KEY, TRACE, UID, UNSIGNED, from_fences, set_deadline};
use super::link::Link;
use super::view::View;
use crate::call::{Call, Response};
use crate::call_error::CallError;
use crate::node::NodeId;
use crate::on_behalf::on_behalf_of;
use crate::time_left::time_left;

/// Makes a call and waits for its answer.
pub(super) fn make_call<'a>(
    link: &'a Link,
    view: &'a View,
    call: Call,
) -> impl Future<Output = Result<Response, CallError>> + 'a {
    // an async block would have room for the call and for all that is made of it
    match OutgoingCall::write(link, call) {
        Ok(call) => Either::Left(call.make(link, view)),
        Err(error) => Either::Right(future::ready(Err(error))),
    }
}

/// A call that is written, without its subject and what depends on that.
struct OutgoingCall {
    function: FunctionName,
    node: Option<NodeId>,
    headers: HeaderMap,
    payload: Bytes,
    acts_for_user: bool,
    ends: Instant,
}

impl OutgoingCall {
    fn write(link: &Link, call: Call) -> Result<Self, CallError> {
        let limit = time_left(&call).unwrap_or(link.config.call_timeout);
        if limit.is_zero() {
            return Err(CallError::not_made(codes::TIMEOUT, "no time is left for the call"));
        }
        let ends = clock::instant(clock::now() + limit);
        let Call { invocation, key: uid, node, .. } = call;
        let Invocation { function, params, caller, trace, fences, key, .. } = invocation;
        let mut request = Request::to(function.clone(), params);
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
            for (name, value) in carried::of(trace).iter().flat_map(|carried| carried.fields()) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        if acts_for_user && !caller.is_signed() {
            headers.insert(UNSIGNED, "1");
        }
        Ok(Self { function, node, headers, payload: payload.into(), acts_for_user, ends })
    }

    /// Sends a call that may go to any node to one that is there; that is known to end if the node does. If the node serves
    /// the function no more, the server chooses.
    async fn make(mut self, link: &Link, view: &View) -> Result<Response, CallError> {
        if self.node.is_none()
            && let Some((chosen, _load)) = view.choose(&self.function)
        {
            let answered = self.send(link, Some(&chosen), self.headers.clone()).await;
            match answered {
                Err(error) if error == CallError::not_served() => view.leave_out(&chosen),
                answered => return read_answer(&answered?),
            }
        }
        let headers = std::mem::take(&mut self.headers);
        let Self { node, function, .. } = &self;
        match self.send(link, node.as_ref(), headers).await {
            Err(error) if error == CallError::not_served() => {
                Err(view.not_served(link, function, self.ends).await.of_node(node.as_ref()))
            }
            answered => read_answer(&answered?),
        }
    }

    fn send<'a>(
        &self,
        link: &'a Link,
        node: Option<&NodeId>,
        mut headers: HeaderMap,
    ) -> impl Future<Output = Result<Message, CallError>> + use<'a> {
        let subject = link.subjects.call(&self.function, node);
        if self.acts_for_user {
            link.config.trust.sign(&mut headers, &link.node, &subject, &self.payload);
        }
        link.call((subject, node.cloned()), headers, self.payload.clone(), self.ends)
    }
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
            Err(error) => Err(CallError::of_answer(error)),
        },
        Ok(FutoInMessage::Request(_)) | Err(_) => Err(wrong()),
    }
}
