//! A service with an account in the database of its journal.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, fs, process};

use asyncsteps_core::{BodyResult, Error, Retry, Undo};
use asyncsteps_durable::{Durable, Node, Options, ThenTransacts};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Functions, Returns, Service, Step, Steps};
use asyncsteps_journal::postgres::{self, Client, Postgres};
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::{FlowInfo, Query};
use asyncsteps_journal::sqlite::{self, Sqlite};
use asyncsteps_journal::{Journal, Uid};
use asyncsteps_postgres_server::Server;
use rusqlite::Connection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long anything may take before a test fails: far more than it needs, also on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// A database with a journal and the table `booked`.
#[derive(Clone)]
pub(crate) enum Database {
    File(Sqlite),
    Server(Postgres),
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS booked (name TEXT, amount BIGINT)";
const INSERT: &str = "INSERT INTO booked VALUES ($1, $2)";
const SUM: &str = "SELECT CAST(coalesce(sum(amount), 0) AS BIGINT) FROM booked WHERE name = $1";

impl Database {
    pub(crate) async fn in_file(file: &PathBuf) -> Self {
        let journal = Sqlite::open(file, sqlite::Options::new("test")).expect("a journal");
        let table = journal.transaction(|db| Ok(db.execute_batch(TABLE)?));
        table.await.expect("a table");
        Self::File(journal)
    }

    pub(crate) async fn on_server(config: postgres::Config) -> Self {
        let options = postgres::Options::new("test");
        let journal = Postgres::connect(config, options).await.expect("a journal");
        let table = journal.transaction(async |db| Ok(db.batch_execute(TABLE).await?));
        table.await.expect("a table");
        Self::Server(journal)
    }

    pub(crate) fn journal(&self) -> &dyn Journal {
        match self {
            Self::File(journal) => journal,
            Self::Server(journal) => journal,
        }
    }

    fn durable(&self) -> Durable {
        match self {
            Self::File(journal) => Durable::new(journal.clone()),
            Self::Server(journal) => Durable::new(journal.clone()),
        }
    }

    /// How much is booked under a name.
    pub(crate) async fn booked(&self, name: &str) -> i64 {
        let name = name.to_owned();
        let sum = match self {
            Self::File(journal) => {
                let sum = move |db: &Connection| Ok(db.query_row(SUM, [&name], |row| row.get(0))?);
                journal.transaction(sum).await
            }
            Self::Server(journal) => {
                let sum =
                    async move |db: &Client| Ok(db.query_one(SUM, &[&name]).await?.try_get(0)?);
                journal.transaction(sum).await
            }
        };
        sum.expect("the table is there")
    }
}

/// A folder with a file for a journal.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let folder = env::temp_dir().join(format!("durable-{}-{name}", process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("journal.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // what is left is in the folder for temporary files
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Checks something in each database, with servers of actix around it.
pub(crate) fn in_each(name: &str, check: impl AsyncFn(Database)) {
    actix::System::new().block_on(async {
        let folder = Folder::new(name);
        check(Database::in_file(&folder.file()).await).await;
        if let Some(server) = Server::start() {
            check(Database::on_server(server.config()).await).await;
        }
    });
}

/// How the transaction of a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum Then {
    Ends,
    /// At first.
    Fails,
    Panics,
    GivesTooMuch,
    /// It is in the middle as long as the gate is closed.
    Waits,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Params {
    pub(crate) name: String,
    pub(crate) then: Then,
}

pub(crate) fn params(name: &str, then: Then) -> Params {
    Params { name: name.to_owned(), then }
}

/// Where the steps of a function of the bank begin.
pub(crate) type Booking = Steps<Bank, Params>;

/// A function of the bank, and the database of its transactions.
type Function = fn(&Booking, &Database) -> Returns<String>;

/// Steps of which the last one returns `T`.
type Chain<T> = Step<Bank, Params, (), (), T>;

#[derive(Clone)]
pub(crate) struct Bank {
    pub(crate) database: Database,
    /// How often bodies and undos ran, by name.
    counts: Arc<Mutex<BTreeMap<String, usize>>>,
    /// Bodies end that wait.
    is_open: tokio::sync::watch::Sender<bool>,
}

impl Service for Bank {
    type Errors = ();
}

impl Bank {
    pub(crate) fn new(database: Database) -> Self {
        let is_open = tokio::sync::watch::Sender::new(false);
        Self { database, counts: Arc::default(), is_open }
    }

    /// Gives how often it was counted before.
    pub(crate) fn count(&self, what: &str) -> usize {
        let mut counts = self.counts.lock().expect("no test panics while it counts");
        let count = counts.entry(what.to_owned()).or_default();
        *count += 1;
        *count - 1
    }

    pub(crate) fn counted(&self, what: &str) -> usize {
        let counts = self.counts.lock().expect("no test panics while it counts");
        counts.get(what).copied().unwrap_or(0)
    }

    pub(crate) fn open(&self) {
        self.is_open.send_replace(true);
    }

