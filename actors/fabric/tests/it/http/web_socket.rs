//! Calls over WebSocket: many on one connection, which ends and is opened again.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_fabric::http::Config;
use asyncsteps_fabric::{Call, Fabric, Outcome};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

use crate::http::call;
use crate::http::raw_server::{answers, fabric, listen};

type Socket = WebSocketStream<TcpStream>;

/// A service that `serve` gives its connections to; tells how many there were.
async fn service<F>(serve: impl Fn(Socket) -> F + Clone + 'static) -> (SocketAddr, Rc<Cell<u32>>)
where
    F: Future<Output = ()> + 'static,
{
    let opened = Rc::new(Cell::new(0));
    let counted = Rc::clone(&opened);
    let address = listen(move |connection| {
        let (serve, counted) = (serve.clone(), Rc::clone(&counted));
        async move {
            counted.set(counted.get() + 1);
            serve(accept_async(connection).await.expect("a handshake")).await;
        }
    })
    .await;
    (address, opened)
}

fn url(address: SocketAddr) -> String {
    format!("ws://{address}/ftn/")
}

/// The next call, and what its answer has to repeat.
async fn next_call(socket: &mut Socket) -> Option<(String, String)> {
    loop {
        let frame = socket.next().await?.ok()?;
        if frame.is_close() {
            return None;
        }
        if frame.is_binary() {
            let call: Value = serde_json::from_slice(&frame.into_data()).expect("a message");
            let text = |name: &str| call[name].as_str().expect("it has one").to_owned();
            assert_eq!(call["forcersp"], true);
            return Some((text("f"), text("rid")));
        }
    }
}

async fn answer(socket: &mut Socket, rid: &str, result: Value) {
    let answer = json!({ "r": result, "rid": rid }).to_string();
    socket.send(Message::Binary(answer.into())).await.expect("the client is there");
}

#[actix::test]
async fn answers_in_any_order_find_their_calls_on_one_connection() {
    let (address, opened) = service(|mut socket| async move {
        let first = next_call(&mut socket).await.expect("a call");
        let second = next_call(&mut socket).await.expect("a call");
        answer(&mut socket, &second.1, second.0.into()).await;
        answer(&mut socket, &first.1, first.0.into()).await;
        next_call(&mut socket).await;
    })
    .await;
    let fabric = fabric(Config::new(), url(address));
    let (one, two) = tokio::join!(
        call(&fabric, "test.node:1.0:name", json!({})),
        call(&fabric, "test.node:1.0:echo", json!({})),
    );
    assert_eq!((one, two), (Ok(json!("test.node:1.0:name")), Ok(json!("test.node:1.0:echo"))));
    assert_eq!(opened.get(), 1);
}

#[actix::test]
async fn what_is_no_answer_to_a_call_that_waits_is_dropped() {
    let (address, _) = service(|mut socket| async move {
        let (_, rid) = next_call(&mut socket).await.expect("a call");
        for junk in ["junk", "5", "null", r#"{"r":1}"#, r#"{"r":1,"rid":"C99"}"#] {
            socket.send(Message::Binary(junk.into())).await.expect("the client is there");
        }
        for junk in [r#"{"r":1,"rid":5}"#, r#"{"f":"a.b:1.0:c","p":{},"rid":"S1"}"#] {
            socket.send(Message::Text(junk.into())).await.expect("the client is there");
        }
        answer(&mut socket, &rid, json!("right")).await;
        next_call(&mut socket).await;
    })
    .await;
    let fabric = fabric(Config::new(), url(address));
    let result = call(&fabric, "test.node:1.0:name", json!({})).await;
    assert_eq!(result, Ok(json!("right")));
}

#[actix::test]
async fn a_call_that_was_given_up_leaves_the_connection_to_others() {
    let (address, opened) = service(|mut socket| async move {
        let (_, late) = next_call(&mut socket).await.expect("a call");
        let (_, next) = next_call(&mut socket).await.expect("a call");
        answer(&mut socket, &late, json!("late")).await;
        answer(&mut socket, &next, json!("next")).await;
        next_call(&mut socket).await;
    })
    .await;
    let fabric = fabric(Config::new(), url(address));
    let late = Call::new("test.node:1.0:name", ()).expect("it is a call");
    let error = fabric.call(late.within(Duration::from_secs(1))).await;
    let error = error.expect_err("it is late");
    assert_eq!((error.code(), error.outcome()), ("CommError", Outcome::Unknown));
    assert_eq!(call(&fabric, "test.node:1.0:name", json!({})).await, Ok(json!("next")));
    assert_eq!(opened.get(), 1);
}

#[actix::test]
async fn a_connection_that_ended_is_opened_again() {
    let (address, opened) = service(|mut socket| async move {
        let (_, rid) = next_call(&mut socket).await.expect("a call");
        answer(&mut socket, &rid, json!({})).await;
        // the next one is not answered
        next_call(&mut socket).await;
    })
    .await;
    let fabric = fabric(Config::new(), url(address));
    for connection in 1..=2 {
        let nothing = call(&fabric, "test.node:1.0:nothing", json!({})).await;
        assert_eq!(nothing, Ok(Value::Null), "an empty map is no result");
        assert_eq!(opened.get(), connection);
        let error = call(&fabric, "test.node:1.0:name", json!({})).await;
        let error = error.expect_err("the connection ends");
        assert_eq!(error.to_string(), "CommError: the connection ended before the answer");
        assert_eq!(error.outcome(), Outcome::Unknown);
    }
}

#[actix::test]
async fn answers_have_the_size_that_is_allowed() {
    let (address, _) = service(|mut socket| async move {
        let (_, rid) = next_call(&mut socket).await.expect("a call");
        answer(&mut socket, &rid, json!("x".repeat(100_000))).await;
        next_call(&mut socket).await;
    })
    .await;
    let fabric = fabric(Config::new().max_message(50_000), url(address));
    let error = call(&fabric, "test.node:1.0:name", json!({})).await.expect_err("it is too large");
    assert_eq!((error.code(), error.outcome()), ("CommError", Outcome::Unknown));
}

#[actix::test]
async fn a_service_without_websocket_is_not_called() {
    let address = answers("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await;
    let fabric = fabric(Config::new(), url(address));
    let error = call(&fabric, "test.node:1.0:name", json!({})).await.expect_err("no WebSocket");
    let expected = "ConnectError: the service speaks no WebSocket here: HTTP error: 404 Not Found";
    assert_eq!(error.to_string(), expected);

    // nor one that does not answer the handshake
    let silent = listen(|connection| async move {
        let _open = connection;
        std::future::pending::<()>().await;
    })
    .await;
    let config = Config::new().connect_timeout(Duration::from_millis(200));
    let fabric = crate::http::raw_server::fabric(config, url(silent));
    let error = call(&fabric, "test.node:1.0:name", json!({})).await.expect_err("it is silent");
    assert_eq!(error.to_string(), "ConnectError: not connected in time");
    assert_eq!(error.outcome(), Outcome::NotCarriedOut);
}

#[actix::test]
async fn a_service_that_says_nothing_any_more_is_given_up() {
    let (tell, begun) = oneshot::channel();
    let tell = Rc::new(Cell::new(Some(tell)));
    let (address, opened) = service(move |mut socket| {
        let tell = tell.take();
        async move {
            let (_, rid) = next_call(&mut socket).await.expect("a call");
            match tell {
                // it does not even read pings
                Some(tell) => {
                    tell.send(()).expect("the test waits");
                    std::future::pending::<()>().await;
                }
                None => answer(&mut socket, &rid, json!("again")).await,
            }
            next_call(&mut socket).await;
        }
    })
    .await;
    let fabric = fabric(Config::new(), url(address));
    let name = Call::new("test.node:1.0:name", ()).expect("it is a call");
    let mut waits = fabric.call(name.within(Duration::from_secs(3600)));
    let early = tokio::select! {
        early = &mut waits => Some(early),
        begun = begun => {
            begun.expect("it is called");
            None
        }
    };
    assert!(early.is_none(), "nothing has answered: {early:?}");
    tokio::time::pause();
    let error = waits.await.expect_err("the service is gone");
    tokio::time::resume();
    assert_eq!(error.to_string(), "CommError: the connection ended before the answer");
    assert_eq!(call(&fabric, "test.node:1.0:name", json!({})).await, Ok(json!("again")));
    assert_eq!(opened.get(), 2);
}
