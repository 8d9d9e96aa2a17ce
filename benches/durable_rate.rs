//! What a journal costs beside the disk that it needs.
//!
//! - Sequential: one flow that appends a record, waits for the answer, and appends the next, beside a
//!   program that writes a page and calls `fdatasync`, and beside bare rusqlite with a row per commit.
//! - Crowd: 256 flows that do so at the same time, beside bare rusqlite that writes as many rows per commit
//!   as the journal did, in one thread and without answers. Both are `synchronous=FULL`.
//! - Processor: the time that the process of such a crowd takes, on a file system in memory.
//! - Step: the same for steps of durable requests, which the executor carries out.
//! - By hand: what is the least that sequential appends, and the processor time of one, can take with an event loop that
//!   does not wait for the disk: a task asks a thread for a row, and the thread answers all that it has committed together.
//! - PostgreSQL: a flow of durable steps beside a transaction of one row by bare tokio-postgres, in a server of its
//!   own; left out where PostgreSQL is not installed. By hand: a row of a flow that is locked and looked at before.
//! - Relaxed: the crowd of durable steps without a flush for each, beside durare on SQLite at its own setting,
//!   in a process of its own (`benches/peers/durare`).
//! - Recovery: a hundred thousand requests that were in flight when their process died are ended by the next, beside a
//!   process to which the same are submitted.
//! - Databases: flows a second where nothing was ever analyzed, by slices, and beside a transaction that is held open; how
//!   late flows are while others are trimmed at the same rate.
//! - Backlog: calls one after the other on PostgreSQL, beside twenty thousand requests that wait and without them.

#[path = "support/bare_postgres.rs"]
mod bare_postgres;
#[path = "support/database.rs"]
mod database;
#[path = "support/folder.rs"]
mod folder;
#[path = "support/journal_flow.rs"]
mod journal_flow;
#[path = "support/late.rs"]
mod late;
#[path = "peers/mod.rs"]
mod peers;
mod support;

use std::env;
use std::fs::{self, File};
use std::iter;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use actix_rt::SystemRunner;
use asyncsteps_actors::clock;
use asyncsteps_counted_heap::Heap;
use asyncsteps_durable::{self as durable, Durable, Node};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps};
use asyncsteps_journal::postgres::{self, Postgres};
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::{FlowState, Query};
use asyncsteps_journal::sqlite::{Durability, Options, Sqlite};
use asyncsteps_journal::{Journal, Limits, Uid};
use asyncsteps_postgres::{Dial, SILENT_AFTER, split_url};
use asyncsteps_postgres_server::Server;
use bare_postgres::BarePostgres;
use folder::Folder;
use futures_util::future::join_all;
use journal_flow::Flow;
use peers::Peer;
use rusqlite::{Connection, params};
use support::Bench;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// Flows of the crowd.
const FLOWS: usize = 256;

/// Appends of each flow in one iteration.
const APPENDS: u32 = 4;

/// Appends of each flow whose processor time is measured.
const PROCESSOR_APPENDS: u64 = 200;

/// What a page of SQLite has.
const PAGE: usize = 4096;

/// Commits of one row before anything is measured: the log of SQLite has then its size and is written
/// again from its beginning. Before that each flush makes the file longer, which costs a second write.
const WARM: u64 = 1200;

/// How often all workloads are measured, in turn.
const ROUNDS: usize = 20;

/// Pages that `fdatasync` writes before it begins at the first again, as a log of SQLite does.
const PAGES: u64 = 1000;

#[global_allocator]
static HEAP: Heap = Heap;

