//! The connection of a node to the network of its cluster.

use std::collections::VecDeque;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use asyncsteps_fabric::nats::connection::{
    Connection, Losses, Message, NotSent, OutboundMessage, Subscription,
};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::network::{MAX_PAYLOAD, Network, Parcel};

/// A connection; it ends when this is dropped.
#[derive(derive_more::Debug)]
pub(crate) struct NodeConnection {
    #[debug(skip)]
    network: Network,
    number: u64,
    #[debug(skip)]
    losses: watch::Receiver<Losses>,
}

/// A subscription; it ends when this is dropped.
struct NodeSubscription {
    connection: Arc<NodeConnection>,
    number: u64,
    parcels: mpsc::UnboundedReceiver<Parcel>,
    /// The messages in flight, with the times of their arrival, in this order.
    under_way: VecDeque<(Instant, Parcel)>,
    /// Waits for the first of them.
    arrival: Option<Pin<Box<Sleep>>>,
}

impl NodeConnection {
    pub(crate) fn new(network: &Network, node: usize) -> Self {
        let (number, losses) = network.connect(node);
        Self { network: network.clone(), number, losses }
    }
}

impl Connection for NodeConnection {
    fn publish(&self, message: OutboundMessage) -> BoxFuture<'_, Result<(), NotSent>> {
        Box::pin(async move { self.network.publish(self.number, message) })
    }

    fn subscribe(
        self: Arc<Self>,
        subject: String,
        queue_group: Option<String>,
    ) -> BoxFuture<'static, Result<Box<dyn Subscription>, NotSent>> {
        Box::pin(async move {
            let (number, parcels) = self.network.subscribe(self.number, subject, queue_group)?;
            let (under_way, arrival) = (VecDeque::new(), None);
            let subscription =
                NodeSubscription { connection: self, number, parcels, under_way, arrival };
            Ok(Box::new(subscription) as Box<dyn Subscription>)
        })
    }

    fn drain(&self) -> BoxFuture<'_, ()> {
        self.network.leave(self.number);
        Box::pin(ready(()))
    }

    fn renew(&self) {
        self.network.renew(self.number);
    }

    fn is_connected(&self) -> bool {
        self.network.is_connected(self.number)
    }

    fn losses(&self) -> watch::Receiver<Losses> {
        self.losses.clone()
    }

    fn max_payload(&self) -> usize {
        MAX_PAYLOAD
    }
}

impl Drop for NodeConnection {
    fn drop(&mut self) {
        self.network.leave(self.number);
    }
}

impl NodeSubscription {
    /// Takes sent messages: each message comes after its latency, and not before the one that was sent before it.
    fn take_parcels(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(parcel) = ready!(self.parcels.poll_recv(cx)) {
            let mut arrival = Instant::now() + parcel.latency;
            if let Some((before, _)) = self.under_way.back() {
                arrival = arrival.max(*before);
            }
            self.under_way.push_back((arrival, parcel));
        }
        Poll::Ready(())
    }
}

impl Stream for NodeSubscription {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let this = &mut *self;
        let has_ended = this.take_parcels(cx).is_ready();
        loop {
            let Some((arrival, _)) = this.under_way.front() else {
                return if has_ended { Poll::Ready(None) } else { Poll::Pending };
            };
            let sleep = this.arrival.get_or_insert_with(|| Box::pin(sleep_until(*arrival)));
            ready!(sleep.poll_unpin(cx));
            this.arrival = None;
            let NodeConnection { network, losses, .. } = &*this.connection;
            let (parcel, losses) = (this.under_way.pop_front(), losses.borrow().count);
            let parcel = parcel.map(|(_, parcel)| parcel);
            let message = parcel.and_then(|parcel| network.receive(this.number, parcel, losses));
            if message.is_some() {
                return Poll::Ready(message);
            }
        }
    }
}

impl Subscription for NodeSubscription {
    fn unsubscribe(&mut self, after: Option<u64>) -> BoxFuture<'_, Result<(), NotSent>> {
        let NodeConnection { network, number, .. } = &*self.connection;
        Box::pin(ready(network.unsubscribe(*number, self.number, after.unwrap_or_default())))
    }
}

impl Drop for NodeSubscription {
    fn drop(&mut self) {
        let NodeConnection { network, number, .. } = &*self.connection;
        // with its connection it has ended already
        let _ = network.unsubscribe(*number, self.number, 0);
    }
}
