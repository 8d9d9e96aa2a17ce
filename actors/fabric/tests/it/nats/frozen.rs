//! What stands still: nodes and servers that are there and do nothing.

use std::time::Duration;

use asyncsteps_fabric::nats::{Config, NatsFabric};
use asyncsteps_fabric::{Call, Endpoint, Fabric, Outcome};
use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::contract::node;
use crate::nats::needs_server;
use crate::nats::processes::NodeProcess;
use crate::nats::raw::RawClient;
use crate::nats::server::NatsServer;

async fn join(server: &NatsServer) -> NatsFabric {
    // there is one clock
    let config = Config::new(server.url()).max_clock_difference(Duration::from_millis(50));
    NatsFabric::connect(config).await.expect("it joins")
}

fn call(function: &str, params: Value) -> Call {
    Call::new(function, params).expect("it is a call")
}

/// Eight calls whose time ends before they can be carried out.
async fn calls_in_vain(caller: &NatsFabric, function: &str, params: Value) {
    let calls = (0..8)
        .map(|_| caller.call(call(function, params.clone()).within(Duration::from_millis(100))));
    for result in join_all(calls).await {
        assert_eq!(result.expect_err("no answer").outcome(), Outcome::Unknown);
    }
}

#[actix::test]
async fn what_a_frozen_server_keeps_until_its_callers_have_given_up_is_not_carried_out() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let mut served = node("1.1", "one");
    let serves = join(&server).await;
    let endpoints = Endpoint::all(&served.executor);
    let guard = serves.serve(endpoints, served.executor.clone()).await.expect("it serves");
    let caller = join(&server).await;
    caller.call(call("test.node:1.1:name", json!({}))).await.expect("it is answered");
    for _ in 0..3 {
        server.stop();
        calls_in_vain(&caller, "test.node:1.1:wait", json!({})).await;
        server.signal("-CONT");
        // behind them on the same way
        caller.call(call("test.node:1.1:name", json!({}))).await.expect("it is answered");
        assert_eq!(served.next_event().now_or_never(), None, "nothing was begun");
    }
    // this one has time, and its caller has left
    let wait = || call("test.node:1.1:wait", json!({}));
    server.stop();
    let (long, short) = (Duration::from_secs(300), Duration::from_millis(600));
    tokio::select! {
        ended = caller.call(wait().within(long)) => panic!("{ended:?}"),
        ended = caller.call(wait().within(short)) => drop(ended.expect_err("no answer")),
    }
    server.signal("-CONT");
    caller.call(call("test.node:1.1:name", json!({}))).await.expect("it is answered");
    assert_eq!(served.next_event().now_or_never(), None, "nothing was begun");
    guard.drain(Duration::ZERO).await;
}

#[actix::test]
async fn what_a_frozen_node_takes_after_its_callers_have_given_up_is_not_carried_out() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let frozen = NodeProcess::serve(&server, "frozen", 0);
    let caller = join(&server).await;
    let name = || caller.call(call("demo.node:1.0:name", json!({})));
    name().await.expect("it is answered");
    frozen.stop();
    calls_in_vain(&caller, "demo.node:1.0:pause", json!({ "millis": 1 })).await;
    frozen.signal("-CONT");
    name().await.expect("it is answered");
    let stats = RawClient::connect(&server).await.request("$SRV.STATS.demo-node-v1", "", "").await;
    let stats: Value = serde_json::from_str(&stats.payload).expect("statistics");
    let endpoints = stats["endpoints"].as_array().expect("a list").iter();
    let requests = endpoints.map(|it| (it["name"].as_str(), it["num_requests"].as_u64()));
    let requests: Vec<_> = requests.collect();
    assert_eq!(requests, [(Some("name"), Some(2)), (Some("pause"), Some(0))]);
}
