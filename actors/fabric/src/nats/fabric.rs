//! The fabric over NATS, as applications and drivers see it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use actix_rt::ArbiterHandle;
use asyncsteps_actors::random;
use asyncsteps_executor::Executor;
use asyncsteps_executor::health::ConnectionState;
use futures_util::future::BoxFuture;

use super::client::ServerConnection;
use super::config::Config;
use super::connection::Connection;
use super::control::{announce, compare_secrets, is_name_taken, order_drain, take_orders};
use super::error::NatsError;
use super::link::Link;
use super::outgoing::make_call;
use super::own::{self, OwnCall};
use super::replies::take_replies;
use super::serve::{Members, serve};
use super::view::View;
use super::watch::{end_refused, watch_losses, watch_silence};
use crate::call::{Call, Response};
use crate::call_error::CallError;
use crate::endpoint::Endpoint;
use crate::fabric::{Capabilities, Fabric};
use crate::live_nodes::LiveNodes;
use crate::node::{NodeId, NodeInfo};
use crate::pending::Pending;
use crate::serve_guard::ServeGuard;

/// A node of a fabric over NATS. Cloning shares the connection.
#[derive(Clone, derive_more::Debug)]
#[debug(
    "NatsFabric {{ node: {:?}, is_connected: {:?}, .. }}",
    self.link.node, self.link.is_connected()
)]
pub struct NatsFabric {
    link: Arc<Link>,
    members: Members,
    view: Arc<View>,
}

impl NatsFabric {
    /// Connects a node. The connection lasts until it is [closed](Self::close) or the arbiter ends that this
    /// runs on; while a server cannot be reached it tries again, every 2 seconds at most.
    ///
    /// # Errors
    /// [`NatsError`] if no server can be reached, or if it refuses the credentials or is too old, or if
    /// another node answers to the [name](Config::node). Two nodes that join at the same moment may not
    /// notice each other.
    ///
    /// # Panics
    /// Outside of an actix arbiter and of a tokio runtime.
    pub async fn connect(config: Config) -> Result<Self, NatsError> {
        config.check()?;
        let node = node_of(&config);
        let connection = ServerConnection::connect(&config, &node).await?;
        Self::join(connection, config, node).await
    }

    /// The same over a connection that is there already, such as one of a simulated network. Servers and credentials of
    /// the configuration do not count.
    ///
    /// # Errors
    /// [`NatsError`] if the connection is lost, or if another node answers to the name.
    ///
    /// # Panics
    /// Outside of an actix arbiter and of a tokio runtime.
    pub async fn over(connection: Arc<dyn Connection>, config: Config) -> Result<Self, NatsError> {
        config.check()?;
        let node = node_of(&config);
        Self::join(connection, config, node).await
    }

    async fn join(
        connection: Arc<dyn Connection>,
        config: Config,
        node: NodeId,
    ) -> Result<Self, NatsError> {
        let link = Arc::new(Link::new(connection, config, node));
        let joined = Self::begin(&link).await;
        if joined.is_err() {
            // another attempt would find this one under its name
            link.leave().await;
        }
        joined
    }

    async fn begin(link: &Arc<Link>) -> Result<Self, NatsError> {
        let lost = || NatsError::lost(&link.config.servers);
        let members = Members::default();
        tokio::spawn(watch_losses(Arc::downgrade(link), link.connection.losses()));
        if let Some(refused) = link.connection.refused() {
            tokio::spawn(end_refused(Arc::downgrade(link), refused));
        }
        let inbox = link.subscribe(link.calls.subject(), None).await.map_err(|_| lost())?;
        tokio::spawn(tokio::task::unconstrained(take_replies(Arc::clone(link), inbox)));
        // a random name is no other's
        if link.config.node.is_some() && is_name_taken(link).await {
            return Err(NatsError::NameTaken { node: link.node.clone() });
        }
        let view = Arc::new(View::default());
        let orders =
            [link.node.as_str(), crate::node::ALL].map(|it| link.subjects.control(it, "*"));
        for subject in orders.into_iter().chain([link.subjects.presence(&link.node)]) {
            let orders = link.subscribe(subject, None).await;
            let orders = orders.map_err(|_| lost())?;
            let (members, view) = (Arc::clone(&members), Arc::clone(&view));
            let heard = move |info| view.heard(info);
            tokio::spawn(take_orders(Arc::clone(link), members, heard, orders));
        }
        tokio::spawn(Arc::clone(&view).watch(Arc::clone(link)));
        tokio::spawn(Arc::clone(&view).watch_calls(Arc::clone(link)));
        link.settle().await.map_err(|_| lost())?;
        tokio::spawn(watch_silence(Arc::downgrade(link), link.config.ping_interval));
        if link.config.trust.has_secret() {
            tokio::spawn(compare_secrets(Arc::clone(link)));
        }
        Ok(Self { link: Arc::clone(link), members, view })
    }

    /// The name of this node.
    #[must_use]
    pub fn node(&self) -> &NodeId {
        &self.link.node
    }

