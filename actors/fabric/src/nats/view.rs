//! The nodes that are there, looked at again and again once they are asked for: for calls that are placed, for calls that
//! go to any node, and for calls that wait for one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_nats::{HeaderMap, Message};
use asyncsteps_executor::iface::FunctionName;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::control::discover;
use super::link::Link;
use crate::call_error::{CallError, Outcome};
use crate::known_interfaces::KnownInterfaces;
use crate::live_nodes::LiveNodes;
use crate::node::{NodeId, NodeInfo};

/// How long a call waits before its node is asked whether it is there, and the least pause before it is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// With each of so many nodes that are asked, and that are looked at, the pauses grow by as much again: all nodes do it.
const ASKED: usize = 8;
const SEEN: usize = 32;

/// After this number of questions without an answer a node is gone.
const MISSES: u8 = 3;

/// The most nodes that are known to answer; more than a server connects well.
const MAX_NODES: usize = 10_000;

/// The most nodes that say at once what they serve; others are seen at the next look.
const MAX_NEWS: usize = 64;

/// The nodes as they were last seen.
#[derive(Debug, Default)]
pub(super) struct View {
    nodes: RwLock<LiveNodes>,
    /// Of these, those that calls for any node are sent to: they can be asked whether they are there. A node that stands
    /// still is not among them, nor one that this node may not send to by its name.
    called: RwLock<LiveNodes>,
    /// How often nodes were asked by their names, and whether they have answered then.
    greeted: Mutex<BTreeMap<NodeId, (u8, bool)>>,
    /// What other nodes have served, as far as this one has looked.
    known: KnownInterfaces,
    has_looked: AtomicBool,
    /// What nodes have said they serve since the last look.
    news: Mutex<Vec<NodeInfo>>,
    wanted: Notify,
    turn: AtomicU32,
}

impl View {
    /// The nodes; none before the first look, which this asks for.
    pub(super) fn nodes(&self) -> LiveNodes {
        let nodes = self.nodes.read().clone();
        if nodes.is_empty() {
            self.wanted.notify_one();
        }
        nodes
    }

    /// The node for a call that may go to any, and what is held while the call waits; `None` leaves the choice to the
    /// server.
    pub(super) fn choose(&self, function: &FunctionName) -> Option<(NodeId, Arc<()>)> {
        let called = self.called.read();
        if called.is_empty() {
            self.wanted.notify_one();
        }
        called.in_turn(function, self.turn.fetch_add(1, Ordering::Relaxed))
    }

    /// No calls go to a node until the next look.
    pub(super) fn leave_out(&self, node: &NodeId) {
        let mut called = self.called.write();
        *called = called.only(|it| it != node);
    }

    /// A node says what it serves from now on.
    pub(super) fn heard(&self, info: NodeInfo) {
        let mut news = self.news.lock();
        // the first look sees it
        if news.len() < MAX_NEWS && !self.nodes.read().is_empty() {
            news.push(info);
            self.wanted.notify_one();
        }
    }

