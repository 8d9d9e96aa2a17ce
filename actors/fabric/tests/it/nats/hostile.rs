//! What other programs of the account may send, and what it costs.

use std::time::Duration;

use actix_rt::Arbiter;
use asyncsteps_actors::clock;
use asyncsteps_core::codes;
use asyncsteps_executor::health::NotReady;
use asyncsteps_fabric::nats::{Config, NatsFabric};
use asyncsteps_fabric::{Call, CallError, Endpoint, Fabric, Outcome, Response, ServeGuard};
use expect_test::expect;
use serde_json::{Value, json};

use crate::contract::{Node, node};
use crate::nats::raw::RawClient;
use crate::nats::server::NatsServer;
use crate::nats::{DISCOVERY, needs_server};

fn config(server: &NatsServer) -> Config {
    Config::new(server.url()).discovery_time(Duration::from_millis(50))
}

/// A node `n1` that serves `test.node:1.1`.
async fn serve(config: Config, node: &Node) -> (NatsFabric, ServeGuard) {
    let config = config.node("n1".parse().expect("a name"));
    let fabric = NatsFabric::connect(config).await.expect("it joins");
    let endpoints = Endpoint::all(&node.executor);
    let guard = fabric.serve(endpoints, node.executor.clone()).await.expect("it serves");
    (fabric, guard)
}

async fn call(fabric: &NatsFabric, function: &str) -> Result<Value, CallError> {
    let call = Call::new(&format!("test.node:1.1:{function}"), ()).expect("it is a call");
    fabric.call(call).await.map(Response::into_value)
}

/// Waits until a call of `wait` is carried out; the end of one before may come first.
async fn begins(
    mut under_way: impl Future<Output = Result<Value, CallError>> + Unpin,
    served: &mut Node,
) {
    loop {
        tokio::select! {
            ended = &mut under_way => panic!("it ended: {ended:?}"),
            event = served.next_event() => if event == "wait begins" { return },
        }
    }
}

/// Calls until the nodes are connected again.
async fn answered(fabric: &NatsFabric) -> Value {
    loop {
        match call(fabric, "name").await {
            Ok(name) => return name,
            Err(error) => {
                let is_lost = [codes::CONNECT_ERROR, codes::COMM_ERROR].contains(&error.code());
                assert!(is_lost, "{error}");
            }
        }
        tokio::task::yield_now().await;
    }
}

/// async-nats 0.51 panics at the first of them, and loses the connection at the others.
#[actix::test]
async fn malformed_headers_are_survived() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let mut served = node("1.1", "one");
    let (serves, guard) = serve(config(&server), &served).await;
    let caller = NatsFabric::connect(config(&server)).await.expect("it joins");
    let mut raw = RawClient::connect(&server).await;
    for headers in [
        &b"NATS/1.0\r\na: b\rc\r\n\r\n"[..],
        b"NATS/1.0\r\nno colon\r\n\r\n",
        b"NATS/1.0\r\na: \xff\r\n\r\n",
        b"NATS/1.0 abc\r\n\r\n",
        b"NATX\r\n\r\n",
    ] {
        let mut under_way = Box::pin(call(&caller, "wait"));
        begins(&mut under_way, &mut served).await;
        raw.publish_with("ftn.v1.ctl.all.ping", "", headers, b"").await;
        raw.settle().await;
        let lost = under_way.await.expect_err("the connection is lost");
        assert_eq!((lost.code(), lost.outcome()), (codes::COMM_ERROR, Outcome::Unknown));
        assert_eq!(answered(&caller).await, "one");
        // the orders of other nodes come again, and the questions of tools
        while caller.nodes().await.is_ok_and(|nodes| nodes.is_empty()) {}
        let ping = raw.request("$SRV.PING.test-node-v1", "", "").await;
        assert!(ping.payload.contains(r#""id":"n1""#), "{ping:?}");
        let begun = call(&caller, "name").await;
        assert_eq!(begun, Ok(json!("one")));
    }
    let connected = serves.clone();
    let dependency = served.executor.depends_on(move || connected.is_connected());
    assert!(served.executor.readiness().await.is_ready);
    drop(server);
    while served.executor.readiness().await.reasons != [NotReady::Disconnected] {
        tokio::task::yield_now().await;
    }
    guard.drain(Duration::ZERO).await;
    drop(dependency);
    assert!(served.executor.readiness().await.is_ready, "it depends on nothing any more");
    serves.close().await;
}

/// The name of the node in a probe is a part of the subject that a call is cancelled on.
#[actix::test]
async fn a_probe_cannot_choose_a_subject() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let caller = NatsFabric::connect(config(&server)).await.expect("it joins");
    let (mut serves, mut told) =
        (RawClient::connect(&server).await, RawClient::connect(&server).await);
    serves.subscribe("ftn.v1.rpc.evil-x.1.0.*").await;
    told.subscribe("ftn.v1.ctl.>").await;
    let mut replies = Vec::new();
    for node in ["n1.drain _INBOX.zz", "n1.x", "all", "*", "", "n2"] {
        let call = Call::new("evil.x:1.0:f", ()).expect("it is a call");
        let mut under_way = Box::pin(caller.call(call));
        let request = tokio::select! {
            ended = &mut under_way => panic!("it ended: {ended:?}"),
            request = serves.message() => request,
        };
        let reply = request.reply.expect("it is to be answered");
        let (inbox, token) = reply.rsplit_once('.').expect("an inbox");
        serves.unsubscribe().await;
        let headers = format!("Ftn-Probe: 1\r\nFtn-Node: {node}");
        let unwanted = serves.request(&format!("{inbox}.probe"), &headers, token).await;
        assert_eq!(unwanted.payload, "", "it is wanted");
        serves.subscribe("ftn.v1.rpc.evil-x.1.0.*").await;
        drop(under_way);
        replies.push(reply);
    }
    let cancel = loop {
        let order = told.message().await;
        // its calls make the node look at the others
        if order.subject != "ftn.v1.ctl.all.ping" {
            break order;
        }
    };
    assert_eq!(cancel.subject, "ftn.v1.ctl.n2.cancel");
    assert_eq!(Some(&cancel.payload), replies.last());
    replies.dedup();
    assert_eq!(replies.len(), 6);
}

