//! What the tests share: a server, nodes, flows, and a bound for everything that is waited for.

use std::path::PathBuf;
use std::time::Duration;

use asyncsteps_actors::flow::start_flow;
use asyncsteps_cluster::{Cluster, Config};
use asyncsteps_core::{Arguments, Error, Flow};
use tokio_postgres::config::Host;
use tokio_postgres::{Client, NoTls};

use asyncsteps_postgres_server::Server;

/// How long anything may take before the test fails: far more than it needs, also on a loaded machine.
const BOUND: Duration = Duration::from_secs(300);

/// Runs a test with a server on an arbiter; without PostgreSQL it is left out.
pub(crate) fn with_server(test: impl AsyncFnOnce(&mut Server)) {
    let Some(mut server) = Server::start() else { return };
    run(test(&mut server));
}

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    actix::System::new().block_on(within(future))
}

/// Fails the test if this takes too long.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future).await.expect("it ends in time")
}

/// Where the server is, for nodes in other processes.
pub(crate) fn url(server: &Server) -> String {
    let config = server.config();
    let [Host::Unix(folder)] = config.get_hosts() else { panic!("it has a socket") };
    let folder: &PathBuf = folder;
    format!("host={} user=journal dbname=postgres", folder.display())
}

/// A node with a lease of so many milliseconds, which asks often.
pub(crate) fn config(lease: u64) -> Config {
    let (lease, poll) = (Duration::from_millis(lease), Duration::from_millis(50));
    Config { lease, poll, ..Config::default() }
}

/// A node that no test makes lose its lease.
pub(crate) async fn node(server: &Server) -> Cluster {
    Cluster::connect(&url(server), config(60_000)).await.expect("a node")
}

/// A connection without a node, to the tables of the cluster.
pub(crate) async fn tables(server: &Server) -> Client {
    let mut config = server.direct();
    config.options("-c search_path=asyncsteps_cluster");
    let (client, connection) = config.connect(NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// The number that a query gives.
pub(crate) async fn number(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.expect("a row").get(0)
}

/// Waits until a query gives this.
pub(crate) async fn until(client: &Client, sql: &str, wanted: i64) {
    within(async {
        while number(client, sql).await != wanted {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

pub(crate) async fn flow<A: Arguments>(flow: Flow) -> Result<A, Error> {
    within(start_flow::<A>(flow)).await
}
