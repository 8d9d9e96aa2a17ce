//! The promise: over a WebSocket the server calls its client as the client calls it (`wire.md`,
//! FTN6 §2.10), and a channel lives as long as its connection.

use std::sync::mpsc;

use asyncsteps_core::Template;
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_executor::{Executor, RequestSteps};
use asyncsteps_support::client::{Connection, post};
use asyncsteps_support::front::Front;
use asyncsteps_support::ws::{Socket, frame, opcode};
use asyncsteps_transport::websocket::WebSocketLimits;
use serde_json::{Value, json};

const PEER: &str = r#"{
    "iface": "test.peer",
    "version": "1.0",
    "ftn3rev": "1.9",
    "funcs": {
        "add": {
            "params": { "a": "integer", "b": "integer" },
            "result": { "sum": "integer" },
            "throws": [ "MyError" ]
        },
        "log": { "params": { "text": "string" } }
    },
    "requires": [ "AllowAnonymous" ]
}"#;

const CALLER: &str = r#"{
    "iface": "test.caller",
    "version": "1.0",
    "ftn3rev": "1.9",
    "funcs": {
        "callBack": {
            "params": { "a": "any", "b": "any" },
            "result": { "sum": "any" },
            "throws": [ "MyError", "CommError", "InvokerError" ]
        },
        "tell": { "params": { "text": "string" }, "result": { "ok": "boolean" } },
        "watch": { "result": { "ok": "boolean" } },
        "count": { "result": { "count": "integer" } },
        "raw": { "rawresult": true }
    },
    "requires": [ "AllowAnonymous", "BiDirectChannel" ]
}"#;

#[derive(Default)]
struct Count(u32);

/// Functions that call their caller, and watch its channel.
fn caller(aborted: mpsc::Sender<u32>) -> Executor {
    let files = [("test.peer-1.0-iface.json", PEER), ("test.caller-1.0-iface.json", CALLER)];
    let mut loader = Loader::new([Source::texts(files)]);
    let mut load =
        |id: &str| loader.load(&id.parse().expect("a name")).expect("a definition above");
    let peer = load("test.peer:1.0");
    let call_back = Template::build(|asi| {
        let peer = peer.clone();
        asi.add(move |asi, ()| {
            let params = asi.request()?.params().clone();
            let channel = asi.request()?.channel().clone();
            channel.register(peer.clone())?;
            asi.await_(
                async move { channel.call("test.peer:1.0:add", params).await.map(|sum| (sum,)) },
            );
            asi.add(|asi, (sum,): (Value,)| asi.reply(sum));
            Ok(())
        });
    });
    let tell = Template::build(|asi| {
        let peer = peer.clone();
        asi.add(move |asi, ()| {
            let params = asi.request()?.params().clone();
            let channel = asi.request()?.channel().clone();
            channel.register(peer.clone())?;
            asi.await_(async move {
                channel.call("test.peer:1.0:log", params).await.map(|none| (none,))
            });
            asi.add(|asi, (none,): (Value,)| asi.reply(json!({ "ok": none.is_null() })));
            Ok(())
        });
    });
    let watch = Template::build(|asi| {
        let aborted = aborted.clone();
        asi.add(move |asi, ()| {
            let channel = asi.request()?.channel();
            let count = channel.with_state(|count: &mut Count| count.0);
            let aborted = aborted.clone();
            let handler = channel.on_invoker_abort(move || {
                // not every test is interested
                let _ = aborted.send(count);
            });
            handler.keep();
            asi.reply(json!({ "ok": true }))
        });
    });
    let count = Template::build(|asi| {
        asi.add(|asi, ()| {
            let counted = |count: &mut Count| {
                count.0 += 1;
                count.0
            };
            let count = asi.request()?.channel().with_state(counted);
            asi.reply(json!({ "count": count }))
        });
    });
    let raw = Template::build(|asi| {
        asi.add(|asi, ()| {
            let mut output = asi.raw_output("text/plain")?;
            asi.await_(async move { output.write("never seen").await });
            Ok(())
        });
    });
    let caller = load("test.caller:1.0");
    let builder = Executor::builder().interface(caller, |functions| {
        functions.others_not_implemented();
        functions.add("callBack", &call_back).add("tell", &tell).add("watch", &watch);
        functions.add("count", &count).add("raw", &raw);
    });
    builder.build().expect("the definitions have these functions")
}

fn the_server_calls_its_client(front: Front) {
    let host = front.start(1, || caller(mpsc::channel().0));
    let mut socket = Socket::open(host.address);
    let params = json!({ "a": 2, "b": 3 });
    let call = |socket: &mut Socket, rid: &str| {
        socket.request("test.caller:1.0:callBack", &params, rid);
        let call = socket.receive();
        assert_eq!((&call["f"], &call["p"]), (&json!("test.peer:1.0:add"), &params));
        call["rid"].as_str().expect("an id").to_owned()
    };
    // answers find their calls whatever their order
    let (first, second) = (call(&mut socket, "C1"), call(&mut socket, "C2"));
    assert_eq!((first.as_str(), second.as_str()), ("S1", "S2"));
    socket.send(json!({ "r": { "sum": 6 }, "rid": second }).to_string());
    assert_eq!(socket.receive(), json!({ "r": { "sum": 6 }, "rid": "C2" }));
    socket.send(json!({ "r": { "sum": 5 }, "rid": first }).to_string());
    assert_eq!(socket.receive(), json!({ "r": { "sum": 5 }, "rid": "C1" }));
    // an error of the client is one
    let third = call(&mut socket, "C3");
    socket.send(json!({ "e": "MyError", "edesc": "why", "rid": third }).to_string());
    let expected = json!({ "e": "MyError", "edesc": "why", "rid": "C3" });
    assert_eq!(socket.receive(), expected);
    // a result that does not follow the interface goes no further
    let fourth = call(&mut socket, "C4");
    socket.send(json!({ "r": { "sum": "text" }, "rid": fourth }).to_string());
    assert_eq!(socket.receive()["e"], "InternalError");
    // both sides may use the same ids
    socket.request("test.caller:1.0:count", &json!({}), "S5");
    assert_eq!(socket.receive(), json!({ "r": { "count": 1 }, "rid": "S5" }));
}

