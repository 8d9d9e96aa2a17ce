//! One message, and its answer.

use std::time::Duration;

use async_nats::message::OutboundMessage;
use async_nats::{HeaderMap, Message, StatusCode};
use asyncsteps_core::codes;
use bytes::Bytes;
use futures_util::FutureExt;

use super::calls::CallWait;
use super::connection::NotSent;
use super::link::Link;
use crate::call_error::CallError;

impl Link {
    /// Sends a call and waits for its answer, at most so long.
    ///
    /// Dropping the future abandons the answer, and notifies the node that carries the call out, if that
    /// is known.
    pub(super) async fn call(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
        limit: Duration,
    ) -> Result<Message, CallError> {
        let waits = self.calls.begin().ok_or_else(|| {
            CallError::not_made(codes::DEFENSE_REJECTED, "too many calls are under way")
        })?;
        self.send(waits, subject, headers, payload, limit).await
    }

    /// The same with a message of the node itself, for which there is always room.
    pub(super) async fn exchange(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
        limit: Duration,
    ) -> Result<Message, CallError> {
        self.send(self.calls.begin_own(), subject, headers, payload, limit).await
    }

    async fn send(
        &self,
        waits: CallWait<'_>,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
        limit: Duration,
    ) -> Result<Message, CallError> {
        if !self.is_connected() {
            return Err(CallError::connect("the NATS server cannot be reached"));
        }
        let mut sent = SentCall { link: self, waits };
        let answered = tokio::time::timeout(limit, sent.carry_out(subject, headers, payload));
        match answered.await {
            Ok(answered) => answered,
            Err(_) => Err(CallError::lost("no answer in time")),
        }
    }
}

impl Link {
    /// Waits until the server has taken everything that was sent so far, including subscriptions: it takes messages in
    /// order, and this sends one to the node itself.
    pub(super) async fn settle(&self) -> Result<(), CallError> {
        let subject = self.calls.probe_subject();
        let limit = self.config.connect_timeout;
        self.exchange(subject, HeaderMap::new(), Bytes::new(), limit).await.map(drop)
    }
}

/// A message on its way.
struct SentCall<'a> {
    link: &'a Link,
    waits: CallWait<'a>,
}

impl SentCall<'_> {
    async fn carry_out(
        &mut self,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<Message, CallError> {
        let message = OutboundMessage {
            subject: subject.into(),
            reply: Some(self.waits.reply_subject().into()),
            payload,
            headers: (!headers.is_empty()).then_some(headers),
        };
        let published = self.link.connection.publish(message).await;
        published.map_err(|error| match error {
            NotSent::TooLarge => CallError::not_made(codes::INVALID_REQUEST, error.to_string()),
            NotSent::Ended(info) => CallError::connect(info),
        })?;
        let lost = || CallError::lost("the connection to the NATS server was lost");
        let message = self.waits.answer().await.ok_or_else(lost)?;
        let is_empty = message.payload.is_empty();
        match message.status {
            Some(StatusCode::NO_RESPONDERS) if is_empty => Err(CallError::not_served()),
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
