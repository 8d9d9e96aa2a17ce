//! What a call to another node costs beside a bare request over NATS, and a call over a local fabric beside
//! one of the executor.
//!
//! Two nodes of each kind are processes of their own, with a thread each. The baseline is async-nats alone:
//! the same bytes, echoed. The row by hand is what a typed call takes at least: both ends read and write JSON, and the
//! function is found by its name. Instructions are counted by valgrind, of one caller and one node.

#[path = "support/callgrind.rs"]
mod callgrind;
#[path = "support/late.rs"]
mod late;
mod support;

use std::collections::HashMap;
use std::env;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{self, Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use asyncsteps_executor::{Caller, Executor};
use asyncsteps_fabric::nats::{Config, NatsFabric};
use asyncsteps_fabric::{
    Call, Client, Endpoint, Fabric, LiveNodes, LocalFabric, Placement, ServeGuard,
};
use asyncsteps_support::conform;
use bytes::Bytes;
use callgrind::{collected, counted};
use futures_util::stream::{self, StreamExt};
use late::p99;
use serde::{Deserialize, Serialize};
use support::Bench;

/// Has this program be a node of the baseline, one by hand, or a node, until its input ends: `--serve URL`.
const BARE: &str = "--bare";
const BY_HAND: &str = "--by-hand";
const SERVE: &str = "--serve";

/// Has this program be a caller of such a node: `--call URL CALLS`.
const REQUEST: &str = "--request";
const TYPED_REQUEST: &str = "--typed-request";
const CALL: &str = "--call";

/// What is echoed by the baseline, and by hand.
const BARE_SUBJECT: &str = "bench.echo";
const TYPED_SUBJECT: &str = "bench.typed";

/// Calls under way at once.
const AT_ONCE: usize = 64;

/// Calls of one iteration, so that the beginning and the end of a batch count little.
const CALLS: u32 = 1024;

/// Calls of each kind whose times are looked at, in parts that take turns.
const TIMED: usize = 100_000;
const PARTS: usize = 10;

/// Calls of a process whose instructions are counted: what the second makes more is what calls cost.
const COUNTED: [u32; 2] = [1_000, 5_000];

const FUNCTION: &str = "conform.main:1.2:echo";

/// The message of a call, for the baseline.
const MESSAGE: &str = r#"{"f":"conform.main:1.2:echo","p":{"msg":"forty characters of text, as a call may have","n":1,"opt":null}}"#;

/// Parameters and result of the function.
#[derive(Serialize, Deserialize)]
struct Echo {
    msg: String,
    n: i32,
    opt: Option<String>,
}

/// The message of a call by hand.
#[derive(Serialize, Deserialize)]
struct Message<'a> {
    f: &'a str,
    p: Echo,
}

/// The answer to it.
#[derive(Serialize, Deserialize)]
struct Answer {
    r: Echo,
}

fn main() {
    let args: Vec<String> = env::args().collect();
    if let [_, mode, url, rest @ ..] = &*args
        && [BARE, BY_HAND, SERVE, REQUEST, TYPED_REQUEST, CALL].contains(&&**mode)
    {
        let calls = rest.first().map_or(0, |calls| calls.parse().expect("a number of calls"));
        return actix_rt::System::new().block_on(be(mode, url, calls));
    }
    let Some(server) = Server::start() else { return };
    let url = &*server.url;
    let _nodes =
        [BARE, BARE, BY_HAND, BY_HAND, SERVE, SERVE].map(|mode| Node::start(own(), mode, url));
    let arbiter = actix_rt::System::new();
    let (bare, fabric) = arbiter.block_on(async {
        let bare = connect(url).await;
        (bare, NatsFabric::connect(Config::new(url)).await.expect("it joins"))
    });
    let executor = arbiter.block_on(async { conform::executor() });
    let local = LocalFabric::new();
    let _guard = arbiter.block_on(local.serve(Endpoint::all(&executor), executor.clone()));
    let (at_home, _serves) = arbiter.block_on(at_home(url, &executor));

    let mut bench = Bench::new("fabric_rate");
    let baseline = bench.add("request over NATS, 64 at once: bare", None, CALLS, "", |times| {
        arbiter.block_on(repeat(times * CALLS, || request(&bare)));
    });
    bench.add("typed echo of a node, 64 at once", Some(baseline), CALLS, "at most 1.18", |times| {
        arbiter.block_on(repeat(times * CALLS, || call(&fabric)));
    });
    let id = "typed echo by hand, 64 at once";
    bench.add(id, Some(baseline), CALLS, "", |times| {
        arbiter.block_on(repeat(times * CALLS, || typed_request(&bare)));
    });
    let within = bench.add("call of the executor", None, 1, "", |times| {
        arbiter.block_on(async {
            for _ in 0..times {
                let call = executor.call_for::<Echo>(Caller::anonymous(), FUNCTION, params());
                black_box(call.await.is_ok());
            }
        });
    });
    bench.add("call over a local fabric", Some(within), 1, "at most 1.05", |times| {
        arbiter.block_on(async {
            for _ in 0..times {
                call(&local).await;
            }
        });
    });
    bench.add(
        "sticky call, key owner in the same process",
        Some(within),
        1,
        "at most 1.1",
        |times| {
            arbiter.block_on(async {
                for _ in 0..times {
                    let call = Call::new(FUNCTION, params()).expect("it is a call");
                    let echo = at_home.call(call).await;
                    black_box(echo.and_then(asyncsteps_fabric::Response::read::<Echo>).is_ok());
                }
            });
        },
    );
    if !env::args().any(|arg| arg == "--test") {
        let [bare_late, late, by_hand_late] = arbiter.block_on(async {
            let mut times = [Vec::new(), Vec::new(), Vec::new()];
            for _ in 0..PARTS {
                times[0].extend(timed(|| request(&bare)).await);
                times[1].extend(timed(|| call(&fabric)).await);
                times[2].extend(timed(|| typed_request(&bare)).await);
            }
            times.map(|times| p99(times).as_secs_f64() * 1e6)
        });
        bench.count("p99, 64 at once: bare", bare_late, "us", "");
        bench.count("p99, 64 at once", late, "us", "");
        bench.count("p99, 64 at once : bare", late / bare_late, "", "at most 1.4");
        bench.count("p99 by hand, 64 at once : bare", by_hand_late / bare_late, "", "");
        if Command::new("valgrind").arg("--version").output().is_ok() {
            count_instructions(&mut bench);
        }
    }
    bench.finish();
}