    fn decide(&self, Params { name, then }: &Params) -> BodyResult<String> {
        let before = self.count(name);
        match then {
            Then::Ends | Then::Waits => Ok(format!("{name} is booked")),
            Then::Fails if before > 0 => Ok(format!("{name} is booked")),
            Then::Fails => Err(Error::new("Declined").into()),
            Then::Panics => panic!("declined"),
            Then::GivesTooMuch => Ok("x".repeat(1 << 20)),
        }
    }

    fn book_in_file(&self, db: &Connection, params: &Params) -> BodyResult<String> {
        db.execute(INSERT, (&params.name, 1))?;
        self.decide(params)
    }

    async fn book_on_server(&self, db: &Client, params: &Params) -> BodyResult<String> {
        db.execute(INSERT, &[&params.name, &1_i64]).await?;
        if params.then == Then::Waits {
            self.count("waiting");
            // the server does not take it for dead meanwhile
            while !*self.is_open.borrow() {
                db.execute("SELECT pg_sleep(0.01)", &[]).await?;
            }
        }
        self.decide(params)
    }

    /// A process with the functions of the bank.
    pub(crate) fn process(&self) -> (Durable, Executor) {
        let durable = self.database.durable();
        let executor = self.executor(|functions| self.declare(&durable, functions));
        (durable, executor)
    }

    pub(crate) fn declare(&self, durable: &Durable, functions: &mut Functions<Self>) {
        durable.on(functions, "book", self.of(book));
        durable.on(functions, "declined", self.of(declined));
        durable.on(functions, "tried", self.of(tried));
        durable.on(functions, "undone", self.of(undone));
    }

    /// The function, whose transactions are those of the bank's database.
    pub(crate) fn of(&self, function: Function) -> impl Fn(&Booking) -> Returns<String> + use<> {
        let database = self.database.clone();
        move |steps| function(steps, &database)
    }

    pub(crate) fn executor(&self, declare: impl FnOnce(&mut Functions<Self>)) -> Executor {
        let interface = Interface::new("test.bank:1.0".parse().expect("it is a name"));
        let executor = Executor::builder().service(interface, self.clone(), declare);
        executor.request_timeout(PATIENCE).build().expect("the bank is complete")
    }

    pub(crate) async fn start(&self) -> (Durable, Node) {
        let (durable, executor) = self.process();
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        (durable, node)
    }
}

/// Who may call.
pub(crate) fn ann() -> User {
    User::new("ann", SecurityLevel::SafeOps)
}

pub(crate) async fn submit(durable: &Durable, function: &str, params: Params) -> Uid {
    let function = format!("test.bank:1.0:{function}");
    let options = Options::default().caller(ann());
    durable.submit(&function, params, options).await.expect("the journal takes it")
}

/// All requests in the journal, oldest first.
pub(crate) async fn flows(durable: &Durable) -> Vec<FlowInfo> {
    let (mut flows, mut after) = (Vec::new(), 0);
    loop {
        let query = Query { after, limit: 1_000, ..Query::default() };
        let page = durable.list(query).await.expect("the journal is there");
        let Some(last) = page.last() else { return flows };
        after = last.number;
        flows.extend(page);
    }
}

pub(crate) fn result(ending: Ending) -> String {
    let Ending::Completed(value) = ending else { panic!("no result: {ending:?}") };
    value.decode().expect("it is a text")
}

/// The step that books, behind others.
fn transact(before: Chain<()>, database: &Database) -> Chain<String> {
    match database.clone() {
        Database::File(journal) => before.then_transact("book", move |cx, ()| {
            // what waits is only asked of a server
            let (bank, params) = (Bank::clone(cx), Params::clone(&cx.params));
            journal.transaction(move |db| bank.book_in_file(db, &params))
        }),
        Database::Server(journal) => before.then_transact("book", move |cx, ()| {
            let cx = cx.clone();
            journal.transaction(async move |db| cx.book_on_server(db, &cx.params).await)
        }),
    }
}

pub(crate) fn book(steps: &Booking, database: &Database) -> Returns<String> {
    let before = steps.run("before", async |_, ()| Ok(())).recorded();
    transact(before, database)
        .then("after", async |cx, booked| {
            cx.count("after");
            Ok(booked)
        })
        .recorded()
        .returns()
}

fn declined(steps: &Booking, database: &Database) -> Returns<String> {
    transact(steps.pass(), database)
        .recover(async |_, error| Ok(error.code().to_owned()))
        .then("after", async |_, booked| Ok(booked))
        .recorded()
        .returns()
}

fn tried(steps: &Booking, database: &Database) -> Returns<String> {
    transact(steps.pass(), database).retry(Retry::attempts(3).on_code("Declined")).returns()
}

fn undone(steps: &Booking, database: &Database) -> Returns<String> {
    transact(steps.pass(), database)
        .undo(async |cx, booked| {
            if let Undo::Done(booked) = booked {
                cx.count(&format!("{booked} no more"));
            }
            Ok(())
        })
        .then("later", async |_, _| Err(Error::new("Later").into()))
        .recorded()
        .returns()
}
