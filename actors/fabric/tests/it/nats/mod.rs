//! The promise: calls over NATS are what calls within a process are; nodes, callers and servers that die or
//! leave cost what the documentation says, and no more.

mod frozen;
mod hostile;
mod joining;
mod moving;
mod placing;
mod processes;
mod raw;
mod server;
mod silence;
mod survival;

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_executor::security::{Secret, SecurityLevel};
use asyncsteps_fabric::nats::{Config, NatsFabric, Trust};

use self::server::NatsServer;
use crate::contract;

/// How long nodes have to say that they are there, where a test needs them all.
const DISCOVERY: Duration = Duration::from_secs(1);

/// Leaves the test out where no server is installed, and says so.
macro_rules! needs_server {
    () => {
        if !crate::nats::server::NatsServer::is_installed() {
            println!("no nats-server here: the test is left out");
            return;
        }
    };
}
pub(crate) use needs_server;

#[actix::test]
async fn a_fabric_over_nats_keeps_its_promises() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let node = |name: &str| {
        let config = Config::new(server.url())
            .node(name.parse().expect("a name"))
            .trust(Trust::secret(&Secret::new("s")).up_to(SecurityLevel::System))
            .probe_interval(Duration::from_millis(50))
            .discovery_time(DISCOVERY);
        async { Arc::new(NatsFabric::connect(config).await.expect("it joins")) }
    };
    let nodes = contract::Nodes {
        caller: node("caller").await,
        first: node("first").await,
        second: node("second").await,
    };
    contract::keeps_its_promises(&nodes).await;
}
