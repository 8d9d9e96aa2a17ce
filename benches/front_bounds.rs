//! What clients that misbehave cost others, and when they are gone: the limits of connections. What a limiter makes of
//! eight times as many requests as it lets in.
//!
//! The server is in this process with one worker. Those that misbehave have an address of their own,
//! because clients share what is scarce.
//!
//! Too many: a function works for a millisecond, and a limiter lets a hundred in each second, which is a tenth of a core.
//! Requests are sent when it is their time, whether others were answered or not, and are late from then.

#[path = "support/late.rs"]
mod late;
#[expect(dead_code, reason = "it has counts alone, and no workloads")]
mod support;

use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use asyncsteps_actors::clock;
use asyncsteps_actors::sync::Limiter;
use asyncsteps_core::Template;
use asyncsteps_core::sync::limiter;
use asyncsteps_executor::{Executor, RequestSteps};
use asyncsteps_support::client::{Connection, message, ping, post};
use asyncsteps_support::server::TestServer;
use asyncsteps_support::stream::{Stream, server_config};
use asyncsteps_support::{PATIENCE, conform, definition};
use asyncsteps_transport::http::ServerLimits;
use late::p99;
use serde_json::json;
use support::Bench;

/// Those that misbehave.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// The limits of time that are waited for here are shorter than unless set.
const SHORT: Duration = Duration::from_secs(1);

/// TLS connections without a hello in a second, and for how long.
const TLS_RATE: u32 = 500;
const TLS_SECONDS: u32 = 8;

/// Clients that send many requests, and how many.
const CLIENTS: usize = 2_000;
const REQUESTS: usize = 400;

/// How long a limited function works, and how many of its requests are let in each second.
const WORK: Duration = Duration::from_millis(1);
const CAPACITY: u32 = 100;

/// Connections over which its requests are sent: none waits for another one.
const LINES: u32 = 64;

/// How late an answer or a refusal is in time.
const IN_TIME: Duration = Duration::from_secs(1);

const LIMITED: &str = r#"{
    "iface": "bench.limited", "version": "1.0", "ftn3rev": "1.9",
    "funcs": { "work": { "result": "boolean" } }, "requires": [ "AllowAnonymous" ]
}"#;

fn main() {
    let is_test = env::args().any(|arg| arg == "--test");
    // a test only shows that it works
    let part = if is_test { 50 } else { 1 };
    let mut bench = Bench::new("front_bounds");

    let head = ServerLimits { head_timeout: SHORT, ..ServerLimits::default() };
    let gone = gone_after(head, 1_000 / part, |address| {
        let mut client = attack(address);
        assert_eq!(client.post(&echo()).status(), 200);
        client.send(b"P");
        client
    });
    let id = "1,000 stop in the second head (time: 1 s): gone";
    // a second more, so that a client that still sends can read the answer
    bench.count(id, millis(gone), "ms", "at most 2,500");

    let stall = ServerLimits { stall_timeout: SHORT, ..ServerLimits::default() };
    let gone = gone_after(stall, 50 / part, |address| {
        let mut client = attack(address);
        client.send(b"GET /ftn/conform.main/1.2/download?n=1073741824 HTTP/1.1\r\nHost: a\r\n\r\n");
        client
    });
    bench.count("50 that read nothing (time: 1 s): gone", millis(gone), "ms", "at most 1,500");

    let seconds = TLS_SECONDS / u32::try_from(part).unwrap_or(u32::MAX).min(TLS_SECONDS);
    for (what, bytes) in [("without a byte", &b""[..]), ("that begin a hello", b"\x16\x03\x01")] {
        let [late, worst] = during_tls_flood(bytes, seconds);
        let id = format!("500 TLS connections/s {what}: others' p99");
        bench.count(id, millis(late), "ms", "");
        let id = format!("500 TLS connections/s {what}: others' worst");
        bench.count(id, millis(worst), "ms", "at most 100");
    }

    let [late, worst] = during_pipelining(CLIENTS / part);
    bench.count("2,000 x 400 requests, nothing read: others' p99", millis(late), "ms", "");
    bench.count(
        "2,000 x 400 requests, nothing read: others' worst",
        millis(worst),
        "ms",
        "at most 100",
    );
    let server = TestServer::start(1, limited);
    let seconds = if is_test { 1 } else { 5 };
    let [calm, flood] =
        [CAPACITY / 2, CAPACITY * 8].map(|rate| send(server.address, rate, seconds));
    let id = "8 x what a limiter lets in: answered or refused in a second";
    bench.count(id, flood.in_time() * 100.0, "%", "100");
    let answered = flood.answered.len() as f64 / f64::from(CAPACITY * seconds);
    bench.count("8 x what a limiter lets in: answered, of that", answered, "", "");
    let late = millis(p99(calm.answered));
    bench.count("half of what a limiter lets in: p99", late, "ms", "");
    let ratio = millis(p99(flood.answered)) / late;
    bench.count("8 x what a limiter lets in: p99 of the answered : half", ratio, "", "2");
    bench.finish();
}

