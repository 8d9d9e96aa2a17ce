//! The inbox of a node: answers to its calls, and probes.

use std::sync::Arc;

use async_nats::Message;
use futures_util::StreamExt;

use super::calls::PROBE;
use super::connection::Subscription;
use super::headers::{NODE, text};
use super::link::Link;
use super::pulse::PULSE;

/// The longest probe that is looked at, in bytes: half as much again as nodes send.
const MAX_PROBE: usize = 8_192;

/// Hands answers to their calls until the node leaves.
pub(super) async fn take_replies(link: Arc<Link>, mut inbox: Box<dyn Subscription>) {
    while let Some(message) = inbox.next().await {
        take(&link, message).await;
    }
}

async fn take(link: &Link, message: Message) {
    match message.subject.rsplit_once('.') {
        Some((_, PULSE)) => link.pulse.hear(),
        Some((_, PROBE)) => answer_probe(link, message).await,
        Some((_, token)) => {
            if let Ok(token) = token.parse() {
                link.pulse.answered();
                link.calls.answer(token, message);
            }
        }
        None => {}
    }
}

/// Reports to a node which of the calls that it carries out are not wanted any more.
async fn answer_probe(link: &Link, message: Message) {
    let Message { reply: Some(reply), payload, headers, .. } = message else { return };
    if payload.len() > MAX_PROBE {
        return;
    }
    let tokens = std::str::from_utf8(&payload).unwrap_or_default();
    // it is a part of the subject of a cancel
    let node = headers.and_then(|headers| text(&headers, NODE).parse().ok());
    let unwanted = link.calls.unwanted(tokens, node.as_ref());
    link.publish(reply, unwanted.into()).await;
    // a flood of probes leaves room for the answers of other tasks
    tokio::task::yield_now().await;
}
