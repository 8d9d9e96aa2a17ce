//! What stands still: nodes and servers that are there and do nothing.

use std::time::Duration;

use asyncsteps_core::codes;
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

/// Waits until a caller sees these nodes, and no others.
pub(crate) async fn sees(caller: &NatsFabric, nodes: &[&str]) {
    // calls make it look
    let _ = caller.call(call("none.such:1.0:f", json!({}))).await;
    loop {
        let seen = format!("{:?}", caller.live_nodes());
        let is_seen = |node: &&str| seen.contains(&format!("NodeId({node:?})"));
        if nodes.iter().all(is_seen) && seen.matches("NodeId(").count() == nodes.len() {
            return;
        }
        tokio::task::yield_now().await;
    }
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

#[actix::test]
async fn the_calls_of_a_dead_node_end_at_once() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let dies = NodeProcess::serve(&server, "dies", 0);
    let caller = join(&server).await;
    sees(&caller, &["dies"]).await;
    let long = json!({ "millis": 300_000 });
    let waits = caller.call(call("demo.node:1.0:pause", long).within(Duration::from_secs(300)));
    let kills = async {
        // behind the first one on the same way
        caller.call(call("demo.node:1.0:name", json!({}))).await.expect("it is answered");
        dies.signal("-KILL");
    };
    let (lost, ()) = tokio::join!(waits, kills);
    let lost = lost.expect_err("the node is dead");
    assert_eq!((lost.code(), lost.outcome()), (codes::COMM_ERROR, Outcome::Unknown));
}

#[actix::test]
async fn a_node_that_stands_still_is_left_out_until_it_goes_on() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let nodes = ["goes", "stands"];
    let [_goes, stands] = nodes.map(|name| NodeProcess::serve(&server, name, 0));
    let caller = join(&server).await;
    sees(&caller, &nodes).await;
    stands.stop();
    let placed = call("demo.node:1.0:name", json!({})).on_node("stands".parse().expect("a name"));
    let lost = caller.call(placed.clone().within(Duration::from_secs(300))).await;
    assert_eq!(lost.expect_err("it stands still").outcome(), Outcome::Unknown);
    sees(&caller, &["goes"]).await;
    for _ in 0..100 {
        let name = caller.call(call("demo.node:1.0:name", json!({}))).await.expect("one goes");
        assert_eq!(name.into_value(), "goes");
    }
    stands.signal("-CONT");
    sees(&caller, &nodes).await;
    caller.call(placed).await.expect("it goes on");
}