fn main() {
    let folder = Folder::new(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let system = actix_rt::System::new();
    let mut bench = Bench::new("durable_rate");
    // a round has seconds of work in it
    bench.turns.1 = ROUNDS;
    sequential(&mut bench, &folder, &runtime, &system);
    crowd(&mut bench, &folder, &runtime, &system);
    let server = Server::start();
    if let Some(server) = &server {
        postgres(&mut bench, ("PostgreSQL", &server.url()), &system);
    }
    let mut secure = Server::start();
    if let Some(server) = &mut secure {
        server.serve_tls();
        let url =
            format!("postgres://journal@localhost:{}/postgres?sslmode=require", server.port());
        postgres(&mut bench, ("PostgreSQL with TLS", &url), &system);
    }
    relaxed(&mut bench, &folder, &system);
    if env::args().all(|arg| arg != "--test") {
        bench.count("processor time of a row, bare rusqlite", bare_micros(), "us", "");
        let micros = asked_micros(&runtime);
        bench.count("processor time of a row asked of a thread", micros, "us", "");
        let micros = processor_micros(&runtime);
        bench.count("processor time of an append", micros, "us", "at most 10");
        let micros = step_micros(&system);
        bench.count("processor time of a step", micros, "us", "at most 10");
        let (recovered, afresh) = recovery_seconds(&folder, &system);
        bench.count("recovery of 100,000 requests", recovered, "s", "at most 10");
        bench.count("the same submitted and run afresh", afresh, "s", "");
        bench.count("recovery : afresh", recovered / afresh, "", "at most 1.5");
        if let Some(server) = &server {
            let (beside, alone) = backlog_millis(server, &system);
            bench.count("longest of 99 % of calls alone", alone, "ms", "");
            bench.count("the same beside 20,000 requests", beside, "ms", "at most 200");
            bench.count("beside : alone", beside / alone, "", "");
        }
        database::rows(&mut bench, &folder, &system);
    }
    bench.finish();
}

fn sequential<'a>(
    bench: &mut Bench<'a>,
    folder: &Folder,
    runtime: &'a Runtime,
    system: &'a SystemRunner,
) {
    let file = File::create(folder.file("page")).expect("a file");
    for page in 0..PAGES {
        file.write_all_at(&[1; PAGE], page * PAGE as u64).expect("room");
    }
    file.sync_all().expect("a disk");
    let mut page = 0;
    let base = bench.add("sequential: a page and fdatasync", None, 1, "", move |iterations| {
        for _ in 0..iterations {
            page = (page + 1) % PAGES;
            file.write_all_at(&[2; PAGE], page * PAGE as u64).expect("room");
            file.sync_data().expect("a disk");
        }
    });
    let mut bare = Bare::open(&folder.file("bare-one"));
    (0..WARM).for_each(|_| bare.commit(1));
    bench.add("sequential: bare rusqlite", Some(base), 1, "", move |iterations| {
        (0..iterations).for_each(|_| bare.commit(1));
    });
    let asked = Asked::start(&folder.file("asked-one"));
    runtime.block_on(asked.rows(1, WARM));
    bench.add("sequential: row asked of a thread", Some(base), 1, "", move |iterations| {
        runtime.block_on(asked.rows(1, u64::from(iterations)));
    });
    let journal = open(&folder.file("sequential"));
    let mut flow = runtime.block_on(Flow::start(&journal));
    runtime.block_on(flow.append(&journal, WARM));
    bench.add("sequential: journal", Some(base), 1, "at most 1.15", move |iterations| {
        runtime.block_on(flow.append(&journal, u64::from(iterations)));
    });
    let process = Process::start(open(&folder.file("step")), system);
    (0..WARM / u64::from(LONG)).for_each(|_| system.block_on(process.orders(1, "long")));
    bench.add("sequential: durable step", Some(base), LONG, "at most 1.15", move |iterations| {
        for _ in 0..iterations {
            system.block_on(process.orders(1, "long"));
        }
    });
}

