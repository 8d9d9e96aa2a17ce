//! What a call of an entity costs beside a row that is locked by hand, in the same database.
//!
//! - Hot: 64 callers of one key. Each call reads the state, changes it, and is answered when that is stored. By hand: in
//!   PostgreSQL a transaction of `SELECT .. FOR UPDATE` and `UPDATE` on a connection of each caller's own, on a table of
//!   one row; in SQLite (`synchronous=FULL`) `BEGIN IMMEDIATE`, the same two and `COMMIT`, on one connection, as there is
//!   one writer.
//! - Many: 256 callers, whose calls are of 10,000 keys in turn, beside appends of as many flows to the bare journal. Each
//!   caller, and each flow, goes on when it is answered.
//! - Idle: what an entity that nobody calls takes of the memory of its node.
//! - A read of a state that is in memory, beside a function that returns a constant.
//! - Takeover: 10,000 entities of a process that died are called by the next one, in the same file or database.
//!
//! All of it has its memory from mimalloc, as the demo has: with the allocator of glibc many keys take 1.3 to 1.5 of bare
//! appends, and an idle entity 1.3 kB, because freed memory is in pieces.

#[path = "support/folder.rs"]
mod folder;
#[path = "support/journal_flow.rs"]
mod journal_flow;
#[path = "support/memory.rs"]
mod memory;
mod support;

use std::cell::Cell;
use std::env;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use actix_rt::SystemRunner;
use asyncsteps_actors::clock;
use asyncsteps_core::BodyResult;
use asyncsteps_counted_heap::Heap;
use asyncsteps_durable::entity::{Entity, EntityCx as _};
use asyncsteps_durable::{Durable, Node};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Service};
use asyncsteps_journal::postgres::{self, Postgres};
use asyncsteps_journal::sqlite::{Options, Sqlite};
use asyncsteps_journal::{Journal, Limits};
use asyncsteps_postgres_server::Server;
use folder::Folder;
use futures_util::future::join_all;
use journal_flow::Flow;
use memory::resident_bytes;
use rusqlite::Connection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use support::Bench;
use tokio_postgres::{Client, NoTls, Statement};

/// Callers of the hot key.
const CALLERS: usize = 64;

/// Calls of a caller in one iteration.
const CALLS: usize = 4;

/// Calls of many keys at the same time, and how many keys there are.
const AT_ONCE: usize = 256;
const KEYS: usize = 10_000;

/// How long an entity that is not called has to wait until it rests: a node looks every second for those, and lets go of
/// its writer when that has ended.
const RESTS: Duration = Duration::from_millis(4500);

/// How often all workloads are measured, in turn: a round has seconds of work in it.
const ROUNDS: usize = 20;

#[global_allocator]
static HEAP: Heap = Heap;

fn main() {
    let folder = Folder::new(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let system = actix_rt::System::new();
    let mut bench = Bench::new("entity_rate");
    bench.turns.1 = ROUNDS;
    let server = Server::start();
    // before the others, whose entities would be given back meanwhile
    if env::args().all(|arg| arg != "--test") {
        let seconds = takeover_in_file(&folder, &system);
        bench.count("SQLite, takeover: 10,000 first calls", seconds, "s", "at most 20");
        if let Some(server) = &server {
            let seconds = takeover_on_server(server, &system);
            bench.count("PostgreSQL, takeover: 10,000 first calls", seconds, "s", "at most 20");
        }
        let bytes = idle_bytes(&folder, &system);
        bench.count("an idle entity beside its state", bytes, "bytes", "at most 1,024");
    }
    if let Some(server) = &server {
        hot_on_server(&mut bench, server, &system);
    }
    hot_in_file(&mut bench, &folder, &system);
    many(&mut bench, &folder, &system);
    reads(&mut bench, &folder, &system);
    bench.finish();
}

/// Callers whose calls of one key take turns, and as many whose transactions do.
fn hot_on_server<'a>(bench: &mut Bench<'a>, server: &Server, system: &'a SystemRunner) {
    let calls = u32::try_from(CALLERS * CALLS).unwrap_or(1);
    let mut rows = system.block_on(join_all((0..CALLERS).map(|_| Row::open(server))));
    system.block_on(rows[0].create());
    system.block_on(join_all(rows.iter_mut().map(Row::prepare)));
    let base = bench.add("PostgreSQL, hot: row lock by hand", None, calls, "", move |iterations| {
        for _ in 0..iterations {
            system.block_on(join_all(rows.iter_mut().map(async |row| {
                for _ in 0..CALLS {
                    row.add().await;
                }
            })));
        }
    });
    let process = Process::start(connect(server, system), system);
    system.block_on(process.hot());
    bench.add("PostgreSQL, hot: entity", Some(base), calls, "at most 0.2", move |iterations| {
        for _ in 0..iterations {
            system.block_on(process.hot());
        }
    });
}

