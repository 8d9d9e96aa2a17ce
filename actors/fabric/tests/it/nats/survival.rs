//! What dies or leaves: nodes, callers, the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::codes;
use asyncsteps_fabric::nats::{Config, NatsFabric};
use asyncsteps_fabric::{Call, CallPolicy, Client, Endpoint, Fabric, Outcome, Response};
use futures_util::future::join_all;
use serde_json::json;

use crate::contract::node;
use crate::nats::frozen::sees;
use crate::nats::needs_server;
use crate::nats::processes::{NodeProcess, load, load_of_pauses};
use crate::nats::server::{NatsPort, NatsServer};

/// Longer than anything takes here.
const GRACE: Duration = Duration::from_secs(300);

/// Calls at once, under load.
const AT_ONCE: usize = 64;

async fn join(config: Config) -> NatsFabric {
    NatsFabric::connect(config).await.expect("it joins")
}

fn name_call() -> Call {
    Call::new("demo.node:1.0:name", ()).expect("it is a call")
}

#[actix::test]
async fn nodes_share_the_load() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let _nodes = ["one", "two"].map(|name| NodeProcess::serve(&server, name, 0));
    let caller = join(Config::new(server.url())).await;
    let tally = load(&caller, "demo.node:1.0:name", &json!({}), (4_000, AT_ONCE), |_| ()).await;
    assert_eq!(tally.values().sum::<usize>(), 4_000);
    let share = |name: &str| tally.get(name).copied().unwrap_or_default();
    // of two, the one with fewer calls in flight gets the next: that is the faster one on a machine that does other work
    assert!(["one", "two"].iter().all(|name| share(name) >= 1_000), "{tally:?}");
    assert_eq!(tally.len(), 2, "{tally:?}");
}

#[actix::test]
async fn an_older_node_never_gets_a_newer_call() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let _older = NodeProcess::serve(&server, "older", 1);
    let _newer = NodeProcess::serve(&server, "newer", 2);
    let caller = join(Config::new(server.url())).await;
    let newest = load(&caller, "demo.node:1.2:name", &json!({}), (500, AT_ONCE), |_| ()).await;
    assert_eq!(newest, BTreeMap::from([("newer".to_owned(), 500)]));
    let any = load(&caller, "demo.node:1.1:name", &json!({}), (500, AT_ONCE), |_| ()).await;
    assert_eq!(any.len(), 2, "{any:?}");
}

#[actix::test]
async fn draining_under_load_loses_nothing() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let _stays = NodeProcess::serve(&server, "stays", 0);
    let leaves = NodeProcess::serve(&server, "leaves", 0);
    let caller = join(Config::new(server.url())).await;
    let tally = load_of_pauses(&caller, (20_000, AT_ONCE), |over| {
        if over == 2_000 {
            leaves.signal("-INT");
        }
    });
    let tally = tally.await;
    assert_eq!(tally.keys().collect::<Vec<_>>(), ["leaves", "stays"], "{tally:?}");
    leaves.ended().await;
    let after = load(&caller, "demo.node:1.0:name", &json!({}), (500, AT_ONCE), |_| ()).await;
    assert_eq!(after, BTreeMap::from([("stays".to_owned(), 500)]));
}

#[actix::test]
async fn a_rolling_restart_loses_nothing() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let mut nodes = ["a0", "b0", "c0"].map(|name| NodeProcess::serve(&server, name, 0)).into_iter();
    let caller = join(Config::new(server.url())).await;
    let (mut fresh, mut left) = (Vec::new(), Vec::new());
    let tally = load_of_pauses(&caller, (20_000, AT_ONCE), |over| {
        if over % 5_000 == 0
            && let Some(old) = nodes.next()
        {
            fresh.push(NodeProcess::serve(&server, &format!("n{over}"), 0));
            old.signal("-INT");
            left.push(old);
        }
    });
    let tally = tally.await;
    assert_eq!(left.len(), 3);
    let names = ["a0", "b0", "c0", "n10000", "n15000", "n5000"];
    assert_eq!(tally.keys().collect::<Vec<_>>(), names, "{tally:?}");
    join_all(left.into_iter().map(NodeProcess::ended)).await;
}

#[actix::test]
async fn a_killed_node_costs_the_calls_that_it_had() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let _stays = NodeProcess::serve(&server, "stays", 0);
    let dies = NodeProcess::serve(&server, "dies", 0);
    let caller = join(Config::new(server.url()).call_timeout(GRACE)).await;
    sees(&caller, &["stays", "dies"]).await;
    let tally = load_of_pauses(&caller, (10_000, AT_ONCE), |over| {
        if over == 1_000 {
            dies.signal("-KILL");
        }
    });
    let mut tally = tally.await;
    let lost = "CommError: the node, or the connection to the NATS server, was lost";
    let lost = tally.remove(lost).unwrap_or_default();
    assert!(lost <= AT_ONCE, "{lost}");
    assert_eq!(tally.keys().collect::<Vec<_>>(), ["dies", "stays"], "{tally:?}");
}

