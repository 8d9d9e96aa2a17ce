//! The services in `examples/serve`, in C and in Python, as their callers see them over HTTP.

#[path = "../../../engine/ffi/tests/it/programs/toolchain.rs"]
mod toolchain;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::thread;

use toolchain::{C, compiler, is_installed, library, link, pythons, valgrind};

/// A service that runs.
struct Service {
    address: SocketAddr,
    says: BufReader<ChildStdout>,
}

impl Service {
    /// The next line that it prints.
    fn says(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("it can be read");
        line.trim().to_owned()
    }

    /// Sends a request, whose answer can be read.
    fn send(&self, message: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        let length = message.len();
        write!(
            stream,
            "POST /ftn/ HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{message}"
        )
        .expect("it reads");
        stream
    }

    fn order(&self, qty: i32) -> TcpStream {
        self.send(&format!(r#"{{"f":"example.shop:1.0:order","p":{{"qty":{qty}}}}}"#))
    }

    fn next_order(&self) -> TcpStream {
        self.send(r#"{"f":"example.shop:1.0:nextOrder","p":{}}"#)
    }
}

/// The body of an answer.
fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers and closes");
    let (_, body) = text.split_once("\r\n\r\n").expect("head and body");
    body.to_owned()
}

/// Runs a service and calls its functions.
fn check(mut program: Command) {
    let child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("it can be started");
    let says = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut service = Service { address: ([127, 0, 0, 1], 0).into(), says };
    let port = service.says().parse().expect("its port");
    service.address.set_port(port);

    // under a lock, with a thread that completes a step
    let orders: Vec<TcpStream> = (0..4).map(|_| service.order(2)).collect();
    let mut left: Vec<String> = orders.into_iter().map(answer).collect();
    left.sort();
    assert_eq!(left, [2, 4, 6, 8].map(|left| format!(r#"{{"r":{{"left":{left}}}}}"#)));
    // an error with a code of its own
    let refused = answer(service.order(3));
    assert_eq!(refused, r#"{"e":"OutOfStock","edesc":"there are not so many"}"#);
    // one request completes another one
    let next = service.next_order();
    assert_eq!(service.says(), "waiting");
    assert_eq!(answer(service.order(1)), r#"{"r":{"left":1}}"#);
    assert_eq!(answer(next), r#"{"r":{"qty":1}}"#);
    // a caller that gives up, and one that waits until the end
    let given_up = service.next_order();
    assert_eq!(service.says(), "waiting");
    drop(given_up);
    assert_eq!(service.says(), "cancelled");
    let last = service.next_order();
    assert_eq!(service.says(), "waiting");
    let cancelled = thread::spawn(move || answer(last));
    drop(child.stdin.take());
    assert_eq!(service.says(), "cancelled");
    assert!(child.wait().expect("it ends").success(), "{program:?}");
    let closed = cancelled.join().expect("it was answered");
    assert!(closed.contains(r#""e":"InternalError""#), "{closed}");
}

/// The folder of the library with the Executor in it, which cargo built as an example.
fn library_with_executor() -> PathBuf {
    library().parent().expect("it is in the folder of the profile").join("examples")
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/serve")
}

#[test]
fn a_service_in_c() {
    let examples = examples();
    let mut compiler = compiler(&C);
    compiler.arg("-I").arg(&examples);
    let program = link(compiler, &examples.join("shop.c"), &library_with_executor(), "serve");
    let mut alone = Command::new(&program);
    alone.arg(&examples);
    check(alone);
    if is_installed("valgrind") {
        let mut checked = valgrind();
        checked.arg(&program).arg(&examples);
        check(checked);
    }
}

#[test]
fn a_service_in_python() {
    for mut python in pythons(&library_with_executor().join("libserve.so")) {
        python.arg(examples().join("shop.py"));
        check(python);
    }
}
