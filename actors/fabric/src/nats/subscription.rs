//! Subscriptions by async-nats, and their way from a client to the one that takes its place.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use async_nats::connection::State;
use async_nats::{Message, Subscriber};
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, SelectAll};
use futures_util::task::AtomicWaker;
use futures_util::{Stream, StreamExt as _, ready};
use parking_lot::Mutex;

use super::connection::{NotSent, OWN_GROUP, Subscription};
use super::dial::NumberedClient;
use super::events::{ClientOrder, Events};
use super::wind_down::wind_down;

/// The subscriptions of a connection.
#[derive(Debug)]
pub(super) struct Subscriptions {
    slots: Mutex<BTreeMap<u64, Arc<SubscriptionSlot>>>,
    /// How many there were.
    made: AtomicU64,
    events: Arc<Events>,
    /// The node has left.
    is_closed: AtomicBool,
}

/// A subscription as its connection knows it.
#[derive(Debug)]
pub(super) struct SubscriptionSlot {
    subject: String,
    queue_group: Option<String>,
    /// The number of the client that it is on.
    client: AtomicU64,
    /// The same on a client that took the place of the one that the subscription knows.
    renewed: Mutex<Option<ClientSubscription>>,
    /// Messages that the former client has are still wanted.
    winds_down: AtomicBool,
    waker: AtomicWaker,
}

/// A subscription of one client.
#[derive(Debug)]
pub(super) struct ClientSubscription {
    client: Arc<NumberedClient>,
    messages: Subscriber,
    received: u64,
}

/// A subscription on the client of now, and on each one that takes its place.
pub(super) struct ServerSubscription {
    all: Arc<Subscriptions>,
    number: u64,
    slot: Arc<SubscriptionSlot>,
    current: ClientSubscription,
    /// The rest of the messages of former clients.
    former: SelectAll<BoxStream<'static, Message>>,
    /// How many messages came from former clients.
    received_before: u64,
    /// The end of the client was reported.
    is_reported: bool,
}

impl Subscriptions {
    pub(super) fn new(events: Arc<Events>) -> Arc<Self> {
        let (slots, made, is_closed) =
            (Mutex::default(), AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { slots, made, events, is_closed })
    }

    /// Subscribes on the client that is there when the subscription is known: one that takes its place finds it.
    pub(super) async fn add(
        self: Arc<Self>,
        subject: String,
        queue_group: Option<String>,
        client: impl FnOnce() -> Arc<NumberedClient>,
    ) -> Result<ServerSubscription, NotSent> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let slot = Arc::new(SubscriptionSlot::new(subject, queue_group));
        self.slots.lock().insert(number, Arc::clone(&slot));
        let subscribed = slot.subscribe(&client()).await;
        let current = subscribed.inspect_err(|_| self.forget(number))?;
        let (former, received_before, is_reported) = (SelectAll::new(), 0, false);
        let all = self;
        Ok(ServerSubscription { all, number, slot, current, former, received_before, is_reported })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Lets them end with their connection.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.slots.lock().values().for_each(|slot| slot.waker.wake());
    }

    /// Those that a client does not have.
    pub(super) fn elsewhere(&self, client: &NumberedClient) -> Vec<Arc<SubscriptionSlot>> {
        self.select(|slot| slot.client.load(Ordering::Relaxed) != client.number)
    }

    pub(super) fn to(&self, subject: &str) -> Vec<Arc<SubscriptionSlot>> {
        self.select(|slot| slot.subject == subject)
    }

    fn select(&self, is_wanted: impl Fn(&SubscriptionSlot) -> bool) -> Vec<Arc<SubscriptionSlot>> {
        self.slots.lock().values().filter(|slot| is_wanted(slot)).cloned().collect()
    }

    /// Whether a subscription goes on when its client has ended.
    fn keeps(&self, subscription: u64) -> bool {
        !self.is_closed() && self.slots.lock().contains_key(&subscription)
    }

    fn forget(&self, subscription: u64) {
        self.slots.lock().remove(&subscription);
    }
}

