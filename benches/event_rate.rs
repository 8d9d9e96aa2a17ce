//! What it takes to watch durable requests over HTTP, with a journal in SQLite that flushes each commit.
//!
//! - From the `emit` of a body to the reader of the function's URL: twenty requests that emit fifty events a second each,
//!   each with one reader, alone and beside a thousand readers of another request, of whom a hundred take nothing.
//! - What a reader takes of the server's memory.
//!
//! The server is a process of its own.

#[path = "support/folder.rs"]
mod folder;
#[path = "support/late.rs"]
mod late;
#[path = "support/server.rs"]
#[expect(dead_code, reason = "readers load it")]
mod server;
#[expect(dead_code, reason = "it has counts alone, and no workloads")]
mod support;

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, SystemTime};

use asyncsteps_actors::{clock, timer};
use asyncsteps_durable::Durable;
use asyncsteps_executor::plan::Emits;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Steps};
use asyncsteps_journal::sqlite::{Options, Sqlite};
use asyncsteps_transport::http::{self, Server, ServerLimits};
use folder::Folder;
use late::p99;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::{ServerProcess, client_end, connect};
use support::Bench;

/// Requests with a reader each, the pause between two events of one, and how many are measured.
const REQUESTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(20);
const EVENTS: u32 = 250;

/// Readers of one more request, of whom every tenth takes nothing.
const READERS: u32 = 1_000;

#[derive(Deserialize, JsonSchema)]
struct Tick {
    events: i32,
}

/// When it was emitted, in microseconds.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Ticked(f64);

impl Emits for Tick {
    type Event = Ticked;
}

fn micros() -> f64 {
    let now = clock::wall().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64() * 1e6
}

fn tick(steps: &Steps<(), Tick>) -> Returns<()> {
    steps
        .run("tick", async |cx, ()| {
            for number in 0..cx.params.events {
                let next = clock::now() + PAUSE;
                cx.emit_as(&number.to_string(), &Ticked(micros())).await?;
                timer::sleep_until(next).await;
            }
            Ok(())
        })
        .recorded()
        .returns()
}

fn main() {
    let mut arguments = env::args().skip(1);
    if let Some(("serve", file)) = arguments.next().as_deref().zip(arguments.next()) {
        return serve(&file);
    }
    let part = if env::args().any(|arg| arg == "--test") { 50 } else { 1 };
    let folder = Folder::new(&env::temp_dir());
    let file = folder.file("journal");
    let mut server = ServerProcess::start(&["serve", file.to_str().expect("its name is text")]);
    let address = server.address();

    let mut bench = Bench::new("event_rate");
    let alone = lateness(address, "alone", EVENTS / part);
    bench.count("emit to reader, 1,000 a second: p99", millis(alone), "ms", "at most 20");
    let before = resident(&server);
    let mut readers: Vec<_> =
        (0..READERS / part).map(|_| watch(address, "all", 1_000_000)).collect();
    // each has got the first events then
    for reader in &readers {
        reader.peek(&mut [0]).expect("the server answers");
    }
    let each = (resident(&server) - before) / f64::from(READERS / part);
    bench.count("a reader of a request: memory of the server", each, "B", "");
    thread::spawn(move || {
        for reader in &readers {
            reader.set_read_timeout(Some(Duration::from_millis(1))).expect("a socket option");
        }
        let mut buffer = vec![0; 65_536];
        loop {
            for (_, reader) in readers.iter_mut().enumerate().filter(|(it, _)| it % 10 > 0) {
                if matches!(reader.read(&mut buffer), Ok(0)) {
                    return;
                }
            }
        }
    });
    let beside = lateness(address, "beside", EVENTS / part);
    bench.count("the same beside a thousand readers: p99", millis(beside), "ms", "at most 40");
    bench.finish();
}

/// Serves until its standard input ends.
#[expect(clippy::print_stdout, reason = "the client reads where it listens")]
fn serve(file: &str) {
    actix_rt::System::new().block_on(async {
        let journal = Sqlite::open(file, Options::new("bench")).expect("a journal");
        let durable = Durable::new(journal);
        let mut interface = Interface::new("bench.events:1.0".parse().expect("a name"));
        interface.allow_anonymous();
        let executor = Executor::builder()
            .service(interface, (), |functions| _ = durable.on(functions, "tick", tick))
            .build()
            .expect("a right configuration");
        let node = durable.start(&executor).await.expect("a lease");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        println!("{}", listener.local_addr().expect("it listens"));
        let limits = ServerLimits { connections_of_client: 2_000, ..ServerLimits::default() };
        let server = Server::new(http::service("/ftn/", executor)).limits(limits);
        let server = server.listen(listener).expect("it listens").run();
        tokio::select! {
            ended = server => drop(ended.expect("it serves")),
            () = client_end() => {}
        }
        drop(node);
    });
}

/// A connection on which a request with this key is watched.
fn watch(address: SocketAddr, key: &str, events: u32) -> TcpStream {
    let (mut connection, body) = (connect(address), format!("{{\"events\":{events}}}"));
    write!(
        connection,
        "POST /ftn/bench.events/1.0/tick HTTP/1.1\r\nhost: a\r\naccept: text/event-stream\r\nidempotency-key: \
         {key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("the server takes bytes");
    connection
}

/// The p99 of the time from an event to its reader, of some requests with a reader each.
fn lateness(address: SocketAddr, name: &str, events: u32) -> Duration {
    let readers = (0..REQUESTS).map(|number| {
        let connection = watch(address, &format!("{name}-{number}"), events);
        thread::spawn(move || {
            let lines = BufReader::new(connection).lines().map_while(Result::ok);
            let data = lines.filter_map(|line| line.strip_prefix("data: ")?.parse::<f64>().ok());
            data.take(events as usize).map(|at| micros() - at).collect::<Vec<_>>()
        })
    });
    let readers: Vec<_> = readers.collect();
    let late: Vec<_> = readers.into_iter().flat_map(|it| it.join().expect("no panic")).collect();
    assert_eq!(late.len(), (REQUESTS * events) as usize, "each event comes once");
    p99(late.into_iter().map(|late| Duration::from_secs_f64(late.max(0.0) / 1e6)).collect())
}

/// The resident memory of the server, in bytes.
fn resident(server: &ServerProcess) -> f64 {
    let statm = fs::read_to_string(format!("/proc/{}/statm", server.id())).unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
    pages.map_or(f64::NAN, |pages| pages * 4096.0)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
