//! What a journal costs where its database is as companies have it: never analyzed, beside a transaction that is held open,
//! and while what has ended is trimmed.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use actix_rt::SystemRunner;
use asyncsteps_actors::clock;
use asyncsteps_journal::Journal;
use asyncsteps_journal::postgres::{Options, Postgres};
use asyncsteps_postgres_server::Server;
use futures_util::future::join_all;
use tokio_postgres::{Client, NoTls};

use super::late::p99;
use super::support::Bench;
use super::{Folder, Process, open};

/// Clients that call at the same time.
const CLIENTS: usize = 64;

/// Requests of each client in a slice, and slices.
const SLICE: (usize, usize) = (8, 10);

/// How long requests run without a trim, and are kept after that.
const KEPT: Duration = Duration::from_secs(5);

/// How long they run while others are trimmed.
const TRIMMED: Duration = Duration::from_secs(10);

pub(crate) fn rows(bench: &mut Bench<'_>, folder: &Folder, system: &SystemRunner) {
    let late = trimmed(open(&folder.file("trimmed")), system);
    bench.count("SQLite: p99 of a flow while others are trimmed", late.0, "ms", "");
    bench.count("SQLite: trimmed : not", late.0 / late.1, "", "at most 1.3");
    let Some(server) = Server::start() else { return };
    let client = system.block_on(connect(&server));
    system.block_on(async {
        client.batch_execute("ALTER SYSTEM SET autovacuum = off").await.expect("it may do so");
        client.batch_execute("SELECT pg_reload_conf()").await.expect("it may do so");
    });
    let process = Process::start(journal(&server, "fresh", system), system);
    let rates: Vec<f64> = (0..SLICE.1).map(|_| rate(&process, system)).collect();
    let (first, last) = (rates[0], rates[SLICE.1 - 1]);
    bench.count("PostgreSQL: fresh, autovacuum off: last of ten slices", last, "flows/s", "");
    bench.count("PostgreSQL: last slice : first", last / first, "", "at least 0.9");
    let held = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM fresh.node";
    system.block_on(client.batch_execute(held)).expect("a transaction");
    let held = (0..SLICE.1).map(|_| rate(&process, system)).last().unwrap_or_default();
    bench.count("PostgreSQL: beside a transaction held open : before", held / last, "", "");
    system.block_on(client.batch_execute("COMMIT")).expect("it ends");
    let late = trimmed(journal(&server, "trimmed", system), system);
    bench.count("PostgreSQL: p99 of a flow while others are trimmed", late.0, "ms", "");
    bench.count("PostgreSQL: trimmed : not", late.0 / late.1, "", "at most 1.3");
}

async fn connect(server: &Server) -> Client {
    let (client, connection) = server.config().connect(NoTls).await.expect("a server");
    actix_rt::spawn(connection);
    client
}

fn journal(server: &Server, schema: &str, system: &SystemRunner) -> Postgres {
    let options = Options { schema: schema.to_owned(), ..Options::new("bench") };
    system.block_on(Postgres::connect(server.config(), options)).expect("a journal")
}

/// Flows a second in a slice.
#[expect(clippy::cast_precision_loss, reason = "it is a few hundred")]
fn rate(process: &Process, system: &SystemRunner) -> f64 {
    let begun = clock::now();
    system.block_on(join_all((0..CLIENTS).map(async |_| {
        for _ in 0..SLICE.0 {
            process.orders(1, "order").await;
        }
    })));
    (CLIENTS * SLICE.0) as f64 / clock::now().saturating_since(begun).as_secs_f64()
}

/// How long flows take, but for one of a hundred, in milliseconds: while others are trimmed as fast as they end, and not.
fn trimmed(journal: impl Journal, system: &SystemRunner) -> (f64, f64) {
    let process = Process::start(journal, system);
    let late = async |length| {
        let (times, end) = (RefCell::new(Vec::new()), clock::now() + length);
        join_all((0..CLIENTS).map(async |_| {
            while clock::now() < end {
                let begun = clock::now();
                process.orders(1, "short").await;
                times.borrow_mut().push(clock::now().saturating_since(begun));
            }
        }))
        .await;
        p99(times.into_inner()).as_secs_f64() * 1000.0
    };
    let alone = system.block_on(late(KEPT));
    let is_over = Cell::new(false);
    let trim = async {
        while !is_over.get() {
            while process.durable.trim(KEPT).await.expect("the journal") > 0 {}
            actix_rt::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let beside = async {
        let late = late(TRIMMED).await;
        is_over.set(true);
        late
    };
    let (beside, ()) = system.block_on(futures_util::future::join(beside, trim));
    (beside, alone)
}