    /// As [`Fabric::serve`], with requests carried out on several arbiters, such as the arbiters of
    /// an [`ArbiterPool`](asyncsteps_actors::pool::ArbiterPool), each on the one with the fewest
    /// requests.
    ///
    /// # Errors
    /// [`CallError`] if the server cannot be notified, if there are no arbiters, or if an endpoint has too many minor
    /// versions to subscribe to.
    pub async fn serve_on(
        &self,
        arbiters: impl IntoIterator<Item = ArbiterHandle>,
        endpoints: Vec<Endpoint>,
        executor: Executor,
    ) -> Result<ServeGuard, CallError> {
        let arbiters = arbiters.into_iter().collect();
        let guard = serve(&self.link, &self.members, arbiters, endpoints, executor).await?;
        announce(&self.link, &self.members).await;
        Ok(guard)
    }

    /// Admits a call that this node is to carry out itself.
    fn own(&self, call: &Call) -> Option<OwnCall> {
        let Link { node, config, .. } = &*self.link;
        let is_own = call.node.as_ref() == Some(node);
        is_own.then(|| own::admit(&self.members, config, call.function())).flatten()
    }

    /// Waits until another program orders the node to [drain](Self::order_drain): the application is to stop as it does
    /// on SIGTERM. Orders are taken from the time this is called.
    pub fn drain_ordered(&self) -> impl Future<Output = ()> + use<> {
        self.link.drain_ordered()
    }

    /// Orders a node to drain: to take no more calls, finish the calls in flight, and end. When it
    /// has, [`nodes`](Fabric::nodes) has it no more.
    ///
    /// Every client in the account of the server that may publish to `ftn.v1.ctl.<node>.drain` can do that: the
    /// permissions of the server say which these are.
    ///
    /// # Errors
    /// ConnectError if there is no such node, CommError if it does not answer, NotImplemented if its
    /// application does not wait for [orders](Self::drain_ordered).
    ///
    /// # Cancel safety
    /// The node may have received the order.
    pub async fn order_drain(&self, node: &NodeId) -> Result<(), CallError> {
        order_drain(&self.link, node).await
    }

    /// The state of the connection to the server, which says too what the server does not permit: a subscription, until
    /// it does, or a message within the last 10 seconds. A node that is called by others, or calls them, is of no use
    /// without it:
    ///
    /// ```no_run
    /// # use asyncsteps_executor::Executor;
    /// # use asyncsteps_fabric::nats::NatsFabric;
    /// # fn node(executor: &Executor, fabric: NatsFabric) {
    /// let dependency = executor.depends_on(move || fabric.connection_state());
    /// # }
    /// ```
    #[must_use]
    pub fn connection_state(&self) -> ConnectionState {
        let Link { connection, pulse, .. } = &*self.link;
        let fault = match self.is_connected() {
            true if self.link.has_twin.load(Ordering::Relaxed) => {
                Some(format!("another node has the name {}", self.link.node))
            }
            true => connection.denial(),
            false => Some("the connection to the NATS server is lost".to_owned()),
        };
        let (losses, silence) = (self.connection_losses(), pulse.silence());
        ConnectionState { name: "nats", fault, losses, silence }
    }

    /// Whether the server can be reached now.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.link.is_connected()
    }

    /// How often the connection to the server was lost since the node joined. Each loss is logged as a
    /// warning; many of them without a restart of the server say that a program of the account sends
    /// malformed messages, see [the module](super#who-may-publish).
    #[must_use]
    pub fn connection_losses(&self) -> u64 {
        self.link.losses()
    }

    /// Sends pending messages, and ends the connection. Calls that wait for an answer fail with an unknown outcome.
    /// Serving should be [drained](ServeGuard::drain) before.
    pub async fn close(&self) {
        // without a connection there is nothing to send
        let _ = self.link.settle().await;
        self.link.leave().await;
    }
}

impl Fabric for NatsFabric {
    fn call(&self, call: Call) -> Pending<'_, Result<Response, CallError>> {
        match self.own(&call) {
            Some(own) => Box::pin(own.carry_out(call)),
            None => Box::pin(make_call(&self.link, &self.view, call)),
        }
    }

    fn call_here(&self, call: Call) -> Result<Pending<'_, Result<Response, CallError>>, Box<Call>> {
        match self.own(&call) {
            Some(own) => Ok(Box::pin(own.carry_out(call))),
            None => Err(Box::new(call)),
        }
    }

    fn serve(
        &self,
        endpoints: Vec<Endpoint>,
        executor: Executor,
    ) -> Pending<'_, Result<ServeGuard, CallError>> {
        let here = actix_rt::Arbiter::try_current();
        Box::pin(self.serve_on(here, endpoints, executor))
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeInfo>, CallError>> {
        Box::pin(self.view.look(&self.link))
    }

    /// As old as the [interval](Config::view_interval) between looks and the
    /// [discovery time](Config::discovery_time) together, at the most; none before the first look, which the
    /// first call of this begins.
    fn live_nodes(&self) -> LiveNodes {
        self.view.nodes()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::of_messages(self.link.connection.max_payload())
    }
}

/// The name of the node; a random one if there is none.
fn node_of(config: &Config) -> NodeId {
    let random = || {
        let name = format!("node-{}", random::id().get(..12).unwrap_or_default());
        match name.parse() {
            Ok(node) => node,
            Err(error) => unreachable!("hexadecimal digits are a name: {error}"),
        }
    };
    config.node.clone().unwrap_or_else(random)
}
