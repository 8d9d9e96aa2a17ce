//! Whatever the bytes of a connection are, and however they are cut: it ends when its client does, and
//! the server goes on.
#![no_main]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_transport::http::{Server, service};
use asyncsteps_executor::{Executor, builtin};
use libfuzzer_sys::fuzz_target;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

const PING: &[u8] =
    b"POST /ftn/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 48\r\n\r\n\
    {\"f\":\"futoin.anonping:1.0:ping\",\"p\":{\"echo\":7} }";

/// What the bytes of the fuzzer follow, so that it need not find them.
const BEGINS: [&[u8]; 4] = [
    b"",
    b"GET /ftn/ HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    b"POST /ftn/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
];

static ADDRESS: LazyLock<SocketAddr> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(|| actix_rt::System::new().block_on(serve(listener)));
    address
});

async fn serve(listener: TcpListener) {
    let id = "futoin.anonping:1.0".parse().expect("a name");
    let ping = Loader::new([Source::builtin()]).load(&id).expect("a definition");
    let builder = Executor::builder().interface(ping, |functions| {
        functions.add("ping", &builtin::ping());
    });
    let executor = builder.build().expect("a right configuration");
    let server = Server::new(service("/ftn/", executor)).workers(NonZeroUsize::MIN);
    let server = server.listen(listener).expect("a listener");
    server.run_until(std::future::pending()).await.expect("no error of the server");
}

fuzz_target!(|input: (u8, Vec<&[u8]>)| {
    let (begin, pieces) = input;
    let begin = BEGINS[usize::from(begin) % BEGINS.len()];
    let mut client = connect();
    // the server may have closed the connection before
    let sent = client.write_all(begin).is_ok()
        && pieces.into_iter().all(|piece| client.write_all(piece).is_ok());
    if sent {
        let _ = client.shutdown(Shutdown::Write);
    }
    if let Err(error) = client.read_to_end(&mut Vec::new()) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "it ends");
    }
    let mut other = connect();
    other.write_all(PING).expect("the server takes bytes");
    let mut answer = String::new();
    other.read_to_string(&mut answer).expect("the server answers");
    assert!(answer.ends_with(r#"{"r":{"echo":7}}"#), "{answer}");
});

fn connect() -> TcpStream {
    let client = TcpStream::connect(*ADDRESS).expect("the server listens");
    client.set_nodelay(true).expect("a socket option");
    client.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    client
}
