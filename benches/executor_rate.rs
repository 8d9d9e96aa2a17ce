//! What serving costs: HTTP, WebSocket, calls within the process, checks, raw data.
//!
//! The servers are in a process of their own with a thread each, so that their processor time can be
//! told from that of the client. The baselines are bare handlers on actix-web and on hyper that read
//! and write the same JSON with `serde_json::Value` in the same process. Rows `by hand` are what an executor does at least.

#[path = "workloads/echo_by_hand.rs"]
mod echo_by_hand;
#[path = "workloads/echo_servers.rs"]
mod echo_servers;
#[path = "support/server.rs"]
mod server;
mod support;

use std::hint::black_box;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use actix_rt::Arbiter;
use actix_web::{App, HttpServer, web};
use asyncsteps_executor::Executor;
use asyncsteps_executor::iface::FunctionName;
use asyncsteps_support::PATIENCE;
use asyncsteps_support::client::post_with;
use asyncsteps_support::conform;
use asyncsteps_support::ws::{frame, opcode};
use asyncsteps_transport::http::{self, ServerLimits};
use echo_by_hand::{ByHand, serve_web_sockets};
use echo_servers::{bare, hyper_echo, serve_hyper};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use server::{CONNECTIONS, Load, ServerProcess, client_end, connect};
use support::Bench;

/// Has this program be the server.
const SERVE: &str = "--serve";

/// How many requests are in flight on each WebSocket.
const IN_FLIGHT: u32 = 4;

const HTTP: &str = "Content-Type: application/futoin+json\r\n";
const ECHO: &str = r#"{"f":"conform.main:1.2:echo","p":{"msg":"hi","n":1,"opt":null}}"#;
const TYPES: &str = r#"{"f":"conform.main:1.2:types","p":{"b":true,"i":-5,"si":10,"r":1.5,"s":"text","w":"word","c":"a123b","l":[1,2,3],"ws":["ab","cd"],"p":{"x":1,"y":2,"label":"here"},"cm":{"k":1},"e":"red","f":["r",2],"id":"word","uid":1000,"m":{"k":[]},"a":[null],"x":{"y":"z"}}}"#;

/// Parameters and result of `echo`.
#[derive(Serialize, Deserialize)]
struct Echo {
    msg: String,
    n: i32,
    opt: Option<String>,
}

/// How much raw data goes each way.
const RAW: usize = 1 << 30;

