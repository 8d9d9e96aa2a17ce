//! The promise: calls within a process are what calls between machines are.

use std::sync::Arc;

use asyncsteps_fabric::LocalFabric;

use crate::contract;

#[actix::test]
async fn a_local_fabric_keeps_its_promises() {
    let fabric = LocalFabric::new();
    let node = || Arc::new(fabric.clone());
    let nodes = contract::Nodes { caller: node(), first: node(), second: node() };
    contract::keeps_its_promises(&nodes).await;
}
