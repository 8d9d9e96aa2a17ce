//! What it costs to see what runs: processor time of an HTTP echo whose steps are recorded, sampled,
//! traced and shown, against one of a server that does none of it.
//!
//! Each server is a process of its own with one thread that serves. All take turns that are longer than the
//! second between two messages to the collector or the console, so that each has its share of them.

#[path = "support/server.rs"]
mod server;
mod support;

use std::collections::VecDeque;
use std::fmt;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::time::Duration;
use std::{env, io, thread};

use asyncsteps_actors::clock;
use asyncsteps_console::Console;
use asyncsteps_core::Template;
use asyncsteps_executor::observe::Sampling;
use asyncsteps_executor::{Executor, RequestSteps as _};
use asyncsteps_observe::{Locks, log, otlp};
use asyncsteps_support::client::post_with;
use asyncsteps_support::{PATIENCE, definition};
use asyncsteps_transport::http::{self, Server, ServerLimits};
use server::{Load, ServerProcess, client_end, connect};
use support::Bench;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// Has this program be a server that is observed so: `--serve WAY [COLLECTOR]`.
const SERVE: &str = "--serve";

/// The ways, in the order of the table, with what they may cost: the reciprocal of the rate that is left.
const WAYS: [(&str, &str, &str); 7] = [
    ("off", "nothing", ""),
    ("recorder", "recorder, nobody looks", "at most 1.03"),
    ("otlp-1", "1 % sampled to OTLP", "at most 1.05"),
    ("otlp-all", "all sampled to OTLP", ""),
    ("steps", "all steps to a subscriber", "at most 1.67"),
    ("log", "all steps to the log", ""),
    ("console", "console open", "at most 1.05"),
];

/// Processor time of a turn, and how many there are.
const TURN: Duration = Duration::from_millis(1_100);
const ROUNDS: usize = 12;

/// How many events are kept by hand.
const KEPT: usize = 4_096;

const HTTP: &str = "Content-Type: application/futoin+json\r\n";
const ECHO: &str = r#"{"f":"bench.echo:1.0:echo","p":{"msg":"hi"}}"#;

const DEFINITION: &str = r#"{
    "iface": "bench.echo", "version": "1.0", "ftn3rev": "1.9",
    "funcs": { "echo": { "params": { "msg": "string" }, "result": "string" } },
    "requires": [ "AllowAnonymous" ]
}"#;

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == SERVE) {
        let collector = arguments.get(at + 2).map(String::as_str);
        return actix_rt::System::new().block_on(serve(&arguments[at + 1], collector));
    }
    let collector = format!("http://{}", collect());
    let request = post_with("/ftn/", HTTP, ECHO.as_bytes());
    let mut servers: Vec<(ServerProcess, Load)> = WAYS
        .iter()
        .map(|(way, _, _)| {
            let mut server = ServerProcess::start(&[SERVE, way, &collector]);
            let address = server.address();
            if *way == "console" {
                watch(address);
            }
            (server, Load::http(address, request.clone()))
        })
        .collect();
    let mut bench = Bench::new("observe_cost");
    bench.turns = (TURN, ROUNDS);
    let mut off = None;
    for ((way, name, target), (server, load)) in WAYS.iter().zip(&mut servers) {
        let id = format!("HTTP echo: {name}");
        let at = bench.add(id, off, 1, target, |requests| server.cpu_of(requests, load));
        if *way == "off" {
            off = Some(at);
        }
    }
    // what is recorded of a request at least: eight events with their times
    let mut events = VecDeque::from([(clock::now(), 0_u64); KEPT]);
    let id = "eight events in a ring, by hand : HTTP echo";
    bench.add(id, off, 1, "", move |requests| {
        for number in 0..u64::from(requests) * 8 {
            events.pop_front();
            events.push_back((clock::now(), black_box(number)));
        }
    });
    bench.count("HTTP echo: bytes of a request", request.len() as f64, "bytes", "");
    bench.finish();
}

/// Serves until the client ends; says where on the standard output.
#[expect(clippy::print_stdout, reason = "the other process reads it")]
async fn serve(way: &str, collector: Option<&str>) {
    let echo = Template::build(|asi| {
        asi.add(|asi, ()| {
            let msg: String = asi.param("msg")?;
            asi.reply(msg)
        })
        .named("echo");
    });
    let builder = Executor::builder().interface(definition("bench.echo:1.0", DEFINITION), |it| {
        it.add("echo", &echo);
    });
    let mut export = None;
    let builder = match way {
        "off" => builder.unrecorded(),
        "otlp-1" | "otlp-all" => {
            let exports = otlp().endpoint(collector.expect("an address")).service_name("bench");
            let (exporter, guard) = exports.start().expect("an exporter");
            export = Some(guard);
            let share = if way == "otlp-1" { 0.01 } else { 1.0 };
            builder.sample(Sampling::share(share)).export(exporter)
        }
        _ => builder,
    };
    let lines = match way {
        "steps" => {
            let subscriber = tracing_subscriber::registry().with(ReadsSpans);
            tracing::subscriber::set_global_default(subscriber).expect("it is the first one");
            None
        }
        "log" => {
            let steps = log().filter("asyncsteps=debug").output(io::sink());
            Some(steps.init().expect("it is the first one"))
        }
        _ => None,
    };
    let executor = builder.build().expect("a right configuration");
    let console = Console::new(&executor, Locks::new());
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    println!("{}", listener.local_addr().expect("an address"));
    // each load waits for its turn
    let limits =
        ServerLimits { keep_alive: PATIENCE, head_timeout: PATIENCE, ..ServerLimits::default() };
    let server = Server::new(http::service("/ftn/", executor)).page("/console", console.service());
    let server = server.workers(NonZeroUsize::MIN).limits(limits).grace(Duration::ZERO);
    let server = server.listen(listener).expect("a listener");
    server.run_until(client_end()).await.expect("no error of the server");
    drop((export, lines));
}

/// Reads the fields of spans, as what collects them does.
struct ReadsSpans;

impl<S: tracing::Subscriber> Layer<S> for ReadsSpans {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        attributes.record(&mut Reads);
    }
}

struct Reads;

impl Visit for Reads {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        black_box((field, value));
    }
}

/// A console that is open: it reads what the server tells it.
fn watch(address: SocketAddr) {
    let mut connection = connect(address);
    let request = "GET /console/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    connection.write_all(request.as_bytes()).expect("the server takes bytes");
    let mut lines = BufReader::new(connection).lines();
    let status = lines.next().and_then(Result::ok).unwrap_or_default();
    assert!(status.contains("200"), "{status}");
    // until the server ends
    thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
}

/// A collector that takes everything and looks at nothing.
fn collect() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || while take(&mut BufReader::new(&connection)).is_some() {});
        }
    });
    address
}

/// Takes one message of an exporter, which sends no other before it is answered; `None` at the end.
fn take(connection: &mut BufReader<&TcpStream>) -> Option<()> {
    let (mut length, mut line) = (0, String::new());
    while line != "\r\n" {
        line.clear();
        if connection.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let header = line.trim_end().to_ascii_lowercase();
        length =
            header.strip_prefix("content-length: ").map_or(length, |it| it.parse().unwrap_or(0));
    }
    io::copy(&mut connection.take(length), &mut io::sink()).ok()?;
    connection.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok()
}
