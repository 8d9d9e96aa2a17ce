//! The stored data: products and orders in SQLite, off the event loop.
//!
//! One thread changes the database. All jobs that are there when it is free share one transaction,
//! each in a savepoint of its own, and are answered after the commit: an answered job survives a
//! crash, and the disk is waited for once per group. A job whose asker left before it began is not
//! done. Jobs of different products take turns. Another thread reads, and never waits for the first
//! one: the database has a write-ahead log, unless it is in memory. A database in memory has nothing
//! to wait for, so its jobs are done at once.
//!
//! Several processes may work on one file. A job waits as long as another process writes, and is dropped
//! when its asker leaves.

mod instances;
mod jobs;
mod left;
mod orders;
mod payments;
mod queue;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use asyncsteps::metrics::prometheus_client::metrics::family::Family;
use asyncsteps::metrics::prometheus_client::metrics::gauge::Gauge;
use asyncsteps::metrics::prometheus_client::registry::Registry;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use serde_json::{Map, Value};

use jobs::StoreJobs;
use left::{Left, OpenedPayment};

pub use jobs::Pending;
pub use orders::{NewOrder, Order, SoldItem, Summary, Terms};

/// The price of a new product, in cents.
const NEW_PRICE: i64 = 100;

/// A handle to the threads of the database, which end with the last handle.
#[derive(Clone, Debug)]
pub struct Store {
    writes: StoreJobs,
    reads: StoreJobs,
    queues: Queues,
    /// The debts of orders that left while their payment was opened.
    left: Left,
    durable: bool,
}

/// The jobs that wait for each thread of the database.
type Queues = Family<[(&'static str, &'static str); 1], Gauge>;

/// The errors of the database.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// SQLite reported an error.
    #[error("the database reported an error")]
    Sqlite(#[source] Arc<rusqlite::Error>),
    /// A thread could not be started.
    #[error("cannot start a thread of the database")]
    Thread(#[source] Arc<std::io::Error>),
    /// Too many jobs wait already.
    #[error("the queue to the database is full")]
    Full,
    /// The thread ended.
    #[error("the database is closed")]
    Closed,
    /// There are not enough units of this product.
    #[error("not enough units of {0}")]
    OutOfStock(Arc<str>),
    /// The payment of the order was abandoned meanwhile.
    #[error("the payment of the order was given up")]
    GivenUp,
    /// The key of the order belongs to one of other items.
    #[error("the key belongs to an order of other items")]
    KeyReused,
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(Arc::new(error))
    }
}

