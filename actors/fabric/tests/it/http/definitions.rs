//! Definitions on the side of the caller, and fabrics chosen by interface.

use std::sync::Arc;

use asyncsteps_executor::iface::Definition;
use asyncsteps_fabric::http::{Config, HttpError, HttpFabric, Remote};
use asyncsteps_fabric::{Call, Endpoint, Fabric, LocalFabric, Outcome, Routes};
use expect_test::expect;
use serde_json::{Value, json};

use crate::contract::{definition, node};
use crate::http::call;
use crate::http::raw_server::answers;
use crate::http::serving::{Scheme, serve};

fn test_node(requires: &[&str]) -> Arc<Definition> {
    definition(&json!({
        "iface": "test.node", "version": "1.1", "ftn3rev": "1.9",
        "funcs": {
            "echo": { "params": { "text": "string" }, "result": "string", "maxrspsize": "1K" },
            "nothing": {},
            "raw": { "rawresult": true },
        },
        "requires": requires,
    }))
}

fn register(fabric: &HttpFabric, remote: Remote) -> Result<(), HttpError> {
    fabric.register("test.node:1.1".parse().expect("a name"), remote)
}

#[actix::test]
async fn parameters_and_results_are_checked_by_the_definition() {
    let message = |result: &str| {
        let body = format!("{{\"r\":{result}}}");
        let length = body.len();
        let media = "Content-Type: application/futoin+json";
        format!("HTTP/1.1 200 OK\r\n{media}\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    let large = message(&format!("\"{}\"", "x".repeat(2000)));
    let mut out = String::new();
    for (function, params, answer) in [
        ("echo", json!({ "text": "a" }), message("\"a\"")),
        ("nothing", json!({}), message("{}")),
        ("echo", json!({}), message("\"a\"")),
        ("echo", json!({ "text": 5 }), message("\"a\"")),
        ("none", json!({}), message("1")),
        ("raw", json!({}), message("1")),
        ("echo", json!({ "text": "a" }), message("5")),
        ("echo", json!({ "text": "a" }), message("{}")),
        ("nothing", json!({}), message("1")),
        ("echo", json!({ "text": "a" }), large),
    ] {
        let fabric = HttpFabric::new(Config::new()).expect("a fabric");
        let remote = Remote::new(Scheme::Http.url(answers(answer).await));
        register(&fabric, remote.definition(test_node(&[]))).expect("a URL");
        match call(&fabric, &format!("test.node:1.1:{function}"), params).await {
            Ok(result) => out += &format!("{result}\n"),
            Err(error) => out += &format!("{error} ({:?})\n", error.outcome()),
        }
    }
    expect![[r#"
        "a"
        null
        InvokerError: Missing parameter: test.node:1.1:echo(text) (NotCarriedOut)
        InvokerError: Type mismatch for parameter: test.node:1.1:echo(text) = "5" (NotCarriedOut)
        InvokerError: test.node:1.1:none: the definition has no such function (NotCarriedOut)
        InvokerError: test.node:1.1:raw: its result is raw data (NotCarriedOut)
        InvokerError: Result type mismatch: echo() = "5" (Unknown)
        InvokerError: Result type mismatch: echo() = "{}" (Unknown)
        InvokerError: No result variables are expected: nothing() (Unknown)
        InvokerError: the answer has more than 1024 bytes (Unknown)
    "#]]
    .assert_eq(&out);
}

#[actix::test]
async fn what_cannot_be_called_is_not_registered() {
    let fabric = HttpFabric::new(Config::new()).expect("a fabric");
    let secure = || test_node(&["SecureChannel"]);
    let refused = |remote: Remote| register(&fabric, remote).map_err(|why| why.to_string());
    assert_eq!(refused(Remote::new("https://a/").definition(secure())), Ok(()));
    assert_eq!(refused(Remote::new("secure+http://a/").definition(secure())), Ok(()));
    let error = refused(Remote::new("http://a/").definition(secure())).expect_err("clear text");
    let expected = "test.node:1.1 requires SecureChannel: register it with https:// or wss://";
    assert_eq!(error, expected);
    let both_ways = Remote::new("http://a/").definition(test_node(&["BiDirectChannel"]));
    let error = refused(both_ways).expect_err("one way");
    let expected = "test.node:1.1 requires BiDirectChannel: register it with ws:// or wss://";
    assert_eq!(error, expected);
    let other = "test.node:1.2".parse().expect("a name");
    let error = fabric.register(other, Remote::new("http://a/").definition(test_node(&[])));
    let error = error.expect_err("it is newer").to_string();
    assert_eq!(error, "test.node:1.2 is registered with the definition of test.node:1.1");
    for config in [Config::new().max_calls(0), Config::new().max_message(0)] {
        let error = HttpFabric::new(config).expect_err("zero").to_string();
        assert!(error.ends_with("is 0: nothing could be done with it"), "{error}");
    }
}

#[actix::test]
async fn interfaces_have_their_fabrics() {
    let (here, there) = (node("1.1", "here"), node("1.1", "there"));
    let (address, running) = serve(there.executor.clone());
    let remote = Arc::new(HttpFabric::new(Config::new()).expect("a fabric"));
    register(&remote, Remote::new(Scheme::Http.url(address))).expect("a URL");
    let local = Arc::new(LocalFabric::new());

    let name = async |fabric: &dyn Fabric| -> Value {
        let call = Call::new("test.node:1.1:name", ()).expect("it is a call");
        fabric.call(call).await.expect("it is served").into_value()
    };
    let routes = Routes::new().route("test.other", Arc::clone(&remote) as _);
    let call = Call::new("test.node:1.1:name", ()).expect("it is a call");
    let error = routes.call(call).await.expect_err("there is no route");
    assert_eq!((error.code(), error.outcome()), ("ConnectError", Outcome::NotCarriedOut));

    let routes = routes.others(Arc::clone(&local) as _);
    let guard = routes.serve(Endpoint::all(&here.executor), here.executor.clone()).await;
    let guard = guard.expect("it serves");
    assert_eq!(name(&routes).await, "here");
    assert_eq!(routes.nodes().await.expect("they answer").len(), 1);
    assert_eq!(name(&routes.clone().route("test.node", remote)).await, "there");
    assert!(routes.capabilities().max_message.is_some());
    guard.drain(crate::contract::GRACE).await;
    assert_eq!(routes.nodes().await, Ok(Vec::new()));
    drop(running);
}
