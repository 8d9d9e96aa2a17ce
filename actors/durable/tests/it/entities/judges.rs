//! Sixteen clients, whose process is killed again and again: a counter has each call once, and each seat is sold once.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::{env, fs, thread};

use asyncsteps_core::{BodyResult, Code};
use asyncsteps_durable::entity::{Entity, EntityCx as _};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Service};
use asyncsteps_postgres_server::Server;
use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{PATIENCE, keyed, opened};

/// The journal of a process, the next call of each of its clients, and how many each makes.
const JOURNAL: &str = "JOURNAL_OF_HALLS";
const NEXT: &str = "NEXT_CALLS_OF_HALLS";
const CALLS: &str = "CALLS_OF_HALLS";

const TEST: &str = "entities::judges::a_counter_is_exact_and_no_seat_is_sold_twice";

const CLIENTS: usize = 16;

/// The seats of each hall.
const SEATS: usize = 200;

/// Events, and who has which of their seats.
struct Halls;

impl Service for Halls {
    type Errors = SeatError;
}

impl Entity for Halls {
    type State = Hall;
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Hall {
    calls: i32,
    sold: HashMap<i32, i32>,
}

#[derive(Debug, Code, thiserror::Error)]
enum SeatError {
    #[error("it is sold")]
    Sold,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    #[expect(dead_code, reason = "it is the key")]
    hall: String,
}

#[derive(Deserialize, JsonSchema)]
struct Sell {
    #[expect(dead_code, reason = "it is the key")]
    hall: String,
    seat: i32,
    client: i32,
}

impl Halls {
    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn count(cx: &Cx<Self, Count>) -> BodyResult<i32> {
        Ok(cx.entity().change(|hall| {
            hall.calls += 1;
            hall.calls
        })?)
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn sell(cx: &Cx<Self, Sell>) -> BodyResult<i32> {
        let Sell { seat, client, .. } = *cx.params;
        if cx.entity().get().sold.contains_key(&seat) {
            return Err(SeatError::Sold.into());
        }
        cx.entity().change(|hall| hall.sold.insert(seat, client))?;
        Ok(seat)
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn hall(cx: &Cx<Self, Count>) -> BodyResult<Hall> {
        Ok((*cx.entity().get()).clone())
    }
}

impl JsonSchema for Hall {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Hall".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "object" })
    }
}

/// The call of a client with this number: it sells a seat now and then, and else counts.
fn call(client: usize, number: usize) -> (&'static str, Value) {
    if !number.is_multiple_of(8) {
        return ("count", json!({ "hall": "counter" }));
    }
    // each client wants all seats, in an order of its own
    let sale = number / 8;
    let seat = (sale * (2 * client + 1) + client * 7) % SEATS;
    let hall = format!("hall {}", sale / SEATS);
    ("sell", json!({ "hall": hall, "seat": seat, "client": client }))
}

#[test]
fn a_counter_is_exact_and_no_seat_is_sold_twice() {
    if let Ok(journal) = env::var(JOURNAL) {
        let numbers = |name| env::var(name).expect("it is set");
        let number = |text: &str| text.parse().expect("a number");
        let next = numbers(NEXT).split(' ').map(number).collect();
        actix::System::new().block_on(make_calls(&journal, next, number(&numbers(CALLS))));
        return;
    }
    let (all, kills) = if env::var_os("LONG_TESTS").is_some() { (200_000, 20) } else { (8_000, 2) };
    let folder = env::temp_dir().join(format!("asyncsteps-halls-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("journal").to_string_lossy().into_owned();
    let server = Server::start();
    thread::scope(|scope| {
        scope.spawn(|| judge(&file, all / CLIENTS, kills));
        if let Some(url) = server.as_ref().map(Server::url) {
            judge(&url, all / CLIENTS, kills);
        }
    });
    let _ = fs::remove_dir_all(&folder);
}

/// The answers of all processes.
struct Answers {
    next: [usize; CLIENTS],
    counted: Vec<bool>,
    sold: HashMap<(String, i32), usize>,
}

/// Starts processes until each client has made this many calls, kills so many of them, and compares what was answered with
/// what is stored.
fn judge(journal: &str, calls: usize, kills: usize) {
    let all = calls * CLIENTS;
    let mut answers =
        Answers { next: [0; CLIENTS], counted: vec![false; all + 1], sold: HashMap::new() };
    for round in 0..=kills {
        let mut child = spawn(journal, &answers.next, calls);
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let last = (round < kills).then(|| all * (round + 1) / (kills + 1));
        let mut was_killed = false;
        for line in lines.map_while(Result::ok) {
            let Some(answer) = line.strip_prefix("answered ") else { continue };
            answers.takes(answer);
            let answered: usize = answers.next.iter().sum();
            if !was_killed && last.is_some_and(|last| answered >= last) {
                was_killed = true;
                child.kill().expect("it runs");
            }
        }
        child.wait().expect("it ended");
    }
    assert!(answers.next.iter().all(|next| *next == calls), "{:?}", answers.next);
    actix::System::new().block_on(compare(journal, &answers, calls));
}

impl Answers {
    /// `client number error-or-result`
    fn takes(&mut self, answer: &str) {
        let mut words = answer.splitn(3, ' ');
        let mut number = || words.next().and_then(|it| it.parse::<usize>().ok()).expect("a number");
        let (client, number) = (number(), number());
        let result = words.next().expect("a result");
        assert_eq!(number, self.next[client], "calls of a client are made one by one");
        self.next[client] += 1;
        let (function, params) = call(client, number);
        match (function, result.parse::<i32>()) {
            ("count", Ok(count)) => {
                let counted = &mut self.counted[usize::try_from(count).expect("it counts up")];
                assert!(!*counted, "two calls were number {count}");
                *counted = true;
            }
            (_, Ok(seat)) => {
                let seat = (params["hall"].to_string(), seat);
                let other = self.sold.insert(seat.clone(), client);
                assert_eq!(other, None, "{seat:?} is sold twice");
            }
            ("sell", Err(_)) if result == "Sold" => {}
            (_, Err(_)) => panic!("call {number} of client {client} is answered with {result}"),
        }
    }
}

/// Compares what is stored with what was answered.
async fn compare(journal: &str, answers: &Answers, calls: usize) {
    let executor = start(journal).await;
    let counts = (0..calls).filter(|number| call(0, *number).0 == "count").count() * CLIENTS;
    let hall = async |name: &str| {
        let named = json!({ "hall": name });
        executor.call_as_system::<Hall>("test.halls:1.0:hall", named).await.expect("it is read")
    };
    assert_eq!(usize::try_from(hall("counter").await.calls), Ok(counts), "each call once");
    assert_eq!(answers.counted.iter().filter(|counted| **counted).count(), counts);
    let mut sold = HashMap::new();
    for number in 0..=(calls / 8 / SEATS) {
        let name = format!("hall {number}");
        for (seat, client) in hall(&name).await.sold {
            sold.insert(
                (json!(name).to_string(), seat),
                usize::try_from(client).expect("a client"),
            );
        }
    }
    assert_eq!(sold, answers.sold);
}

/// A process that calls for each client, from these calls on.
fn spawn(journal: &str, next: &[usize; CLIENTS], calls: usize) -> Child {
    let next: Vec<_> = next.iter().map(usize::to_string).collect();
    Command::new(env::current_exe().expect("this test"))
        .args(["--exact", TEST, "--nocapture"])
        .env(JOURNAL, journal)
        .env(NEXT, next.join(" "))
        .env(CALLS, calls.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts")
}

/// An executor that has the halls, with a node.
async fn start(journal: &str) -> Executor {
    let durable = opened(journal).await;
    let interface = Interface::new("test.halls:1.0".parse().expect("it is a name"));
    let executor = Executor::builder().service(interface, Halls, |functions| {
        let halls = durable.entity(functions, "hall");
        halls.on("count", Halls::count).on("sell", Halls::sell).reads("hall", Halls::hall);
    });
    let executor = executor.request_timeout(PATIENCE).build();
    let executor = executor.expect("it is complete");
    // it runs as long as the process
    std::mem::forget(durable.start(&executor).await.expect("the journal gives a lease"));
    executor
}

/// Makes the calls of all clients, and writes what each was answered.
async fn make_calls(journal: &str, next: Vec<usize>, calls: usize) {
    let executor = start(journal).await;
    let clients = next.into_iter().enumerate().map(|(client, next)| {
        let executor = executor.clone();
        async move {
            for number in next..calls {
                let (function, params) = call(client, number);
                let function = format!("test.halls:1.0:{function}");
                let (user, key) = (client.to_string(), number.to_string());
                let answer = keyed(&executor, &function, (&user, &key), params).await;
                let answer = answer.map_or_else(|code| code, |result| result.to_string());
                // one write for each line, so that a line is whole
                let line = format!("answered {client} {number} {answer}\n");
                io::stdout().write_all(line.as_bytes()).expect("it is read");
            }
        }
    });
    join_all(clients).await;
}