#[actix::test]
async fn calls_get_round_a_stopped_node() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let _goes = NodeProcess::serve(&server, "goes", 0);
    let stopped = NodeProcess::serve(&server, "stopped", 0);
    let caller = Arc::new(join(Config::new(server.url())).await);
    stopped.stop();
    let patient = CallPolicy::new().idempotent().attempts(40);
    let again = patient.attempt_timeout(Duration::from_millis(100));
    let hedged =
        patient.attempt_timeout(Duration::from_secs(1)).hedge_after(Duration::from_millis(50));
    for policy in [again, hedged] {
        let client = Client::new(caller.clone()).policy("demo.node:1.0:name", policy);
        let answers = join_all((0..20).map(|_| client.call(name_call()))).await;
        let names = answers.into_iter().map(|answer| answer.expect("one goes").into_value());
        assert!(names.into_iter().all(|name| name == "goes"));
    }
    // without a policy the outcome is unknown, and the call is not made again
    let client = Client::new(caller.clone());
    let calls = (0..20).map(|_| client.call(name_call().within(Duration::from_millis(100))));
    let errors = join_all(calls).await.into_iter().filter_map(Result::err);
    assert!(errors.map(|error| error.outcome()).all(|outcome| outcome == Outcome::Unknown));
    stopped.signal("-CONT");
}

#[actix::test]
async fn a_killed_caller_cancels_its_calls() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let mut served = node("1.1", "one");
    let config = Config::new(server.url()).probe_interval(Duration::from_millis(50));
    let fabric = join(config).await;
    let endpoints = Endpoint::all(&served.executor);
    let guard = fabric.serve(endpoints, served.executor.clone()).await.expect("it serves");
    let caller = NodeProcess::call(&server, "test.node:1.1:wait", &json!({}));
    assert_eq!(served.next_event().await, "wait begins");
    caller.signal("-KILL");
    assert_eq!(served.next_event().await, "wait is cancelled");
    guard.drain(GRACE).await;
}

#[actix::test]
async fn a_restart_of_the_server_is_survived() {
    needs_server!();
    // kept while no server is there
    let port = NatsPort::new();
    let server = NatsServer::start_on(&port.text(), &[]);
    let mut served = node("1.1", "one");
    let serves = join(Config::new(server.url())).await;
    let caller = join(Config::new(server.url())).await;
    let endpoints = Endpoint::all(&served.executor);
    let guard = serves.serve(endpoints, served.executor.clone()).await.expect("it serves");
    let call = |function: &str| {
        let call = Call::new(&format!("test.node:1.1:{function}"), ()).expect("it is a call");
        let caller = caller.clone();
        async move { caller.call(call).await.map(Response::into_value) }
    };
    let mut under_way = Box::pin(call("wait"));
    let begun = tokio::select! {
        _ = &mut under_way => "ended",
        event = served.next_event() => event,
    };
    assert_eq!(begun, "wait begins");
    drop(server);
    let lost = under_way.await.expect_err("the connection is lost");
    assert_eq!((lost.code(), lost.outcome()), (codes::COMM_ERROR, Outcome::Unknown));
    let refused = call("name").await.expect_err("there is no server");
    assert_eq!((refused.code(), refused.outcome()), (codes::CONNECT_ERROR, Outcome::NotCarriedOut));
    let _server = NatsServer::start_on(&port.text(), &[]);
    let name = loop {
        match call("name").await {
            Ok(name) => break name,
            Err(error) => assert_eq!(error.code(), codes::CONNECT_ERROR, "{error}"),
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(name, "one");
    guard.drain(Duration::ZERO).await;
}

#[actix::test]
async fn every_request_of_a_flood_is_answered() {
    const FLOOD: usize = 10_000;
    needs_server!();
    let server = NatsServer::start(&[]);
    let served = node("1.1", "one");
    // its messages to itself wait behind the flood as well
    let config = Config::new(server.url()).max_in_flight(50).ping_interval(GRACE);
    let fabric = join(config).await;
    let endpoints = Endpoint::all(&served.executor);
    let guard = fabric.serve(endpoints, served.executor.clone()).await.expect("it serves");
    // the node, on the same thread, answers no question before it has answered the flood
    let config = Config::new(server.url()).max_calls(FLOOD).view_interval(GRACE);
    // a message to itself has no room beside the flood
    let caller = join(config.ping_interval(GRACE)).await;
    let call = |_| {
        let call = Call::new("test.node:1.1:name", ()).expect("it is a call");
        caller.call(call.within(GRACE))
    };
    let mut refused = 0;
    for answer in join_all((0..FLOOD).map(call)).await {
        match answer {
            Ok(response) => assert_eq!(response.into_value(), "one"),
            Err(error) => {
                assert_eq!(error.to_string(), "DefenseRejected: Too many requests");
                refused += 1;
            }
        }
    }
    assert!(refused < FLOOD, "some are carried out");
    guard.drain(Duration::ZERO).await;
}