impl Store {
    /// Opens the database, and creates it if it is not there.
    ///
    /// # Errors
    /// [`StoreError`] if the file is no database or cannot be read, or a thread cannot be started.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let writing = Connection::open(file)?;
        let mode = write_ahead(&writing)?;
        // an answered order survives a power failure
        writing.pragma_update(None, "synchronous", "FULL")?;
        writing.pragma_update(None, "foreign_keys", true)?;
        writing.execute_batch(SCHEMA)?;
        let queues = Queues::default();
        let waiting = |queue| queues.get_or_create(&[("queue", queue)]).clone();
        let writes = match &*mode {
            "memory" => StoreJobs::at_once(writing),
            _ => StoreJobs::writing(writing, waiting("write"))?,
        };
        let reads = match &*mode {
            "wal" => {
                let reading = Connection::open(file)?;
                reading.pragma_update(None, "query_only", true)?;
                StoreJobs::reading(reading, waiting("read"))?
            }
            // in memory, or where the file system cannot share memory, there is one connection
            _ => writes.clone(),
        };
        Ok(Self { writes, reads, queues, left: Left::default(), durable: false })
    }

    /// The same for durable requests, which look after their payments themselves, in whatever process.
    #[must_use]
    pub fn for_durable_requests(self) -> Self {
        Self { durable: true, ..self }
    }

    /// Adds the metrics of the database to the metrics of the executor.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Jobs that the database has not answered";
        registry.register("shop_store_jobs", help, self.queues.clone());
    }

    /// Units in stock; `None` for an unknown product.
    pub fn stock(&self, sku: &str) -> Pending<Option<i64>> {
        let sku: Arc<str> = sku.into();
        self.reads.add([&Arc::clone(&sku)], move |db| {
            let mut query = db.prepare_cached("SELECT stock FROM product WHERE sku = ?1")?;
            Ok(query.query_row([&*sku], |row| row.get(0)).optional()?)
        })
    }

    /// Units in stock that none of these orders in flight has reserved; `None` for an unknown product. An order that is
    /// written has taken its units out of stock, and does not count. Orders are known by the ids of their requests.
    pub fn free<'a>(
        &self,
        sku: &str,
        reserved: impl Iterator<Item = (&'a str, i64)>,
    ) -> Pending<Option<i64>> {
        let sku: Arc<str> = sku.into();
        let reserved: Map<_, _> = reserved.map(|(id, qty)| (id.to_owned(), qty.into())).collect();
        let reserved = Value::Object(reserved).to_string();
        self.reads.add([&Arc::clone(&sku)], move |db| {
            // one statement sees one state of the database
            let mut query = db.prepare_cached(
                "SELECT stock - (
                     SELECT ifnull(sum(value), 0) FROM json_each(?2) AS reserved
                     WHERE NOT EXISTS (SELECT 1 FROM orders WHERE request = reserved.key)
                 ) FROM product WHERE sku = ?1",
            )?;
            Ok(query.query_row(params![&*sku, reserved], |row| row.get(0)).optional()?)
        })
    }

    /// The present price of each product of an order, in cents.
    pub fn prices(&self, order: &Arc<NewOrder>) -> Pending<HashMap<Arc<str>, i64>> {
        let asked = Arc::clone(order);
        self.reads.add(order.items.keys(), move |db| orders::prices(db, &asked))
    }

    /// Adds units of a product, and makes it known; returns the new stock.
    pub fn restock(&self, sku: &str, count: i64, price: Option<i64>) -> Pending<i64> {
        let sku: Arc<str> = sku.into();
        self.write_of([&Arc::clone(&sku)], move |db| {
            let mut upsert = db.prepare_cached(
                "INSERT INTO product (sku, stock, restocked, price) VALUES (?1, ?2, ?2, ifnull(?3, ?4))
                 ON CONFLICT (sku) DO UPDATE SET stock = stock + ?2, restocked = restocked + ?2,
                     price = ifnull(?3, price)
                 RETURNING stock",
            )?;
            let bound = params![&*sku, count, price, NEW_PRICE];
            Ok(upsert.query_row(bound, |row| row.get(0))?)
        })
    }

    /// Writes an order and takes its units out of stock, in one transaction. An order whose key was
    /// used returns the first answer, if it is of the same items, and changes nothing. So does one
    /// whose request, known by its id, has placed an order.
    pub fn place_order(
        &self,
        order: &Arc<NewOrder>,
        terms: Terms,
        request: &str,
    ) -> Pending<Summary> {
        let (new, request) = (Arc::clone(order), request.to_owned());
        self.write_of(order.items.keys(), move |db| place(db, &new, &terms, &request))
    }

    /// Opens the payment of an order, in cents; returns its key for the bank. An order that is repeated with its key
    /// gets the payment that it has left open. `step` is the idempotency key of the step that does it. The process
    /// `owner` looks after the payment, unless the request is durable: then that does.
    ///
    /// # Errors
    /// [`StoreError`] if it is not opened.
    ///
    /// # Cancel safety
    /// If the future is dropped while the payment is opened, the payment is [owed](Self::owed_payments), unless the
    /// request is durable, or the order is repeated before.
    pub async fn open_payment(
        &self,
        order: &Arc<NewOrder>,
        amount: i64,
        owner: &str,
        step: &str,
    ) -> Result<String, StoreError> {
        let (paid, step) = (Arc::clone(order), step.to_owned());
        let owner = (!self.durable).then(|| owner.to_owned());
        let left = self.left.clone();
        let opened = self.write_of(order.items.keys(), move |db| {
            let key = payments::open(db, &paid, amount, owner.as_deref(), &step)?;
            let left = owner.map(|_| left.unless_taken(step));
            Ok(OpenedPayment { key, left })
        });
        Ok(opened.await?.take())
    }

    /// The payment that this step has opened, if it has; `None` if requests are not durable: one that was cut does not
    /// wait for the database any more.
    #[must_use]
    pub fn payment_of_step(&self, step: &str) -> Option<Pending<Option<String>>> {
        let step = self.durable.then(|| step.to_owned())?;
        Some(self.write(move |db| payments::of_step(db, &step)))
    }

    /// Gives a payment up, unless its order was placed; returns whether it is owed back. No order can
    /// be placed for it afterwards.
    pub fn give_up_payment(&self, key: &str) -> Pending<bool> {
        let key = key.to_owned();
        self.write(move |db| payments::give_up(db, &key))
    }

    /// Notes that a payment was paid back.
    pub fn payment_repaid(&self, key: &str) -> Pending<()> {
        let key = key.to_owned();
        self.write(move |db| payments::repaid(db, &key))
    }

    /// Counts a sign of life of a process; returns the counts of all processes, by their names.
    pub fn instance_lives(&self, instance: &str) -> Pending<HashMap<String, i64>> {
        let instance = instance.to_owned();
        self.write(move |db| instances::beat(db, &instance))
    }

    /// Notes that processes have ended: their open payments are owed.
    pub fn instances_ended(&self, instances: Vec<String>) -> Pending<()> {
        self.write(move |db| instances::leave(db, &instances))
    }

    /// The payments that are owed back, because their orders failed, have left while they were opened, or their
    /// process has ended.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub async fn owed_payments(&self) -> Result<Vec<String>, StoreError> {
        let steps = self.left.steps();
        let given_up = steps.clone();
        let owed = self.write(move |db| payments::owed(db, &given_up)).await?;
        self.left.forget(&steps);
        Ok(owed)
    }

    /// The first answer to an order with the same key, if it has a key and there was one.
    ///
    /// It is asked of the thread that writes, because the first order may still be in its queue
    /// although its asker left.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails, or the key belongs to another order.
    pub async fn placed(&self, order: &Arc<NewOrder>) -> Result<Option<Summary>, StoreError> {
        if order.key.is_none() {
            return Ok(None);
        }
        let asked = Arc::clone(order);
        self.write_of(order.items.keys(), move |db| orders::placed(db, &asked)).await
    }

    /// An order by its number.
    pub fn order(&self, order: i64) -> Pending<Option<Order>> {
        self.read(move |db| orders::find(db, order))
    }

    /// The newest orders of a customer.
    pub fn orders_of(&self, customer: &str, limit: u32) -> Pending<Vec<Summary>> {
        let customer = customer.to_owned();
        self.read(move |db| orders::newest(db, &customer, limit))
    }

    /// Does a part of a transaction that leaves nothing behind if it fails.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Pending<T> {
        self.write_of([], work)
    }

    /// The same of work that concerns these products.
    fn write_of<'a, T: Send + 'static>(
        &self,
        products: impl IntoIterator<Item = &'a Arc<str>>,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Pending<T> {
        self.writes.add(products, |db| jobs::in_savepoint(db, work))
    }

    /// Reads committed data.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Pending<T> {
        self.reads.add([], work)
    }
}

