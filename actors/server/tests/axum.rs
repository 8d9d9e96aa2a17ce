//! A router of axum is served within limits.

use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_server::{Server, ServerLimits, serve};
use axum::Router;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};

/// Times that end soon: clients wait in real time.
fn limits() -> ServerLimits {
    let (head_timeout, stall_timeout) = (Duration::from_millis(100), Duration::from_millis(100));
    let (connections, connections_of_client) = (2, 2);
    let default = ServerLimits::default();
    ServerLimits { head_timeout, stall_timeout, connections, connections_of_client, ..default }
}

/// Has clients talk to a server, which stops when they are done or say so.
async fn serving(router: Router, clients: impl AsyncFnOnce(SocketAddr, oneshot::Sender<()>)) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it has one");
    let server: Server = serve(router).workers(NonZeroUsize::MIN).limits(limits());
    let server = server.listen(listener).expect("it is open");
    let (stop, stopped) = oneshot::channel();
    let run = server.run_until(async { stopped.await.unwrap_or_default() });
    let (ran, ()) = tokio::join!(run, clients(address, stop));
    ran.expect("no listener fails");
}

async fn connect(address: SocketAddr, sent: &str) -> TcpStream {
    let mut client = TcpStream::connect(address).await.expect("it is taken");
    client.write_all(sent.as_bytes()).await.expect("there is room");
    client
}

/// All that the server sends until it closes the connection.
async fn rest(mut client: TcpStream) -> String {
    let mut text = Vec::new();
    // a connection over the limit is reset
    let _ = client.read_to_end(&mut text).await;
    String::from_utf8(text).expect("text")
}

fn router() -> Router {
    let count = post(async |text: String| text.len().to_string());
    Router::new().route("/", get(async || "hello")).route("/count", count)
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn requests_are_answered_and_connections_kept() {
    serving(router(), async |address, _stop| {
        let body =
            "POST /count HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\ntext";
        let text = rest(connect(address, &format!("{GET}{body}")).await).await;
        assert!(
            text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("\r\n\r\nhello"),
            "{text}"
        );
        assert!(text.ends_with("\r\n\r\n4"), "{text}");
    })
    .await;
}

#[tokio::test]
async fn a_head_that_does_not_end_is_refused() {
    serving(router(), async |address, _stop| {
        let text = rest(connect(address, "GET / HTTP/1.1\r\nHost:").await).await;
        assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
    })
    .await;
}

#[tokio::test]
async fn a_body_that_does_not_end_fails() {
    serving(router(), async |address, _stop| {
        let begun = "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nbegun";
        let text = rest(connect(address, begun).await).await;
        assert!(text.starts_with("HTTP/1.1 400 ") && text.contains("timed out"), "{text}");
    })
    .await;
}

#[tokio::test]
async fn a_connection_over_the_limit_is_closed_at_once() {
    serving(router(), async |address, _stop| {
        let mut kept = Vec::new();
        for _ in 0..2 {
            let mut client = connect(address, GET).await;
            client.read_exact(&mut [0; 12]).await.expect("it is answered");
            kept.push(client);
        }
        assert_eq!(rest(connect(address, "").await).await, "");
        drop(kept);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_stops_answers_what_it_has_and_takes_no_more() {
    let (entered, may_go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (enters, goes) = (Arc::clone(&entered), Arc::clone(&may_go));
    let wait = get(async move || {
        enters.notify_one();
        goes.notified().await;
        "done"
    });
    serving(Router::new().route("/wait", wait), async |address, stop| {
        let client = connect(address, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
        entered.notified().await;
        stop.send(()).expect("it runs");
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        may_go.notify_one();
        let text = rest(client).await;
        assert!(text.contains("connection: close\r\n") && text.ends_with("\r\n\r\ndone"), "{text}");
    })
    .await;
}