fn main() {
    if env::args().any(|arg| arg == SERVE) {
        return actix_rt::System::new().block_on(serve());
    }
    let is_test = env::args().any(|arg| arg == "--test");
    let server = Server::start();
    let arbiter = actix_rt::System::new();
    let Addresses { own, mounted, hyper, by_hand, sockets_by_hand } = server.addresses;
    let bare_request = post_with("/bare", HTTP, ECHO.as_bytes());
    let request = post_with("/ftn/", HTTP, ECHO.as_bytes());
    let mut bare_load = Load::http(mounted, bare_request.clone());
    let mut hyper_load = Load::http(hyper, bare_request.clone());
    let mut by_hand_loads = [(); 2].map(|()| Load::http(by_hand, bare_request.clone()));
    let mut load = Load::http(own, request.clone());
    let mut other_load = Load::http(own, request.clone());
    let mut mounted_load = Load::http(mounted, request.clone());
    let mut sockets = web_sockets(own);
    let mut hand_sockets = web_sockets(sockets_by_hand);
    let mut bursts = bursts(own);
    let executor = arbiter.block_on(async { conform::executor() });
    let mut check = checking();

    let mut bench = Bench::new("executor_rate");
    let bare = bench.add("HTTP echo: bare actix-web, processor time", None, 1, "", |requests| {
        server.cpu_of(requests, &mut bare_load)
    });
    let on_hyper = bench.add("HTTP echo: bare hyper, processor time", None, 1, "", |requests| {
        server.cpu_of(requests, &mut hyper_load)
    });
    let echo = "HTTP echo : bare actix-web, processor time";
    bench.add(echo, Some(bare), 1, "at most 1.0", |requests| server.cpu_of(requests, &mut load));
    let echo = "HTTP echo : bare hyper, processor time";
    bench.add(echo, Some(on_hyper), 1, "at most 1.2", |requests| {
        server.cpu_of(requests, &mut other_load)
    });
    for ((of, base), load) in
        [("actix-web", bare), ("hyper", on_hyper)].into_iter().zip(&mut by_hand_loads)
    {
        let echo = format!("HTTP echo by hand on hyper : bare {of}, processor time");
        bench.add(echo, Some(base), 1, "", |requests| server.cpu_of(requests, load));
    }
    bench.add("HTTP echo, mounted, processor time", Some(bare), 1, "", |requests| {
        server.cpu_of(requests, &mut mounted_load)
    });
    let one = bench.add("WebSocket echo, processor time", Some(bare), 1, "3,000 ns", |requests| {
        server.cpu_of(requests, &mut sockets)
    });
    bench.add("WebSocket echo by hand, processor time", Some(bare), 1, "", |requests| {
        server.cpu_of(requests, &mut hand_sockets)
    });
    let burst = "WebSocket echo in a burst of 10 : alone, processor time";
    bench.add(burst, Some(one), 1, "at most 0.5", |requests| server.cpu_of(requests, &mut bursts));

    bench.add("typed call within the process", None, 1, "1,500 ns", |calls| {
        arbiter.block_on(async {
            for _ in 0..calls {
                let params = Echo { msg: "hi".to_owned(), n: 1, opt: None };
                let answer = executor.call_as_system::<Echo>("conform.main:1.2:echo", params).await;
                black_box(answer.is_ok());
            }
        });
    });
    let parsing = bench.add("the message `types`: parsing by serde_json", None, 1, "", |times| {
        for _ in 0..times {
            black_box(serde_json::from_str::<Value>(black_box(TYPES)).is_ok());
        }
    });
    bench.add("the same: checking", Some(parsing), 1, "at most 0.3", |times| {
        for _ in 0..times {
            check();
        }
    });
    if !is_test {
        let (up, down) = raw_growth(&server);
        bench.count("1 GiB of raw upload: memory growth", up, "MiB", "at most 8");
        bench.count("1 GiB of raw download: memory growth", down, "MiB", "at most 8");
        let [bare_late, late, by_hand_late] = late_at_half_of_maximum([
            (hyper, &bare_request),
            (own, &request),
            (by_hand, &bare_request),
        ]);
        bench.count("p99 at half of the maximum: bare hyper", bare_late, "us", "");
        bench.count("p99 at half of the maximum", late, "us", "");
        bench.count("p99 at half of the maximum : hyper", late / bare_late, "", "at most 1.3");
        let ratio = by_hand_late / bare_late;
        bench.count("p99 at half of the maximum, by hand on hyper : hyper", ratio, "", "");
        let tcp = idle_bytes(&server, || used(own, &request));
        let on_hyper = idle_bytes(&server, || used(hyper, &bare_request));
        let socket = idle_bytes(&server, || upgraded(own));
        bench.count("idle connection, TCP", tcp, "bytes", "6,000");
        bench.count("idle connection, TCP: bare hyper", on_hyper, "bytes", "");
        bench.count("idle connection, WebSocket", socket, "bytes", "8,000");
        let unread = unread_memory(&server, own, &request);
        bench.count("2,000 x 400 pipelined requests, nothing read", unread, "MiB", "at most 150");
    }
    bench.finish();
}

