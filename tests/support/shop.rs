//! The demo shop, in process or as a program, and the books in its database.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, process, thread};

use asyncsteps_executor::Closed;
use executor_demo::Config;
use executor_demo::node::NodeOptions;
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::PATIENCE;
use crate::server::{Stoppable, memory_of};

/// A shop that a test started; it stops when it is dropped.
#[derive(Debug)]
pub struct Shop {
    /// Where it listens.
    pub address: SocketAddr,
    thread: Option<Stoppable<anyhow::Result<Closed>>>,
}

impl Shop {
    /// Runs the whole demo on a database.
    #[must_use]
    pub fn start(data: &Data) -> Self {
        Self::serve(config(data))
    }

    /// Runs the demo as it is told to.
    #[must_use]
    pub fn serve(config: Config) -> Self {
        let listener = TcpListener::bind(config.listen).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let thread = Stoppable::start(move |stopped| {
            executor_demo::run(listener, config, async {
                // dropped with the test's handle, or told by it
                let _ = stopped.await;
            })
        });
        Self { address, thread: Some(thread) }
    }

    /// Stops it gracefully and gives what became of the requests in flight.
    #[must_use]
    pub fn stop(mut self) -> Closed {
        let thread = self.thread.take().expect("it was not stopped");
        thread.stop().expect("no panic").expect("no error")
    }
}

impl Drop for Shop {
    #[expect(clippy::print_stderr, reason = "it is why the test has failed")]
    fn drop(&mut self) {
        let ended = self.thread.take().map(Stoppable::stop);
        if let Some(Ok(Err(error))) = &ended {
            eprintln!("the server has ended: {error:#}");
        }
        assert!(thread::panicking() || !matches!(ended, Some(Err(_))), "the server panicked");
    }
}

/// The configuration of tests: any port, two workers.
#[must_use]
pub fn config(data: &Data) -> Config {
    Config {
        console_token: None,
        no_console: false,
        listen: ([127, 0, 0, 1], 0).into(),
        data: data.file(),
        journal: None,
        waiting_per_caller: 1_000,
        node: NodeOptions::default(),
        tls_cert: None,
        tls_key: None,
        cors: Vec::new(),
        host: Vec::new(),
        user: Vec::new(),
        workers: NonZeroUsize::MIN.saturating_add(1),
        without_bank: false,
        bank_credit: None,
        bank_latency: 0,
        bank_failures: 0,
        bank_seed: 0,
        log: None,
        otlp: None,
        trace_share: 1.0,
        keep: 256,
        timeout: 60,
        head_timeout: 60,
        memory: 256,
        connections: 25_000,
        keep_alive: 60,
        drain_delay: 0,
        grace: 10,
    }
}

/// The program itself; it is killed when it is dropped.
#[derive(Debug)]
pub struct Program {
    /// Where it listens.
    pub address: SocketAddr,
    child: Child,
}

impl Program {
    /// Starts the binary at `path` on a database and waits until it listens.
    #[must_use]
    pub fn start(path: impl AsRef<Path>, data: &Data) -> Self {
        Self::start_with(path, data, &[])
    }

    /// The same with more arguments.
    #[must_use]
    pub fn start_with(path: impl AsRef<Path>, data: &Data, arguments: &[&str]) -> Self {
        Self::start_as(path, data, |command| command.args(arguments).env("RUST_LOG", "error"))
    }

    /// The same with the log as a test wants it.
    #[must_use]
    pub fn start_logging(
        path: impl AsRef<Path>,
        data: &Data,
        arguments: &[&str],
        filter: &str,
        log: impl Into<Stdio>,
    ) -> Self {
        Self::start_as(path, data, |command| {
            command.args(arguments).env("RUST_LOG", filter).stderr(log)
        })
    }

    /// Starts another server, such as `asyncsteps-conform`, and waits until it listens.
    #[must_use]
    pub fn serve(path: impl AsRef<Path>, arguments: &[&str], log: impl Into<Stdio>) -> Self {
        let mut command = Command::new(path.as_ref());
        command.args(["--listen", "127.0.0.1:0"]).args(arguments);
        Self::spawn(command.env("RUST_LOG", "info").stderr(log))
    }

    /// The same as `set_up` says.
    #[must_use]
    pub fn start_as(
        path: impl AsRef<Path>,
        data: &Data,
        set_up: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let mut command = Command::new(path.as_ref());
        command
            .args(["--listen", "127.0.0.1:0", "--workers", "2", "--timeout", "60", "--data"])
            .arg(data.file());
        Self::spawn(set_up(&mut command))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("it says where it listens");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.and_then(|address| address.parse().ok());
        Self { address: address.expect("an address"), child }
    }

    /// How many bytes of memory it has.
    #[must_use]
    pub fn memory(&self) -> usize {
        memory_of(&self.child.id().to_string())
    }

    /// Ends it as a power failure would.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Waits until it ends by itself.
    #[must_use]
    pub fn ended(mut self) -> ExitStatus {
        self.child.wait().expect("it ends")
    }

    /// Asks it to end (SIGTERM) and waits until it does.
    #[must_use]
    pub fn terminate(self) -> ExitStatus {
        self.ask_to_end();
        self.ended()
    }

    /// Asks it to end (SIGTERM).
    pub fn ask_to_end(&self) {
        self.signal("TERM");
    }

