//! What comes to the inbox of a node: answers to its calls, and probes.

use std::sync::Arc;

use async_nats::{Message, Subscriber};
use futures_util::StreamExt;

use super::calls::PROBE;
use super::headers::{NODE, text};
use super::link::Link;

/// Gives answers to their calls until the connection ends.
pub(super) async fn take_replies(link: Arc<Link>, mut inbox: Subscriber) {
    while let Some(message) = inbox.next().await {
        match message.subject.rsplit_once('.') {
            Some((_, PROBE)) => answer_probe(&link, message).await,
            Some((_, token)) => {
                let calls = &link.state.calls;
                // the token borrows from the message, which goes to the call
                let token = token.to_owned();
                calls.answer(&token, message);
            }
            None => {}
        }
    }
}

/// Tells a node which of the calls that it carries out are not wanted any more.
async fn answer_probe(link: &Link, message: Message) {
    let Message { reply: Some(reply), payload, headers, .. } = message else { return };
    let tokens = std::str::from_utf8(&payload).unwrap_or_default();
    let unwanted = link.state.calls.unwanted(tokens, text(&headers.unwrap_or_default(), NODE));
    link.publish(reply, unwanted.into()).await;
}