/// Carries out a part of the bench that has a process of its own.
async fn be(mode: &str, url: &str, calls: u32) {
    match mode {
        BARE => answer(url, BARE_SUBJECT, Some).await,
        BY_HAND => answer(url, TYPED_SUBJECT, carries_out_typed()).await,
        SERVE => serve(url).await,
        CALL => {
            let fabric = NatsFabric::connect(Config::new(url)).await.expect("it joins");
            repeat(calls, || call(&fabric)).await;
        }
        REQUEST => {
            let bare = connect(url).await;
            repeat(calls, || request(&bare)).await;
        }
        _ => {
            let bare = connect(url).await;
            repeat(calls, || typed_request(&bare)).await;
        }
    }
}

async fn connect(url: &str) -> async_nats::Client {
    async_nats::connect(url).await.expect("it connects")
}

/// Counts what a call takes of its caller and of its node.
fn count_instructions(bench: &mut Bench<'_>) {
    let kinds = [
        ("bare", REQUEST, BARE, ["", ""]),
        ("by hand", TYPED_REQUEST, BY_HAND, ["", ""]),
        ("a node", CALL, SERVE, ["at most 18,000", "at most 20,000"]),
    ];
    for (kind, caller, node, [of_caller, of_node]) in kinds {
        let [less, more] = COUNTED.map(|calls| instructions(caller, node, calls));
        let per_call = |end: usize| (more[end] - less[end]) / f64::from(COUNTED[1] - COUNTED[0]);
        let id = format!("instructions of a call, {kind}");
        bench.count(format!("{id}: caller"), per_call(0), "", of_caller);
        bench.count(format!("{id}: node"), per_call(1), "", of_node);
    }
}

/// The instructions of a process that makes so many calls, and of the node that carries them out.
fn instructions(caller: &str, node: &str, calls: u32) -> [f64; 2] {
    let server = Server::start().expect("it was started before");
    let call = |mut program: Command| {
        let made = program.args([caller, &server.url, &calls.to_string()]).output();
        let made = made.expect("it was started before");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        made.stderr
    };
    let at_full_speed = Node::start(own(), node, &server.url);
    let of_caller = collected(&call(counted()));
    drop(at_full_speed);
    let node = Node::start(counted(), node, &server.url);
    call(own());
    [of_caller, collected(&node.end())]
}

/// This program.
fn own() -> Command {
    Command::new(env::current_exe().expect("a program has a path"))
}

/// A client whose calls are sticky to keys that its own process owns: it is the only node of its fabric.
async fn at_home(url: &str, executor: &Executor) -> (Client, ServeGuard) {
    let fabric = NatsFabric::connect(Config::new(url).prefix("bench.own")).await;
    let fabric = fabric.expect("it joins");
    let guard = fabric.serve(Endpoint::all(executor), executor.clone()).await;
    let client =
        Client::new(Arc::new(fabric.clone())).placement(FUNCTION, Placement::sticky("msg"));
    // the first look at the nodes begins with the first call
    while format!("{:?}", fabric.live_nodes()) == format!("{:?}", LiveNodes::default()) {
        tokio::task::yield_now().await;
    }
    (client, guard.expect("it serves"))
}

fn params() -> Echo {
    let msg = "forty characters of text, as a call may have".to_owned();
    Echo { msg, n: 1, opt: None }
}