/// Checks the parameters of the message `types`, which have no default to be filled in.
fn checking() -> impl FnMut() {
    let definition = conform::definition("conform.main:1.2");
    let called: FunctionName = "conform.main:1.2:types".parse().expect("a name");
    let mut message: Map<String, Value> = serde_json::from_str(TYPES).expect("JSON");
    let Some(Value::Object(mut params)) = message.remove("p") else { unreachable!("it has some") };
    move || {
        let function = definition.function("types").expect("it is declared");
        black_box(function.check_params(&called, black_box(&mut params)).is_ok());
    }
}

/// Serves until the standard input ends; says where on the standard output.
#[expect(clippy::print_stdout, reason = "the other process reads it")]
async fn serve() {
    let executor: Executor = conform::executor();
    let [own_listener, mounted, hyper, by_hand, sockets_by_hand] =
        [(); 5].map(|()| TcpListener::bind(("127.0.0.1", 0)).expect("a free port"));
    for listener in [&own_listener, &mounted, &hyper, &by_hand, &sockets_by_hand] {
        println!("{}", listener.local_addr().expect("an address"));
    }
    let service = http::service("/ftn/", executor);
    let application = service.clone();
    let server = HttpServer::new(move || {
        App::new().route("/bare", web::post().to(bare)).service(application.clone())
    });
    let server = server.workers(1).tcp_nodelay(true).h1_allow_half_closed(false).disable_signals();
    // each load waits for its turn
    let server = server.keep_alive(PATIENCE).client_request_timeout(PATIENCE);
    let server = server.listen(mounted).expect("a listener").run();
    let handle = server.handle();
    actix_rt::spawn(server);
    let on_hyper = Arbiter::new();
    on_hyper.spawn(serve_hyper(hyper, |_| hyper_echo));
    let hand = Arbiter::new();
    hand.spawn_fn(move || {
        let state = ByHand::new();
        actix_rt::spawn(serve_hyper(by_hand, move |client| {
            let state = Rc::clone(&state);
            move |request| Rc::clone(&state).handle(client, request)
        }));
        actix_rt::spawn(serve_web_sockets(sockets_by_hand));
    });
    let limits =
        ServerLimits { keep_alive: PATIENCE, head_timeout: PATIENCE, ..ServerLimits::default() };
    let own = http::Server::new(service).workers(NonZeroUsize::MIN).limits(limits);
    let own = own.grace(Duration::ZERO).listen(own_listener).expect("a listener");
    own.run_until(client_end()).await.expect("no error of the server");
    handle.stop(false).await;
    on_hyper.stop();
    hand.stop();
}

/// The server process.
struct Server {
    process: ServerProcess,
    addresses: Addresses,
}

/// Where the servers listen.
#[derive(Clone, Copy)]
struct Addresses {
    /// That of this project.
    own: SocketAddr,
    /// That of actix-web, with the executor mounted beside the bare handler.
    mounted: SocketAddr,
    /// hyper, with the bare handler.
    hyper: SocketAddr,
    /// hyper, with what an executor does at least.
    by_hand: SocketAddr,
    /// WebSockets with the same.
    sockets_by_hand: SocketAddr,
}

impl Server {
    fn start() -> Self {
        let mut process = ServerProcess::start(&[SERVE]);
        let [own, mounted, hyper, by_hand, sockets_by_hand] = [(); 5].map(|()| process.address());
        Self { process, addresses: Addresses { own, mounted, hyper, by_hand, sockets_by_hand } }
    }

    fn cpu_of(&self, requests: u32, load: &mut Load) -> Duration {
        self.process.cpu_of(requests, load)
    }

    /// Resident memory in MiB.
    fn memory(&self) -> f64 {
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.process.id()));
        let statm = statm.expect("Linux");
        let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
        pages.map_or(f64::NAN, |pages| pages * 4096.0 / f64::from(1 << 20))
    }
}

