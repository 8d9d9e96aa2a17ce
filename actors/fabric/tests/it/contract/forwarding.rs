//! Requests of a front for functions that other nodes host.

use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::{Coding, Headers, Request};
use asyncsteps_executor::raw::RawInput;
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::{Caller, Executor, IDEMPOTENCY_KEY, Incoming, ReplyBody, builtin};
use asyncsteps_fabric::{Client, Endpoint};
use bytes::Bytes;
use expect_test::expect;
use serde_json::{Value, json};

use super::nodes::{definition, node};
use super::{GRACE, Nodes, serve};

/// The key of a request.
struct Key(&'static str);

impl Headers for Key {
    fn header(&self, name: &str) -> Option<&str> {
        (name == IDEMPOTENCY_KEY).then_some(self.0)
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new(std::iter::once((IDEMPOTENCY_KEY, self.0)))
    }
}

/// What a client of the front is answered.
async fn ask(front: &Executor, function: &str, params: Value, caller: Option<Caller>) -> String {
    let Value::Object(params) = params else { panic!("{params} is no map") };
    let request = Request::new(function, params);
    let incoming = Incoming::new(request, Channel::new(ChannelKind::Http));
    let incoming = match caller {
        Some(caller) => incoming.with_caller(caller),
        None => incoming,
    };
    let bytes = front.dispatch(incoming).await.into_bytes().unwrap_or_default();
    format!("{}\n", String::from_utf8_lossy(&bytes))
}

pub(super) async fn a_front_forwards(nodes: &Nodes) {
    let served = node("1.1", "one");
    let guard = serve(&nodes.first, &served).await;
    let front = Executor::builder().forward(Client::new(Arc::clone(&nodes.caller)));
    let front = front.build().expect("an executor");
    let ann = || Some(Caller::from(&User::new("ann", SecurityLevel::SafeOps)));
    let mut out = String::new();
    for (function, params, caller) in [
        ("test.node:1.1:echo", json!({ "text": "hi" }), None),
        ("test.node:1.0:whoami", json!({}), ann()),
        ("test.node:1.1:nothing", json!({}), None),
        ("test.node:1.1:fail", json!({ "code": "Declared" }), None),
        ("test.node:1.1:fail", json!({ "code": "NotDeclared" }), None),
        ("test.node:1.1:echo", json!({ "text": 5 }), None),
        ("test.node:1.2:echo", json!({ "text": "hi" }), None),
        ("test.other:1.0:echo", json!({}), ann()),
    ] {
        out += &ask(&front, function, params, caller).await;
    }
    let echo = Request::new(
        "test.node:1.1:echo",
        json!({ "text": "hi" }).as_object().expect("a map").clone(),
    );
    let mut bytes = Vec::new();
    echo.write(Coding::Cbor, None, &mut bytes);
    let binary = Request::parse(&bytes).expect("a request");
    let chunks = futures_util::stream::iter([Ok::<_, std::io::Error>(Bytes::from("a photograph"))]);
    let of_http = |request| Incoming::new(request, Channel::new(ChannelKind::Http));
    for not_forwarded in [of_http(binary), of_http(echo).with_input(RawInput::new(chunks))] {
        let refused = front.dispatch(not_forwarded).await;
        let ReplyBody::Message(refused) = refused.into_parts().1 else { panic!("no answer") };
        let refused = refused.response().clone().into_result().expect_err("it is not forwarded");
        out += &format!("{}: {}\n", refused.code, refused.description.unwrap_or_default());
    }
    expect![[r#"
        {"r":"hi"}
        {"r":"ann SafeOps"}
        
        {"e":"Declared","edesc":"why"}
        {"e":"InternalError","edesc":"Not expected error"}
        {"e":"InvalidRequest","edesc":"Type mismatch for parameter: test.node:1.1:echo(text) = \"5\""}
        {"e":"ConnectError","edesc":"The request was not carried out"}
        {"e":"UnknownInterface","edesc":"Unknown interface: test.other"}
        InvalidRequest: Only JSON is forwarded: the definition of the function is not known here
        InvalidRequest: Raw data is not forwarded: call the node that hosts the function
    "#]]
    .assert_eq(&out);
    let figures = front.figures();
    let [forwarded] = &figures.functions[..] else { panic!("{figures:?}") };
    assert_eq!(
        (&*forwarded.function, forwarded.total.count()),
        ("executor.forwarded:1.0:call", 10)
    );
    guard.drain(GRACE).await;
}

/// What the key of a request makes once, it makes once where it is carried out.
pub(super) async fn a_front_forwards_keys(nodes: &Nodes) {
    let served = node("1.1", "one");
    let guard = serve(&nodes.first, &served).await;
    let front = Executor::builder().forward(Client::new(Arc::clone(&nodes.caller)));
    let front = front.build().expect("an executor");
    let mut seen = Vec::new();
    for (kind, key) in [
        (ChannelKind::Http, Some("order 7; policy=reject")),
        (ChannelKind::Http, None),
        (ChannelKind::WebSocket, Some("of the connection")),
    ] {
        let request = Request::new("test.node:1.1:key", serde_json::Map::new());
        let incoming = Incoming::new(request, Channel::new(kind));
        let incoming = match key {
            Some(key) => incoming.with_headers(Rc::new(Key(key))),
            None => incoming,
        };
        let answer = front.dispatch(incoming).await;
        let ReplyBody::Message(answer) = answer.into_parts().1 else { panic!("no answer") };
        seen.push(answer.response().clone().into_result().expect("it is answered"));
    }
    assert_eq!(seen, ["order 7; policy=reject", "none", "none"]);
    guard.drain(GRACE).await;
}

/// A request that was not signed does not become a signed one on its way.
pub(super) async fn a_front_does_not_sign(nodes: &Nodes) {
    let signed = definition(&json!({
        "iface": "test.signed", "version": "1.0", "ftn3rev": "1.9",
        "funcs": { "ping": { "params": { "echo": "integer" }, "result": { "echo": "integer" } } },
        "requires": ["MessageSignature"],
    }));
    let executor = Executor::builder().interface(signed, |functions| {
        functions.add("ping", &builtin::ping());
    });
    let executor = executor.build().expect("an executor");
    let guard = nodes.first.serve(Endpoint::all(&executor), executor.clone()).await;
    let guard = guard.expect("it serves");
    let front = Executor::builder().forward(Client::new(Arc::clone(&nodes.caller)));
    let front = front.build().expect("an executor");
    let ann = Caller::from(&User::new("ann", SecurityLevel::SafeOps));
    let mut out = String::new();
    for caller in [ann.clone(), ann.without_signature()] {
        out += &ask(&front, "test.signed:1.0:ping", json!({ "echo": 7 }), Some(caller)).await;
    }
    expect![[r#"
        {"r":{"echo":7}}
        {"e":"SecurityError","edesc":"Message Signature is required"}
    "#]]
    .assert_eq(&out);
    guard.drain(GRACE).await;
}

/// A client that leaves ends its call where it is carried out.
pub(super) async fn a_client_that_leaves_cancels(nodes: &Nodes) {
    let mut served = node("1.1", "one");
    let guard = serve(&nodes.first, &served).await;
    let front = Executor::builder().forward(Client::new(Arc::clone(&nodes.caller)));
    let front = front.build().expect("an executor");
    let mut asked = Box::pin(ask(&front, "test.node:1.1:wait", json!({}), None));
    let begun = tokio::select! {
        _ = &mut asked => "answered",
        event = served.next_event() => event,
    };
    assert_eq!(begun, "wait begins");
    drop(asked);
    assert_eq!(served.next_event().await, "wait is cancelled");
    guard.drain(GRACE).await;
}