async fn request(client: &async_nats::Client) {
    let answer = client.request(BARE_SUBJECT, Bytes::from_static(MESSAGE.as_bytes())).await;
    assert!(answer.is_ok_and(|answer| answer.payload.len() == MESSAGE.len()));
}

async fn typed_request(client: &async_nats::Client) {
    let message = serde_json::to_vec(&Message { f: FUNCTION, p: params() }).expect("JSON");
    let answer = client.request(TYPED_SUBJECT, message.into()).await.expect("an answer");
    let answer: Answer = serde_json::from_slice(&answer.payload).expect("JSON");
    assert_eq!(answer.r.n, 1);
}

async fn call(fabric: &impl Fabric) {
    let call = Call::new(FUNCTION, params()).expect("it is a call");
    let echo = fabric.call(call).await.and_then(asyncsteps_fabric::Response::read::<Echo>);
    assert!(echo.is_ok_and(|echo| echo.n == 1));
}

async fn repeat<F: Future<Output = ()>>(times: u32, one: impl Fn() -> F) {
    stream::iter(0..times).map(|_| one()).buffer_unordered(AT_ONCE).for_each(async |()| ()).await;
}

/// How long each of some calls takes.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
async fn timed<F: Future<Output = ()>>(one: impl Fn() -> F) -> Vec<Duration> {
    let timed = |_| {
        let (begun, one) = (Instant::now(), one());
        async move {
            one.await;
            begun.elapsed()
        }
    };
    stream::iter(0..TIMED / PARTS).map(timed).buffer_unordered(AT_ONCE).collect().await
}

/// A node of the baseline, or one by hand.
async fn answer(
    url: &str,
    subject: &'static str,
    mut carry_out: impl FnMut(Bytes) -> Option<Bytes>,
) {
    let client = connect(url).await;
    let requests = client.queue_subscribe(subject, "bench".to_owned()).await;
    let mut requests = requests.expect("it subscribes");
    client.flush().await.expect("it subscribes");
    say_ready();
    while let Some(request) = requests.next().await {
        let Some(reply) = request.reply else { continue };
        let Some(answer) = carry_out(request.payload) else { continue };
        client.publish(reply, answer).await.expect("it is connected");
    }
}

/// Finds the function of a message, and carries it out.
fn carries_out_typed() -> impl FnMut(Bytes) -> Option<Bytes> {
    let functions: HashMap<&str, fn(Echo) -> Echo> = HashMap::from([(FUNCTION, black_box as _)]);
    move |request| {
        let message: Message<'_> = serde_json::from_slice(&request).ok()?;
        let function = functions.get(message.f)?;
        let answer = serde_json::to_vec(&Answer { r: function(message.p) });
        Some(answer.expect("JSON").into())
    }
}

/// A node.
async fn serve(url: &str) {
    let executor = conform::executor();
    let fabric = NatsFabric::connect(Config::new(url)).await.expect("it joins");
    let guard = fabric.serve(Endpoint::all(&executor), executor).await.expect("it serves");
    say_ready();
    // until its process ends
    std::future::pending::<()>().await;
    drop(guard);
}

/// Notifies the parent that the node is ready; its process ends when the parent ends its input.
#[expect(clippy::print_stdout, reason = "the parent waits for it")]
fn say_ready() {
    thread::spawn(|| {
        // an error is an end too
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(0);
    });
    println!("ready");
}

/// This program as a node, until this is dropped.
struct Node(Child);

impl Node {
    fn start(mut program: Command, mode: &str, url: &str) -> Self {
        let program = program.args([mode, url]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = program.spawn().expect("it was started before");
        let mut line = String::new();
        let output = process.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it says that it is ready");
        assert_eq!(line.trim(), "ready");
        Self(process)
    }

    /// Ends it; returns what it wrote as errors.
    fn end(mut self) -> Vec<u8> {
        let mut errors = Vec::new();
        drop(self.0.stdin.take());
        let written = self.0.stderr.take().expect("it is piped");
        BufReader::new(written).read_to_end(&mut errors).expect("it ends");
        errors
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // it may be gone already
        let _ = self.0.wait();
    }
}

/// A NATS server on a free port; it is killed when this is dropped.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    #[expect(clippy::print_stdout, reason = "a bench is there to print")]
    fn start() -> Option<Self> {
        let mut command = Command::new("nats-server");
        command.args(["-a", "127.0.0.1", "-p", "-1"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let Ok(mut process) = command.spawn() else {
            println!("no nats-server here: nothing is measured");
            return None;
        };
        let log = BufReader::new(process.stderr.take().expect("it is piped"));
        let mut lines = log.lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            let (_, listens) = line.split_once("for client connections on ")?;
            Some(listens.rsplit(':').next()?.trim().to_owned())
        });
        let url = format!("nats://127.0.0.1:{}", port.expect("it says where it listens"));
        lines.by_ref().find(|line| line.contains("Server is ready")).expect("it is ready");
        // it writes no more unless something is wrong
        thread::spawn(move || lines.for_each(drop));
        Some(Self { process, url })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // it may be gone already
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
