//! A shop whose program has two versions, and the bank outside, which writes down whatever a process asks of it.

use asyncsteps_core::{BodyResult, Error, Undo};
use asyncsteps_durable::{Durable, ThenTransacts};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Returns, Service, Step, Steps};
use asyncsteps_journal::postgres::{Client, Options, Postgres};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The bank has an effect once for a key, however often a process asks with it.
const TABLE: &str = "CREATE TABLE entry (key TEXT, version INT, is_undo BOOLEAN)";
const INSERT: &str = "INSERT INTO entry VALUES ($1, $2, $3)";
const SELECT: &str = "SELECT key, version, is_undo FROM entry";

pub(crate) const ORDER: &str = "test.shop:1.0:order";

/// What an order waits for in the middle.
pub(crate) const AGREED: &str = "agreed";

/// The shop, as a process with this version of the program runs it.
#[derive(Clone)]
pub(crate) struct Shop {
    pub(crate) journal: Postgres,
    version: i32,
}

impl Service for Shop {
    type Errors = ();
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Order {
    /// The shop has no ticket for it, so that what was reserved and paid is undone.
    pub(crate) is_refused: bool,
}

/// What a process has asked of the bank.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The uid of the request and the name of the step.
    pub(crate) key: String,
    /// The version of the process.
    pub(crate) version: i32,
    pub(crate) is_undo: bool,
}

type Ordering = Steps<Shop, Order>;

/// Steps of which the last one takes `A` and returns the version of its process.
type Chain<A> = Step<Shop, Order, (), A, i32>;

impl Shop {
    pub(crate) async fn open(url: &str, version: i32) -> Self {
        let journal = Postgres::connect(url.parse().expect("a URL"), Options::new("shop")).await;
        Self { journal: journal.expect("a journal"), version }
    }

    pub(crate) async fn create_books(&self) {
        let table = self.journal.transaction(async |db| Ok(db.batch_execute(TABLE).await?));
        table.await.expect("a table");
    }

    pub(crate) fn process(&self) -> (Durable, Executor) {
        let durable = Durable::new(self.journal.clone());
        let interface = Interface::new("test.shop:1.0".parse().expect("it is a name"));
        let executor = Executor::builder().service(interface, self.clone(), |functions| {
            _ = match self.version {
                1 => durable.on(functions, "order", first),
                _ => durable.on(functions, "order", second).version(2).compatible([1]),
            };
        });
        let executor = executor.build().expect("the shop is complete");
        (durable, executor)
    }

    async fn enter(&self, db: &Client, key: &str, is_undo: bool) -> BodyResult<i32> {
        db.execute(INSERT, &[&key, &self.version, &is_undo]).await?;
        Ok(self.version)
    }

    pub(crate) async fn entries(&self) -> Vec<Entry> {
        let entries = self.journal.transaction(async |db| {
            let mut entries = Vec::new();
            for row in db.query(SELECT, &[]).await? {
                let (key, version, is_undo) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                entries.push(Entry { key, version, is_undo });
            }
            Ok(entries)
        });
        entries.await.expect("the table is there")
    }
}

/// The bank is asked in a transaction of its own: a process can die between that and the record of the step.
async fn asks(cx: &Cx<Shop, Order>, is_undo: bool) -> BodyResult<i32> {
    let (shop, key) = (Shop::clone(cx), cx.key().to_owned());
    let entered = cx.journal.transaction(async move |db| shop.enter(db, &key, is_undo).await);
    entered.await
}

async fn deals<T>(cx: &Cx<Shop, Order>, _: T) -> BodyResult<i32> {
    asks(cx, false).await
}

async fn undoes(cx: &Cx<Shop, Order>, _: Undo<&i32>) -> BodyResult<()> {
    asks(cx, true).await.map(drop)
}

fn agreed(steps: &Ordering) -> Step<Shop, Order, (), i32, ()> {
    steps.run("reserve", deals).recorded().undo(undoes).then_wait_signal(AGREED)
}

/// The last step of the first version. Its entry is committed with its record.
fn ticket(paid: Chain<()>) -> Chain<i32> {
    paid.recorded().undo(undoes).then_transact("ticket", |cx, _| {
        let cx = cx.clone();
        cx.journal.clone().transaction(async move |db| {
            let version = cx.enter(db, cx.key(), false).await?;
            if cx.params.is_refused { Err(Error::new("Refused").into()) } else { Ok(version) }
        })
    })
}

fn first(steps: &Ordering) -> Returns<i32> {
    ticket(agreed(steps).then("pay", deals)).returns()
}

/// The next version has a step more, and another one has a new name.
fn second(steps: &Ordering) -> Returns<i32> {
    let paid = agreed(steps).then("charge", deals).was("pay");
    ticket(paid).then("mail", deals).recorded().returns()
}
