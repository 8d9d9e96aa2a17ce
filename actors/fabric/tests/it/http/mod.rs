//! The promise: calls of services elsewhere, over HTTP and WebSocket, are what calls within a process are;
//! and a service that misbehaves costs a clear error.

mod bad_services;
mod definitions;
mod raw_server;
mod serving;
mod trust;
mod web_socket;

use std::sync::Arc;

use asyncsteps_fabric::http::HttpFabric;
use asyncsteps_fabric::{Call, CallError, Fabric, Response};
use serde_json::Value;

use self::serving::{HttpService, Scheme};
use crate::contract;

#[actix::test]
async fn a_fabric_over_http_keeps_its_promises() {
    let nodes = nodes(Scheme::Http);
    contract::keeps_its_promises_to_callers(&nodes).await;
    contract::cancels_what_is_not_wanted(&nodes).await;
}

#[actix::test]
async fn a_fabric_over_websocket_keeps_its_promises() {
    contract::keeps_its_promises_to_callers(&nodes(Scheme::WebSocket)).await;
}

/// One service, and its caller.
fn nodes(scheme: Scheme) -> contract::Nodes {
    let service = Arc::new(HttpService::new(scheme));
    let node = || Arc::clone(&service) as _;
    contract::Nodes { caller: node(), first: node(), second: node() }
}

async fn call(fabric: &HttpFabric, function: &str, params: Value) -> Result<Value, CallError> {
    let call = Call::new(function, params).expect("it is a call");
    fabric.call(call).await.map(Response::into_value)
}
