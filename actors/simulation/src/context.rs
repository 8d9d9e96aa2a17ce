//! The context that a node of a cluster receives when it starts.

use std::sync::Arc;

use asyncsteps_cluster as locks;
use asyncsteps_fabric::nats::{Config, NatsError, NatsFabric};

use crate::connection::NodeConnection;
use crate::disk::Disk;
use crate::locks::NodeLocks;
use crate::network::Network;

/// The context that a node receives when it starts.
#[derive(Clone, derive_more::Debug)]
#[debug("NodeContext {{ name: {name:?}, .. }}")]
pub struct NodeContext {
    pub(crate) name: String,
    pub(crate) number: usize,
    pub(crate) starts: u32,
    pub(crate) disk: Disk,
    pub(crate) locks: NodeLocks,
    pub(crate) network: Network,
}

impl NodeContext {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which start of the node this is, from 1: each kill is followed by another one.
    #[must_use]
    pub const fn starts(&self) -> u32 {
        self.starts
    }

    /// The journal of the cluster, as this node reaches it.
    #[must_use]
    pub fn journal(&self) -> Disk {
        self.disk.clone()
    }

    /// Joins the cluster of locks, in place of [`Cluster::connect`](locks::Cluster::connect): with the same configuration,
    /// of which the schema does not count.
    ///
    /// # Errors
    /// The errors of the configuration, and [`Unavailable`](locks::Error::Unavailable) for a fault.
    pub async fn locks(&self, config: locks::Config) -> Result<locks::Cluster, locks::Error> {
        locks::Cluster::over(Arc::new(self.locks.clone()), config).await
    }

    /// Joins the fabric of the cluster, in place of [`NatsFabric::connect`]: with the same configuration, of which the
    /// name of the node, the servers and the credentials do not count.
    ///
    /// # Errors
    /// [`NatsError`] if the network cannot be reached now, or if the node has joined already.
    ///
    /// # Panics
    /// If the name of the node cannot be one in a fabric.
    pub async fn fabric(&self, config: Config) -> Result<NatsFabric, NatsError> {
        let name = match self.name.parse() {
            Ok(name) => name,
            Err(error) => panic!("{}: {error}", self.name),
        };
        let connection = Arc::new(NodeConnection::new(&self.network, self.number));
        NatsFabric::over(connection, config.node(name)).await
    }
}
