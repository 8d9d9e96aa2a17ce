//! What is kept: products and orders in SQLite, off the event loop.
//!
//! One thread owns the connection and takes jobs. All jobs that are there when it is free share
//! one transaction, each in a savepoint of its own, and are answered after the commit: what was
//! answered survives a crash, and the disk is waited for once per group.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll};
use std::thread;

use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::oneshot;

use crate::shelf::Reservation;

/// How many jobs share a transaction at the most: enough to hide the wait for the disk, few enough
/// that the first one does not wait long for the last.
const GROUP: usize = 64;

/// The price of a new product, in cents.
const NEW_PRICE: i64 = 100;

/// A handle to the database thread, which ends with the last handle.
#[derive(Clone, Debug)]
pub struct Store {
    jobs: Sender<Job>,
}

/// The answer to a job: a future with its result, after the commit.
///
/// # Cancel safety
/// A job whose answer is dropped is done all the same.
#[derive(Debug)]
#[must_use = "the result of the job would be lost"]
pub struct Pending<T>(oneshot::Receiver<Result<T, StoreError>>);

impl<T> Future for Pending<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|answer| answer.unwrap_or(Err(StoreError::Closed)))
    }
}

/// Does its work inside the transaction and gives what is to be done after it.
type Job = Box<dyn FnOnce(&Connection) -> Answer + Send>;

/// Told whether the commit went well.
type Answer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// What can go wrong with the database.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// SQLite reported an error.
    #[error("the database reported an error")]
    Sqlite(#[source] Arc<rusqlite::Error>),
    /// The thread could not be started.
    #[error("cannot start the database thread")]
    Thread(#[source] Arc<std::io::Error>),
    /// The thread ended.
    #[error("the database is closed")]
    Closed,
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(Arc::new(error))
    }
}

/// An order as it was placed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Order {
    /// Its number.
    pub order: i64,
    /// Who placed it.
    pub customer: String,
    /// What was bought, by SKU.
    pub items: Vec<SoldItem>,
    /// In cents.
    pub total: i64,
}

/// A line of an order.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SoldItem {
    /// The product.
    pub sku: String,
    /// Units.
    pub qty: i64,
    /// The price of one unit at that time, in cents.
    pub price: i64,
}

/// Number and total of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// Its number.
    pub order: i64,
    /// In cents.
    pub total: i64,
}

impl asyncsteps::Arg for Summary {}

