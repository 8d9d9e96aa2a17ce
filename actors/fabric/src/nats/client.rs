//! The connection by async-nats: a client, and each one that takes the place of one that has ended.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use async_nats::client::traits::Publisher as _;
use async_nats::client::{PublishError, PublishErrorKind};
use async_nats::connection::State;
use async_nats::{Client, Message, SubscribeError, Subscriber};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use super::config::Config;
use super::connection::{Connection, Losses, NotSent, OutboundMessage, Subscription};
use super::dial::{dial, pause};
use super::error::NatsError;
use crate::node::NodeId;

/// A connection to servers of NATS.
///
/// The task of a client ends when it panics, as the one of async-nats 0.51 does at a header whose value has a carriage
/// return. Then another client takes its place, with the same subscriptions.
#[derive(Debug)]
pub(super) struct ServerConnection {
    config: Config,
    node: NodeId,
    /// The client of now.
    client: watch::Sender<Arc<Client>>,
    /// The subscriptions, by number.
    subscriptions: Mutex<BTreeMap<u64, RenewedSubscription>>,
    numbers: AtomicU64,
    losses: Arc<watch::Sender<Losses>>,
    /// Takes the client that a subscription finds to have ended.
    ended: mpsc::UnboundedSender<Arc<Client>>,
    /// The client has ended, and another one takes its place.
    has_ended: AtomicBool,
    /// The node has left.
    is_closed: AtomicBool,
}

#[derive(Debug)]
struct RenewedSubscription {
    subject: String,
    queue_group: Option<String>,
    /// The same on a client that took the place of the one that the subscription knows.
    renewed: Option<MessageSource>,
}

/// Where the messages of a subscription come from.
#[derive(Debug)]
struct MessageSource {
    client: Arc<Client>,
    messages: Subscriber,
}

/// A subscription on the client of now, and on each one that takes its place.
struct ServerSubscription {
    connection: Arc<ServerConnection>,
    number: u64,
    source: MessageSource,
    /// Waits for the client that takes the place of one that has ended.
    renewal: Option<BoxFuture<'static, Option<MessageSource>>>,
}

impl ServerConnection {
    pub(super) async fn connect(config: &Config, node: &NodeId) -> Result<Arc<Self>, NatsError> {
        let losses = Arc::default();
        let client = dial(config, node, &losses).await?;
        let (ended, found_ended) = mpsc::unbounded_channel();
        let connection = Arc::new(Self {
            config: config.clone(),
            node: node.clone(),
            client: watch::Sender::new(Arc::new(client)),
            subscriptions: Mutex::default(),
            numbers: AtomicU64::new(0),
            losses,
            ended,
            has_ended: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        });
        tokio::spawn(keep(Arc::downgrade(&connection), found_ended));
        Ok(connection)
    }

    fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client.borrow())
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    async fn add(
        self: Arc<Self>,
        subject: String,
        queue_group: Option<String>,
    ) -> Result<ServerSubscription, SubscribeError> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let client = self.client();
        let (wanted, group) = (subject.clone(), queue_group.clone());
        self.subscriptions
            .lock()
            .insert(number, RenewedSubscription { subject, queue_group, renewed: None });
        match subscribe(&client, wanted, group).await {
            Ok(messages) => {
                let source = MessageSource { client, messages };
                Ok(ServerSubscription { connection: self, number, source, renewal: None })
            }
            Err(error) => {
                self.subscriptions.lock().remove(&number);
                Err(error)
            }
        }
    }

    /// Puts a client in the place of this one, which has ended, unless there is one already.
    async fn replace(&self, ended: &Arc<Client>) {
        if !Arc::ptr_eq(&self.client(), ended) {
            return;
        }
        tracing::error!("the task of the connection has ended: the node connects again");
        self.has_ended.store(true, Ordering::Relaxed);
        self.losses.send_modify(Losses::lose);
        for attempt in 1.. {
            tokio::time::sleep(pause(attempt)).await;
            if self.is_closed() {
                return;
            }
            match self.dial_again().await {
                Ok(client) => {
                    self.client.send_replace(client);
                    self.has_ended.store(false, Ordering::Relaxed);
                    return;
                }
                Err(error) => tracing::warn!(attempt, %error, "the node cannot connect again"),
            }
        }
    }

    /// A client with all subscriptions: answers come to them before anything is asked.
    async fn dial_again(&self) -> Result<Arc<Client>, NatsError> {
        let client = Arc::new(dial(&self.config, &self.node, &self.losses).await?);
        let subscribed = |(number, it): (&u64, &RenewedSubscription)| {
            (*number, it.subject.clone(), it.queue_group.clone())
        };
        let all: Vec<_> = self.subscriptions.lock().iter().map(subscribed).collect();
        for (number, subject, queue_group) in all {
            let messages = subscribe(&client, subject, queue_group).await;
            let messages = messages.map_err(|_| NatsError::lost(&self.config.servers))?;
            if let Some(subscribed) = self.subscriptions.lock().get_mut(&number) {
                subscribed.renewed = Some(MessageSource { client: Arc::clone(&client), messages });
            }
        }
        Ok(client)
    }

    /// Where the messages of a subscription come from after this client; `None` once the node has left.
    async fn renewed(self: Arc<Self>, number: u64, ended: Arc<Client>) -> Option<MessageSource> {
        let mut clients = self.client.subscribe();
        let mut ended = Some(ended);
        loop {
            if self.is_closed() {
                return None;
            }
            if let Some(renewed) = self.subscriptions.lock().get_mut(&number)?.renewed.take() {
                return Some(renewed);
            }
            if let Some(ended) = ended.take() {
                self.ended.send(ended).ok()?;
            }
            clients.changed().await.ok()?;
        }
    }
}

