//! Echoes over TCP, one after the other on one connection, with their client in the same process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use actix_rt::{Arbiter, System};
use actix_web::{App, HttpServer, test, web};
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_executor::{Executor, builtin};
use asyncsteps_transport::http::{self, Server};
use tokio::sync::oneshot;

use crate::echo_servers::{bare, hyper_echo, serve_hyper};

const PING: &str = r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7}}"#;

fn executor() -> Executor {
    let names = ["futoin.anonping:1.0", "futoin.burst:0.1"];
    let [ping, burst] = names.map(|name| {
        let id = name.parse().expect("a name");
        Loader::new([Source::builtin()]).load(&id).expect("a definition")
    });
    let builder = Executor::builder().interface(ping, |functions| {
        functions.add("ping", &builtin::ping());
    });
    builder.interface(burst, builtin::burst).build().expect("a right configuration")
}

/// Requests through the service, without a network, which would count what the kernel wakes.
pub(crate) fn in_process(requests: u32) {
    System::new().block_on(async {
        let app = App::new().service(http::service("/ftn/", executor()));
        let service = test::init_service(app).await;
        for _ in 0..requests {
            let request = test::TestRequest::post().uri("/ftn/").set_payload(PING).to_request();
            let answer = test::call_and_read_body(&service, request).await;
            assert_eq!(answer, r#"{"r":{"echo":7}}"#);
        }
    });
}

/// The same through a handler of actix-web: what a request costs at least where the service is mounted, without an
/// executor.
pub(crate) fn bare_in_process(requests: u32) {
    System::new().block_on(async {
        let app = App::new().route("/bare", web::post().to(bare));
        let service = test::init_service(app).await;
        for _ in 0..requests {
            let request = test::TestRequest::post().uri("/bare").set_payload(PING).to_request();
            let answer = test::call_and_read_body(&service, request).await;
            assert_eq!(answer, r#"{"r":{"echo":7}}"#);
        }
    });
}

/// The server of this project.
pub(crate) fn own(requests: u32) {
    serve_own(requests, |address| (connect(address), post("/ftn/")));
}

/// Calls on a WebSocket.
pub(crate) fn web_socket(calls: u32) {
    let message = PING.replace("}}", r#"},"rid":"C1"}"#);
    serve_own(calls, move |address| (upgraded(address), frame(&message)));
}

/// Calls in bursts of ten on a WebSocket.
pub(crate) fn bursts(calls: u32) {
    const CALLS: u32 = 10;
    let requests = [PING; CALLS as usize].join(",");
    let function = "futoin.burst:0.1:resultBurst";
    let message = format!(r#"{{"f":"{function}","p":{{"requests":[{requests}]}},"rid":"C1"}}"#);
    serve_own(calls / CALLS, move |address| (upgraded(address), frame(&message)));
}

fn serve_own(times: u32, open: impl FnOnce(SocketAddr) -> (TcpStream, Vec<u8>) + Send + 'static) {
    let (listener, address) = listener();
    System::new().block_on(async {
        let server = Server::new(http::service("/ftn/", executor())).workers(NonZeroUsize::MIN);
        let server = server.grace(Duration::ZERO).listen(listener).expect("a listener");
        let end = client(times, move || open(address));
        server.run_until(end).await.expect("no error of the server");
    });
}

/// The service in an application of actix-web.
pub(crate) fn mounted(requests: u32) {
    serve_actix_web(requests, "/ftn/");
}

/// A handler of actix-web.
pub(crate) fn bare_on_actix_web(requests: u32) {
    serve_actix_web(requests, "/bare");
}

fn serve_actix_web(requests: u32, path: &'static str) {
    let (listener, address) = listener();
    System::new().block_on(async {
        let service = http::service("/ftn/", executor());
        let server = HttpServer::new(move || {
            App::new().route("/bare", web::post().to(bare)).service(service.clone())
        });
        let server = server.workers(1).tcp_nodelay(true).disable_signals();
        let server = server.listen(listener).expect("a listener").run();
        let handle = server.handle();
        actix_rt::spawn(server);
        client(requests, move || (connect(address), post(path))).await;
        handle.stop(false).await;
    });
}

/// A handler of hyper.
pub(crate) fn bare_on_hyper(requests: u32) {
    let (listener, address) = listener();
    System::new().block_on(async {
        let arbiter = Arbiter::new();
        arbiter.spawn(serve_hyper(listener, |_| hyper_echo));
        client(requests, move || (connect(address), post("/"))).await;
        arbiter.stop();
    });
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let connection = TcpStream::connect(address).expect("the server listens");
    connection.set_nodelay(true).expect("a socket option");
    connection
}

fn post(path: &str) -> Vec<u8> {
    let length = PING.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/futoin+json\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), PING.as_bytes()].concat()
}

fn upgraded(address: SocketAddr) -> TcpStream {
    let mut connection = connect(address);
    let request = "GET /ftn/ HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    connection.write_all(request.as_bytes()).expect("the server takes bytes");
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        connection.read_exact(&mut byte).expect("the server answers");
        head.push(byte[0]);
    }
    connection
}

/// A message in a frame that is masked with zeros.
fn frame(message: &str) -> Vec<u8> {
    let length = u16::try_from(message.len()).expect("a short message").to_be_bytes();
    [&[0x82, 0xFE], &length[..], &[0; 4], message.as_bytes()].concat()
}

/// Sends a request so many times, and waits for the answer to each.
async fn client(times: u32, open: impl FnOnce() -> (TcpStream, Vec<u8>) + Send + 'static) {
    let (ended, end) = oneshot::channel();
    thread::spawn(move || {
        let (mut connection, request) = open();
        connection.write_all(&request).expect("the server takes bytes");
        // the length of an answer does not change
        connection.set_read_timeout(Some(Duration::from_secs(1))).expect("a socket option");
        let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(length @ 1..) = connection.read(&mut buffer) {
            answer.extend_from_slice(&buffer[..length]);
        }
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains(r#"{"echo":7}"#), "{text}");
        connection.set_read_timeout(None).expect("a socket option");
        for _ in 1..times {
            connection.write_all(&request).expect("the server takes bytes");
            connection.read_exact(&mut answer).expect("the server answers");
        }
        // who waits for it has it
        let _ = ended.send(());
    });
    drop(end.await);
}
