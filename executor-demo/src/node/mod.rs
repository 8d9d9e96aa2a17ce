//! The demo on several machines: each process is a node, hosts what its options say, and serves all of
//! it.
//!
//! - `options`: the options of the connection between the nodes
//! - `nats`: the connection, with the feature of this name
//! - `commands`: `call`, `nodes` and `drain`

mod commands;
#[cfg(feature = "nats")]
mod nats;
#[cfg(not(feature = "nats"))]
#[path = "no_nats.rs"]
mod nats;
mod options;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps::fabric::{CallError, Client, Endpoint, Fabric, ServeGuard};
use asyncsteps::health::Dependency;
use asyncsteps::pool::ArbiterPool;
use asyncsteps::{Builder, Executor};

pub use commands::{CallOptions, DrainOptions, NodesOptions};
use nats::NatsFabric;
pub use options::{Hosted, NatsOptions, NodeOptions};

/// This process among the nodes; alone unless it has joined them.
#[derive(Clone, Debug)]
pub(crate) struct ShopNode(Option<NatsFabric>);

/// The services of this node for others, until it is drained.
pub(crate) struct Serves {
    fabric: NatsFabric,
    guard: ServeGuard,
    arbiters: ArbiterPool,
}

impl ShopNode {
    /// A process that knows no others.
    pub(crate) fn alone() -> Self {
        Self(None)
    }

    pub(crate) async fn join(options: &NodeOptions) -> anyhow::Result<Self> {
        let fabric = nats::join(&options.nats, options.node.as_ref()).await?;
        if let Some(fabric) = &fabric {
            tracing::info!(node = %fabric.node(), "joined the nodes");
        }
        Ok(Self(fabric))
    }

    /// Calls other nodes.
    pub(crate) fn client(&self) -> Option<Client> {
        self.fabric().map(Client::new)
    }

    /// The fabric that connects the nodes.
    pub(crate) fn fabric(&self) -> Option<Arc<dyn Fabric>> {
        self.0.clone().map(|fabric| -> Arc<dyn Fabric> { Arc::new(fabric) })
    }

    /// The same executor, which calls functions that it does not host on other nodes, for steps and
    /// for HTTP.
    pub(crate) fn connect(&self, builder: Builder) -> Builder {
        match self.client() {
            Some(client) => builder.invoker(client.clone()).forward(client),
            None => builder,
        }
    }

    /// Serves other nodes, on a number of arbiters.
    pub(crate) async fn serve(
        &self,
        executor: &Executor,
        arbiters: NonZeroUsize,
    ) -> Result<Option<Serves>, CallError> {
        let Some(fabric) = self.0.clone() else { return Ok(None) };
        let arbiters = ArbiterPool::new(arbiters);
        let handles = arbiters.arbiters().cloned().collect::<Vec<_>>();
        let mut served = Endpoint::all(executor);
        // it is for the shop of this process, and not of one with another journal
        served.retain(|it| it.interface().iface() != "demo.shelf");
        let guard = fabric.serve_on(handles, served, executor.clone()).await?;
        Ok(Some(Serves { fabric, guard, arbiters }))
    }

    /// Waits until another process orders this one to drain.
    pub(crate) async fn drain_ordered(&self) {
        match &self.0 {
            Some(fabric) => fabric.drain_ordered().await,
            None => std::future::pending().await,
        }
    }

    /// Makes an executor ready only while there is a connection to the others: whatever it hosts, they call it.
    pub(crate) fn needed_by(&self, executor: &Executor) -> Option<Dependency> {
        let fabric = self.0.clone()?;
        Some(executor.depends_on(move || fabric.connection_state()))
    }

    /// Leaves the nodes.
    pub(crate) async fn leave(self) {
        if let Some(fabric) = self.0 {
            fabric.close().await;
        }
    }
}

impl Serves {
    /// Takes no more calls of other nodes, and finishes the calls in flight; the rest is cancelled
    /// after the grace.
    pub(crate) async fn drain(self, grace: Duration) {
        let drained = self.guard.drain(grace).await;
        tracing::info!(node = %self.fabric.node(), ?drained, "drained");
        self.arbiters.shutdown(Duration::ZERO).await;
    }
}