/// Replaces the clients of a connection that have ended, as long as it is there.
async fn keep(
    connection: Weak<ServerConnection>,
    mut found_ended: mpsc::UnboundedReceiver<Arc<Client>>,
) {
    while let Some(ended) = found_ended.recv().await {
        let Some(connection) = connection.upgrade() else { return };
        connection.replace(&ended).await;
    }
}

async fn subscribe(
    client: &Client,
    subject: String,
    queue_group: Option<String>,
) -> Result<Subscriber, SubscribeError> {
    match queue_group {
        Some(group) => client.queue_subscribe(subject, group).await,
        None => client.subscribe(subject).await,
    }
}

impl Connection for ServerConnection {
    fn publish(&self, message: OutboundMessage) -> BoxFuture<'_, Result<(), NotSent>> {
        let client = self.client();
        Box::pin(async move { client.publish_message(message).await.map_err(Into::into) })
    }

    fn subscribe(
        self: Arc<Self>,
        subject: String,
        queue_group: Option<String>,
    ) -> BoxFuture<'static, Result<Box<dyn Subscription>, NotSent>> {
        Box::pin(async move {
            match self.add(subject, queue_group).await {
                Ok(subscription) => Ok(Box::new(subscription) as Box<dyn Subscription>),
                Err(error) => Err(NotSent::Ended(error.to_string())),
            }
        })
    }

    fn drain(&self) -> BoxFuture<'_, ()> {
        self.is_closed.store(true, Ordering::Relaxed);
        // notifies what waits for another client
        self.client.send_modify(|_| ());
        let client = self.client();
        // a client that has ended needs no drain
        Box::pin(async move { drop(client.drain().await) })
    }

    fn is_connected(&self) -> bool {
        let is_there = !self.is_closed() && !self.has_ended.load(Ordering::Relaxed);
        is_there && self.client.borrow().connection_state() == State::Connected
    }

    fn losses(&self) -> watch::Receiver<Losses> {
        self.losses.subscribe()
    }

    fn max_payload(&self) -> usize {
        self.client.borrow().max_payload()
    }
}

impl From<PublishError> for NotSent {
    fn from(error: PublishError) -> Self {
        match error.kind() {
            PublishErrorKind::MaxPayloadExceeded => Self::TooLarge,
            PublishErrorKind::Send | PublishErrorKind::InvalidSubject => {
                Self::Ended(error.to_string())
            }
        }
    }
}

impl Stream for ServerSubscription {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let this = &mut *self;
        loop {
            if let Some(renewal) = &mut this.renewal {
                let renewed = ready!(renewal.poll_unpin(cx));
                this.renewal = None;
                match renewed {
                    Some(source) => this.source = source,
                    None => return Poll::Ready(None),
                }
            }
            if let Some(message) = ready!(this.source.messages.poll_next_unpin(cx)) {
                return Poll::Ready(Some(message));
            }
            let (connection, ended) =
                (Arc::clone(&this.connection), Arc::clone(&this.source.client));
            this.renewal = Some(Box::pin(connection.renewed(this.number, ended)));
        }
    }
}

impl Subscription for ServerSubscription {
    fn unsubscribe(&mut self, after: Option<u64>) -> BoxFuture<'_, Result<(), NotSent>> {
        // it is not renewed any more
        self.connection.subscriptions.lock().remove(&self.number);
        let messages = &mut self.source.messages;
        Box::pin(async move {
            let ended = match after {
                Some(count) => messages.unsubscribe_after(count).await,
                None => messages.drain().await,
            };
            ended.map_err(|error| NotSent::Ended(error.to_string()))
        })
    }
}

impl Drop for ServerSubscription {
    fn drop(&mut self) {
        self.connection.subscriptions.lock().remove(&self.number);
    }
}
