//! The connection by async-nats: a client, and each one that takes its place.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_nats::client::traits::Publisher as _;
use async_nats::client::{PublishError, PublishErrorKind};
use async_nats::connection::State;
use asyncsteps_actors::random;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::config::Config;
use super::connection::{Connection, Losses, NotSent, OutboundMessage, Subscription};
use super::credentials::{FileState, file_state};
use super::dial::{Dialler, NumberedClient, pause};
use super::error::NatsError;
use super::events::{ClientOrder, Events};
use super::subscription::Subscriptions;
use crate::node::NodeId;

/// A connection to servers of NATS.
///
/// A client of async-nats connects again by itself when its connection is cut. Another one takes its place, with the
/// same subscriptions, when its server is silent or is about to end the connection, when files that it has read were
/// written, and when its task has ended: that one of async-nats 0.51 panics at a header whose value has a carriage return.
#[derive(Debug)]
pub(super) struct ServerConnection {
    dialler: Dialler,
    /// The client of now.
    client: RwLock<Arc<NumberedClient>>,
    /// The files as they were when it was made.
    files: Mutex<FileState>,
    subscriptions: Arc<Subscriptions>,
    /// Subjects of messages that were refused; taken by the node.
    refused: Mutex<Option<mpsc::UnboundedReceiver<String>>>,
    /// Nothing is sent on the client of now, and another one takes its place.
    is_lost: AtomicBool,
}

impl ServerConnection {
    pub(super) async fn connect(config: &Config, node: &NodeId) -> Result<Arc<Self>, NatsError> {
        let (orders, taken) = mpsc::unbounded_channel();
        let (sender, refused) = mpsc::unbounded_channel();
        let events = Arc::new(Events::new(orders, sender));
        let dialler = Dialler::new(config, node, Arc::clone(&events));
        let files = config.files();
        let files = file_state(files).await;
        let client = dialler.dial(&[]).await?;
        events.current.store(client.number, Ordering::Relaxed);
        let connection = Arc::new(Self {
            dialler,
            client: RwLock::new(Arc::new(client)),
            files: Mutex::new(files),
            subscriptions: Subscriptions::new(events),
            refused: Mutex::new(Some(refused)),
            is_lost: AtomicBool::new(false),
        });
        tokio::spawn(keep(Arc::downgrade(&connection), taken, config.ping_interval));
        Ok(connection)
    }

    fn client(&self) -> Arc<NumberedClient> {
        Arc::clone(&self.client.read())
    }

    /// The files as they are now.
    async fn file_state(&self) -> FileState {
        file_state(self.dialler.config.files()).await
    }

    fn events(&self) -> &Events {
        &self.dialler.events
    }

    /// Puts another client in the place of this one, which has ended or whose server is silent, unless there is one
    /// already.
    async fn replace(&self, ended: u64) {
        if self.client().number != ended {
            return;
        }
        self.is_lost.store(true, Ordering::Relaxed);
        self.events().losses.send_modify(Losses::lose);
        for attempt in 1.. {
            tokio::time::sleep(pause(attempt)).await;
            if self.subscriptions.is_closed() {
                return;
            }
            match self.dial_again(false).await {
                Ok(()) => {
                    self.is_lost.store(false, Ordering::Relaxed);
                    self.events().losses.send_modify(Losses::end);
                    return;
                }
                Err(error) => tracing::warn!(attempt, %error, "the node cannot connect again"),
            }
        }
    }

    /// Goes on with another client, which has all subscriptions before anything is asked on it: no message is lost. The
    /// former one winds down, or is dropped at once.
    async fn dial_again(&self, winds_down: bool) -> Result<(), NatsError> {
        let (former, files) = (self.client(), self.file_state().await);
        let discovered = former.client.server_info().connect_urls;
        let mut next = self.dialler.dial(&discovered).await?;
        if winds_down {
            next.first = former.first;
        }
        let next = Arc::new(next);
        let lost = || NatsError::lost(&self.dialler.config.servers);
        let mut renewed = Vec::new();
        for slot in self.subscriptions.elsewhere(&next) {
            renewed.push((slot.subscribe(&next).await.map_err(|_| lost())?, slot));
        }
        if !self.is_settled(&next).await {
            return Err(lost());
        }
        self.events().current.store(next.number, Ordering::Relaxed);
        self.events().is_leaving.store(false, Ordering::Relaxed);
        *self.client.write() = Arc::clone(&next);
        *self.files.lock() = files;
        renewed.into_iter().for_each(|(renewed, slot)| slot.go_on(renewed, winds_down));
        // those that were made meanwhile
        for slot in self.subscriptions.elsewhere(&next) {
            slot.go_on(slot.subscribe(&next).await.map_err(|_| lost())?, winds_down);
        }
        Ok(())
    }