/// An executor with a limited function.
fn limited() -> Executor {
    let limiter = Limiter::start(limiter::Options {
        concurrent: 4,
        rate: CAPACITY / 10,
        period: Duration::from_millis(100),
        ..limiter::Options::default()
    });
    let work = Template::build(|asi| {
        asi.sync(&limiter, |asi, ()| {
            let begun = clock::now();
            while clock::now().saturating_since(begun) < WORK {}
            asi.reply(true)
        });
    });
    let definition = definition("bench.limited:1.0", LIMITED);
    let builder = Executor::builder().interface(definition, |functions| {
        functions.add("work", &work);
    });
    builder.build().expect("a right service")
}

/// What became of requests: how late the answers and the refusals came.
#[derive(Default)]
struct Outcomes {
    sent: usize,
    answered: Vec<Duration>,
    refused: Vec<Duration>,
}

impl Outcomes {
    fn in_time(&self) -> f64 {
        let all = self.answered.iter().chain(&self.refused);
        all.filter(|late| **late <= IN_TIME).count() as f64 / self.sent as f64
    }
}

/// Sends so many requests of the limited function in a second.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
fn send(address: SocketAddr, rate: u32, seconds: u32) -> Outcomes {
    let request = message("bench.limited:1.0:work", &json!({}));
    let pause = Duration::from_secs(1) / rate;
    let start = Instant::now();
    let line = |line: u32| {
        let request = request.clone();
        thread::spawn(move || {
            let (mut client, mut outcomes) = (Connection::open(address), Outcomes::default());
            for number in (line..rate * seconds).step_by(LINES as usize) {
                let due = start + pause * number;
                while let Some(early) = due.checked_duration_since(Instant::now()) {
                    thread::park_timeout(early);
                }
                let answer = client.post(&request);
                let is_refused = answer.text().contains("DefenseRejected");
                assert!(is_refused || answer.text().contains("true"), "{}", answer.text());
                let list = if is_refused { &mut outcomes.refused } else { &mut outcomes.answered };
                list.push(due.elapsed());
                outcomes.sent += 1;
            }
            outcomes
        })
    };
    let lines: Vec<_> = (0..LINES).map(line).collect();
    let mut all = Outcomes::default();
    for line in lines {
        let outcomes = line.join().expect("each request is answered");
        all.sent += outcomes.sent;
        all.answered.extend(outcomes.answered);
        all.refused.extend(outcomes.refused);
    }
    all
}

fn echo() -> Vec<u8> {
    let params = json!({ "msg": "hi", "n": 1, "opt": null });
    message("conform.main:1.2:echo", &params)
}

fn attack(address: SocketAddr) -> Connection {
    Connection::over(Stream::connect_from(ATTACKER, address))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// How long after the last of so many was opened the server has closed all of them.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
fn gone_after(
    limits: ServerLimits,
    count: usize,
    open: impl Fn(SocketAddr) -> Connection,
) -> Duration {
    let server = TestServer::start_with(1, limits, None, conform::executor, |service| service);
    let clients: Vec<_> = (0..count).map(|_| open(server.address)).collect();
    let start = Instant::now();
    server.connections.wait_for_the_end_of(clients.len());
    start.elapsed()
}

/// How long others wait for a secure connection and an answer on it, while some are made that send
/// only the first bytes: all but one in a hundred, and the worst.
fn during_tls_flood(first: &'static [u8], seconds: u32) -> [Duration; 2] {
    let (limits, tls) = (ServerLimits::default(), Some(server_config()));
    let server = TestServer::start_with(1, limits, tls, conform::executor, |service| service);
    let address = server.address;
    let flood = move || {
        let connect = |_| {
            thread::park_timeout(Duration::from_secs(1) / TLS_RATE);
            let mut client = attack(address);
            client.send(first);
            client
        };
        (0..TLS_RATE * seconds).map(connect).collect()
    };
    slowest_during(flood, move || {
        let mut client = Connection::over(Stream::secure(address));
        assert_eq!(client.post(&echo()).status(), 200);
    })
}

/// The same of answers on new connections, while so many clients send many requests and read nothing.
fn during_pipelining(clients: usize) -> [Duration; 2] {
    // no time limit helps
    let limits = ServerLimits { stall_timeout: PATIENCE, ..ServerLimits::default() };
    let server = TestServer::start_with(1, limits, None, conform::executor, |service| service);
    let address = server.address;
    let flood = move || {
        let all = post(&echo()).repeat(REQUESTS);
        let mut clients: Vec<_> = (0..clients).map(|_| attack(address)).collect();
        for client in &mut clients {
            client.send(&all);
        }
        clients
    };
    slowest_during(flood, move || ping(address))
}

/// How long a request takes while others misbehave, and for a second after that.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
fn slowest_during(
    misbehave: impl FnOnce() -> Vec<Connection> + Send + 'static,
    request: impl Fn(),
) -> [Duration; 2] {
    // what the first use of everything takes does not count
    request();
    let flood = thread::spawn(misbehave);
    let (mut times, mut end) = (Vec::new(), None);
    while end.is_none_or(|end| Instant::now() < end) {
        let start = Instant::now();
        request();
        times.push(start.elapsed());
        if end.is_none() && flood.is_finished() {
            end = Some(Instant::now() + Duration::from_secs(1));
        }
        thread::park_timeout(Duration::from_millis(5));
    }
    drop(flood.join().expect("the server takes bytes"));
    times.sort_unstable();
    [times[(times.len() * 99).div_ceil(100) - 1], times[times.len() - 1]]
}