    /// Looks at the nodes from the time that they are asked for until the connection ends. While there is
    /// no connection, or the server is silent, the last view stays.
    pub(super) async fn watch(self: Arc<Self>, link: Arc<Link>) {
        self.wanted.notified().await;
        while !link.is_closed() {
            let mut count = 0;
            if let Ok(nodes) = self.look(&link).await
                && (!nodes.is_empty() || link.settle().await.is_ok())
            {
                count = nodes.len();
                let nodes = LiveNodes::of(&nodes);
                self.greet(&link, &nodes).await;
                *self.called.write() = nodes.only(|node| self.has_answered(node));
                *self.nodes.write() = nodes;
            }
            let pause = tokio::time::sleep(shared(link.config.view_interval, count / SEEN));
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    biased;
                    () = &mut pause => break,
                    () = self.wanted.notified() => self.meet(&link).await,
                }
            }
        }
    }

    /// Takes in the nodes that have said what they serve.
    async fn meet(&self, link: &Link) {
        let news = std::mem::take(&mut *self.news.lock());
        if news.is_empty() {
            return;
        }
        let new = LiveNodes::of(&news);
        self.greet(link, &new).await;
        for (view, new) in
            [(&self.nodes, new.clone()), (&self.called, new.only(|node| self.has_answered(node)))]
        {
            let mut view = view.write();
            *view = view.with(&new);
        }
    }

    /// Asks all nodes what they serve.
    pub(super) async fn look(&self, link: &Link) -> Result<Vec<NodeInfo>, CallError> {
        let nodes = discover(link).await?;
        self.has_looked.store(true, Ordering::Relaxed);
        let others = nodes.iter().filter(|info| info.node != link.node.as_str());
        for interface in others.flat_map(|info| &info.interfaces) {
            self.known.add(interface.split(':').next().unwrap_or_default());
        }
        Ok(nodes)
    }

    /// The error of a call that no node takes, which ends then.
    pub(super) async fn not_served(
        &self,
        link: &Link,
        function: &FunctionName,
        ends: Instant,
    ) -> CallError {
        if !self.has_looked.swap(true, Ordering::Relaxed) {
            // without a connection nothing is known
            let _ = tokio::time::timeout_at(ends, self.look(link)).await;
        }
        self.known.not_served(function)
    }

    /// Asks nodes that are new whether they are there, by their names.
    async fn greet(&self, link: &Link, nodes: &LiveNodes) {
        let new: Vec<_> = {
            let mut greeted = self.greeted.lock();
            if greeted.len() > MAX_NODES {
                greeted.clear();
            }
            let mut is_new = |node: &NodeId| {
                let (asked, has_answered) = greeted.entry(node.clone()).or_default();
                let is_new = *asked < MISSES && !*has_answered;
                *asked += u8::from(is_new);
                is_new
            };
            nodes.names().filter(|node| is_new(node)).collect()
        };
        let asks = new.into_iter().map(|node| async move {
            if ask(link, node, link.config.discovery_time).await.is_ok() {
                self.greeted.lock().insert(node.clone(), (MISSES, true));
            }
        });
        asks.collect::<FuturesUnordered<_>>().collect::<()>().await;
    }

    fn has_answered(&self, node: &NodeId) -> bool {
        self.greeted.lock().get(node).is_some_and(|(_, has_answered)| *has_answered)
    }

    /// Asks the nodes of calls that wait whether they are there. The calls of one that is gone end.
    pub(super) async fn watch_calls(self: Arc<Self>, link: Arc<Link>) {
        let (mut asks, mut asking) = (FuturesUnordered::new(), BTreeSet::new());
        let mut count = 0;
        while !link.is_closed() {
            if asks.is_empty() {
                link.calls.some().await;
            }
            let pause = tokio::time::sleep(shared(PAUSE, count / ASKED));
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    biased;
                    Some(node) = asks.next(), if !asks.is_empty() => drop(asking.remove(&node)),
                    () = &mut pause => break,
                }
            }
            let since = Instant::now().checked_sub(PAUSE);
            let nodes = since.map(|since| link.calls.nodes(since)).unwrap_or_default();
            count = nodes.len();
            for node in nodes {
                if self.has_answered(&node) && asking.insert(node.clone()) {
                    asks.push(self.ask_until_it_is_there(&link, node));
                }
            }
        }
    }

    async fn ask_until_it_is_there(&self, link: &Link, node: NodeId) -> NodeId {
        let mut misses = 0;
        loop {
            let asked_at = Instant::now();
            match ask(link, &node, link.config.view_interval).await {
                Ok(_) => return node,
                Err(_) if !link.is_connected() || !link.is_settled() => return node,
                Err(error) if error == CallError::not_served() => misses = MISSES,
                // a server that is silent says nothing about the node
                Err(error)
                    if error.outcome() == Outcome::Unknown && link.settle().await.is_ok() =>
                {
                    misses += 1;
                }
                Err(_) => return node,
            }
            self.leave_out(&node);
            if misses >= MISSES {
                tracing::warn!(%node, "a node is gone: its calls have an unknown outcome");
                link.calls.lose(&node, asked_at);
                return node;
            }
        }
    }
}

/// Asks a node by its name whether it is there.
async fn ask(link: &Link, node: &NodeId, limit: Duration) -> Result<Message, CallError> {
    link.exchange(link.subjects.presence(node), HeaderMap::new(), Bytes::new(), limit).await
}

/// A pause that has grown so often.
fn shared(pause: Duration, times: usize) -> Duration {
    pause.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX).saturating_add(1))
}
