//! Servers that do not answer, though their connections stand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use asyncsteps_core::codes;
use asyncsteps_fabric::nats::{Config, NatsFabric};
use asyncsteps_fabric::{Call, CallError, Endpoint, Fabric, Outcome, Response};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::contract::node;
use crate::nats::frozen::sees;
use crate::nats::needs_server;
use crate::nats::processes::NodeProcess;
use crate::nats::server::NatsServer;

/// Far longer than it takes to notice a server that is silent, and far shorter than its connection stands.
const SOON: Duration = Duration::from_secs(30);

fn config(servers: &str) -> Config {
    Config::new(servers).ping_interval(Duration::from_millis(200))
}

async fn join(config: Config) -> NatsFabric {
    NatsFabric::connect(config).await.expect("it joins")
}

async fn call(fabric: &NatsFabric, function: &str) -> Result<Value, CallError> {
    let call = Call::new(&format!("test.node:1.1:{function}"), ()).expect("it is a call");
    fabric.call(call).await.map(Response::into_value)
}

/// Calls until there is an answer.
async fn answered(fabric: &NatsFabric) -> Value {
    let calls = async {
        loop {
            if let Ok(name) = call(fabric, "name").await {
                return name;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, calls).await.expect("it connects again")
}

async fn is_lost(fabric: &NatsFabric) {
    let lost = async {
        while fabric.is_connected() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, lost).await.expect("it notices");
}

#[actix::test]
async fn a_server_that_is_stopped_is_noticed() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let mut served = node("1.1", "one");
    let (serves, caller) = (join(config(&server.url())).await, join(config(&server.url())).await);
    let endpoints = Endpoint::all(&served.executor);
    let guard = serves.serve(endpoints, served.executor.clone()).await.expect("it serves");
    let mut under_way = Box::pin(call(&caller, "wait"));
    tokio::select! {
        ended = &mut under_way => panic!("{ended:?}"),
        event = served.next_event() => assert_eq!(event, "wait begins"),
    }
    server.stop();
    let lost = timeout(SOON, under_way).await.expect("it notices").expect_err("nothing answers");
    assert_eq!((lost.code(), lost.outcome()), (codes::COMM_ERROR, Outcome::Unknown));
    let refused = call(&caller, "name").await.expect_err("nothing answers");
    assert_eq!((refused.code(), refused.outcome()), (codes::CONNECT_ERROR, Outcome::NotCarriedOut));
    is_lost(&serves).await;
    server.signal("-CONT");
    assert_eq!(answered(&caller).await, "one");
    guard.drain(Duration::ZERO).await;
}

#[actix::test]
async fn nodes_go_on_by_the_server_that_is_not_stopped() {
    needs_server!();
    let servers = NatsServer::cluster(&[]);
    let urls = servers.each_ref().map(NatsServer::url).join(",");
    let served = node("1.1", "one");
    // some of them are connected to each server
    let serves = [join(config(&urls)).await, join(config(&urls)).await];
    let mut guards = Vec::new();
    for fabric in &serves {
        let endpoints = Endpoint::all(&served.executor);
        guards.push(fabric.serve(endpoints, served.executor.clone()).await.expect("it serves"));
    }
    // a call may go to a node of the stopped server as long as that one does not know it
    let short = config(&urls).call_timeout(Duration::from_millis(100));
    let callers = [join(short.clone()).await, join(short).await];
    for caller in &callers {
        answered(caller).await;
    }
    let [stopped, _goes] = &servers;
    stopped.stop();
    // a caller of the stopped server gets no answer before it has gone to the other one
    for caller in &callers {
        answered(caller).await;
    }
    stopped.signal("-CONT");
    for guard in guards {
        guard.drain(Duration::ZERO).await;
    }
}

/// The other server sends messages to the stopped one as long as it believes that the nodes are there: for minutes.
#[actix::test]
async fn no_call_of_a_node_gets_lost_in_the_server_that_is_stopped() {
    needs_server!();
    let [stopped, _goes] = NatsServer::cluster(&[]);
    let served = node("1.1", "one");
    let looks = Duration::from_millis(100);
    let config = || config(&stopped.url()).view_interval(looks).discovery_time(looks);
    let (serves, caller) =
        (join(config().node("one".parse().expect("a name"))).await, join(config()).await);
    let endpoints = Endpoint::all(&served.executor);
    let guard = serves.serve(endpoints, served.executor.clone()).await.expect("it serves");
    sees(&caller, &["one"]).await;
    stopped.stop();
    for fabric in [&serves, &caller] {
        is_lost(fabric).await;
    }
    let back = async {
        while !(serves.is_connected() && caller.is_connected()) {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, back).await.expect("they connect to the other one");
    for _ in 0..50 {
        timeout(SOON, call(&caller, "name")).await.expect("it comes there").expect("an answer");
    }
    stopped.signal("-CONT");
    guard.drain(Duration::ZERO).await;
}

/// A way to a server, on which what is sent to it may get lost.
async fn way_to(server: &NatsServer, is_mute: &Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("nats://{}", listener.local_addr().expect("it is bound"));
    let (to, is_mute) = (server.port(), Arc::clone(is_mute));
    actix_rt::spawn(async move {
        while let Ok((node, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", to)).await.expect("it listens");
            let (mut from_node, mut to_node) = node.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            let is_mute = Arc::clone(&is_mute);
            actix_rt::spawn(async move { tokio::io::copy(&mut from_server, &mut to_node).await });
            actix_rt::spawn(async move {
                let mut bytes = [0; 4_096];
                while let Ok(length @ 1..) = from_node.read(&mut bytes).await {
                    if !is_mute.load(Ordering::Relaxed) {
                        to_server.write_all(&bytes[..length]).await.expect("it reads");
                    }
                }
            });
        }
    });
    url
}

/// The server goes on to send, so that a client which counts what it reads finds nothing wrong.
#[actix::test]
async fn a_server_that_does_not_hear_the_node_is_noticed() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let is_mute = Arc::new(AtomicBool::new(false));
    let way = way_to(&server, &is_mute).await;
    let served = node("1.1", "one");
    let short = Duration::from_millis(500);
    let serves = join(config(&way).connect_timeout(short)).await;
    let endpoints = Endpoint::all(&served.executor);
    let guard = serves.serve(endpoints, served.executor.clone()).await.expect("it serves");
    let caller = join(config(&server.url()).call_timeout(Duration::from_millis(50))).await;
    answered(&caller).await;
    is_mute.store(true, Ordering::Relaxed);
    let lost = async {
        while serves.is_connected() {
            call(&caller, "name").await.expect_err("its answers are lost");
        }
    };
    timeout(SOON, lost).await.expect("it notices");
    is_mute.store(false, Ordering::Relaxed);
    answered(&caller).await;
    guard.drain(Duration::ZERO).await;
}

#[actix::test]
async fn a_node_ends_within_its_grace_though_the_server_is_silent() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let leaves = NodeProcess::serve(&server, "leaves", 0);
    server.stop();
    leaves.signal("-INT");
    timeout(SOON, leaves.ended()).await.expect("it does not wait for the server");
}