/// Messages on WebSockets, several at once on each.
fn web_sockets(address: SocketAddr) -> Load {
    let connections = (0..CONNECTIONS).map(|_| upgraded(address)).collect();
    let message = ECHO.replace("}}", r#"},"rid":"C1"}"#);
    let request = frame(opcode::BINARY, message.as_bytes()).repeat(IN_FLIGHT as usize);
    Load::new(connections, request, IN_FLIGHT)
}

/// The same in bursts of ten (FTN10), one at a time on each.
fn bursts(address: SocketAddr) -> Load {
    const CALLS: u32 = 10;
    let connections = (0..CONNECTIONS).map(|_| upgraded(address)).collect();
    let calls = [ECHO].repeat(CALLS as usize).join(",");
    let message = format!(
        r#"{{"f":"futoin.burst:0.1:resultBurst","p":{{"requests":[{calls}]}},"rid":"C1"}}"#
    );
    Load::new(connections, frame(opcode::BINARY, message.as_bytes()), CALLS)
}

fn upgraded(address: SocketAddr) -> TcpStream {
    let mut connection = connect(address);
    let request = "GET /ftn/ HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    connection.write_all(request.as_bytes()).expect("the server takes bytes");
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        connection.read_exact(&mut byte).expect("the server answers");
        head.push(byte[0]);
    }
    connection
}

/// How much the memory of the server grows at most while a gigabyte of raw data goes up, and down.
fn raw_growth(server: &Server) -> (f64, f64) {
    // what the first use of everything takes does not count
    upload(server, 1 << 24);
    download(server, 1 << 24);
    let before = server.memory();
    let up = upload(server, RAW) - before;
    let before = server.memory();
    let down = download(server, RAW) - before;
    (up.max(0.0), down.max(0.0))
}