impl Store {
    /// Opens or creates the database.
    ///
    /// # Errors
    /// [`StoreError`] if the file is no database, or is not readable and writable.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let connection = Connection::open(file)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.execute_batch(SCHEMA)?;
        let (jobs, todo) = channel();
        thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || work(connection, &todo))
            .map_err(|error| StoreError::Thread(Arc::new(error)))?;
        Ok(Self { jobs })
    }

    /// Units in stock; `None` for an unknown product.
    pub fn stock(&self, sku: Arc<str>) -> Pending<Option<i64>> {
        self.run(move |db| {
            let mut query = db.prepare_cached("SELECT stock FROM product WHERE sku = ?1")?;
            Ok(query.query_row([&*sku], |row| row.get(0)).optional()?)
        })
    }

    /// Adds units of a product, and makes it known; gives the new stock. `committed` is called if
    /// and when the units are in the database, also if nobody waits for the answer any more.
    pub fn restock(
        &self,
        sku: Arc<str>,
        count: i64,
        price: Option<i64>,
        committed: impl FnOnce() + Send + 'static,
    ) -> Pending<i64> {
        let add = move |db: &Connection| {
            let mut upsert = db.prepare_cached(
                "INSERT INTO product (sku, stock, restocked, price) VALUES (?1, ?2, ?2, ifnull(?3, ?4))
                 ON CONFLICT (sku) DO UPDATE SET stock = stock + ?2, restocked = restocked + ?2,
                     price = ifnull(?3, price)
                 RETURNING stock",
            )?;
            let bound = params![&*sku, count, price, NEW_PRICE];
            Ok(upsert.query_row(bound, |row| row.get(0))?)
        };
        self.run_then(add, move |done| {
            if done {
                committed();
            }
        })
    }

    /// Writes an order and its stock in one transaction; the reservations are sold with the commit
    /// and come back if it does not happen.
    pub fn place_order(
        &self,
        customer: String,
        reservations: Vec<Reservation>,
    ) -> Pending<Summary> {
        let lines: Vec<(Arc<str>, i64)> =
            reservations.iter().map(|held| (Arc::clone(held.sku()), held.qty())).collect();
        self.run_then(
            move |db| write_order(db, &customer, &lines),
            move |done| {
                if done {
                    reservations.into_iter().for_each(Reservation::sell);
                }
            },
        )
    }

    /// An order by its number.
    pub fn order(&self, order: i64) -> Pending<Option<Order>> {
        self.run(move |db| {
            let mut head = db.prepare_cached("SELECT customer, total FROM orders WHERE id = ?1")?;
            let head = head.query_row([order], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
            let Some((customer, total)) = head else { return Ok(None) };
            let mut lines = db.prepare_cached(
                "SELECT sku, qty, price FROM order_item WHERE order_id = ?1 ORDER BY sku",
            )?;
            let line = |row: &rusqlite::Row<'_>| {
                Ok(SoldItem { sku: row.get(0)?, qty: row.get(1)?, price: row.get(2)? })
            };
            let items = lines.query_map([order], line)?.collect::<Result<_, _>>()?;
            Ok(Some(Order { order, customer, items, total }))
        })
    }

    /// The newest orders of a customer.
    pub fn orders_of(&self, customer: String, limit: u32) -> Pending<Vec<Summary>> {
        self.run(move |db| {
            let mut query = db.prepare_cached(
                "SELECT id, total FROM orders WHERE customer = ?1 ORDER BY id DESC LIMIT ?2",
            )?;
            let summary =
                |row: &rusqlite::Row<'_>| Ok(Summary { order: row.get(0)?, total: row.get(1)? });
            Ok(query.query_map(params![customer, limit], summary)?.collect::<Result<_, _>>()?)
        })
    }

    fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Pending<T> {
        self.run_then(job, |_| {})
    }

    /// Runs a job; `then` is told whether it was committed, in any case and before the answer.
    fn run_then<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        then: impl FnOnce(bool) + Send + 'static,
    ) -> Pending<T> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |db| {
            let worked = in_savepoint(db, job);
            Box::new(move |committed| {
                let result = worked.and_then(|value| committed.map(|()| value));
                then(result.is_ok());
                // a cancelled flow does not wait for it
                let _ = answer.send(result);
            })
        });
        // a dropped job drops its answer, which ends the future below
        let _ = self.jobs.send(job);
        Pending(answered)
    }
}

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS product (
        sku TEXT PRIMARY KEY,
        stock INTEGER NOT NULL CHECK (stock >= 0),
        restocked INTEGER NOT NULL,
        price INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS orders (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        customer TEXT NOT NULL,
        total INTEGER NOT NULL,
        placed TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
    );
    CREATE INDEX IF NOT EXISTS orders_by_customer ON orders (customer, id);
    CREATE TABLE IF NOT EXISTS order_item (
        order_id INTEGER NOT NULL REFERENCES orders (id),
        sku TEXT NOT NULL REFERENCES product (sku),
        qty INTEGER NOT NULL,
        price INTEGER NOT NULL,
        PRIMARY KEY (order_id, sku)
    ) WITHOUT ROWID;
";

fn write_order(
    db: &Connection,
    customer: &str,
    lines: &[(Arc<str>, i64)],
) -> Result<Summary, StoreError> {
    let mut take =
        db.prepare_cached("UPDATE product SET stock = stock - ?2 WHERE sku = ?1 RETURNING price")?;
    let mut sold = Vec::with_capacity(lines.len());
    for (sku, qty) in lines {
        let price: i64 = take.query_row(params![&**sku, qty], |row| row.get(0))?;
        sold.push((sku, qty, price));
    }
    let total = sold.iter().map(|(_, qty, price)| *qty * price).sum();
    let mut insert = db.prepare_cached("INSERT INTO orders (customer, total) VALUES (?1, ?2)")?;
    let order = insert.insert(params![customer, total])?;
    let mut line = db.prepare_cached(
        "INSERT INTO order_item (order_id, sku, qty, price) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for (sku, qty, price) in sold {
        line.execute(params![order, &**sku, qty, price])?;
    }
    Ok(Summary { order, total })
}

/// A job that fails leaves nothing behind and does not disturb its group.
fn in_savepoint<T>(
    db: &Connection,
    job: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    db.execute_batch("SAVEPOINT job")?;
    let result = job(db);
    let end = if result.is_ok() { "RELEASE job" } else { "ROLLBACK TO job; RELEASE job" };
    db.execute_batch(end)?;
    result
}

/// The database thread: takes groups of jobs until the last [`Store`] is gone.
fn work(db: Connection, todo: &Receiver<Job>) {
    while let Ok(first) = todo.recv() {
        let mut answers: Vec<Answer> = Vec::new();
        let group = || {
            let others = std::iter::from_fn(|| todo.try_recv().ok()).take(GROUP - 1);
            db.execute_batch("BEGIN IMMEDIATE")?;
            for job in std::iter::once(first).chain(others) {
                answers.push(job(&db));
            }
            db.execute_batch("COMMIT")
        };
        let committed: Result<(), rusqlite::Error> = group();
        let committed = committed.map_err(StoreError::from);
        if let Err(error) = &committed {
            tracing::error!(error = ?error, "a group of jobs was not committed");
            // nothing to roll back if the transaction did not begin or ended with the error
            let _ = db.execute_batch("ROLLBACK");
        }
        for answer in answers {
            answer(committed.clone());
        }
    }
}
