//! Calls that go where their key is at home.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_fabric::nats::{Config, NatsFabric};
use asyncsteps_fabric::{Call, Client, Endpoint, Fabric, Placement, Response};
use serde_json::{Value, json};

use crate::contract::{Node, node};
use crate::nats::server::NatsServer;
use crate::nats::{DISCOVERY, needs_server};

const NAME: &str = "test.node:1.1:name";

/// A node that sees all others soon.
async fn join(server: &NatsServer, name: &str) -> NatsFabric {
    let config = Config::new(server.url())
        .node(name.parse().expect("a name"))
        .discovery_time(DISCOVERY)
        .view_interval(Duration::from_millis(10));
    NatsFabric::connect(config).await.expect("it joins")
}

fn named(name: &'static str) -> Node {
    node("1.1", name)
}

/// The node that answers a call with this key.
async fn owner(client: &Client, key: &str) -> Value {
    let call = Call::new("test.node:1.1:place", json!({ "key": key })).expect("it is a call");
    client.call(call).await.expect("it is served").into_value()
}

async fn seen(fabric: &NatsFabric, live: usize) {
    while format!("{:?}", fabric.live_nodes()).matches("LiveNode {").count() != live {
        tokio::task::yield_now().await;
    }
}

#[actix::test]
async fn a_key_stays_with_its_node_and_moves_when_that_is_gone() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let (one, two) = (named("one"), named("two"));
    let (first, second) = (join(&server, "one").await, join(&server, "two").await);
    let serve = async |fabric: &NatsFabric, node: &Node| {
        let endpoints = Endpoint::all(&node.executor);
        fabric.serve(endpoints, node.executor.clone()).await.expect("it serves")
    };
    let (of_first, of_second) = (serve(&first, &one).await, serve(&second, &two).await);
    seen(&first, 2).await;
    let client = Client::new(Arc::new(first.clone()))
        .placement("test.node:1.1:place", Placement::sticky("key"));
    let mut owners = Vec::new();
    for key in 0..20 {
        let key = key.to_string();
        let at = owner(&client, &key).await;
        assert_eq!(at, owner(&client, &key).await, "{key}");
        owners.push(at);
    }
    assert!(owners.contains(&json!("one")) && owners.contains(&json!("two")), "{owners:?}");

    of_second.drain(Duration::ZERO).await;
    second.close().await;
    for (key, before) in owners.iter().enumerate() {
        let now = owner(&client, &key.to_string()).await;
        assert_eq!(now, "one", "the key of {before} has another node at once");
    }
    seen(&first, 1).await;
    // what this process owns needs no server: it does not leave it
    drop(server);
    while first.nodes().await.is_ok() {}
    assert_eq!(owner(&client, "any").await, "one");
    of_first.drain(Duration::ZERO).await;
}

#[actix::test]
async fn a_function_may_have_one_node() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let served = named("one");
    let fabric = join(&server, "one").await;
    let endpoints = Endpoint::all(&served.executor);
    let guard = fabric.serve(endpoints, served.executor.clone()).await.expect("it serves");
    for (node, expected) in [
        ("one", Ok(json!("one"))),
        ("two", Err("ConnectError: the node two does not serve the function".to_owned())),
    ] {
        let place = Placement::Node(node.parse().expect("a name"));
        let client = Client::new(Arc::new(fabric.clone())).placement(NAME, place);
        let call = Call::new(NAME, ()).expect("it is a call");
        let answer = client.call(call).await.map(Response::into_value).map_err(|it| it.to_string());
        assert_eq!(answer, expected);
    }
    guard.drain(Duration::ZERO).await;
}