fn crowd<'a>(
    bench: &mut Bench<'a>,
    folder: &Folder,
    runtime: &'a Runtime,
    system: &'a SystemRunner,
) {
    let journal = open(&folder.file("crowd"));
    let mut flows = runtime.block_on(join_all((0..FLOWS).map(|_| Flow::start(&journal))));
    // what it does when it is warm
    runtime.block_on(append_all(&journal, &mut flows, u64::from(APPENDS)));
    let before = journal.totals();
    runtime.block_on(append_all(&journal, &mut flows, 5 * u64::from(APPENDS)));
    let after = journal.totals();
    let commits = (after.commits - before.commits).max(1);
    let rows = (after.requests - before.requests).div_ceil(commits);
    #[expect(clippy::cast_precision_loss, reason = "it is a few hundred")]
    bench.count("crowd: rows per commit", rows as f64, "rows", "");

    let appends = u32::try_from(FLOWS).unwrap_or(1) * APPENDS;
    let mut bare = Bare::open(&folder.file("bare-crowd"));
    let base = bench.add("crowd: bare rusqlite", None, appends, "", move |iterations| {
        let mut left = u64::from(iterations * appends);
        while left > 0 {
            let group = left.min(rows);
            bare.commit(group);
            left -= group;
        }
    });
    bench.add("crowd: journal", Some(base), appends, "at most 1.25", move |iterations| {
        let appends = u64::from(iterations * APPENDS);
        runtime.block_on(append_all(&journal, &mut flows, appends));
    });
    let process = Process::start(open(&folder.file("steps")), system);
    system.block_on(process.orders(FLOWS, "order"));
    let steps = u32::try_from(FLOWS).unwrap_or(1) * STEPS;
    bench.add("crowd: durable steps", Some(base), steps, "at most 1.25", move |iterations| {
        for _ in 0..iterations {
            system.block_on(process.orders(FLOWS, "order"));
        }
    });
}

/// One flow of durable steps with its journal in PostgreSQL, at a URL.
fn postgres<'a>(bench: &mut Bench<'a>, (label, url): (&str, &str), system: &'a SystemRunner) {
    let (url, libpq) = split_url(url);
    let config: postgres::Config = url.parse().expect("a URL");
    let dial = Dial::new(config.clone(), libpq.clone(), &[], SILENT_AFTER);
    let open = |table| {
        system.block_on(async {
            let (client, connection) = dial.connect().await.expect("a server");
            actix_rt::spawn(connection);
            BarePostgres::open(client, table).await
        })
    };
    let mut bare = open("bare");
    let row = |of: &str| format!("{label}: {of}");
    let base = bench.add(row("bare tokio-postgres"), None, 1, "", move |iterations| {
        system.block_on(async {
            for _ in 0..iterations {
                bare.commit().await;
            }
        });
    });
    let mut by_hand = open("by_hand");
    bench.add(row("row of a flow by hand"), Some(base), 1, "", move |iterations| {
        system.block_on(async {
            for _ in 0..iterations {
                by_hand.append().await;
            }
        });
    });
    let options = postgres::Options { libpq, ..postgres::Options::new("bench") };
    let journal = system.block_on(Postgres::connect(config, options)).expect("a journal");
    let process = Process::start(journal, system);
    system.block_on(process.orders(1, "long"));
    bench.add(row("durable step"), Some(base), LONG, "at most 1.6", move |iterations| {
        for _ in 0..iterations {
            system.block_on(process.orders(1, "long"));
        }
    });
}

/// The crowd with journals that survive a kill, and not a loss of power.
fn relaxed<'a>(bench: &mut Bench<'a>, folder: &Folder, system: &'a SystemRunner) {
    let steps = u32::try_from(FLOWS).unwrap_or(1) * STEPS;
    let peer = Peer::start(
        "durare",
        &[&folder.file("durare").to_string_lossy(), &FLOWS.to_string(), &STEPS.to_string()],
    );
    let base = peer.map(|mut peer| {
        bench.add("relaxed crowd: durare", None, steps, "", move |iterations| {
            (0..iterations).for_each(|_| peer.round());
        })
    });
    let process = Process::start(open_relaxed(&folder.file("relaxed")), system);
    system.block_on(process.orders(FLOWS, "order"));
    bench.add("relaxed crowd: durable steps", base, steps, "at most 0.5", move |iterations| {
        for _ in 0..iterations {
            system.block_on(process.orders(FLOWS, "order"));
        }
    });
}

