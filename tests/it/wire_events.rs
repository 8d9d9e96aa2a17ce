//! The promise: a client that asks for `text/event-stream` gets what a function emits while it runs and its result at the
//! end, and is otherwise answered as all others.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use actix_web::App;
use actix_web::body::MessageBody;
use actix_web::test::{TestRequest, call_service, init_service};
use asyncsteps_core::{Code, Error, Retry, codes};
use asyncsteps_durable::{Durable, Node};
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_executor::plan::Emits;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_support::client::{Connection, post_with};
use asyncsteps_support::front::Front;
use asyncsteps_support::server::TestServer;
use asyncsteps_transport::http;
use expect_test::expect;
use futures_util::FutureExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Semaphore;

/// Lets requests go on, one for each permit.
struct Gate(Arc<Semaphore>);

impl Service for Gate {
    type Errors = (TooMany,);
}

#[derive(Debug, Code, thiserror::Error)]
#[error("too many")]
#[code(public)]
struct TooMany;

#[derive(Deserialize, JsonSchema)]
struct Count {
    #[schemars(range(max = 100))]
    n: i32,
    #[serde(default)]
    fails: bool,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Counted {
    One(i32),
    Undone,
}

impl Emits for Count {
    type Event = Counted;
}

/// Counts in a step that is tried again, waits at the gate, and counts once more.
fn count(steps: &Steps<Gate, Count>) -> Returns<i32> {
    steps
        .run("count", async |cx, ()| {
            for number in 0..cx.params.n {
                cx.emit_as(&number.to_string(), &Counted::One(number)).await?;
            }
            if cx.attempt() == 1 && cx.params.n == 2 {
                Err(Error::new(codes::COMM_ERROR).into())
            } else {
                Ok(())
            }
        })
        .recorded()
        .retry(Retry::attempts(2).on_code(codes::COMM_ERROR))
        .undo(async |cx, _| Ok(cx.emit(&Counted::Undone).await?))
        .then("go", async |cx, ()| {
            cx.0.acquire().await?.forget();
            cx.emit(&Counted::One(cx.params.n)).await?;
            if cx.params.fails { Err(TooMany.into()) } else { Ok(cx.params.n) }
        })
        .recorded()
        .returns()
}

/// Makes no promise about events.
async fn quiet(_: &asyncsteps_executor::Cx<Gate, ()>) -> asyncsteps_core::BodyResult<()> {
    Ok(())
}

fn executor(gate: &Arc<Semaphore>) -> (Executor, Node) {
    let durable = Durable::new(Memory::default());
    let mut interface = Interface::new("test.events:1.0".parse().expect("a name"));
    interface.allow_anonymous();
    let gate = Gate(Arc::clone(gate));
    let executor = Executor::builder().request_timeout(Duration::from_secs(40)).service(
        interface,
        gate,
        |functions| {
            functions.on("count", count).on("quiet", quiet);
            durable.on(functions, "order", count);
            functions.emits::<Count>("count").emits::<Count>("order");
        },
    );
    let executor = executor.build().expect("it is complete");
    let node = durable.start(&executor).now_or_never().expect("at once").expect("a lease");
    (executor, node)
}

fn host(front: Front) -> (TestServer, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let of_host = Arc::clone(&gate);
    let make = move || {
        let (executor, node) = executor(&of_host);
        actix_rt::spawn(async move {
            let _node = node;
            std::future::pending::<()>().await;
        });
        executor
    };
    (front.start_as(1, make, |service| service.problem_details(|_| None)), gate)
}

const STREAM: &str = "Accept: text/event-stream\r\nContent-Type: application/json\r\n";

fn ask(host: &TestServer, function: &str, headers: &str, params: &str) -> Connection {
    let mut client = Connection::open(host.address);
    let path = format!("/ftn/test.events/1.0/{function}");
    client.send(&post_with(&path, &format!("{STREAM}{headers}"), params.as_bytes()));
    client
}

/// The lines of a stream until this one.
fn until(client: &mut Connection, last: &str) -> String {
    let mut text = String::new();
    while let Some(line) = client.line() {
        // not the framing of HTTP/1.1
        if ["content-type: ", "id: ", "event: ", "data: "].iter().any(|it| line.starts_with(it)) {
            text += &format!("{line}\n");
        }
        if line.starts_with(last) {
            break;
        }
    }
    text
}

fn events_come_while_a_function_runs_and_its_result_at_the_end(front: Front) {
    let (host, gate) = host(front);
    let mut client = ask(&host, "count", "", r#"{"n":2}"#);
    let begins = until(&mut client, r#"data: {"one":1}"#);
    expect![[r#"
        content-type: text/event-stream
        event: emit
        data: {"one":0}
        event: emit
        data: {"one":1}
    "#]]
    .assert_eq(&begins);
    gate.add_permits(1);
    expect![[r#"
        event: emit
        data: {"one":0}
        event: emit
        data: {"one":1}
        event: emit
        data: {"one":2}
        event: result
        data: {"r":2}
    "#]]
    .assert_eq(&until(&mut client, "0"));
    gate.add_permits(1);
    let mut fails = ask(&host, "count", "", r#"{"n":0,"fails":true}"#);
    expect![[r#"
        content-type: text/event-stream
        event: emit
        data: {"one":0}
        event: emit
        data: "undone"
        event: error
        data: {"e":"TooMany","edesc":"too many"}
    "#]]
    .assert_eq(&until(&mut fails, "0"));
    let mut quiet = ask(&host, "quiet", "", "{}");
    expect![[r#"
        content-type: text/event-stream
        event: result
        data: {"r":{}}
    "#]]
    .assert_eq(&until(&mut quiet, "0"));
}

fn a_client_that_leaves_cancels_a_plain_request(front: Front) {
    let (host, _gate) = host(front);
    let mut client = ask(&host, "count", "", r#"{"n":1}"#);
    until(&mut client, "data: ");
    assert_eq!(host.executor.in_flight_count(), 1);
    drop(client);
    host.wait_for_in_flight(0);
}

fn a_client_goes_on_behind_the_last_event_of_a_durable_request(front: Front) {
    let (host, gate) = host(front);
    let key = "Idempotency-Key: ann-1\r\n";
    let mut client = ask(&host, "order", key, r#"{"n":2}"#);
    until(&mut client, "data: ");
    drop(client);
    let again = format!("{key}Last-Event-ID: 1\r\n");
    let mut client = ask(&host, "order", &again, r#"{"n":2}"#);
    let begins = until(&mut client, r#"data: {"one":1}"#);
    gate.add_permits(1);
    let rest = begins + &until(&mut client, "0");
    expect![[r#"
        content-type: text/event-stream
        id: 2
        event: emit
        data: {"one":1}
        id: 3
        event: emit
        data: {"one":2}
        event: result
        data: {"r":2}
    "#]]
    .assert_eq(&rest);
    let mut later = ask(&host, "order", &again, r#"{"n":2}"#);
    assert_eq!(until(&mut later, "0"), rest, "it has ended, and is kept");
    let mut other = ask(&host, "order", "Last-Event-ID: 7\r\n", r#"{"n":0,"fails":true}"#);
    gate.add_permits(1);
    let all = until(&mut other, "0");
    assert!(all.contains("id: 1\n") && all.contains("id: 2\n"), "it is another request: {all}");
    assert!(
        all.ends_with("event: error\ndata: {\"e\":\"TooMany\",\"edesc\":\"too many\"}\n"),
        "{all}"
    );
}

fn a_call_that_is_refused_is_answered_as_all_others(front: Front) {
    let (host, _gate) = host(front);
    let large = format!(r#"{{"n":"{}"}}"#, "1".repeat(70_000));
    let json = "Content-Type: application/json\r\n";
    let coded = format!("{json}Content-Encoding: gzip\r\n");
    let wrong = format!("{json}Authorization: Basic x\r\n");
    let mut statuses = Vec::new();
    for (function, headers, body) in [
        ("count", json, "{}"),
        ("count", json, "[]"),
        ("count", &coded, "{}"),
        ("count", json, &large),
        ("count", &wrong, r#"{"n":1}"#),
        ("none", json, "{}"),
    ] {
        let path = format!("/ftn/test.events/1.0/{function}");
        let [plain, watched] =
            ["", "Accept: application/json, Text/Event-Stream;q=0.9\r\n"].map(|accept| {
                let call = post_with(&path, &format!("{headers}{accept}"), body.as_bytes());
                Connection::open(host.address).send(&call).receive()
            });
        assert_eq!(watched, plain);
        statuses.push(plain.status());
    }
    assert_eq!(statuses, [400, 400, 415, 413, 403, 404]);
    let last = ask(&host, "count", "Last-Event-ID: x\r\n", r#"{"n":1}"#).receive();
    assert_eq!((last.status(), last.json()["code"].clone()), (400, json!("InvalidRequest")));
}

asyncsteps_support::on_both_fronts! {
    events_come_while_a_function_runs_and_its_result_at_the_end,
    a_client_that_leaves_cancels_a_plain_request,
    a_client_goes_on_behind_the_last_event_of_a_durable_request,
    a_call_that_is_refused_is_answered_as_all_others,
}

/// The body of the answer to a call in virtual time, whose head is there.
async fn body(executor: &Executor, function: &str, params: &str) -> impl MessageBody + use<> {
    let app = init_service(App::new().service(http::service("/ftn", executor.clone()))).await;
    let request = TestRequest::post().uri(&format!("/ftn/test.events/1.0/{function}"));
    let request = request.insert_header(("accept", "text/event-stream"));
    let request = request.insert_header(("content-type", "application/json"));
    let request = request.set_payload(params.to_owned()).to_request();
    call_service(&app, request).await.into_body()
}

/// The rest of a body.
async fn read(body: impl MessageBody) -> String {
    let (mut body, mut text) = (Box::pin(body), String::new());
    while let Some(chunk) = poll_fn(|cx| Pin::as_mut(&mut body).poll_next(cx)).await {
        let chunk = chunk.unwrap_or_else(|_| panic!("it is not broken off: {text}"));
        text.push_str(str::from_utf8(&chunk).expect("text"));
    }
    text
}

#[actix::test]
async fn a_slow_client_is_told_what_it_lost_and_holds_nothing_up() {
    tokio::time::pause();
    let gate = Arc::new(Semaphore::new(1));
    let (executor, _node) = executor(&gate);
    let body = body(&executor, "count", r#"{"n":50}"#).await;
    while executor.in_flight_count() > 0 {
        tokio::task::yield_now().await;
    }
    let text = read(body).await;
    let first = (0..32).map(|number| format!("event: emit\ndata: {{\"one\":{number}}}\n\n"));
    let end = "event: lost\ndata: 19\n\nevent: result\ndata: {\"r\":50}\n\n";
    assert_eq!(text, first.collect::<String>() + end);
}

#[actix::test]
async fn a_stream_is_not_silent_and_a_durable_one_lasts_as_long_as_its_request() {
    tokio::time::pause();
    let gate = Arc::new(Semaphore::new(0));
    let (executor, _node) = executor(&gate);
    let plain = body(&executor, "count", r#"{"n":0}"#).await;
    let end = "event: emit\ndata: \"undone\"\n\nevent: error\ndata: {\"e\":\"InternalError\"}\n\n";
    assert_eq!(read(plain).await, ":\n\n:\n\n".to_owned() + end);
    let opens = async {
        tokio::time::sleep(Duration::from_secs(100)).await;
        gate.add_permits(1);
    };
    let durable = async { read(body(&executor, "order", r#"{"n":0}"#).await).await };
    let (durable, ()) = tokio::join!(durable, opens);
    let end = "id: 1\nevent: emit\ndata: {\"one\":0}\n\nevent: result\ndata: {\"r\":0}\n\n";
    assert_eq!(durable, ":\n\n".repeat(6) + end);
}

#[actix::test]
async fn the_document_has_the_events_of_functions() {
    let (executor, _node) = executor(&Arc::new(Semaphore::new(0)));
    let document =
        http::openapi(&http::service("/ftn/", executor.clone()), "Events", "1").document();
    let content = |function: &str| {
        let operation = &document["paths"][format!("/ftn/test.events/1.0/{function}")]["post"];
        operation["responses"]["200"]["content"].clone()
    };
    let events = content("order");
    let kinds: Vec<_> = events.as_object().expect("an object").keys().collect();
    assert_eq!(kinds, ["application/futoin+json", "text/event-stream"]);
    let of = events["text/event-stream"]["x-event"]["$ref"].as_str().expect("a reference");
    let schema = document.pointer(of.trim_start_matches('#')).expect("it is there");
    expect![[r##"{"anyOf":[{"$ref":"#/components/schemas/testEvents.OrderEvent1"},{"$ref":"#/components/schemas/testEvents.OrderEvent2"}]}"##]]
        .assert_eq(&schema.to_string());
    assert_eq!(content("quiet").get("text/event-stream"), None);
    let written = executor.written_interfaces().remove(0).to_json().expect("a definition");
    expect![[r#"["OrderEvent1","OrderEvent2"]"#]]
        .assert_eq(&written["types"]["OrderEvent"].to_string());
}

#[test]
fn events_that_the_definition_has_otherwise_are_an_error() {
    let text = |types: &str| {
        let file = format!(
            r#"{{ "iface": "a.b", "version": "1.0", "ftn3rev": "1.9", {types}
                "funcs": {{ "count": {{ "params": {{ "n": "integer" }}, "result": "integer" }} }} }}"#
        );
        let loaded = Loader::new([Source::texts([("a.b-1.0-iface.json", file)])]);
        let interface = { loaded }.load(&"a.b:1.0".parse().expect("a name")).expect("a definition");
        let of_gate = Gate(Arc::new(Semaphore::new(0)));
        let built = Executor::builder().service(interface, of_gate, |functions| {
            functions.on("count", count).emits::<Count>("count");
        });
        let error = built.build().expect_err("it differs").to_string();
        error.lines().find(|line| line.contains("event")).expect("it says so").to_owned()
    };
    expect!["a.b:1.0:count, event: the definition has no CountEvent"].assert_eq(&text(""));
    expect![[r#"a.b:1.0:count, event: the Rust type has enum of "undone" or map, the definition has integer from -2147483648 to 2147483647"#]].assert_eq(&text(r#""types": { "CountEvent": "integer" },"#));
}
