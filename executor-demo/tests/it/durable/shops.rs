//! Processes of the demo that share a journal and a database, and what they were asked for.

use std::collections::HashSet;
use std::net::SocketAddr;

use asyncsteps::Executor;
use asyncsteps::durable::Durable;
use asyncsteps::iface::Loader;
use asyncsteps::journal::postgres::{self, Postgres};
use asyncsteps::journal::sqlite::{self, Sqlite};
use asyncsteps_support::PATIENCE;
use asyncsteps_support::client::{self, Connection, message, post};
use asyncsteps_support::shop::{self, Bank, Data, Held, Program};
use executor_demo::interface;
use executor_demo::shelf::Shelf;
use executor_demo::store::Store;
use serde_json::{Value, json};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_executor-demo");

pub(crate) const ORDER: &str = "demo.shop:1.0:order";

const SKUS: [&str; 2] = ["apple", "pear"];

/// The database and the journal.
pub(crate) struct Shops {
    data: Data,
    journal: String,
}

impl Shops {
    /// With a journal in a file, or at this URL of PostgreSQL.
    pub(crate) fn new(url: Option<String>) -> Self {
        let data = Data::new();
        let file = data.file().with_extension("journal");
        let journal = url.unwrap_or_else(|| file.to_str().expect("a path of UTF-8").to_owned());
        let shops = Self { data, journal };
        let program = shops.start();
        for sku in SKUS {
            let restock = json!({ "sku": sku, "count": 1_000_000 });
            let restocked = client::call(program.address, "demo.shop:1.0:restock", &restock);
            assert!(restocked["r"]["stock"].is_number(), "{restocked}");
        }
        assert!(program.terminate().success());
        shops
    }

    /// Changes the database behind the back of its processes.
    pub(crate) fn change(&self, sql: &str) {
        let database = rusqlite::Connection::open(self.data.file()).expect("the database");
        database.execute_batch(sql).expect("it does so");
    }

    /// Starts one process more.
    pub(crate) fn start(&self) -> Program {
        self.start_with(&[])
    }

    /// The same with more arguments.
    pub(crate) fn start_with(&self, arguments: &[&str]) -> Program {
        let arguments = [&["--journal", &self.journal], arguments].concat();
        Program::start_with(PROGRAM, &self.data, &arguments)
    }

    /// Keeps all processes out of the database, so that none is in the middle of a transaction: one that was
    /// stopped there would keep the others out.
    pub(crate) fn hold(&self) -> Held {
        self.data.hold()
    }

    /// Ends all processes but this one, waits for the ends of all jobs, and checks them: each has one
    /// order, is sold once and paid once, and leaves nothing reserved. Gives how many there are.
    pub(crate) fn settle(&self, program: Program) -> usize {
        let all = jobs(program.address, "list");
        let mut orders = HashSet::new();
        for uid in &all {
            let ended = ended(program.address, uid);
            let order = ended["result"]["order"].as_i64();
            orders.insert(order.unwrap_or_else(|| panic!("{uid}: {ended}")));
        }
        assert_eq!(orders.len(), all.len(), "no two jobs have one order");
        assert!(jobs(program.address, "deadLetters").is_empty());
        assert!(program.terminate().success());

        let sold = i64::try_from(all.len()).expect("a number of jobs");
        assert_eq!(self.data.orders(), sold, "no job has two orders");
        let books: Vec<i64> = self.data.books().values().map(|account| account.sold).collect();
        assert_eq!(books, [sold, 2 * sold]);
        assert_eq!(self.data.bank(), Bank { shop: 300 * sold, held: 0 });
        let reserved = actix_rt::System::new().block_on(self.reserved());
        assert_eq!(reserved, [json!({ "reserved": 0 }), json!({ "reserved": 0 })]);
        all.len()
    }

    /// What the shelf has of each product.
    async fn reserved(&self) -> Vec<Value> {
        let durable = match self.journal.starts_with("postgres:") {
            true => {
                let (url, options) = (self.journal.parse(), postgres::Options::new("test"));
                let journal = Postgres::connect(url.expect("a URL"), options).await;
                Durable::new(journal.expect("the journal"))
            }
            false => {
                let journal = Sqlite::open(&self.journal, sqlite::Options::new("test"));
                Durable::new(journal.expect("the journal"))
            }
        };
        let id = "demo.shelf:1.0".parse().expect("a name");
        let definition = Loader::new([interface::definitions()]).load(&id).expect("a definition");
        let shelf = Shelf::new(Store::open(&self.data.file()).expect("the database"));
        let executor = Executor::builder()
            .service(definition, shelf, |functions| Shelf::define(functions, &durable))
            .request_timeout(PATIENCE)
            .build()
            .expect("the types fit");
        let node = durable.start(&executor).await.expect("a lease");
        let mut reserved = Vec::new();
        for sku in SKUS {
            let asked = json!({ "sku": sku });
            let answer = executor.call_as_system("demo.shelf:1.0:reserved", asked).await;
            reserved.push(answer.expect("it is known"));
        }
        node.stop().await;
        reserved
    }
}

/// An order of an apple and two pears.
pub(crate) fn order() -> Value {
    shop::order(&[("apple", 1), ("pear", 2)])
}

/// A request that submits an order.
pub(crate) fn submission(key: Option<&str>) -> Vec<u8> {
    let mut submission = json!({ "function": ORDER, "params": order() });
    if let Some(key) = key {
        submission["key"] = key.into();
    }
    post(&message("asyncsteps.jobs:1.0:submit", &submission))
}

/// Places orders until the server is gone or `wanted` says no, and tells of each that is accepted: each
/// second client waits for the ends of its orders, the others submit them.
pub(crate) fn buy(
    mut client: Connection,
    number: usize,
    mut accepted: impl FnMut(),
    wanted: impl Fn() -> bool,
) {
    let request = match number % 2 {
        0 => post(&message(ORDER, &order())),
        _ => submission(None),
    };
    while wanted() && client.try_send(&request) {
        let Some(answer) = client.try_receive() else { return };
        let answer = answer.json();
        assert!(answer["r"] != Value::Null, "{answer}");
        accepted();
    }
}

fn ask(address: SocketAddr, function: &str, params: &Value) -> Value {
    let answer = client::call(address, &format!("asyncsteps.jobs:1.0:{function}"), params);
    assert!(answer["r"] != Value::Null, "{function} {params}: {answer}");
    answer["r"].clone()
}

/// The uids of all orders that a function lists.
pub(crate) fn jobs(address: SocketAddr, function: &str) -> Vec<Value> {
    let (mut jobs, mut after) = (Vec::new(), json!(0));
    loop {
        // the journal has the shelf, too
        let of_orders = json!({ "after": after, "function": ORDER });
        let asked = if function == "list" { of_orders } else { json!({ "after": after }) };
        let page = ask(address, function, &asked);
        jobs.extend(page["jobs"].as_array().into_iter().flatten().map(|job| job["uid"].clone()));
        after = page["next"].clone();
        if after == 0 {
            return jobs;
        }
    }
}

/// How a job ended. One that was in the middle of a step at three kills in a row waits for an operator.
pub(crate) fn ended(address: SocketAddr, uid: &Value) -> Value {
    let asked = json!({ "uid": uid, "wait": 60_000 });
    loop {
        let ended = ask(address, "result", &asked);
        match ended["state"].as_str() {
            Some("ended") => return ended,
            Some("dead") => drop(ask(address, "resume", &json!({ "uid": uid }))),
            Some("paused") => panic!("{uid} has diverged: {ended}"),
            // a node that was killed has it until its lease is over
            _ => {}
        }
    }
}
