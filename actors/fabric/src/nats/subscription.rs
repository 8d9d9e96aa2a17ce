//! Subscriptions that outlast the client of NATS that they were made with.

use std::sync::Arc;

use async_nats::{Client, Message, SubscribeError, Subscriber};
use futures_util::StreamExt;
use tokio::sync::watch;

use super::link::{Link, LinkState};

/// A subscription of a node: on the client of now, and on each one that takes its place.
#[derive(Debug)]
pub(super) struct Subscription {
    subject: String,
    queue_group: Option<String>,
    state: Arc<LinkState>,
    clients: watch::Receiver<Arc<Client>>,
    /// Where the messages come from.
    client: Arc<Client>,
    messages: Subscriber,
}

impl Link {
    /// Subscribes to a subject, in a queue group if one is given.
    pub(super) async fn subscribe(
        &self,
        subject: String,
        queue_group: Option<String>,
    ) -> Result<Subscription, SubscribeError> {
        let (state, clients, client) = (Arc::clone(&self.state), self.clients(), self.client());
        let messages = subscribe(&client, &subject, queue_group.as_ref()).await?;
        Ok(Subscription { subject, queue_group, state, clients, client, messages })
    }
}

impl Subscription {
    /// The next message; `None` once the node has left.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub(super) async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.messages.next().await {
                return Some(message);
            }
            self.renew().await?;
        }
    }

    /// What comes from the client of now, which ends with it.
    pub(super) fn into_subscriber(self) -> Subscriber {
        self.messages
    }

    /// Subscribes on the client that takes the place of the one that has ended.
    async fn renew(&mut self) -> Option<()> {
        let Self { state, clients, client, .. } = self;
        loop {
            let is_next = |next: &Arc<Client>| state.is_closed() || !Arc::ptr_eq(next, client);
            let next = Arc::clone(&*clients.wait_for(is_next).await.ok()?);
            if state.is_closed() {
                return None;
            }
            let renewed = subscribe(&next, &self.subject, self.queue_group.as_ref()).await;
            *client = next;
            // a client that has ended too is replaced again
            if let Ok(messages) = renewed {
                self.messages = messages;
                return Some(());
            }
        }
    }
}

async fn subscribe(
    client: &Client,
    subject: &str,
    queue_group: Option<&String>,
) -> Result<Subscriber, SubscribeError> {
    match queue_group {
        Some(group) => client.queue_subscribe(subject.to_owned(), group.clone()).await,
        None => client.subscribe(subject.to_owned()).await,
    }
}
