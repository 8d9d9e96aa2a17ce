//! Joining, and what keeps nodes from it; what a node believes; what tools see.

use std::time::Duration;

use async_nats::Message;
use asyncsteps_actors::carried::{self, Carried};
use asyncsteps_actors::trace::TraceParent;
use asyncsteps_executor::Caller;
use asyncsteps_executor::observe::Protocol;
use asyncsteps_executor::security::{Secret, SecurityLevel, User};
use asyncsteps_fabric::nats::{Config, NatsFabric, Trust};
use asyncsteps_fabric::{Call, Endpoint, Fabric};
use expect_test::expect;
use futures_util::FutureExt;
use serde_json::{Value, json};

use crate::contract::{Node, node};
use crate::nats::server::NatsServer;
use crate::nats::{DISCOVERY, needs_server};

async fn error(config: Config) -> String {
    NatsFabric::connect(config).await.expect_err("it cannot join").to_string()
}

#[actix::test]
async fn an_error_says_what_to_do() {
    needs_server!();
    let server = NatsServer::start(&["--user", "shop", "--pass", "right"]);
    let url = server.url();
    let mut out = String::new();
    for config in [
        Config::new("not a server"),
        Config::new("http://127.0.0.1"),
        Config::new(&*url).user("shop", Secret::new("wrong")),
        Config::new(&*url),
        Config::new(&*url).credentials_file("/no/such/file"),
        Config::new(&*url).prefix("ftn..v1"),
        Config::new(&*url).prefix("ftn.*"),
        Config::new(&*url).queue_group(""),
        Config::new(&*url).max_in_flight(0),
        Config::new(&*url).probe_interval(Duration::ZERO),
    ] {
        out += &error(config).await.replace(&url, "nats://SERVER");
        out.push('\n');
    }
    let old = Config::new(&*url).user("shop", Secret::new("right")).min_server(99, 1);
    let old = error(old).await;
    let advice = "99.1 or newer is needed: upgrade it, or lower min_server";
    assert!(old.starts_with("the NATS server has version 2.") && old.ends_with(advice), "{old}");
    drop(server);
    out += &error(Config::new(&*url)).await.replace(&url, "nats://SERVER");
    expect![[r#"
        "not a server" are no servers: write nats://host:4222, several with commas between them
        "http://127.0.0.1" are no servers: write nats://host:4222, several with commas between them
        the NATS server at nats://SERVER refuses the credentials: check user, token or file
        the NATS server at nats://SERVER refuses the credentials: check user, token or file
        the credentials in /no/such/file cannot be read: give a certificate as PEM, the file that nsc wrote, or one with a token
        prefix is "ftn..v1": use letters, digits, - and _, with dots between parts of a prefix
        prefix is "ftn.*": use letters, digits, - and _, with dots between parts of a prefix
        queue_group is "": use letters, digits, - and _, with dots between parts of a prefix
        max_in_flight is 0: nothing could be done with it
        probe_interval is 0: nothing could be done with it
        no NATS server at nats://SERVER: is it running, and may this machine connect?"#]]
    .assert_eq(&out);
}

#[actix::test]
async fn an_error_names_what_is_wrong_with_a_certificate() {
    needs_server!();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/support/tls");
    let [cert, key] = ["cert", "key"].map(|name| format!("{folder}/{name}.pem"));
    let server =
        NatsServer::start(&["--tls", "--tlscert", &cert, "--tlskey", &key, "-a", "0.0.0.0"]);
    let url = server.url().replace("nats://", "tls://");
    let other = url.replace("127.0.0.1", "127.0.0.2");
    let mut out = String::new();
    for config in [
        Config::new(&*url).root_certificates("/no/such/file"),
        Config::new(&*url).root_certificates(&key),
        Config::new(&*other).root_certificates(&cert),
    ] {
        out += &error(config).await.replace(&url, "tls://SERVER").replace(&other, "tls://OTHER");
        out.push('\n');
    }
    expect![[r#"
        the credentials in /no/such/file cannot be read: give a certificate as PEM, the file that nsc wrote, or one with a token
        TLS with tls://SERVER fails, invalid peer certificate: UnknownIssuer: check the certificates, and tls:// in the URL
        TLS with tls://OTHER fails, invalid peer certificate: certificate not valid for name "127.0.0.2"; certificate is only valid for IpAddress(127.0.0.1) or DnsName("localhost"): check the certificates, and tls:// in the URL
    "#]].assert_eq(&out);
}

#[actix::test]
async fn credentials_of_the_server_let_in() {
    needs_server!();
    let server = NatsServer::start(&["--user", "shop", "--pass", "right"]);
    let in_url = server.url().replace("nats://", "nats://shop:right@");
    let by_url = NatsFabric::connect(Config::new(in_url)).await.expect("it joins");
    by_url.close().await;
    let config = Config::new(server.url()).user("shop", Secret::new("right"));
    let fabric = NatsFabric::connect(config).await.expect("it joins");
    assert!(fabric.nodes().await.expect("it asks").is_empty());
    fabric.close().await;
    fabric.nodes().await.expect_err("it is closed");
}

#[actix::test]
async fn a_node_acts_for_users_if_it_is_believed() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let config = || Config::new(server.url()).discovery_time(DISCOVERY);
    let served = node("1.1", "one");
    let secret = Trust::secret(&Secret::new("s1"));
    let serves = NatsFabric::connect(config().trust(secret.clone())).await.expect("it joins");
    let endpoints = Endpoint::all(&served.executor);
    let guard = serves.serve(endpoints, served.executor.clone()).await.expect("it serves");
    let ann = User::new("ann", SecurityLevel::SafeOps).with_global_id("ann@example.com");
    let system = User::new("-internal", SecurityLevel::System);
    let mut out = String::new();
    for trust in [secret, Trust::secret(&Secret::new("s2")), Trust::none(), Trust::account()] {
        let caller = NatsFabric::connect(config().trust(trust)).await.expect("it joins");
        for user in [Caller::from(&ann), Caller::from(&system), Caller::anonymous()] {
            let call = Call::new("test.node:1.1:whoami", ()).expect("it is a call");
            out += &match caller.call(call.for_caller(user)).await {
                Ok(response) => format!("{}\n", response.into_value()),
                Err(error) => format!("{error}\n"),
            };
        }
        let nodes = caller.nodes().await.expect("they answer");
        out += if nodes.iter().any(|it| it.has_other_secret) { "another secret\n" } else { "" };
    }
    expect![[r#"
        "ann SafeOps"
        SecurityError: On-behalf-of is not allowed
        "- Anonymous"
        SecurityError: On-behalf-of is not allowed
        SecurityError: On-behalf-of is not allowed
        "- Anonymous"
        another secret
        SecurityError: On-behalf-of is not allowed
        SecurityError: On-behalf-of is not allowed
        "- Anonymous"
        SecurityError: On-behalf-of is not allowed
        SecurityError: On-behalf-of is not allowed
        "- Anonymous"
    "#]]
    .assert_eq(&out);
    guard.drain(Duration::ZERO).await;
}

#[actix::test]
async fn tools_for_micro_services_see_the_functions() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let served = node("1.1", "one");
    let config = Config::new(server.url()).node("n1".parse().expect("a name"));
    let fabric = NatsFabric::connect(config).await.expect("it joins");
    let endpoints = Endpoint::all(&served.executor);
    let guard = fabric.serve(endpoints, served.executor.clone()).await.expect("it serves");
    let call = Call::new("test.node:1.1:echo", json!({ "text": "hi" })).expect("it is a call");
    fabric.call(call).await.expect("it is served");
    let open = |served: &Node| {
        let figures = served.executor.traffic_figures();
        let of_nats = figures.connections.into_iter().find(|it| it.protocol == Protocol::Nats);
        of_nats.map(|it| (it.accepted, it.open))
    };
    assert_eq!(open(&served), Some((1, 1)));
    let traffic = served.executor.traffic_figures();
    let request = r#"{"f":"test.node:1.1:echo","p":{"text":"hi"}}"#;
    assert_eq!(
        (traffic.received, traffic.sent),
        (request.len() as u64, r#"{"r":"hi"}"#.len() as u64)
    );

    let tool = async_nats::connect(server.url()).await.expect("it connects");
    let ask = async |subject: &'static str| {
        let answer = tool.request(subject, "".into()).await.expect("an answer");
        serde_json::from_slice::<Value>(&answer.payload).expect("JSON")
    };
    for subject in ["$SRV.PING", "$SRV.PING.test-node-v1", "$SRV.PING.test-node-v1.n1"] {
        let ping = ask(subject).await;
        assert_eq!(ping["type"], "io.nats.micro.v1.ping_response");
        assert_eq!((&ping["name"], &ping["id"]), (&json!("test-node-v1"), &json!("n1")));
        assert_eq!(ping["version"], "1.1.0");
    }
    let info = ask("$SRV.INFO.test-node-v1").await;
    let echo = json!({
        "name": "echo", "subject": "ftn.v1.rpc.test-node.1.1.echo", "queue_group": "nodes",
    });
    assert!(info["endpoints"].as_array().expect("a list").contains(&echo), "{info}");
    let stats = ask("$SRV.STATS.test-node-v1").await;
    let echo =
        stats["endpoints"].as_array().expect("a list").iter().find(|it| it["name"] == "echo");
    assert_eq!(echo.expect("it is there")["num_requests"], 1);
    assert!(stats["started"].as_str().is_some_and(|started| started.ends_with('Z')), "{stats}");
    guard.drain(Duration::ZERO).await;
    assert_eq!(open(&served), Some((1, 0)));
}

#[actix::test]
async fn the_trace_and_the_key_of_a_call_go_along() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let served = node("1.1", "one");
    let fabric = NatsFabric::connect(Config::new(server.url())).await.expect("it joins");
    let endpoints = Endpoint::all(&served.executor);
    let guard = fabric.serve(endpoints, served.executor.clone()).await.expect("it serves");
    let beside = async |change: fn(Call) -> Call| {
        let call = Call::new("test.node:1.1:beside", ()).expect("it is a call");
        fabric.call(change(call)).await.expect("it is served").into_value()
    };
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let known = beside(|call| call.in_trace(TRACE.parse().ok()).with_key("order-7")).await;
    assert_eq!(known, json!({ "trace": TRACE[3..35], "uid": "order-7", "carried": {} }));
    // with what the trace carries
    let span: TraceParent = TRACE.parse().expect("a trace");
    let carried = Carried::new("vendor=a1", "tenant=acme").expect("there is some");
    let held = carried::hold(span, carried);
    let known = beside(|call| call.in_trace(TRACE.parse().ok()).with_key("order-8")).await;
    let expected = json!({ "tracestate": "vendor=a1", "baggage": "tenant=acme" });
    assert_eq!(known["carried"], expected);
    drop(held);
    let call = Call::new("test.node:1.1:beside", ()).expect("it is a call");
    let error = fabric.call(call.with_key("two\r\nlines")).await.expect_err("it is no header");
    assert_eq!(error.to_string(), "InvokerError: the key of the call has a line break");
    let (one, other) = (beside(|call| call).await, beside(|call| call).await);
    assert_ne!(one["trace"], other["trace"]);
    assert!(one["uid"].is_string() && one["uid"] != other["uid"], "{one} {other}");
    guard.drain(Duration::ZERO).await;
}

/// What other programs may send.
#[actix::test]
async fn junk_is_answered_or_ignored() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let served = node("1.1", "one");
    let config = Config::new(server.url()).node("n1".parse().expect("a name"));
    let fabric = NatsFabric::connect(config).await.expect("it joins");
    let endpoints = Endpoint::all(&served.executor);
    let guard = fabric.serve(endpoints, served.executor.clone()).await.expect("it serves");
    let tool = async_nats::connect(server.url()).await.expect("it connects");
    let subject = "ftn.v1.rpc.test-node.1.1.echo";
    let mut out = String::new();
    for junk in ["", "{", "null", r#"{"f":"test.node:1.1:echo","p":{"text":1,"zzz":2}}"#] {
        let answer: Message = tool.request(subject, junk.into()).await.expect("an answer");
        let code = answer.headers.as_ref().and_then(|headers| headers.get("Nats-Service-Error"));
        let code = code.map_or("-", |code| code.as_str());
        out += &format!("{code} {}\n", String::from_utf8_lossy(&answer.payload));
    }
    expect![[r#"
        InvalidRequest {"e":"InvalidRequest","edesc":"Missing req.f"}
        InvalidRequest {"e":"InvalidRequest","edesc":"Missing req.f"}
        InvalidRequest {"e":"InvalidRequest","edesc":"Missing req.f"}
        InvalidRequest {"e":"InvalidRequest","edesc":"Unknown parameter: test.node:1.1:echo(zzz)"}
    "#]]
    .assert_eq(&out);
    for (subject, payload) in [
        (subject, "without a reply subject"),
        ("ftn.v1.ctl.n1.cancel", "no.such.call"),
        ("ftn.v1.ctl.n1.cancel", ""),
        ("ftn.v1.ctl.n1.unknown", "x"),
        ("$SRV.UNKNOWN", "x"),
    ] {
        tool.publish(subject, payload.into()).await.expect("it is sent");
    }
    // it comes after them
    let call = r#"{"f":"test.node:1.1:echo","p":{"text":"hi"}}"#;
    let answer = tool.request(subject, call.into()).await.expect("an answer");
    assert_eq!(answer.payload, r#"{"r":"hi"}"#);
    assert_eq!(served.executor.unanswerable(), 1);
    guard.drain(Duration::ZERO).await;
}

#[actix::test]
async fn a_node_is_told_to_drain() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let join = |name: &str| {
        let config = Config::new(server.url()).node(name.parse().expect("a name"));
        async { NatsFabric::connect(config).await.expect("it joins") }
    };
    let (node, other) = (join("n1").await, join("n2").await);
    let mut out = String::new();
    for to in ["n1", "n3"] {
        let error = other.order_drain(&to.parse().expect("a name")).await.expect_err("in vain");
        out += &format!("{error}\n");
    }
    expect![[r#"
        NotImplemented: this node takes no orders to drain
        ConnectError: there is no node n3
    "#]]
    .assert_eq(&out);
    let (ordered, of_other) = (node.drain_ordered(), other.drain_ordered());
    let tool = async_nats::connect(server.url()).await.expect("it connects");
    tool.publish_with_reply("ftn.v1.ctl.all.drain", "r", "".into()).await.expect("it is sent");
    tool.flush().await.expect("it is sent");
    other.order_drain(node.node()).await.expect("it is told");
    ordered.await;
    assert!(of_other.now_or_never().is_none(), "only the one that is named");
}