/// Writes an order and takes its payment, or returns the first answer to its key or its request.
fn place(
    db: &Connection,
    order: &NewOrder,
    terms: &Terms,
    request: &str,
) -> Result<Summary, StoreError> {
    let first = match orders::placed_by(db, request)? {
        Some(placed) => return Ok(placed),
        None => orders::placed(db, order)?,
    };
    match (first, &terms.payment) {
        // paid at other prices, by another process: this payment goes back
        (Some(_), Some(payment)) if payments::is_open(db, payment)? => Err(StoreError::GivenUp),
        (Some(first), _) => Ok(first),
        (None, None) => orders::place(db, order, terms, request),
        (None, Some(payment)) => {
            payments::sell(db, payment)?;
            orders::place(db, order, terms, request)
        }
    }
}

/// Switches the database to write-ahead, and returns the mode that it has then.
///
/// SQLite does not wait if another process switches at the same time. So this waits for the lock of
/// that process, and tries again.
fn write_ahead(db: &Connection) -> Result<String, StoreError> {
    let mut turns = 0..SWITCHES;
    loop {
        let switched = db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0));
        match switched {
            Err(error) if is_busy(&error) && turns.next().is_some() => {
                // waits for as long as any other statement would
                match db.execute_batch("BEGIN IMMEDIATE; COMMIT") {
                    Err(error) if !is_busy(&error) => return Err(error.into()),
                    _ => {}
                }
            }
            switched => return Ok(switched?),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// How often the switch to writing ahead is tried again: more often than processes start at once.
const SWITCHES: usize = 100;

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
        placed TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
        request TEXT NOT NULL UNIQUE
    );
    CREATE INDEX IF NOT EXISTS orders_by_customer ON orders (customer, id);
    CREATE TABLE IF NOT EXISTS order_item (
        order_id INTEGER NOT NULL REFERENCES orders (id),
        sku TEXT NOT NULL REFERENCES product (sku),
        qty INTEGER NOT NULL,
        price INTEGER NOT NULL,
        PRIMARY KEY (order_id, sku)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS order_key (
        customer TEXT NOT NULL,
        key TEXT NOT NULL,
        order_id INTEGER NOT NULL REFERENCES orders (id),
        PRIMARY KEY (customer, key)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS shop_payment (
        key TEXT PRIMARY KEY,
        customer TEXT NOT NULL,
        order_key TEXT,
        amount INTEGER NOT NULL,
        owner TEXT NOT NULL,
        state TEXT NOT NULL,
        opened TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
        step TEXT
    ) WITHOUT ROWID;
    CREATE UNIQUE INDEX IF NOT EXISTS payments_by_step ON shop_payment (step) WHERE step IS NOT NULL;
    CREATE INDEX IF NOT EXISTS payments_by_order ON shop_payment (customer, order_key);
    CREATE INDEX IF NOT EXISTS payments_by_state ON shop_payment (state)
        WHERE state IN ('open', 'owed');
    CREATE TABLE IF NOT EXISTS shop_instance (
        id TEXT PRIMARY KEY,
        beats INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS bank_account (
        owner TEXT PRIMARY KEY,
        balance INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS bank_payment (
        key TEXT PRIMARY KEY,
        customer TEXT,
        amount INTEGER NOT NULL CHECK (amount >= 0),
        stage TEXT NOT NULL
    ) WITHOUT ROWID;
";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Barrier, mpsc};
    use std::task::{Context, Waker};
    use std::{env, fs, process, thread};

    use super::*;

    /// Keeps the thread of the database at a job until it may go on.
    struct Busy {
        done: Pending<()>,
        begun: mpsc::Receiver<()>,
        go: mpsc::Sender<()>,
    }

    impl Busy {
        fn new(store: &Store) -> Self {
            let ((begins, begun), (go, wait)) = (mpsc::channel(), mpsc::channel::<()>());
            let done = store.write(move |_| {
                begins.send(()).expect("the test waits");
                wait.recv().expect("the test lets it go on");
                Ok(())
            });
            Self { done, begun, go }
        }
    }

    #[actix_rt::test]
    async fn a_payment_is_owed_if_its_order_left_while_it_was_opened() {
        let folder = env::temp_dir().join(format!("shop-left-{}", process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let store = Store::open(&folder.join("shop.db")).expect("a database");
        let items = BTreeMap::from([("apple".into(), 1)]);
        let key = Some("k".to_owned());
        let order = Arc::new(NewOrder { customer: "ann".to_owned(), items, key });
        let leave_while_it_is_opened = async |step| {
            let first = Busy::new(&store);
            first.begun.recv().expect("it begins");
            let mut opening = Box::pin(store.open_payment(&order, 5, "me", step));
            let pending = opening.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(pending.is_pending());
            let second = Busy::new(&store);
            first.go.send(()).expect("it waits");
            second.begun.recv().expect("it is in one transaction with the opening");
            drop(opening);
            second.go.send(()).expect("it waits");
            second.done.await.expect("done");
        };
        leave_while_it_is_opened("first").await;
        let owed = store.owed_payments().await.expect("a list");
        let [key] = &owed[..] else { panic!("one is owed: {owed:?}") };
        store.payment_repaid(key).await.expect("noted");
        // an order that is repeated keeps the payment that it has taken over
        leave_while_it_is_opened("second").await;
        let key = store.open_payment(&order, 5, "me", "third").await.expect("opened");
        assert!(store.owed_payments().await.expect("a list").is_empty());
        assert!(store.give_up_payment(&key).await.expect("asked"), "it was open");
        drop(store);
        fs::remove_dir_all(folder).expect("the folder is there");
    }

    #[actix_rt::test]
    async fn a_written_order_has_nothing_reserved() {
        let store = Store::open(Path::new(":memory:")).expect("a database");
        store.restock("apple", 10, None).await.expect("restocked");
        let free = async |sku| {
            let reserved = [("first".to_owned(), 3), ("second".to_owned(), 2)];
            let reserved = reserved.iter().map(|(order, qty)| (order.as_str(), *qty));
            store.free(sku, reserved).await.expect("asked")
        };
        assert_eq!(free("apple").await, Some(5));
        let (customer, items) = ("ann".to_owned(), BTreeMap::from([("apple".into(), 3)]));
        let order = Arc::new(NewOrder { customer, items, key: None });
        store.place_order(&order, Terms::default(), "first").await.expect("placed");
        assert_eq!(free("apple").await, Some(5), "seven are in stock");
        assert_eq!(free("pear").await, None);
    }

    #[test]
    fn several_processes_may_create_the_file_at_once() {
        let folder = env::temp_dir().join(format!("shop-{}", process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        for number in 0..100 {
            let (file, barrier) = (folder.join(format!("{number}.db")), Barrier::new(3));
            let open = || {
                barrier.wait();
                Store::open(&file).map(drop)
            };
            thread::scope(|scope| {
                let all: Vec<_> = (0..3).map(|_| scope.spawn(open)).collect();
                for one in all {
                    one.join().expect("no panic").expect("it opens");
                }
            });
        }
        fs::remove_dir_all(folder).expect("the folder is there");
    }
}
