//! A registered service: from calls to messages, and from messages to responses.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::codes;
use asyncsteps_executor::Invocation;
use asyncsteps_executor::iface::{Definition, Function, FunctionName, IfaceVer};
use asyncsteps_executor::message::{Coding, Request, Response as Answer, Rid};
use asyncsteps_executor::observe::TraceParent;
use bytes::Bytes;
use serde_json::Value;

use super::credentials::ServiceCredentials;
use super::post::Poster;
use super::sent::Sent;
use super::session::rid;
use super::socket::ServiceSocket;
use crate::call::{Call, Response};
use crate::call_error::CallError;
use crate::endpoint::Endpoint;
use crate::on_behalf::on_behalf_of;

/// A registered service.
#[derive(Debug)]
pub(super) struct RegisteredService {
    pub(super) endpoint: Endpoint,
    pub(super) credentials: ServiceCredentials,
    pub(super) names_user: bool,
    pub(super) definition: Option<Arc<Definition>>,
    pub(super) max_message: usize,
    pub(super) transport: Transport,
}

/// How it is reached.
#[derive(Debug)]
pub(super) enum Transport {
    Http(Box<Poster>),
    WebSocket(Box<ServiceSocket>),
}

/// A call as a message.
struct OutgoingMessage {
    message: Bytes,
    /// On a WebSocket.
    number: Option<u64>,
    trace: Option<TraceParent>,
    /// The key of its caller.
    key: Option<Arc<str>>,
    max_answer: usize,
}

impl RegisteredService {
    pub(super) fn interface(&self) -> &IfaceVer {
        self.endpoint.interface()
    }

    /// The coding of its messages: every executor reads JSON, but for interfaces with binary data
    /// (FTN3 §2.4).
    fn coding(&self) -> Coding {
        match &self.definition {
            Some(definition) if definition.requires("BinaryData") => Coding::MsgPack,
            Some(_) | None => Coding::Json,
        }
    }

    /// Makes a call, within this time.
    pub(super) async fn call(&self, call: Call, limit: Duration) -> Result<Response, CallError> {
        let declared = self.declared(call.function())?;
        let outgoing = self.prepare(call, declared)?;
        let expected = outgoing.number.and_then(rid);
        let sent = Sent::default();
        let answered = tokio::time::timeout(limit, self.transport.exchange(outgoing, &sent));
        let answer = answered.await.map_err(|_| sent.failure("no answer in time"))??;
        self.read(answer, expected.as_ref(), declared)
    }

    /// The declaration of a function, if there is a definition.
    fn declared(&self, function: &FunctionName) -> Result<Option<&Function>, CallError> {
        let Some(definition) = &self.definition else { return Ok(None) };
        let refuse = |why: &str| {
            CallError::not_made(codes::INVOKER_ERROR, format!("{}: {why}", function.as_str()))
        };
        match definition.function(function.func()) {
            None => Err(refuse("the definition has no such function")),
            Some(declared) if declared.rawresult() => Err(refuse("its result is raw data")),
            declared => Ok(declared),
        }
    }

    fn prepare(
        &self,
        call: Call,
        declared: Option<&Function>,
    ) -> Result<OutgoingMessage, CallError> {
        let Invocation { function, mut params, caller, trace, key, .. } = call.invocation;
        if let Some(declared) = declared {
            let checked = declared.check_params(&function, &mut params);
            let wrong = |why| CallError::not_made(codes::INVOKER_ERROR, format!("{why}"));
            checked.map_err(wrong)?;
        }
        let mut request = Request::to(function, params);
        if self.names_user
            && let Some(obf) = on_behalf_of(&caller)
        {
            request = request.with_obf(obf);
        }
        let number = self.transport.number();
        if let Some(rid) = number.and_then(rid) {
            // otherwise a function without a result would not say that it ended
            request = request.with_rid(rid).with_forcersp();
        }
        let mut message = Vec::with_capacity(256);
        let coding = self.coding();
        self.credentials.seal(request, coding, declared).write(coding, declared, &mut message);
        if message.len() > self.max_message {
            let max = self.max_message;
            let info = format!("the message has {} bytes, {max} are allowed", message.len());
            return Err(CallError::not_made(codes::INVALID_REQUEST, info));
        }
        let declared_max = declared.map_or(usize::MAX, Function::max_response_size);
        let max_answer = self.max_message.min(declared_max);
        Ok(OutgoingMessage { message: message.into(), number, trace, key, max_answer })
    }

    /// The answer of the service; `None` is an empty answer.
    fn read(
        &self,
        answer: Option<Answer>,
        expected: Option<&Rid>,
        declared: Option<&Function>,
    ) -> Result<Response, CallError> {
        let Some(answer) = answer else { return nothing(declared) };
        if answer.rid() != expected {
            return Err(wrong("the answer is to another call"));
        }
        self.credentials.check(&answer, self.coding(), declared)?;
        let result = answer.into_result();
        let result = result.map_err(|error| CallError::answered(error.code, error.description))?;
        let has_result = match declared {
            Some(declared) => declared.has_result(),
            None => expected.is_none(),
        };
        let is_nothing = !has_result && result.as_object().is_some_and(serde_json::Map::is_empty);
        if is_nothing { nothing(declared) } else { checked(result, declared) }
    }
}

impl Transport {
    /// A number for the next call, if calls need one.
    fn number(&self) -> Option<u64> {
        match self {
            Self::Http(_) => None,
            Self::WebSocket(socket) => Some(socket.number()),
        }
    }

    async fn exchange(
        &self,
        call: OutgoingMessage,
        sent: &Sent,
    ) -> Result<Option<Answer>, CallError> {
        let OutgoingMessage { message, number, trace, key, max_answer } = call;
        match self {
            Self::Http(poster) => poster.exchange(message, (trace, key), max_answer, sent).await,
            Self::WebSocket(_) if key.is_some() => {
                let info =
                    "The service of the function takes no keys, being called over a WebSocket";
                Err(CallError::not_made(codes::INVALID_REQUEST, info))
            }
            Self::WebSocket(socket) => {
                let number = number.unwrap_or_else(|| socket.number());
                socket.exchange(number, message, sent).await.map(Some)
            }
        }
    }
}

/// No result, if that is what the definition says.
fn nothing(declared: Option<&Function>) -> Result<Response, CallError> {
    match declared.is_some_and(Function::has_result) {
        true => checked(Value::Null, declared),
        false => Ok(Response::new(None)),
    }
}

/// A result that is what the definition says, if there is one.
fn checked(mut result: Value, declared: Option<&Function>) -> Result<Response, CallError> {
    match declared.map(|declared| declared.check_result(&mut result)) {
        Some(Err(why)) => Err(wrong(&why.to_string())),
        Some(Ok(())) | None => Ok(Response::new(result)),
    }
}

fn wrong(info: &str) -> CallError {
    CallError::unknown(codes::INVOKER_ERROR, info)
}
