//! A node of a cluster, as programs have it.

use std::collections::HashMap;
use std::sync::Arc;

use asyncsteps_actors::sync::Mutex as LocalMutex;
use asyncsteps_core::sync::mutex::Options;
#[cfg(feature = "postgres")]
use asyncsteps_postgres::{LibpqOptions, split_url};
use parking_lot::Mutex as Table;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::error::Error;
use crate::hold::LockHolds;
use crate::keys::StateTable;
use crate::limiter::{LimiterState, Limits};
use crate::node::{ClusterNode, give_back_all};
#[cfg(feature = "postgres")]
use crate::store::Postgres;
use crate::store::{LockId, LockStore};
use crate::throttle::{Rate, ThrottleState};

/// This process as a node of a cluster: it provides locks that all nodes with the same database and
/// [schema](Config::schema) share. Clones are the same node.
///
/// The node has a lease, which it renews each third of it. If it cannot, then at nine tenths of the lease
/// after the last renewal that it sent, the sections of its locks fail with
/// [`LOCK_LOST`](crate::LOCK_LOST).
///
/// When the last clone and the last lock made of it are dropped, its locks are free for others when its
/// lease has expired; [`leave`](Self::leave) frees them at once.
#[derive(Clone, derive_more::Debug)]
#[debug("Cluster {{ node: {:?}, .. }}", self.0.node)]
pub struct Cluster(Arc<ClusterState>);

struct ClusterState {
    node: Arc<ClusterNode>,
    /// The queues of the locks on this node, by name.
    mutexes: Table<HashMap<&'static str, LocalMutex>>,
    throttles: StateTable<ThrottleState>,
    limiters: StateTable<LimiterState>,
    tasks: [JoinHandle<()>; 2],
}

impl Cluster {
    /// Joins the cluster in a PostgreSQL database, such as `postgres://user@host/database` or
    /// `host=/run/postgresql user=shop`; its tables are made if they are not there. Its tasks run on the
    /// tokio runtime that this is called on, and have to run each third of the lease.
    ///
    /// A URL with several hosts is that of a server and its successors: the first one counts that answers and takes changes.
    /// The URL says as libpq's whether TLS is used and the certificate looked at (`sslmode`, `sslrootcert`), and where a
    /// certificate (`sslcert`, `sslkey`) and the password (`passfile`) of this node are. These files are read whenever a
    /// connection is made, so what is rotated in them needs no restart. A server that says nothing for 3 s is dialled again.
    ///
    /// Three connections are made. A pooler in front of the server has to keep sessions; one that lends connections for a
    /// transaction is refused.
    ///
    /// # Errors
    /// [`Error::Config`] for a setting or a URL that cannot be used, [`Error::Unavailable`] if the server
    /// is not reached, [`Error::NewerFormat`] if a later program made the tables, or
    /// [`Error::Refused`] by the server, such as for a lack of rights.
    ///
    /// # Cancel safety
    /// Dropping the future may leave a node in the tables that holds nothing.
    #[cfg(feature = "postgres")]
    pub async fn connect(url: &str, config: Config) -> Result<Self, Error> {
        let (url, libpq) = split_url(url);
        let server = url.parse().map_err(|error: tokio_postgres::Error| {
            Error::Config(format!("the URL of the database: {error}"))
        })?;
        Self::connect_with(server, libpq, config).await
    }

    /// The same with the settings of the client, such as for a password from elsewhere.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// As for [`connect`](Self::connect).
    #[cfg(feature = "postgres")]
    pub async fn connect_to(server: tokio_postgres::Config, config: Config) -> Result<Self, Error> {
        Self::connect_with(server, LibpqOptions::default(), config).await
    }

    #[cfg(feature = "postgres")]
    async fn connect_with(
        server: tokio_postgres::Config,
        libpq: LibpqOptions,
        config: Config,
    ) -> Result<Self, Error> {
        config.check()?;
        let store = Postgres::connect(server, libpq, &config.schema).await?;
        Self::over(Arc::new(store), config).await
    }

    /// Joins the cluster whose locks are in this store, such as in the [memory](crate::store::Memory) of a test. The schema
    /// of the configuration is not used.
    ///
    /// # Errors
    /// [`Error::Config`] for a setting that cannot be used, and the errors of the store.
    ///
    /// # Cancel safety
    /// Dropping the future may leave a node in the store that holds nothing.
    pub async fn over(store: Arc<dyn LockStore>, config: Config) -> Result<Self, Error> {
        config.check()?;
        let (holds, returned) = LockHolds::new();
        let poll = config.poll;
        let node = Arc::new(ClusterNode::register(Arc::clone(&store), config, holds).await?);
        // it ends with the last lock
        tokio::spawn(give_back_all(Arc::clone(&store), poll, returned));
        let listens = tokio::spawn(Arc::clone(node.notices()).listen(store));
        let serves = tokio::spawn(Arc::clone(&node).serve());
        Ok(Self(Arc::new(ClusterState {
            node,
            mutexes: Table::default(),
            throttles: StateTable::default(),
            limiters: StateTable::default(),
            tasks: [listens, serves],
        })))
    }

    /// Leaves the cluster: no lock can be taken any more, and when all are released, or after a lease,
    /// the node is gone.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the node without new locks, and its present locks are free when its
    /// lease has expired.
    pub async fn leave(&self) {
        self.0.node.leave().await;
    }

    /// The queue of a lock on this node; the limits of the first use of a name count.
    pub(crate) fn local_mutex(&self, name: &'static str, options: Options) -> LocalMutex {
        let mut mutexes = self.0.mutexes.lock();
        mutexes.entry(name).or_insert_with(|| LocalMutex::named(name, options)).clone()
    }

    /// The state of a throttle on this node; the limits of the first use of a name and key count.
    pub(crate) fn throttle_state(&self, id: &LockId, rate: Rate) -> Arc<ThrottleState> {
        let node = &self.0.node;
        self.0.throttles.get(id, || ThrottleState::new(Arc::clone(node), id.clone(), rate))
    }

    /// The state of a limiter on this node; the limits of the first use of a name and key count.
    pub(crate) fn limiter_state(&self, id: &LockId, limits: Limits) -> Arc<LimiterState> {
        let node = &self.0.node;
        self.0.limiters.get(id, || LimiterState::new(Arc::clone(node), id.clone(), limits))
    }

    pub(crate) fn node(&self) -> &Arc<ClusterNode> {
        &self.0.node
    }
}

impl Drop for ClusterState {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.node.abandon();
    }
}
