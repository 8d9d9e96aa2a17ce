//! The promise: a call by the type of its parameters is the same call wherever the function is hosted, and its error is
//! the declared one, as a value, or any other one, with its code (FTN3 §1.9, §1.11).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use asyncsteps_core::{BodyResult, Code, Error, Template, codes};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{
    Caller, Cx, Executor, Invocation, Invoker, Invoking, RequestSteps, Service, TypedCall,
    TypedCallError, TypedClient,
};
use asyncsteps_fabric::http::{Config, HttpFabric, Remote};
use asyncsteps_fabric::{Client, Endpoint, Fabric, LocalFabric};
use asyncsteps_support::definition;
use asyncsteps_support::server::TestServer;
use expect_test::expect;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, PartialEq, Code, thiserror::Error)]
enum SeatError {
    #[error("no seat is left")]
    SoldOut,
    #[error("{0}")]
    #[code(public)]
    NoSuchEvent(String),
    #[error("{0} and {1}")]
    #[code(public)]
    Taken(i32, i32),
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Reserve {
    event: String,
    seats: i32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Reserved {
    left: i32,
    by: String,
}

impl TypedCall for Reserve {
    const FUNCTION: &'static str = "acme.seats:1.0:reserve";
    type Result = Reserved;
    type Errors = SeatError;
}

/// The same, by a client of another version.
#[derive(Serialize)]
struct OldReserve {
    event: String,
}

impl TypedCall for OldReserve {
    const FUNCTION: &'static str = "acme.seats:1.0:reserve";
    type Result = Reserved;
    type Errors = SeatError;
}

/// The same with another result.
#[derive(Serialize)]
struct Count {
    event: String,
    seats: i32,
}

impl TypedCall for Count {
    const FUNCTION: &'static str = "acme.seats:1.0:reserve";
    type Result = u32;
    type Errors = std::convert::Infallible;
}

struct Seats;

impl Service for Seats {
    type Errors = SeatError;
}

async fn reserve(cx: &Cx<Seats, Reserve>) -> BodyResult<Reserved> {
    let by = cx.request().user().map_or("no one", |user| user.local_id()).to_owned();
    match (&*cx.params.event, cx.params.seats) {
        ("fair", seats @ ..=10) => Ok(Reserved { left: 10 - seats, by }),
        ("fair", 11) => Err(SeatError::Taken(1, 2).into()),
        ("fair", _) => Err(SeatError::SoldOut.into()),
        ("closed", _) => Err(Error::with_info(codes::UNAUTHORIZED, "not you").into()),
        (other, _) => Err(SeatError::NoSuchEvent(other.to_owned()).into()),
    }
}

fn seats() -> Executor {
    let mut interface = Interface::new("acme.seats:1.0".parse().expect("a name"));
    interface.allow_anonymous();
    let builder = Executor::builder().service(interface, Seats, |functions| {
        functions.on("reserve", reserve);
    });
    builder.build().expect("a right service")
}

/// An executor that hosts nothing, and calls by `invoker`.
fn calling(invoker: impl Invoker + 'static) -> Executor {
    Executor::builder().invoker(invoker).build().expect("a right service")
}

async fn reserved(client: &TypedClient, event: &str, seats: i32) -> String {
    match client.call(Reserve { event: event.to_owned(), seats }).await {
        Ok(Reserved { left, by }) => format!("{left} left, by {by}"),
        Err(TypedCallError::Declared(error)) => format!("declared: {error:?}"),
        Err(TypedCallError::Other(error)) => format!("other: {error}"),
    }
}

/// What calls get, which is the same everywhere.
async fn check(client: &TypedClient, by: &str) {
    let mut seen = String::new();
    for (event, seats) in [("fair", 3), ("fair", 12), ("ball", 1), ("fair", 11), ("closed", 1)] {
        seen += &reserved(client, event, seats).await;
        seen.push('\n');
    }
    let event = || "fair".to_owned();
    let old = client.call(OldReserve { event: event() }).await.expect_err("seats are missing");
    let count = client.call(Count { event: event(), seats: 1 }).await.expect_err("it is a map");
    seen += &format!("{old}\n{}\n", count.code());
    let expected = expect![[r#"
        7 left, by USER
        declared: SoldOut
        declared: NoSuchEvent("ball")
        other: Taken: 1 and 2
        other: Unauthorized: not you
        InvalidRequest: Missing parameter: acme.seats:1.0:reserve(seats)
        InvokerError
    "#]];
    expected.assert_eq(&seen.replace(&format!("by {by}"), "by USER"));
}

#[actix_rt::test]
async fn it_does_not_matter_where_a_function_is_hosted() {
    let ann = User::new("ann", SecurityLevel::SafeOps);
    let here = seats();
    check(&here.client_for(&ann), "ann").await;
    check(&here.client_for(Caller::anonymous()), "no one").await;
    check(&here.client_as_system(), "-internal").await;

    let local = LocalFabric::new();
    let _guard = local.serve(Endpoint::all(&here), here.clone()).await.expect("it serves");
    check(&calling(Client::new(Arc::new(local))).client_for(&ann), "ann").await;

    let host = TestServer::start(1, seats);
    for scheme in ["http", "ws"] {
        let remote = HttpFabric::new(Config::new()).expect("a fabric");
        let url = format!("{scheme}://{}/ftn/", host.address);
        let interface = "acme.seats:1.0".parse().expect("a name");
        remote.register(interface, Remote::new(url)).expect("it is a URL");
        let client = calling(Client::new(Arc::new(remote))).client_for(Caller::anonymous());
        check(&client, "no one").await;
    }
}

/// Answers with the key of its caller.
#[derive(Serialize)]
struct Key {}

impl TypedCall for Key {
    const FUNCTION: &'static str = "test.keys:1.0:key";
    type Result = String;
    type Errors = std::convert::Infallible;
}

const KEYS: &str = r#"{
    "iface": "test.keys", "version": "1.0", "ftn3rev": "1.9",
    "funcs": { "key": { "result": "string" } }, "requires": [ "AllowAnonymous" ]
}"#;

fn keys() -> Executor {
    let key = Template::build(|asi| {
        asi.add(|asi, ()| {
            let key = asi.request()?.idempotency_key()?.map_or("none", |(key, _)| key).to_owned();
            asi.reply(key)
        });
    });
    let builder = Executor::builder().interface(definition("test.keys:1.0", KEYS), |functions| {
        functions.add("key", &key);
    });
    builder.build().expect("a right service")
}

#[actix_rt::test]
async fn the_key_of_a_call_comes_to_where_its_function_is_hosted() {
    let here = keys();
    let local = LocalFabric::new();
    let _guard = local.serve(Endpoint::all(&here), here.clone()).await.expect("it serves");
    let host = TestServer::start(1, keys);
    let at = |scheme: &str| {
        let remote = HttpFabric::new(Config::new()).expect("a fabric");
        let url = format!("{scheme}://{}/ftn/", host.address);
        let interface = "test.keys:1.0".parse().expect("a name");
        remote.register(interface, Remote::new(url)).expect("it is a URL");
        calling(Client::new(Arc::new(remote)))
    };
    let mut seen = String::new();
    for (place, executor) in [
        ("here", here),
        ("local", calling(Client::new(Arc::new(local)))),
        ("http", at("http")),
        ("ws", at("ws")),
    ] {
        let client = executor.client_for(Caller::anonymous());
        for client in [client.clone().with_key("k7"), client.clone().with_key("k7 "), client] {
            let answer = client.call(Key {}).await.unwrap_or_else(|error| error.to_string());
            seen += &format!("{place}: {answer}\n");
        }
    }
    expect![[r#"
        here: k7
        here: InvalidRequest: The key has to be 1 to 128 printable ASCII characters, without spaces around them
        here: none
        local: k7
        local: InvalidRequest: The key has to be 1 to 128 printable ASCII characters, without spaces around them
        local: none
        http: k7
        http: InvalidRequest: The key has to be 1 to 128 printable ASCII characters, without spaces around them
        http: none
        ws: InvalidRequest: The service of the function takes no keys, being called over a WebSocket
        ws: InvalidRequest: The key has to be 1 to 128 printable ASCII characters, without spaces around them
        ws: none
    "#]]
    .assert_eq(&seen);
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Trip {
    event: String,
    seats: i32,
}

#[derive(Debug, Code, thiserror::Error)]
enum TravelError {
    #[error("no seat is left")]
    SoldOut,
}

struct Travel;

impl Service for Travel {
    type Errors = TravelError;
}

/// Raises what its call fails with.
async fn book(cx: &Cx<Travel, Trip>) -> BodyResult<String> {
    let Trip { event, seats } = &*cx.params;
    let call = Reserve { event: event.clone(), seats: *seats };
    Ok(cx.request().client().call(call).await?.by)
}

#[actix_rt::test]
async fn a_body_calls_for_its_caller_and_raises_errors_as_they_are() {
    let interface = |name: &str| Interface::new(name.parse().expect("a name"));
    let executor = Executor::builder()
        .service(interface("acme.seats:1.0"), Seats, |functions| {
            functions.on("reserve", reserve);
        })
        .service(interface("acme.travel:1.0"), Travel, |functions| {
            functions.on("book", book);
        })
        .build()
        .expect("right services");
    let ann = User::new("ann", SecurityLevel::SafeOps);
    let mut seen = String::new();
    for (event, seats) in [("fair", 3), ("fair", 12), ("ball", 1), ("closed", 1)] {
        let trip = Trip { event: event.to_owned(), seats };
        let booked = executor.call_for::<String>(&ann, "acme.travel:1.0:book", trip).await;
        seen += &format!("{}\n", booked.unwrap_or_else(|error| error.to_string()));
    }
    expect![[r#"
        ann
        SoldOut
        InternalError: Not expected error
        Unauthorized: not you
    "#]]
    .assert_eq(&seen);

    // outside of a step it is an error as well, of which the cause is the declared one
    let raised = || async {
        let call = Reserve { event: "fair".to_owned(), seats: 12 };
        executor.client_for(&ann).call(call).await?;
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    let error = raised().await.expect_err("there are ten");
    let error = error.downcast::<Error>().expect("an error with a code");
    assert_eq!((error.code(), error.find()), ("SoldOut", Some(&SeatError::SoldOut)));
}

/// Fails with these codes, one after the other, and succeeds then.
struct Away(Mutex<VecDeque<&'static str>>);

impl Invoker for Away {
    fn invoke(&self, _: Invocation) -> Invoking {
        let code = self.0.lock().expect("no panic").pop_front();
        let result = code.map_or_else(
            || Ok(Some(json!({ "left": 1, "by": "ann" }))),
            |code| Err(Error::new(code)),
        );
        Box::pin(async { result })
    }
}

#[actix::test]
async fn what_was_not_carried_out_is_called_again_and_with_a_key_what_may_have_been() {
    const AWAY: &str = codes::CONNECT_ERROR;
    const LOST: &str = codes::COMM_ERROR;
    tokio::time::pause();
    let mut out = String::new();
    for (key, failures) in [
        (None, vec![AWAY; 3]),
        (None, vec![AWAY; 4]),
        (None, vec![AWAY, LOST]),
        (Some("k"), vec![AWAY, LOST]),
        (Some("k"), vec!["OutcomeUnknown"]),
        (None, vec![codes::DEFENSE_REJECTED]),
    ] {
        let away = Away(Mutex::new(failures.clone().into()));
        let client = calling(away).client_for(Caller::anonymous());
        let client = match key {
            Some(key) => client.with_key(key),
            None => client,
        };
        let began = tokio::time::Instant::now();
        let result = reserved(&client, "fair", 1).await;
        let took = began.elapsed().as_millis() / 10 * 10;
        out += &format!("{failures:?} {took} ms: {result}\n");
    }
    expect![[r#"
        ["ConnectError", "ConnectError", "ConnectError"] 850 ms: 1 left, by ann
        ["ConnectError", "ConnectError", "ConnectError", "ConnectError"] 850 ms: other: ConnectError
        ["ConnectError", "CommError"] 50 ms: other: CommError
        ["ConnectError", "CommError"] 250 ms: 1 left, by ann
        ["OutcomeUnknown"] 0 ms: other: OutcomeUnknown
        ["DefenseRejected"] 0 ms: other: DefenseRejected
    "#]]
    .assert_eq(&out);
}