fn hot_in_file<'a>(bench: &mut Bench<'a>, folder: &Folder, system: &'a SystemRunner) {
    let calls = u32::try_from(CALLERS * CALLS).unwrap_or(1);
    let mut row = FileRow::open(&folder.file("row"));
    let base = bench.add("SQLite, hot: row lock by hand", None, calls, "", move |iterations| {
        (0..iterations * calls).for_each(|_| row.add());
    });
    let process = Process::start(open(&folder.file("hot")), system);
    system.block_on(process.hot());
    bench.add("SQLite, hot: entity", Some(base), calls, "at most 0.2", move |iterations| {
        for _ in 0..iterations {
            system.block_on(process.hot());
        }
    });
}

fn many<'a>(bench: &mut Bench<'a>, folder: &Folder, system: &'a SystemRunner) {
    let calls = u32::try_from(AT_ONCE * CALLS).unwrap_or(1);
    let limits = Limits { records: u64::MAX, ..Limits::default() };
    let options = Options { limits, ..Options::new("bench") };
    let journal = Sqlite::open(folder.file("appends"), options).expect("a journal");
    let mut flows = system.block_on(join_all((0..AT_ONCE).map(|_| Flow::start(&journal))));
    let base = bench.add("SQLite, many: bare appends", None, calls, "", move |iterations| {
        for _ in 0..iterations {
            system.block_on(join_all(flows.iter_mut().map(async |flow| {
                for _ in 0..CALLS {
                    flow.append(&journal, 1).await;
                }
            })));
        }
    });
    let process = Process::start(open(&folder.file("many")), system);
    // each key is known, and its entity in memory
    process.of_all(system);
    let next = Cell::new(0);
    let calls_of_keys = move || {
        let caller = async |_| {
            for _ in 0..CALLS {
                let key = next.get();
                next.set((key + 1) % KEYS);
                process.call("add", &key.to_string()).await;
            }
        };
        system.block_on(join_all((0..AT_ONCE).map(caller)));
    };
    bench.add(
        "SQLite, many: 10,000 entities",
        Some(base),
        calls,
        "at most 1.3",
        move |iterations| {
            (0..iterations).for_each(|_| calls_of_keys());
        },
    );
}

fn reads<'a>(bench: &mut Bench<'a>, folder: &Folder, system: &'a SystemRunner) {
    let process = Process::start(open(&folder.file("reads")), system);
    system.block_on(process.call("add", "hot"));
    let executor = process.executor.clone();
    let base = bench.add("read: a function without state", None, 1, "", move |iterations| {
        for _ in 0..iterations {
            system.block_on(async {
                let params = Of { key: "hot".to_owned() };
                let call = executor.call_as_system::<i32>("bench.other:1.0:constant", params);
                call.await.expect("a constant")
            });
        }
    });
    bench.add("read: of an entity in memory", Some(base), 1, "", move |iterations| {
        for _ in 0..iterations {
            system.block_on(process.call("sum", "hot"));
        }
    });
}

/// How long the next process takes until it has called each entity of one that died, with its lease of ten seconds.
fn takeover_in_file(folder: &Folder, system: &SystemRunner) -> f64 {
    let file = folder.file("takeover");
    Process::start(open(&file), system).of_all(system);
    let begun = clock::now();
    let journal = system.block_on(async {
        // the tasks of the one before let go of the file
        loop {
            match Sqlite::open(&file, Options::new("bench")) {
                Ok(journal) => break journal,
                Err(_) => actix_rt::time::sleep(Duration::from_millis(10)).await,
            }
        }
    });
    Process::start(journal, system).of_all(system);
    clock::now().saturating_since(begun).as_secs_f64()
}

fn takeover_on_server(server: &Server, system: &SystemRunner) -> f64 {
    Process::start(connect(server, system), system).of_all(system);
    let begun = clock::now();
    Process::start(connect(server, system), system).of_all(system);
    clock::now().saturating_since(begun).as_secs_f64()
}

/// The memory of an entity that rests, by the memory of this process. What the calls themselves took is free by then, and
/// serves those of the next entities; the cache of the journal is full before.
fn idle_bytes(folder: &Folder, system: &SystemRunner) -> f64 {
    let process = Process::start(open(&folder.file("idle")), system);
    let call_and_rest = |keys: Range<usize>| {
        for first in keys.clone().step_by(AT_ONCE) {
            system.block_on(process.of_keys(first..(first + AT_ONCE).min(keys.end)));
        }
        system.block_on(async { actix_rt::time::sleep(RESTS).await });
    };
    (0..2).for_each(|part| call_and_rest(part * KEYS..(part + 1) * KEYS));
    let before = resident_bytes();
    // of more than 50,000 a node gives some back
    (2..5).for_each(|part| call_and_rest(part * KEYS..(part + 1) * KEYS));
    (resident_bytes() - before) / (3 * KEYS) as f64
}

fn connect(server: &Server, system: &SystemRunner) -> Postgres {
    let connected = Postgres::connect(server.config(), postgres::Options::new("bench"));
    system.block_on(connected).expect("a journal")
}