/// The answers to requests of a program that is no node, one line each.
async fn answers(server: &NatsServer, requests: &[(&str, &str, &str)]) -> String {
    let mut raw = RawClient::connect(server).await;
    let mut out = String::new();
    for (subject, headers, payload) in requests {
        out += &raw.request(subject, headers, payload).await.payload;
        out.push('\n');
    }
    out
}

#[actix::test]
async fn a_function_is_called_on_its_subject_only() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let served = node("1.1", "one");
    let (_serves, guard) = serve(config(&server), &served).await;
    let request = r#"{"f":"test.node:1.0:name","rid":"r1"}"#;
    let requests = [
        ("ftn.v1.rpc.test-node.1.0.name", "", request),
        ("ftn.v1.node.n1.test-node.1.0.name", "", request),
        ("ftn.v1.rpc.test-node.1.0.echo", "", request),
        ("ftn.v1.rpc.test-node.1.1.name", "", request),
        ("ftn.v1.node.n1.test-node.1.0.*", "", request),
        ("ftn.v1.rpc.test-node.1.0.name", "", r#"{"f":"test.other:1.0:name"}"#),
    ];
    expect![[r#"
        {"r":"one","rid":"r1"}
        {"r":"one","rid":"r1"}
        {"e":"InvalidRequest","edesc":"The subject is not that of the function","rid":"r1"}
        {"e":"InvalidRequest","edesc":"The subject is not that of the function","rid":"r1"}
        {"e":"InvalidRequest","edesc":"The subject is not that of the function","rid":"r1"}
        {"e":"InvalidRequest","edesc":"The subject is not that of the function"}
    "#]]
    .assert_eq(&answers(&server, &requests).await);
    guard.drain(Duration::ZERO).await;
}

#[actix::test]
async fn a_request_that_is_late_is_not_carried_out() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let served = node("1.1", "one");
    let (_serves, guard) = serve(config(&server), &served).await;
    let wait = r#"{"f":"test.node:1.0:wait"}"#;
    let subject = "ftn.v1.rpc.test-node.1.0.wait";
    let headers = ["-5", "soon", "", "1e9", "99999999999999999999"]
        .map(|it| format!("Ftn-Deadline-Ms: {it}"));
    let mut requests: Vec<_> = headers.iter().map(|it| (subject, &**it, wait)).collect();
    requests.push((subject, "Ftn-Deadline-Ms: 9\r\nFtn-Ends-Ms: soon", wait));
    requests.push((subject, "Ftn-Deadline-Ms: 0", wait));
    // it waited for half a century
    requests.push((subject, "Ftn-Deadline-Ms: 300000\r\nFtn-Ends-Ms: 300000", wait));
    expect![[r#"
        {"e":"InvalidRequest","edesc":"Ftn-Deadline-Ms is no number of milliseconds"}
        {"e":"InvalidRequest","edesc":"Ftn-Deadline-Ms is no number of milliseconds"}
        {"e":"InvalidRequest","edesc":"Ftn-Deadline-Ms is no number of milliseconds"}
        {"e":"InvalidRequest","edesc":"Ftn-Deadline-Ms is no number of milliseconds"}
        {"e":"InvalidRequest","edesc":"Ftn-Deadline-Ms is no number of milliseconds"}
        {"e":"InvalidRequest","edesc":"Ftn-Ends-Ms is no number of milliseconds"}
        {"e":"ConnectError","edesc":"The time of the request is over"}
        {"e":"ConnectError","edesc":"The time of the request is over"}
    "#]]
    .assert_eq(&answers(&server, &requests).await);
    assert_eq!(guard.drain(Duration::ZERO).await.cancelled, 0);
}

/// The time in the queue of an arbiter is a part of the time that the caller waits.
#[actix::test]
async fn a_request_that_waited_too_long_is_not_carried_out() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let served = node("1.1", "one");
    let fabric = NatsFabric::connect(config(&server)).await.expect("it joins");
    let arbiter = Arbiter::new();
    let (goes_on, go_on) = std::sync::mpsc::channel::<()>();
    let (endpoints, executor) = (Endpoint::all(&served.executor), served.executor.clone());
    let guard = fabric.serve_on([arbiter.handle()], endpoints, executor).await.expect("it serves");
    // until the test lets it go on
    let blocked = arbiter.spawn_fn(move || {
        let _ = go_on.recv();
    });
    assert!(blocked);
    let mut raw = RawClient::connect(&server).await;
    raw.subscribe("_INBOX.raw").await;
    let (headers, name) =
        (b"NATS/1.0\r\nFtn-Deadline-Ms: 1\r\n\r\n", br#"{"f":"test.node:1.0:name"}"#);
    raw.publish_with("ftn.v1.rpc.test-node.1.0.name", "_INBOX.raw", headers, name).await;
    while served.executor.traffic_figures().received == 0 {
        tokio::task::yield_now().await;
    }
    let over = clock::now() + Duration::from_millis(1);
    while clock::now() <= over {
        tokio::task::yield_now().await;
    }
    drop(goes_on);
    let answer = raw.message().await.payload;
    assert_eq!(answer, r#"{"e":"ConnectError","edesc":"The time of the request is over"}"#);
    guard.drain(Duration::ZERO).await;
    arbiter.stop();
}

#[actix::test]
async fn requests_have_a_budget_in_bytes() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let mut served = node("1.1", "one");
    let (_serves, guard) = serve(config(&server).max_bytes_in_flight(250), &served).await;
    let mut first = RawClient::connect(&server).await;
    let wait = br#"{"f":"test.node:1.0:wait"}"#;
    first.publish("ftn.v1.rpc.test-node.1.0.wait", "_INBOX.first", wait).await;
    assert_eq!(served.next_event().await, "wait begins");
    let text = "x".repeat(150);
    let large = format!(r#"{{"f":"test.node:1.0:echo","p":{{"text":"{text}"}}}}"#);
    let small = r#"{"f":"test.node:1.0:name"}"#;
    let refused = [
        ("ftn.v1.rpc.test-node.1.0.echo", "", &*large),
        ("ftn.v1.rpc.test-node.1.0.name", "", small),
    ];
    expect![[r#"
        {"e":"DefenseRejected","edesc":"Too many requests"}
        {"r":"one"}
    "#]]
    .assert_eq(&answers(&server, &refused).await);
    first.publish("ftn.v1.ctl.n1.cancel", "", b"_INBOX.first").await;
    assert_eq!(served.next_event().await, "wait is cancelled");
    let answer = answers(&server, &refused[..1]).await;
    assert_eq!(answer, format!("{{\"r\":\"{text}\"}}\n"), "what has ended is counted no more");
    guard.drain(Duration::ZERO).await;
}

#[actix::test]
async fn a_cancelled_request_is_answered() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let mut served = node("1.1", "one");
    let (_serves, guard) = serve(config(&server), &served).await;
    let mut caller = RawClient::connect(&server).await;
    caller.subscribe("_INBOX.caller").await;
    let (subject, wait) = ("ftn.v1.rpc.test-node.1.0.wait", br#"{"f":"test.node:1.0:wait"}"#);
    caller.publish(subject, "_INBOX.caller", wait).await;
    assert_eq!(served.next_event().await, "wait begins");
    // another one at the same time would take its answer
    caller.publish(subject, "_INBOX.caller", wait).await;
    let too_long = [b"_INBOX.caller".as_slice(), &[b'x'; 600]].concat();
    for reply in [b"".as_slice(), b"_INBOX.other", &too_long, b"_INBOX.caller"] {
        caller.publish("ftn.v1.ctl.n1.cancel", "", reply).await;
    }
    let answer = caller.message().await.payload;
    assert_eq!(answer, r#"{"e":"InternalError","edesc":"Request was cancelled"}"#);
    assert_eq!(served.next_event().await, "wait is cancelled");
    assert_eq!(served.executor.unanswerable(), 1);
    let figures = guard.drain(Duration::ZERO).await;
    assert_eq!(figures.cancelled, 0, "nothing is left");
}

#[actix::test]
async fn a_reply_subject_is_an_inbox() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let served = node("1.1", "one");
    let (_serves, guard) = serve(config(&server), &served).await;
    let mut raw = RawClient::connect(&server).await;
    let (subject, name) = ("ftn.v1.rpc.test-node.1.0.name", r#"{"f":"test.node:1.0:name"}"#);
    let long = format!("_INBOX.ftn-{}.1", "a".repeat(4_000));
    for reply in [&long, "ftn.v1.ctl.n1.drain", "$SRV.PING"] {
        raw.publish(subject, reply, name.as_bytes()).await;
    }
    assert_eq!(raw.request(subject, "", name).await.payload, r#"{"r":"one"}"#);
    assert_eq!(served.executor.unanswerable(), 3);
    guard.drain(Duration::ZERO).await;
}

#[actix::test]
async fn an_answer_that_is_too_large_is_an_error() {
    needs_server!();
    let file = std::env::temp_dir().join(format!("nats-small-{}.conf", std::process::id()));
    std::fs::write(&file, "max_payload: 512").expect("it is written");
    let server = NatsServer::start(&["-c", file.to_str().expect("a path")]);
    std::fs::remove_file(&file).expect("it was read");
    let served = node("1.1", "one");
    let (_serves, guard) = serve(config(&server), &served).await;
    let mut raw = RawClient::connect(&server).await;
    // the result has the reply subject in it
    let reply = format!("_INBOX.{}", "x".repeat(490));
    raw.subscribe(&reply).await;
    let subject = "ftn.v1.rpc.test-node.1.0.beside";
    raw.publish(subject, &reply, br#"{"f":"test.node:1.0:beside"}"#).await;
    let error = r#"{"e":"InternalError","edesc":"Response size has exceeded the limit of the NATS server"}"#;
    assert_eq!(raw.message().await.payload, error);
    // an id is repeated in the answer
    raw.unsubscribe().await;
    let id = format!(r#"{{"f":"test.node:1.0:missing","rid":"{}"}}"#, "x".repeat(460));
    assert_eq!(raw.request("ftn.v1.rpc.test-node.1.0.missing", "", &id).await.payload, error);
    guard.drain(Duration::ZERO).await;
}

/// A probe with the tokens of all calls at once would be larger than the server takes, and those of callers
/// that are gone delay none of the others.
#[actix::test]
async fn many_callers_and_many_calls_are_asked_for() {
    const CALLS: usize = 700;
    needs_server!();
    let file = std::env::temp_dir().join(format!("nats-probes-{}.conf", std::process::id()));
    std::fs::write(&file, "max_payload: 2048").expect("it is written");
    let server = NatsServer::start(&["-c", file.to_str().expect("a path")]);
    std::fs::remove_file(&file).expect("it was read");
    let mut served = node("1.1", "one");
    // its own calls leave no room for probes
    let config = config(&server).probe_interval(Duration::from_millis(100)).max_calls(1);
    let (serves, guard) = serve(config, &served).await;
    let mut raw = RawClient::connect(&server).await;
    let mut silent = RawClient::connect(&server).await;
    silent.subscribe("_INBOX.*.probe").await;
    let (subject, wait) = ("ftn.v1.rpc.test-node.1.0.wait", br#"{"f":"test.node:1.0:wait"}"#);
    for number in 0..5 {
        raw.publish(subject, &format!("_INBOX.ftn-silent-{number}.1"), wait).await;
    }
    let caller = NatsFabric::connect(Config::new(server.url())).await.expect("it joins");
    let waits = || {
        let call = Call::new("test.node:1.1:wait", ()).expect("it is a call");
        caller.call(call)
    };
    raw.subscribe("ftn.v1.rpc.evil-x.1.0.*").await;
    let own = Call::new("evil.x:1.0:f", ()).expect("it is a call");
    let mut own = serves.call(own);
    tokio::select! {
        ended = &mut own => panic!("it ended: {ended:?}"),
        _ = raw.message() => {}
    }
    let mut calls = futures_util::future::select_all((0..CALLS).map(|_| waits()));
    let (mut begun, mut cancelled) = (0, 0);
    while cancelled < 5 {
        tokio::select! {
            (ended, _, _) = &mut calls => panic!("a call that is wanted ended: {ended:?}"),
            event = served.next_event() => match event {
                "wait begins" => begun += 1,
                _ => cancelled += 1,
            },
        }
    }
    assert_eq!(begun, CALLS + 5);
    drop(own);
    assert_eq!(serves.connection_losses(), 0);
    drop(calls);
    while cancelled < CALLS + 5 {
        assert_eq!(served.next_event().await, "wait is cancelled");
        cancelled += 1;
    }
    guard.drain(Duration::ZERO).await;
}

#[actix::test]
async fn two_nodes_cannot_have_one_name() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let join = || NatsFabric::connect(config(&server).node("n1".parse().expect("a name")));
    let first = join().await.expect("it joins");
    let error = join().await.expect_err("the name is taken");
    expect!["there is a node n1 already: give each node a name of its own, or wait until that one has left"]
        .assert_eq(&error.to_string());
    assert!(first.nodes().await.expect("it asks").is_empty(), "it serves nothing");
    first.close().await;
    join().await.expect("it has left").close().await;
}

#[actix::test]
async fn a_list_of_nodes_has_names_only() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let served = node("1.1", "one");
    let (_serves, guard) = serve(config(&server), &served).await;
    let caller = Config::new(server.url()).discovery_time(DISCOVERY);
    let caller = NatsFabric::connect(caller).await.expect("it joins");
    let mut raw = RawClient::connect(&server).await;
    raw.subscribe("ftn.v1.ctl.all.ping").await;
    let mut listed = Box::pin(caller.nodes());
    let asked = tokio::select! {
        listed = &mut listed => panic!("it did not wait: {listed:?}"),
        asked = raw.message() => asked.reply.expect("it is to be answered"),
    };
    for node in ["gh\\u001b[31most", "n2", "n2", "n3 ", "all"] {
        let info = format!(
            r#"{{"node":"{node}","interfaces":["\u001b[0m","a.b:1.0"],"in_flight":0,"is_draining":false}}"#
        );
        raw.publish(&asked, "", info.as_bytes()).await;
    }
    let listed = listed.await.expect("they answer");
    let listed: Vec<_> = listed.iter().map(|it| (&*it.node, it.interfaces.join(" "))).collect();
    assert_eq!(listed, [("n1", "test.node:1.1".to_owned()), ("n2", "a.b:1.0".to_owned())]);
    guard.drain(Duration::ZERO).await;
}

#[actix::test]
async fn a_header_in_other_letters_is_none_of_ours() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let served = node("1.1", "one");
    let (fabric, guard) = serve(config(&server), &served).await;
    let request = r#"{"f":"test.node:1.0:beside"}"#;
    let headers = "FTN-UID: forged\r\nftn-uid: forged";
    let answer = answers(&server, &[("ftn.v1.rpc.test-node.1.0.beside", headers, request)]).await;
    assert!(answer.contains(r#""uid":"_INBOX.raw""#), "{answer}");
    let call = Call::new("test.node:1.1:beside", ()).expect("it is a call");
    let error = fabric.call(call.with_key(" order-7")).await.expect_err("it would be cut");
    expect!["InvokerError: the key of the call begins or ends with white space"]
        .assert_eq(&error.to_string());
    guard.drain(Duration::ZERO).await;
}
