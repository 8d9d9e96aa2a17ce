//! The promise: calls within a process are what calls between machines are.

mod contract;

use std::sync::Arc;

use asyncsteps_fabric::LocalFabric;

#[actix::test]
async fn a_local_fabric_keeps_its_promises() {
    let fabric = LocalFabric::new();
    let node = || Arc::new(fabric.clone());
    let nodes = contract::Nodes { caller: node(), first: node(), second: node() };
    contract::keeps_its_promises(&nodes).await;
}