    /// Waits until the server of a client has taken what was sent on it; `false` if that takes too long.
    async fn is_settled(&self, NumberedClient { client, .. }: &NumberedClient) -> bool {
        let inbox = format!("_INBOX.ftn-{}", random::id());
        let settled = async {
            let mut sent = client.subscribe(inbox.clone()).await.ok()?;
            client.publish(inbox, "".into()).await.ok()?;
            sent.next().await
        };
        timeout(self.dialler.config.connect_timeout, settled).await.is_ok_and(|it| it.is_some())
    }

    /// Leaves a server that is about to end the connection, and reads files that were written; subscribes again where
    /// that was denied.
    async fn look(&self) {
        let is_leaving = self.events().is_leaving.load(Ordering::Relaxed);
        let has_new_files = self.file_state().await != *self.files.lock();
        if (is_leaving || has_new_files) && self.is_connected() {
            match self.dial_again(true).await {
                Ok(()) => tracing::info!(is_leaving, has_new_files, "the node has connected anew"),
                Err(error) => {
                    tracing::warn!(is_leaving, has_new_files, %error, "the node cannot connect anew");
                }
            }
        }
        for (subject, count) in self.events().denied_subscriptions() {
            if self.subscribe_again(&subject).await {
                self.events().permitted(&subject, count);
            }
        }
    }

    /// Subscribes once more to a subject; `false` if the connection is lost.
    async fn subscribe_again(&self, subject: &str) -> bool {
        let client = self.client();
        for slot in self.subscriptions.to(subject) {
            match slot.subscribe(&client).await {
                Ok(subscribed) => slot.go_on(subscribed, true),
                Err(_) => return false,
            }
        }
        self.is_settled(&client).await
    }
}

/// Replaces the clients of a connection, as long as it is there.
async fn keep(
    connection: Weak<ServerConnection>,
    mut orders: mpsc::UnboundedReceiver<ClientOrder>,
    look_interval: Duration,
) {
    let mut looks = interval(look_interval);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let order = tokio::select! {
            biased;
            order = orders.recv() => order,
            _ = looks.tick() => Some(ClientOrder::Look),
        };
        let Some(connection) = connection.upgrade() else { return };
        match order {
            Some(ClientOrder::Replace(client)) => connection.replace(client).await,
            Some(ClientOrder::Look) if !connection.subscriptions.is_closed() => {
                connection.look().await;
            }
            Some(ClientOrder::Look) => {}
            None => return,
        }
    }
}

impl Connection for ServerConnection {
    fn publish(&self, message: OutboundMessage) -> BoxFuture<'_, Result<(), NotSent>> {
        let client = self.client();
        Box::pin(async move { client.client.publish_message(message).await.map_err(Into::into) })
    }

    fn subscribe(
        self: Arc<Self>,
        subject: String,
        queue_group: Option<String>,
    ) -> BoxFuture<'static, Result<Box<dyn Subscription>, NotSent>> {
        Box::pin(async move {
            let subscriptions = Arc::clone(&self.subscriptions);
            let subscription = subscriptions.add(subject, queue_group, || self.client()).await?;
            Ok(Box::new(subscription) as Box<dyn Subscription>)
        })
    }

    fn drain(&self) -> BoxFuture<'_, ()> {
        self.subscriptions.close();
        let client = self.client();
        // a client that has ended needs no drain, and one with a silent server may have no room for the order
        let limit = self.dialler.config.connect_timeout;
        Box::pin(async move { drop(timeout(limit, client.client.drain()).await) })
    }

    fn renew(&self) {
        self.events().order(ClientOrder::Replace(self.client().number));
    }

    fn is_connected(&self) -> bool {
        let is_there = !self.subscriptions.is_closed() && !self.is_lost.load(Ordering::Relaxed);
        is_there && self.client.read().client.connection_state() == State::Connected
    }

    fn denial(&self) -> Option<String> {
        self.events().denial()
    }

    fn refused(&self) -> Option<mpsc::UnboundedReceiver<String>> {
        self.refused.lock().take()
    }

    fn losses(&self) -> watch::Receiver<Losses> {
        self.events().losses.subscribe()
    }

    fn max_payload(&self) -> usize {
        self.client.read().client.max_payload()
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
