//! What clients of async-nats report about their connections.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_nats::{Event, ServerError};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::connection::Losses;

/// How long a node is not ready after the server has refused a message of it: nothing says when it takes the next one.
const REFUSED: std::time::Duration = std::time::Duration::from_secs(10);

/// The most subjects that are noted as denied; other programs cannot add to them, but the names of functions can.
const MAX_DENIED: usize = 1_000;

/// The events of a connection, whichever of its clients reports them.
#[derive(Debug)]
pub(super) struct Events {
    /// The number of the client whose connection counts: one that takes its place has a higher one.
    pub(super) current: AtomicU64,
    pub(super) losses: watch::Sender<Losses>,
    /// The server is about to end the connection.
    pub(super) is_leaving: AtomicBool,
    /// What the server does not permit, by subject.
    denied: Mutex<BTreeMap<String, Denial>>,
    /// Takes the subjects of messages that were refused.
    refused: mpsc::UnboundedSender<String>,
    orders: mpsc::UnboundedSender<ClientOrder>,
}

/// An order to the task that replaces clients.
#[derive(Clone, Copy, Debug)]
pub(super) enum ClientOrder {
    /// The task of the client with this number has ended, or its server is silent.
    Replace(u64),
    /// Something may be wrong with the connection of now.
    Look,
}

/// The last denial of a subject.
#[derive(Clone, Copy, Debug)]
struct Denial {
    /// A subscription was denied, and not a message.
    is_subscription: bool,
    /// How often.
    count: u64,
    at: Instant,
}

impl Events {
    pub(super) fn new(
        orders: mpsc::UnboundedSender<ClientOrder>,
        refused: mpsc::UnboundedSender<String>,
    ) -> Self {
        Self {
            current: AtomicU64::new(0),
            losses: watch::Sender::default(),
            is_leaving: AtomicBool::new(false),
            denied: Mutex::default(),
            refused,
            orders,
        }
    }

    pub(super) fn count_losses(&self) -> u64 {
        self.losses.borrow().count
    }

    pub(super) fn order(&self, order: ClientOrder) {
        // nothing takes orders once the connection is gone
        let _ = self.orders.send(order);
    }

    /// Counts what happened to the connection of a client, or logs it.
    pub(super) fn happened(&self, client: u64, event: &Event) {
        let current = self.current.load(Ordering::Relaxed);
        match event {
            Event::Disconnected if client == current => self.losses.send_modify(Losses::lose),
            Event::Connected if client == current => self.losses.send_modify(Losses::end),
            Event::LameDuckMode if client == current => {
                self.is_leaving.store(true, Ordering::Relaxed);
                self.order(ClientOrder::Look);
            }
            Event::SlowConsumer(_) => {
                tracing::error!(
                    "a message was dropped: the node does not keep up with its connection"
                );
            }
            Event::ServerError(ServerError::Other(text)) if client >= current => self.report(text),
            Event::ServerError(error) => tracing::warn!(%error, "the NATS server reports an error"),
            Event::ClientError(error) => tracing::warn!(%error, "the connection reports an error"),
            // of a client in whose place there is another one, or of one that the node has ended itself
            Event::Disconnected
            | Event::Connected
            | Event::LameDuckMode
            | Event::Draining
            | Event::Closed => {}
        }
    }

    /// An error of the server, which may be a denial.
    fn report(&self, text: &str) {
        let Some((is_subscription, subject)) = denied_subject(text) else {
            tracing::warn!(error = text, "the NATS server reports an error");
            return;
        };
        let mut denied = self.denied.lock();
        let is_known = denied.contains_key(subject);
        if is_known || denied.len() < MAX_DENIED {
            let count = denied.get(subject).map_or(0, |denial| denial.count) + 1;
            let denial = Denial { is_subscription, count, at: Instant::now() };
            denied.insert(subject.to_owned(), denial);
        }
        drop(denied);
        if !is_known {
            tracing::error!(subject, error = text, "the NATS server does not permit a subject");
        }
        if !is_subscription {
            // the node may have left
            let _ = self.refused.send(subject.to_owned());
        }
    }

    /// A subject that the server does not permit, as a sentence.
    pub(super) fn denial(&self) -> Option<String> {
        let mut denied = self.denied.lock();
        denied.retain(|_, denial| denial.is_subscription || denial.at.elapsed() < REFUSED);
        denied.iter().next().map(|(subject, denial)| {
            let what = if denial.is_subscription { "a subscription" } else { "a message" };
            format!("the NATS server does not permit {what} to {subject}")
        })
    }

    /// The subjects whose subscriptions are denied, each with how often that was said.
    pub(super) fn denied_subscriptions(&self) -> Vec<(String, u64)> {
        let denied = self.denied.lock();
        let denied = denied.iter().filter(|(_, denial)| denial.is_subscription);
        denied.map(|(subject, denial)| (subject.clone(), denial.count)).collect()
    }

    /// Forgets that a subscription was denied, unless it was denied again since it was so often.
    pub(super) fn permitted(&self, subject: &str, count: u64) {
        let mut denied = self.denied.lock();
        if denied.get(subject).is_some_and(|denial| denial.count == count) {
            denied.remove(subject);
            tracing::info!(subject, "the NATS server permits a subject again");
        }
    }
}

/// The subject that an error of the server is about, and whether it is that of a subscription.
fn denied_subject(text: &str) -> Option<(bool, &str)> {
    let is_subscription = match text.strip_prefix("Permissions Violation for ")? {
        rest if rest.starts_with("Subscription ") => true,
        rest if rest.starts_with("Publish ") => false,
        _ => return None,
    };
    Some((is_subscription, text.split('"').nth(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_names_its_subject() {
        for (text, expected) in [
            (r#"Permissions Violation for Subscription to "a.b""#, Some((true, "a.b"))),
            (
                r#"Permissions Violation for Subscription to "a.b" using queue "q""#,
                Some((true, "a.b")),
            ),
            (r#"Permissions Violation for Subscription to "a.>" (sid "7")"#, Some((true, "a.>"))),
            (r#"Permissions Violation for Publish to "a.b""#, Some((false, "a.b"))),
            ("Permissions Violation for Publish to", None),
            ("Stale Connection", None),
            ("", None),
        ] {
            assert_eq!(denied_subject(text), expected, "{text}");
        }
    }
}