/// The most memory that the server had meanwhile.
fn upload(server: &Server, size: usize) -> f64 {
    let mut connection = connect(server.addresses.own);
    let head = format!(
        "POST /ftn/conform.main/1.2/upload?name=x HTTP/1.1\r\nHost: bench\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: {size}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).expect("the server takes bytes");
    let chunk = vec![1; 1 << 20];
    let mut most: f64 = 0.0;
    for _ in 0..size / chunk.len() {
        connection.write_all(&chunk).expect("the server takes bytes");
        most = most.max(server.memory());
    }
    let mut answer = [0; 4096];
    let length = connection.read(&mut answer).expect("the server answers");
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.contains(&format!(r#""size":{size}"#)), "{answer}");
    most.max(server.memory())
}

fn download(server: &Server, size: usize) -> f64 {
    let mut connection = connect(server.addresses.own);
    let request = format!(
        "GET /ftn/conform.main/1.2/download?n={size} HTTP/1.1\r\nHost: bench\r\n\
         Connection: close\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).expect("the server takes bytes");
    let mut chunk = vec![0; 1 << 20];
    let (mut received, mut most) = (0, 0.0f64);
    loop {
        match connection.read(&mut chunk).expect("the server answers") {
            0 => break,
            length => received += length,
        }
        most = most.max(server.memory());
    }
    assert!(received > size, "{received} bytes");
    most
}

/// What a connection takes that says nothing more.
fn idle_bytes(server: &Server, open: impl Fn() -> TcpStream) -> f64 {
    const IDLE: u32 = 2_000;
    // what the first use of everything takes does not count
    let _first: Vec<_> = (0..IDLE / 20).map(|_| open()).collect();
    let before = server.memory();
    let _idle: Vec<_> = (0..IDLE).map(|_| open()).collect();
    (server.memory() - before) * f64::from(1 << 20) / f64::from(IDLE)
}

/// A connection after a request.
fn used(address: SocketAddr, request: &[u8]) -> TcpStream {
    let mut connection = connect(address);
    connection.write_all(request).expect("the server takes bytes");
    let mut answer = [0; 4096];
    assert!(connection.read(&mut answer).expect("the server answers") > 0);
    connection
}

/// What the server takes for clients that send many requests and read nothing, in MiB.
fn unread_memory(server: &Server, address: SocketAddr, request: &[u8]) -> f64 {
    const CLIENTS: usize = 2_000;
    const REQUESTS: usize = 400;
    let all = request.repeat(REQUESTS);
    let before = server.memory();
    let mut most = before;
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| connect(address)).collect();
    for client in &mut clients {
        client.write_all(&all).expect("the server takes bytes");
        most = most.max(server.memory());
    }
    // until it has nothing more to do
    let mut cpu = server.process.cpu();
    loop {
        thread::park_timeout(Duration::from_millis(200));
        most = most.max(server.memory());
        let later = server.process.cpu();
        if later - cpu < Duration::from_millis(20) {
            return most - before;
        }
        cpu = later;
    }
}

/// How late the answers to each of these requests come, all but one in a hundred of them, in microseconds.
///
/// They take turns in many rounds, of which the quarter with the shortest times counts: what else the
/// machine does stops servers for longer than answers take, and a hundredth of all is soon late by it.
fn late_at_half_of_maximum<const N: usize>(requests: [(SocketAddr, &[u8]); N]) -> [f64; N] {
    const ROUNDS: usize = 40;
    let mut paces = requests.map(|(address, request)| Pace::new(address, request));
    let mut late = [(); N].map(|()| Vec::with_capacity(ROUNDS));
    for _ in 0..ROUNDS {
        for (late, pace) in late.iter_mut().zip(&mut paces) {
            late.push(pace.late().as_secs_f64() * 1e6);
        }
    }
    late.map(|mut values| {
        values.sort_by(f64::total_cmp);
        values[ROUNDS / 4]
    })
}

/// Requests at half of the rate that the server can do.
///
/// They are sent when it is their time, whether others were answered or not; if no connection is
/// free they wait, and that counts.
struct Pace {
    load: Load,
}

impl Pace {
    fn new(address: SocketAddr, request: &[u8]) -> Self {
        Self { load: Load::http(address, request.to_vec()) }
    }

    /// The 99th percentile of how late answers come, at half of the rate of this moment.
    #[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
    fn late(&mut self) -> Duration {
        const REQUESTS: u32 = 5_000;
        let start = Instant::now();
        self.load.run(REQUESTS);
        // between two requests
        let pause = start.elapsed() / REQUESTS * 2;
        let Load { connections, request, answer, .. } = &mut self.load;
        let mut lines: Vec<Line<'_>> = connections.iter_mut().map(Line::new).collect();
        let mut late = Vec::with_capacity(REQUESTS as usize);
        let start = Instant::now();
        let mut sent = 0;
        while late.len() < REQUESTS as usize {
            let due = start + pause * sent;
            if sent < REQUESTS
                && Instant::now() >= due
                && let Some(line) = lines.iter_mut().find(|line| line.due.is_none())
            {
                line.send(request, due);
                sent += 1;
            }
            for line in &mut lines {
                late.extend(line.answered(answer.len()));
            }
        }
        late.sort_unstable();
        late[late.len() / 100 * 99]
    }
}

/// A connection with one request in flight at most.
struct Line<'a> {
    connection: &'a mut TcpStream,
    due: Option<Instant>,
    received: usize,
}

impl<'a> Line<'a> {
    fn new(connection: &'a mut TcpStream) -> Self {
        connection.set_nonblocking(true).expect("a socket option");
        Self { connection, due: None, received: 0 }
    }

    fn send(&mut self, request: &[u8], due: Instant) {
        // small, and nothing else is on its way
        self.connection.write_all(request).expect("the server takes bytes");
        self.due = Some(due);
    }

    /// How late the answer is, if it has come.
    fn answered(&mut self, length: usize) -> Option<Duration> {
        let due = self.due?;
        let mut buffer = [0; 4096];
        match self.connection.read(&mut buffer) {
            Ok(count) => self.received += count,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        (self.received == length).then(|| {
            self.received = 0;
            self.due = None;
            due.elapsed()
        })
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.connection.set_nonblocking(false).expect("a socket option");
    }
}