impl SubscriptionSlot {
    fn new(subject: String, queue_group: Option<String>) -> Self {
        Self {
            subject,
            queue_group,
            client: AtomicU64::new(0),
            renewed: Mutex::default(),
            winds_down: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        }
    }

    /// Subscribes on a client.
    pub(super) async fn subscribe(
        &self,
        client: &Arc<NumberedClient>,
    ) -> Result<ClientSubscription, NotSent> {
        let (subject, group) = (self.subject.clone(), self.queue_group.clone());
        let messages = match group {
            Some(group) if group == OWN_GROUP => {
                client.client.queue_subscribe(subject, format!("{group}{}", client.first)).await
            }
            Some(group) => client.client.queue_subscribe(subject, group).await,
            None => client.client.subscribe(subject).await,
        };
        let messages = messages.map_err(|error| NotSent::Ended(error.to_string()))?;
        self.client.store(client.number, Ordering::Relaxed);
        Ok(ClientSubscription { client: Arc::clone(client), messages, received: 0 })
    }

    /// Goes on with the subscription of another client; the former one winds down, or is dropped with its messages.
    pub(super) fn go_on(&self, renewed: ClientSubscription, winds_down: bool) {
        self.winds_down.store(winds_down, Ordering::Relaxed);
        *self.renewed.lock() = Some(renewed);
        self.waker.wake();
    }
}

impl ServerSubscription {
    /// Takes a subscription that has been made on another client.
    fn take_renewed(&mut self) {
        let Some(renewed) = self.slot.renewed.lock().take() else { return };
        let former = std::mem::replace(&mut self.current, renewed);
        self.received_before += former.received;
        self.is_reported = false;
        if self.slot.winds_down.load(Ordering::Relaxed) {
            let client = Arc::clone(&former.client);
            let is_first = self.all.events.count_losses() == client.losses;
            let received = is_first.then_some(former.received);
            let is_connected = move || client.client.connection_state() == State::Connected;
            self.former.push(wind_down(Box::new(former), received, is_connected).boxed());
        }
    }
}

impl Stream for ServerSubscription {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let this = &mut *self;
        this.slot.waker.register(cx.waker());
        this.take_renewed();
        if !this.former.is_empty()
            && let Poll::Ready(Some(message)) = this.former.poll_next_unpin(cx)
        {
            this.received_before += 1;
            return Poll::Ready(Some(message));
        }
        if let Some(message) = ready!(this.current.poll_next_unpin(cx)) {
            return Poll::Ready(Some(message));
        }
        if !this.all.keeps(this.number) {
            return if this.former.is_empty() { Poll::Ready(None) } else { Poll::Pending };
        }
        if !std::mem::replace(&mut this.is_reported, true) {
            let client = this.current.client.number;
            this.all.events.order(ClientOrder::Replace(client));
        }
        Poll::Pending
    }
}

impl Subscription for ServerSubscription {
    fn unsubscribe(&mut self, after: Option<u64>) -> BoxFuture<'_, Result<(), NotSent>> {
        // it is not renewed any more
        self.all.forget(self.number);
        self.take_renewed();
        self.current.unsubscribe(after.map(|after| after.saturating_sub(self.received_before)))
    }
}

impl Drop for ServerSubscription {
    fn drop(&mut self) {
        self.all.forget(self.number);
    }
}

impl Stream for ClientSubscription {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let message = ready!(self.messages.poll_next_unpin(cx));
        self.received += u64::from(message.is_some());
        Poll::Ready(message)
    }
}

impl Subscription for ClientSubscription {
    fn unsubscribe(&mut self, after: Option<u64>) -> BoxFuture<'_, Result<(), NotSent>> {
        let messages = &mut self.messages;
        Box::pin(async move {
            let ended = match after {
                Some(count) => messages.unsubscribe_after(count).await,
                None => messages.drain().await,
            };
            ended.map_err(|error| NotSent::Ended(error.to_string()))
        })
    }
}
