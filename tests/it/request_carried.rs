//! The promise: what a trace carries, `tracestate` (W3C Trace Context) and `baggage` (W3C Baggage), goes from request to
//! request as its ids do: over HTTP and WebSocket, in the process, through durable requests, and through entities and their
//! messages to themselves.

use std::sync::Arc;

use asyncsteps_actors::carried;
use asyncsteps_core::BodyResult;
use asyncsteps_durable::entity::{Entity, EntityCx as _, Message};
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Returns, Service, Steps};
use asyncsteps_fabric::Client;
use asyncsteps_fabric::http::{Config, HttpFabric, Remote};
use asyncsteps_journal::memory::Memory;
use asyncsteps_support::PATIENCE;
use asyncsteps_support::client::{Connection, message, post_with};
use asyncsteps_support::server::TestServer;
use asyncsteps_support::ws::Socket;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Two fields of baggage, which count as one, with a member that is wrong.
const HEADERS: &str = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\
    tracestate: vendor=a1\r\nbaggage: tenant=acme\r\nbaggage: wrong, user=ann;p\r\n";

const CARRIED: [&str; 3] = [TRACE, "vendor=a1", "tenant=acme,user=ann;p"];

fn interface(name: &str) -> Interface {
    let mut interface = Interface::new(name.parse().expect("a name"));
    interface.allow_anonymous();
    interface
}

/// The headers that came with the request.
async fn seen(cx: &Cx<(), ()>) -> BodyResult<Value> {
    let received = cx.request().received()?;
    let header = |name| received.header(name).unwrap_or("-");
    let trace = header("traceparent").get(3..35);
    Ok(json!([trace, header("tracestate"), header("baggage")]))
}

/// A service elsewhere.
fn elsewhere() -> Executor {
    Executor::builder()
        .service(interface("test.elsewhere:1.0"), (), |functions| {
            functions.on("seen", seen);
        })
        .build()
        .expect("it is right")
}

struct Front(Arc<Durable>);

impl Service for Front {
    type Errors = ();
}

/// Calls the service elsewhere, by way of a call in the process.
async fn calls(cx: &Cx<Front, ()>) -> BodyResult<Value> {
    Ok(cx.request().call("test.front:1.0:asks", ()).await?)
}

async fn asks(cx: &Cx<Front, ()>) -> BodyResult<Value> {
    Ok(cx.request().call("test.elsewhere:1.0:seen", ()).await?)
}

fn later(steps: &Steps<Front, ()>) -> Returns<Value> {
    steps
        .run("ask", async |cx, ()| {
            let seen: Value = cx.request().call("test.elsewhere:1.0:seen", ()).await?;
            Ok(seen)
        })
        .recorded()
        .returns()
}

/// Stores a durable request, which nothing carries out before this one has ended.
async fn begins(cx: &Cx<Front, ()>) -> BodyResult<String> {
    let submitted = cx.0.submit("test.front:1.0:later", json!({}), Options::default());
    submitted.await.map(|uid| uid.to_string()).map_err(|error| error.to_string().into())
}

struct Notes(UnboundedSender<Value>);

impl Service for Notes {
    type Errors = ();
}

impl Entity for Notes {
    type State = i32;
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Named {
    #[expect(dead_code, reason = "it is the key")]
    name: String,
}

fn note(cx: &Cx<Notes, Named>, what: &str) {
    let carried = carried::of(cx.request().trace());
    let fields: Vec<_> = carried.iter().flat_map(|carried| carried.fields()).collect();
    let trace = cx.request().trace().trace_id();
    cx.0.send(json!([what, trace, fields])).expect("the test waits");
}

async fn sends(cx: &Cx<Notes, Named>) -> BodyResult<()> {
    note(cx, "call");
    cx.entity().send(Message::new("gets", json!({}))?)?;
    Ok(())
}

async fn gets(cx: &Cx<Notes, Named>) -> BodyResult<()> {
    note(cx, "message");
    Ok(cx.entity().change(|notes| *notes += 1)?)
}

#[test]
fn what_a_trace_carries_goes_along() {
    let other = TestServer::start(1, elsewhere);
    let services = HttpFabric::new(Config::new()).expect("a fabric");
    let remote = Remote::new(format!("http://{}/ftn/", other.address));
    services.register("test.elsewhere:1.0".parse().expect("a name"), remote).expect("a URL");
    let (sender, mut notes) = unbounded_channel();
    let durable = Arc::new(Durable::new(Memory::default()));
    let host = TestServer::start(2, {
        let durable = Arc::clone(&durable);
        move || {
            Executor::builder()
                .service(interface("test.front:1.0"), Front(Arc::clone(&durable)), |functions| {
                    functions.on("calls", calls).on("asks", asks).on("begins", begins);
                    durable.on(functions, "later", later);
                })
                .service(interface("test.notes:1.0"), Notes(sender), |functions| {
                    durable.entity(functions, "name").on("sends", sends).on("gets", gets);
                })
                .invoker(Client::new(Arc::new(services)))
                .build()
                .expect("it is right")
        }
    });
    let mut client = Connection::open(host.address);
    let mut call = |function: &str, headers: &str, params: Value| {
        let headers = format!("Content-Type: application/futoin+json\r\n{headers}");
        let request = post_with("/ftn/", &headers, &message(function, &params));
        client.send(&request).receive().json()["r"].clone()
    };
    let carried = json!(CARRIED);
    assert_eq!(call("test.front:1.0:calls", HEADERS, json!({})), carried, "over HTTP");
    // a connection that is asked for more than once has what each of its requests carries
    let none = call("test.front:1.0:calls", "", json!({}));
    assert_eq!((&none[1], &none[2]), (&json!("-"), &json!("-")));
    // baggage does without a trace, a state does not
    let alone = "tracestate: vendor=a1\r\nbaggage: a=1\r\n";
    let alone = call("test.front:1.0:calls", alone, json!({}));
    assert_eq!((&alone[1], &alone[2]), (&json!("-"), &json!("a=1")));

    let mut socket = Socket::open_with(host.address, "/ftn/", HEADERS);
    assert_eq!(socket.call("test.front:1.0:calls", &json!({}))["r"], carried, "over WebSocket");

    let uid = call("test.front:1.0:begins", HEADERS, json!({}));
    let uid = uid.as_str().expect("a name").parse().expect("a name");
    actix::System::new().block_on(async {
        let node = durable.start(&host.executor).await.expect("it starts");
        let seen = tokio::time::timeout(PATIENCE, durable.result::<Value>(uid)).await;
        assert_eq!(seen.expect("it ends").expect("it succeeds"), carried, "a durable request");
        let params = json!({ "name": "a" });
        let (client, mut notes) = tokio::join!(
            tokio::task::spawn_blocking({
                let address = host.address;
                move || {
                    let headers = format!("Content-Type: application/futoin+json\r\n{HEADERS}");
                    let message = message("test.notes:1.0:sends", &params);
                    let request = post_with("/ftn/", &headers, &message);
                    Connection::open(address).send(&request).receive().status()
                }
            }),
            async {
                let mut seen = Vec::new();
                for _ in 0..2 {
                    let note = tokio::time::timeout(PATIENCE, notes.recv()).await;
                    seen.push(note.expect("it comes").expect("it is sent"));
                }
                seen
            }
        );
        assert_eq!(client.expect("it calls"), 200);
        let fields = json!([["tracestate", CARRIED[1]], ["baggage", CARRIED[2]]]);
        notes.sort_by_key(Value::to_string);
        assert_eq!(notes, [json!(["call", TRACE, fields]), json!(["message", TRACE, fields])]);
        node.stop().await;
    });
}