/// How long a new process takes to end what one that died had in flight, oldest first, and how long one takes to which
/// the same is submitted.
fn recovery_seconds(folder: &Folder, system: &SystemRunner) -> (f64, f64) {
    let file = folder.file("recovery");
    // a process that has no node dies with all of them
    let uid = {
        let durable = Durable::new(open_relaxed(&file));
        let _executor = executor(&durable);
        system.block_on(submit_all(&durable, RECOVERED, "short"))
    };
    let begun = clock::now();
    let process = Process::start(open_relaxed(&file), system);
    system.block_on(process.all_ended(uid));
    let recovered = clock::now().saturating_since(begun).as_secs_f64();
    drop(process);
    let process = Process::start(open_relaxed(&folder.file("afresh")), system);
    let begun = clock::now();
    system.block_on(async {
        process.all_ended(submit_all(&process.durable, RECOVERED, "short").await).await;
    });
    (recovered, clock::now().saturating_since(begun).as_secs_f64())
}

/// How long calls on PostgreSQL take at the most, but for one of a hundred: beside a backlog, and alone.
fn backlog_millis(server: &Server, system: &SystemRunner) -> (f64, f64) {
    const BACKLOG: usize = 20_000;
    const CALLS: usize = 200;
    let open = |schema: &str| {
        let options =
            postgres::Options { schema: schema.to_owned(), ..postgres::Options::new("bench") };
        system.block_on(Postgres::connect(server.config(), options)).expect("a journal")
    };
    let longest = |schema| {
        let process = Process::start(open(schema), system);
        let mut millis: Vec<f64> = (0..CALLS)
            .map(|_| {
                let begun = clock::now();
                system.block_on(process.orders(1, "short"));
                clock::now().saturating_since(begun).as_secs_f64() * 1000.0
            })
            .collect();
        millis.sort_by(f64::total_cmp);
        millis[CALLS * 99 / 100 - 1]
    };
    {
        let durable = Durable::new(open("backlog"));
        let _executor = executor(&durable);
        system.block_on(submit_all(&durable, BACKLOG, "order"));
    }
    (longest("backlog"), longest("alone"))
}

/// How many requests are recovered.
const RECOVERED: usize = 100_000;

/// Submits requests of a function, a thousand at once; returns the last one.
async fn submit_all(durable: &Durable, requests: usize, function: &str) -> Uid {
    let user = User::new("bench", SecurityLevel::System);
    let mut last = None;
    for _ in 0..requests / 1000 {
        let submit = |_| {
            let options = durable::Options::default().caller(&user);
            let function = format!("bench.shop:1.0:{function}");
            async move { durable.submit(&function, (), options).await }
        };
        let uids = join_all((0..1000).map(submit)).await;
        last = uids.into_iter().map(|uid| uid.expect("a request")).next_back();
    }
    last.expect("there are some")
}

/// Steps of each durable request of the crowd.
const STEPS: u32 = 16;

/// Steps of each request of a single flow, and of each that is recovered.
const LONG: u32 = 100;
const SHORT: u32 = 2;

/// A process with durable functions.
struct Process {
    durable: Durable,
    /// It is there as long as its requests run.
    _executor: Executor,
    _node: Node,
}

struct Shop;

impl Service for Shop {
    type Errors = ();
}

/// A function of `COUNT` steps.
fn order<const COUNT: u32>(steps: &Steps<Shop, ()>) -> Returns<()> {
    let first = steps.run("step", async |_, ()| Ok("a receipt".to_owned())).recorded().erased();
    let all = (1..COUNT).fold(first, |before, _| {
        before.then("step", async |_, _| Ok("a receipt".to_owned())).recorded().erased()
    });
    all.then("end", async |_, _| Ok(())).repeatable().returns()
}