    /// Stops it (SIGSTOP) until [`go_on`](Self::go_on); none of its threads runs any more when this
    /// returns, which is later than the signal.
    ///
    /// # Panics
    /// If a thread still runs after [`PATIENCE`].
    pub fn stop(&self) {
        self.signal("STOP");
        let is_stopped = || {
            let threads = fs::read_dir(format!("/proc/{}/task", self.child.id()));
            threads.expect("the process is there").flatten().all(|thread| {
                let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
                // the state comes behind the name, which is in parentheses
                stat.rsplit_once(')').is_none_or(|(_, rest)| rest.starts_with(" T"))
            })
        };
        let begun = Instant::now();
        while !is_stopped() {
            assert!(begun.elapsed() < PATIENCE, "it stops");
            thread::yield_now();
        }
    }

    /// Lets a stopped process go on.
    pub fn go_on(&self) {
        self.signal("CONT");
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let told = Command::new("kill").args(["-s", signal, &id]).status().expect("kill is there");
        assert!(told.success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // it may have ended already
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A database of its own for a test; the files go with it.
#[derive(Debug)]
pub struct Data(PathBuf);

impl Data {
    /// A place for a new database.
    #[expect(clippy::new_without_default, reason = "it makes a folder")]
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("asyncsteps-test-{}-{number}", process::id());
        let folder = env::temp_dir().join(folder);
        // left over by a killed process that had the same id
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder");
        Self(folder)
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.0.join("shop.db")
    }

    /// The books: what the database says of each SKU. Fails if they do not add up: every unit that
    /// was restocked is in stock or in an order, and every order has its items and their total.
    #[must_use]
    pub fn books(&self) -> BTreeMap<String, Account> {
        let db = self.open();
        let mut query = db
            .prepare(
                "SELECT sku, stock, restocked,
                     (SELECT ifnull(sum(qty), 0) FROM order_item WHERE order_item.sku = product.sku)
                 FROM product",
            )
            .expect("the schema");
        let account = |row: &rusqlite::Row<'_>| {
            let (stock, restocked, sold) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok((row.get(0)?, Account { stock, restocked, sold }))
        };
        let rows = query.query_map([], account).expect("rows");
        let books: BTreeMap<String, Account> = rows.map(|row| row.expect("a row")).collect();
        for (sku, account) in &books {
            assert_eq!(account.stock + account.sold, account.restocked, "{sku}: {account:?}");
        }
        let wrong = "SELECT count(*) FROM orders WHERE total IS NOT
            (SELECT sum(qty * price) FROM order_item WHERE order_id = id)";
        let wrong: i64 = db.query_row(wrong, [], |row| row.get(0)).expect("the schema");
        assert_eq!(wrong, 0, "orders whose items do not make up their total");
        books
    }

    /// The books of the bank. Fails if they do not add up, or if the shop has got anything else than
    /// what its paid orders cost.
    #[must_use]
    pub fn bank(&self) -> Bank {
        const SUMS: &str = "SELECT
            (SELECT ifnull(sum(balance), 0) FROM bank_account),
            (SELECT ifnull(sum(balance), 0) FROM bank_account WHERE owner = ''),
            (SELECT ifnull(sum(amount), 0) FROM bank_payment WHERE stage = 'held'),
            (SELECT ifnull(sum(amount), 0) FROM shop_payment WHERE state = 'sold')";
        let sums = |row: &rusqlite::Row<'_>| {
            let bank = Bank { shop: row.get(1)?, held: row.get(2)? };
            Ok((row.get::<_, i64>(0)?, bank, row.get::<_, i64>(3)?))
        };
        let (accounts, bank, sold) = self.open().query_row(SUMS, [], sums).expect("the schema");
        assert_eq!(accounts + bank.held, 0, "{bank:?}");
        assert_eq!(bank.shop, sold, "{bank:?}");
        bank
    }

    /// How many orders there are.
    #[must_use]
    pub fn orders(&self) -> i64 {
        let count = self.open().query_row("SELECT count(*) FROM orders", [], |row| row.get(0));
        count.expect("the schema")
    }

    /// How many payments of orders were ever opened.
    #[must_use]
    pub fn payments(&self) -> i64 {
        let sql = "SELECT count(*) FROM shop_payment";
        self.open().query_row(sql, [], |row| row.get(0)).expect("the schema")
    }

    /// Keeps the server from the database until the result is dropped; what it asks of the database
    /// meanwhile waits, for five seconds at most.
    #[must_use = "the server is not kept from anything"]
    pub fn hold(&self) -> Held {
        let db = self.open();
        db.execute_batch("BEGIN IMMEDIATE").expect("no other process holds it for ever");
        Held { _db: db }
    }

    fn open(&self) -> Connection {
        let db = Connection::open(self.file()).expect("a database");
        db.busy_timeout(PATIENCE).expect("an option");
        db
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        // what is left over is in the temporary folder of the system
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The database is held; see [`Data::hold`].
#[derive(Debug)]
pub struct Held {
    _db: Connection,
}

/// The units of one SKU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Units in stock.
    pub stock: i64,
    /// Units that were ever added.
    pub restocked: i64,
    /// Units in orders.
    pub sold: i64,
}

/// The sums of the bank's books, in cents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bank {
    /// What the shop has.
    pub shop: i64,
    /// What is neither captured nor refunded.
    pub held: i64,
}

/// The parameters of an order.
#[must_use]
pub fn order(items: &[(&str, i64)]) -> Value {
    let items: Vec<Value> =
        items.iter().map(|(sku, qty)| json!({ "sku": sku, "qty": qty })).collect();
    json!({ "customer": "test", "items": items })
}