fn the_server_calls_as_its_client_wrote_last(front: Front) {
    let host = front.start(1, || caller(mpsc::channel().0));
    let mut socket = Socket::open(host.address);
    let params = json!({ "text": "hi" });
    let request = json!({ "f": "test.caller:1.0:tell", "p": params, "rid": "C1" }).to_string();
    let answer = json!({ "r": { "ok": true }, "rid": "C1" });
    let call = |n: u32| json!({ "f": "test.peer:1.0:log", "p": params, "rid": format!("S{n}") });
    socket.send_bytes(&frame(opcode::TEXT, request.as_bytes()));
    assert_eq!([socket.receive_text(), socket.receive_text()], [call(1), answer.clone()]);
    socket.send(&request);
    assert_eq!([socket.receive(), socket.receive()], [call(2), answer.clone()]);
    // an answer to a call is written, too
    socket.send_bytes(&frame(opcode::TEXT, br#"{"r":{},"rid":"S2"}"#));
    socket.send_bytes(&frame(opcode::TEXT, request.as_bytes()));
    assert_eq!([socket.receive_text(), socket.receive_text()], [call(3), answer]);
}

fn answers_come_through_when_there_is_no_room_for_requests(front: Front) {
    let limits = WebSocketLimits { in_flight: 2, ..WebSocketLimits::default() };
    let executor = || caller(mpsc::channel().0);
    let host = front.start_as(1, executor, move |service| service.web_socket(limits));
    let mut socket = Socket::open(host.address);
    let rids = ["C1", "C2", "C3"];
    for rid in rids {
        socket.request("test.caller:1.0:callBack", &json!({ "a": 1, "b": 1 }), rid);
    }
    let calls = rids.map(|_| socket.receive()["rid"].take());
    for (call, rid) in calls.into_iter().zip(rids) {
        socket.send(json!({ "r": { "sum": 2 }, "rid": call }).to_string());
        assert_eq!(socket.receive(), json!({ "r": { "sum": 2 }, "rid": rid }));
    }
}

fn a_call_of_a_function_without_a_result_waits_for_no_answer(front: Front) {
    let host = front.start(1, || caller(mpsc::channel().0));
    let mut socket = Socket::open(host.address);
    let params = json!({ "text": "hi" });
    socket.request("test.caller:1.0:tell", &params, "C1");
    assert_eq!(socket.receive(), json!({ "f": "test.peer:1.0:log", "p": params, "rid": "S1" }));
    assert_eq!(socket.receive(), json!({ "r": { "ok": true }, "rid": "C1" }));
    // a client may tell that it failed, or answer all the same
    socket.send(r#"{"e":"InternalError","rid":"S1"}"#).send(r#"{"r":{},"rid":"S1"}"#);
    let count = socket.call("test.caller:1.0:count", &json!({}));
    assert_eq!(count, json!({ "r": { "count": 1 } }));
}

fn a_channel_keeps_its_state_and_tells_when_it_ends(front: Front) {
    let (aborts, aborted) = mpsc::channel();
    let host = front.start(1, || caller(aborts));
    let mut socket = Socket::open(host.address);
    let mut other = Socket::open(host.address);
    for count in 1..=3 {
        let answer = socket.call("test.caller:1.0:count", &json!({}));
        assert_eq!(answer, json!({ "r": { "count": count } }));
    }
    assert_eq!(other.call("test.caller:1.0:count", &json!({}))["r"]["count"], 1);
    for socket in [&mut socket, &mut other] {
        assert_eq!(socket.call("test.caller:1.0:watch", &json!({}))["r"]["ok"], true);
    }
    assert!(aborted.try_recv().is_err());
    drop(socket);
    assert_eq!(aborted.recv_timeout(asyncsteps_support::PATIENCE), Ok(3));
    drop(other);
    assert_eq!(aborted.recv_timeout(asyncsteps_support::PATIENCE), Ok(1));
}

fn raw_data_does_not_fit_into_a_frame(front: Front) {
    let host = front.start(1, || caller(mpsc::channel().0));
    let mut socket = Socket::open(host.address);
    let answer = socket.call("test.caller:1.0:raw", &json!({}));
    assert_eq!(answer["e"], "InternalError", "{answer}");
}

fn http_has_no_way_back(front: Front) {
    let host = front.start(1, || caller(mpsc::channel().0));
    let answer = Connection::open(host.address)
        .send(&post(br#"{"f":"test.caller:1.0:count","p":{}}"#))
        .receive();
    let expected = json!({ "e": "InvalidRequest", "edesc": "Bi-Direct Channel is required" });
    assert_eq!(answer.json(), expected);
}

asyncsteps_support::on_both_fronts! {
    the_server_calls_its_client,
    the_server_calls_as_its_client_wrote_last,
    answers_come_through_when_there_is_no_room_for_requests,
    a_call_of_a_function_without_a_result_waits_for_no_answer,
    a_channel_keeps_its_state_and_tells_when_it_ends,
    raw_data_does_not_fit_into_a_frame,
    http_has_no_way_back,
}
