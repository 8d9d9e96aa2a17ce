//! One message, and its answer.

use std::time::Duration;

use async_nats::message::OutboundMessage;
use async_nats::{HeaderMap, Message, StatusCode};
use asyncsteps_actors::clock;
use asyncsteps_core::codes;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::calls::{CallWait, FORBIDDEN, NatsCalls};
use super::connection::NotSent;
use super::link::Link;
use crate::call_error::CallError;
use crate::node::NodeId;

impl Link {
    /// Sends a call, to this node or to any, and waits for its answer until then.
    ///
    /// Dropping the future abandons the answer, and notifies the node that carries the call out, if that
    /// is known.
    pub(super) fn call(
        &self,
        (subject, node): (String, Option<NodeId>),
        headers: HeaderMap,
        payload: Bytes,
        ends: Instant,
    ) -> impl Future<Output = Result<Message, CallError>> {
        self.send(message(subject, headers, payload), |calls| calls.begin(node), ends)
    }

    /// The same with a message of the node itself, for which there is always room.
    pub(super) fn exchange(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
        limit: Duration,
    ) -> impl Future<Output = Result<Message, CallError>> {
        let begin = |calls| Some(NatsCalls::begin_own(calls));
        let ends = clock::instant(clock::now() + limit);
        self.send(message(subject, headers, payload), begin, ends)
    }

    async fn send<'a>(
        &'a self,
        mut message: OutboundMessage,
        begin: impl FnOnce(&'a NatsCalls) -> Option<CallWait<'a>>,
        ends: Instant,
    ) -> Result<Message, CallError> {
        let waits = begin(&self.calls).ok_or_else(|| {
            CallError::not_made(codes::DEFENSE_REJECTED, "too many calls are under way")
        })?;
        if !self.is_connected() {
            return Err(CallError::connect("the NATS server cannot be reached"));
        }
        waits.goes_to(message.subject.clone());
        message.reply = Some(waits.reply_subject().into());
        let sending = Some(self.connection.publish(message));
        let mut sent = SentCall { link: self, waits, sending };
        match tokio::time::timeout_at(ends, sent.answer()).await {
            Ok(answered) => answered,
            Err(_) => Err(CallError::lost("no answer in time")),
        }
    }

    /// Waits until the server has taken everything that was sent so far, including subscriptions: it takes messages in
    /// order, and this sends one to the node itself.
    pub(super) async fn settle(&self) -> Result<(), CallError> {
        let subject = self.calls.probe_subject();
        let limit = self.config.connect_timeout;
        self.exchange(subject, HeaderMap::new(), Bytes::new(), limit).await.map(drop)
    }
}

/// A message without its reply subject.
fn message(subject: String, headers: HeaderMap, payload: Bytes) -> OutboundMessage {
    let headers = (!headers.is_empty()).then_some(headers);
    OutboundMessage { subject: subject.into(), reply: None, payload, headers }
}

/// A message that is sent, or being sent.
struct SentCall<'a> {
    link: &'a Link,
    waits: CallWait<'a>,
    /// Gives the message to the connection; taken by the first poll.
    sending: Option<BoxFuture<'a, Result<(), NotSent>>>,
}

impl SentCall<'_> {
    async fn answer(&mut self) -> Result<Message, CallError> {
        if let Some(sending) = self.sending.take() {
            sending.await.map_err(|error| match error {
                NotSent::TooLarge => CallError::not_made(codes::INVALID_REQUEST, error.to_string()),
                NotSent::Ended(info) => CallError::connect(info),
            })?;
        }
        let lost = || CallError::lost("the node, or the connection to the NATS server, was lost");
        let message = self.waits.answer().await.ok_or_else(lost)?;
        let is_empty = message.payload.is_empty();
        match message.status {
            Some(StatusCode::NO_RESPONDERS) if is_empty => Err(CallError::not_served()),
            Some(status) if is_empty && status.as_u16() == FORBIDDEN => {
                let info = format!("the NATS server permits no messages to {}", message.subject);
                Err(CallError::not_made(codes::SECURITY_ERROR, info))
            }
            _ => Ok(message),
        }
    }
}

impl Drop for SentCall<'_> {
    fn drop(&mut self) {
        let Some(node) = self.waits.give_up() else { return };
        let subject = self.link.subjects.control(node.as_str(), "cancel");
        let reply = Bytes::from(self.waits.reply_subject());
        // without room in the connection the node learns it from its next probe
        let _ = self.link.publish(subject.into(), reply).now_or_never();
    }
}