fn open(file: &Path) -> Sqlite {
    Sqlite::open(file, Options::new("bench")).expect("a journal")
}

/// Counters by key.
struct Counters;

impl Service for Counters {
    type Errors = ();
}

impl Entity for Counters {
    type State = i32;
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Of {
    key: String,
}

async fn add(cx: &Cx<Counters, Of>) -> BodyResult<i32> {
    Ok(cx.entity().change(|sum| {
        *sum += 1;
        *sum
    })?)
}

async fn sum(cx: &Cx<Counters, Of>) -> BodyResult<i32> {
    Ok(*cx.entity().get())
}

async fn constant(_: &Cx<(), Of>) -> BodyResult<i32> {
    Ok(7)
}

/// A process with counters.
struct Process {
    executor: Executor,
    _node: Node,
}

impl Process {
    fn start(journal: impl Journal, system: &SystemRunner) -> Self {
        let durable = Durable::new(journal);
        let counters = Interface::new("bench.counters:1.0".parse().expect("a name"));
        let other = Interface::new("bench.other:1.0".parse().expect("a name"));
        let executor = Executor::builder()
            .service(counters, Counters, |functions| {
                durable.entity(functions, "key").on("add", add).reads("sum", sum);
            })
            .service(other, (), |functions| {
                functions.on("constant", constant);
            })
            .request_timeout(Duration::from_secs(60))
            .build()
            .expect("an executor");
        let node = system.block_on(durable.start(&executor)).expect("a node");
        Self { executor, _node: node }
    }

    async fn call(&self, function: &str, key: &str) -> i32 {
        let function = format!("bench.counters:1.0:{function}");
        let call = self.executor.call_as_system(&function, Of { key: key.to_owned() });
        call.await.expect("it is answered")
    }

    /// The callers of one key.
    async fn hot(&self) {
        let caller = async |_| {
            for _ in 0..CALLS {
                self.call("add", "hot").await;
            }
        };
        join_all((0..CALLERS).map(caller)).await;
    }

    /// A call of each key.
    fn of_all(&self, system: &SystemRunner) {
        for first in (0..KEYS).step_by(AT_ONCE) {
            system.block_on(self.of_keys(first..(first + AT_ONCE).min(KEYS)));
        }
    }

    /// A call of each of these keys.
    async fn of_keys(&self, keys: Range<usize>) {
        join_all(keys.map(async |key| self.call("add", &key.to_string()).await)).await;
    }
}

/// A row of PostgreSQL that is locked by hand.
struct Row {
    db: Client,
    statements: Option<(Statement, Statement)>,
}

impl Row {
    async fn open(server: &Server) -> Self {
        let (db, connection) = server.config().connect(NoTls).await.expect("a server");
        actix_rt::spawn(connection);
        Self { db, statements: None }
    }

    async fn create(&self) {
        let table = "CREATE TABLE counter (key TEXT PRIMARY KEY, sum BIGINT); \
                     INSERT INTO counter VALUES ('hot', 0)";
        self.db.batch_execute(table).await.expect("a table");
    }

    async fn prepare(&mut self) {
        let read = self.db.prepare("SELECT sum FROM counter WHERE key = 'hot' FOR UPDATE").await;
        let write = self.db.prepare("UPDATE counter SET sum = $1 WHERE key = 'hot'").await;
        self.statements = Some((read.expect("a statement"), write.expect("a statement")));
    }

    async fn add(&mut self) {
        let (read, write) = self.statements.as_ref().expect("they are prepared");
        let change = self.db.transaction().await.expect("a transaction");
        let sum: i64 = change.query_one(read, &[]).await.expect("a row").get(0);
        change.execute(write, &[&(sum + 1)]).await.expect("it is written");
        change.commit().await.expect("a commit");
    }
}

/// A row of SQLite that is locked by hand.
struct FileRow(Connection);

impl FileRow {
    fn open(file: &Path) -> Self {
        let db = Connection::open(file).expect("a database");
        db.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
             CREATE TABLE counter (key TEXT PRIMARY KEY, sum INTEGER) WITHOUT ROWID; \
             INSERT INTO counter VALUES ('hot', 0)",
        )
        .expect("a table");
        Self(db)
    }

    fn add(&mut self) {
        let behavior = rusqlite::TransactionBehavior::Immediate;
        let change = self.0.transaction_with_behavior(behavior).expect("a transaction");
        {
            let read = "SELECT sum FROM counter WHERE key = 'hot'";
            let mut read = change.prepare_cached(read).expect("a statement");
            let sum: i64 = read.query_row([], |row| row.get(0)).expect("a row");
            let write = "UPDATE counter SET sum = ?1 WHERE key = 'hot'";
            change.prepare_cached(write).expect("a statement").execute([sum + 1]).expect("a row");
        }
        change.commit().expect("a commit");
    }
}