fn executor(durable: &Durable) -> Executor {
    let interface = Interface::new("bench.shop:1.0".parse().expect("a name"));
    let builder = Executor::builder().service(interface, Shop, |functions| {
        durable.on(functions, "order", order::<STEPS>);
        durable.on(functions, "long", order::<LONG>);
        durable.on(functions, "short", order::<SHORT>);
    });
    builder.build().expect("an executor")
}

impl Process {
    fn start(journal: impl Journal, system: &SystemRunner) -> Self {
        let durable = Durable::new(journal);
        let executor = executor(&durable);
        let node = system.block_on(durable.start(&executor)).expect("a node");
        Self { durable, _executor: executor, _node: node }
    }

    /// Waits until all requests have ended, of which this one was submitted last.
    async fn all_ended(&self, last: Uid) {
        self.durable.ended(last).await.expect("the journal");
        let query = |state| Query { state: Some(state), limit: 1, ..Query::default() };
        for state in [FlowState::New, FlowState::Ready, FlowState::Running] {
            while !self.durable.list(query(state)).await.expect("the journal").is_empty() {
                actix_rt::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    /// So many requests of a function at the same time.
    async fn orders(&self, count: usize, function: &str) {
        let function = format!("bench.shop:1.0:{function}");
        let user = User::new("bench", SecurityLevel::System);
        let order = async |_| {
            let options = durable::Options::default().caller(&user);
            let uid = self.durable.submit(&function, (), options).await;
            self.durable.ended(uid.expect("a request")).await.expect("the journal")
        };
        for ended in join_all((0..count).map(order)).await {
            assert!(matches!(ended, Ending::Completed(_)), "{ended:?}");
        }
    }
}

/// A folder on a file system in memory, if there is one.
fn in_memory() -> Folder {
    let memory = Path::new("/dev/shm");
    Folder::new(if memory.is_dir() { memory } else { Path::new("/tmp") })
}

/// The processor time of a row that bare rusqlite writes, with a row of each flow in a commit: what an append takes at
/// least.
fn bare_micros() -> f64 {
    const COMMITS: usize = 200;
    let folder = in_memory();
    let mut bare = Bare::open(&folder.file("bare"));
    (0..COMMITS / 10).for_each(|_| bare.commit(FLOWS as u64));
    let before = processor_ticks();
    (0..COMMITS).for_each(|_| bare.commit(FLOWS as u64));
    let ticks = processor_ticks() - before;
    // as for appends
    #[expect(clippy::cast_precision_loss, reason = "these are small numbers")]
    let micros = ticks as f64 * 10_000.0 / (COMMITS * FLOWS) as f64;
    micros
}

/// The same for rows that tasks ask a thread for.
fn asked_micros(runtime: &Runtime) -> f64 {
    let folder = in_memory();
    let asked = Asked::start(&folder.file("asked"));
    runtime.block_on(asked.rows(FLOWS, 20));
    let before = processor_ticks();
    runtime.block_on(asked.rows(FLOWS, PROCESSOR_APPENDS));
    let ticks = processor_ticks() - before;
    // as for appends
    #[expect(clippy::cast_precision_loss, reason = "these are small numbers")]
    let micros = ticks as f64 * 10_000.0 / (PROCESSOR_APPENDS as f64 * FLOWS as f64);
    micros
}

/// The processor time of a durable step, on a file system in memory.
fn step_micros(system: &SystemRunner) -> f64 {
    const ORDERS: usize = 20;
    let folder = in_memory();
    let process = Process::start(open(&folder.file("steps")), system);
    system.block_on(process.orders(FLOWS, "order"));
    let before = processor_ticks();
    for _ in 0..ORDERS {
        system.block_on(process.orders(FLOWS, "order"));
    }
    let ticks = processor_ticks() - before;
    // as for appends
    #[expect(clippy::cast_precision_loss, reason = "these are small numbers")]
    let micros = ticks as f64 * 10_000.0 / ((ORDERS * FLOWS) as f64 * f64::from(STEPS));
    micros
}

fn processor_micros(runtime: &Runtime) -> f64 {
    let folder = in_memory();
    let journal = open(&folder.file("processor"));
    let mut flows = runtime.block_on(join_all((0..FLOWS).map(|_| Flow::start(&journal))));
    runtime.block_on(append_all(&journal, &mut flows, 20));
    let before = processor_ticks();
    runtime.block_on(append_all(&journal, &mut flows, PROCESSOR_APPENDS));
    let ticks = processor_ticks() - before;
    // a tick of Linux is a hundredth of a second, on every machine that it shows this to
    #[expect(clippy::cast_precision_loss, reason = "these are small numbers")]
    let micros = ticks as f64 * 10_000.0 / (PROCESSOR_APPENDS as f64 * FLOWS as f64);
    micros
}

/// The processor time of this process, in ticks.
fn processor_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    // after the name, which may have spaces: user time and system time are numbers 12 and 13
    let numbers = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    numbers.skip(11).take(2).filter_map(|number| number.parse::<u64>().ok()).sum()
}

fn open(file: &Path) -> Sqlite {
    let limits = Limits { records: u64::MAX, ..Limits::default() };
    Sqlite::open(file, Options { limits, ..Options::new("bench") }).expect("a journal")
}

fn open_relaxed(file: &Path) -> Sqlite {
    let options = Options { durability: Durability::Relaxed, ..Options::new("bench") };
    Sqlite::open(file, options).expect("a journal")
}

async fn append_all(journal: &Sqlite, flows: &mut [Flow], count: u64) {
    join_all(flows.iter_mut().map(|flow| flow.append(journal, count))).await;
}

/// A table of records without a journal.
struct Bare {
    db: Connection,
    next: i64,
}

impl Bare {
    fn open(file: &Path) -> Self {
        let db = Connection::open(file).expect("a database");
        db.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
             CREATE TABLE record (flow INTEGER, epoch INTEGER, sequence INTEGER, path TEXT, \
             kind INTEGER, program INTEGER, body BLOB, PRIMARY KEY (flow, epoch, sequence)) \
             WITHOUT ROWID;",
        )
        .expect("a table");
        Self { db, next: 0 }
    }

    fn commit(&mut self, rows: u64) {
        let change = self.db.transaction().expect("a transaction");
        {
            let sql = "INSERT INTO record VALUES (?1, 1, ?2, ?3, 3, 1, ?4)";
            let mut insert = change.prepare_cached(sql).expect("a statement");
            for _ in 0..rows {
                self.next += 1;
                let flow = self.next % i64::try_from(FLOWS).unwrap_or(1);
                let path = format!("demo.shop:order/items#{}", self.next);
                insert.execute(params![flow, self.next, path, [7_u8; 30]]).expect("a row");
            }
        }
        change.commit().expect("a commit");
    }
}

/// The same in a thread, which is asked for rows. It ends with this.
struct Asked(mpsc::Sender<oneshot::Sender<()>>);

impl Asked {
    fn start(file: &Path) -> Self {
        let mut bare = Bare::open(file);
        let (asked, todo) = mpsc::channel::<oneshot::Sender<()>>();
        thread::spawn(move || {
            while let Ok(first) = todo.recv() {
                let group: Vec<_> = iter::once(first).chain(todo.try_iter()).collect();
                bare.commit(group.len() as u64);
                // an asker may have left
                group.into_iter().for_each(|asker| _ = asker.send(()));
            }
        });
        Self(asked)
    }

    /// So many tasks ask for so many rows each, one after the other.
    async fn rows(&self, tasks: usize, rows: u64) {
        let ask = async |_| {
            for _ in 0..rows {
                let (asker, answer) = oneshot::channel();
                self.0.send(asker).expect("the thread runs");
                answer.await.expect("it is committed");
            }
        };
        join_all((0..tasks).map(ask)).await;
    }
}
