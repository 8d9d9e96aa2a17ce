//! Transactions of the application in the file of the journal.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::sync::Arc;

use asyncsteps_core::BodyResult;
use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Sqlite;
use super::host::BodyEnd;
use super::tables::SqliteTables;
use crate::check;
use crate::error::Error;
use crate::moment::Moment;
use crate::ran::{Ran, refused};
use crate::time::{Clock, SystemClock};
use crate::transaction::{self, Committed, Database, Local, Prepared, StepEntry};

/// The work of the application in a transaction of the journal's file, see [`Sqlite::transaction`]. Nothing is done
/// before it is awaited, or passed to a step.
#[derive(derive_more::Debug)]
#[must_use = "nothing is done before it is awaited, or given to a step"]
pub struct Transaction<T, F> {
    journal: Sqlite,
    #[debug(skip)]
    body: F,
    #[debug(skip)]
    gives: PhantomData<fn() -> T>,
}

impl Sqlite {
    /// Does something with the application's own tables, which are in the journal's file next to its
    /// own (`emitted`, `flow`, `flow_tag`, `journal`, `node`, `program`, `record`, `schedule` and `signal`).
    ///
    /// A step of a durable request [commits](crate::Transaction) it together with its record: exactly once.
    /// Awaited by itself it is a transaction without a record, to make tables or to read.
    ///
    /// The body runs on the thread of the journal that writes, so all other writers wait for it: it only asks the
    /// database. It may run again if its changes could not be committed; then the first run is rolled back. It can use
    /// savepoints, and can neither end the transaction nor write to the tables of the journal. An error or a panic
    /// rolls back its changes.
    ///
    /// ```
    /// # use asyncsteps_journal::sqlite::{Options, Sqlite};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// # let folder = std::env::temp_dir().join(format!("journal-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let journal = Sqlite::open(folder.join("shop.db"), Options::new("shop 1.0"))?;
    /// let stock = journal.transaction(|db| {
    ///     db.execute_batch("CREATE TABLE IF NOT EXISTS stock (sku TEXT PRIMARY KEY, count INTEGER)")?;
    ///     db.execute("INSERT INTO stock VALUES (?1, ?2)", ("apple", 3))?;
    ///     Ok(db.query_row("SELECT sum(count) FROM stock", [], |row| row.get::<_, i64>(0))?)
    /// });
    /// assert_eq!(stock.await.map_err(|raised| raised.into_error())?, 3);
    /// # drop(journal);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of the body; InternalError if the transaction cannot be committed.
    ///
    /// # Cancel safety
    /// If the future is dropped, it may be done or not.
    pub fn transaction<T, F>(&self, body: F) -> Transaction<T, F>
    where
        T: 'static,
        F: FnMut(&Connection) -> BodyResult<T> + Send + 'static,
    {
        Transaction { journal: self.clone(), body, gives: PhantomData }
    }
}

/// A body that may run several times.
struct TransactionBody<F> {
    body: F,
    /// The error with which it broke the transaction.
    failure: Option<asyncsteps_core::Error>,
    /// Its result when it was to be committed.
    ran: Option<Ran>,
}

/// Shared with the thread that writes.
struct SharedBody<F>(Arc<Mutex<TransactionBody<F>>>);

impl<F: Send + 'static> SharedBody<F> {
    fn new(body: F) -> Self {
        Self(Arc::new(Mutex::new(TransactionBody { body, failure: None, ran: None })))
    }

    /// Lets the writing thread run the body.
    async fn run<A: Send + 'static>(
        &self,
        journal: &Sqlite,
        work: impl Fn(&SqliteTables, &mut TransactionBody<F>, Moment) -> Result<BodyEnd<A>, Error>
        + Send
        + 'static,
    ) -> Result<A, NoAnswer> {
        let guest = Arc::clone(&self.0);
        let work = move |tables: &SqliteTables, now| work(tables, &mut guest.lock(), now);
        match journal.0.writer.run(work).await {
            Ok(BodyEnd::Kept(answer) | BodyEnd::RolledBack(answer)) => Ok(answer),
            Ok(BodyEnd::Panicked(payload)) => Err(NoAnswer::Panicked(payload)),
            Err(error) => Err(match self.0.lock().failure.take() {
                Some(failure) => NoAnswer::Failed(failure),
                None if is_constraint(&error) => NoAnswer::Failed(refused(error)),
                None => NoAnswer::Error(error),
            }),
        }
    }
}

/// Why there is no answer.
enum NoAnswer {
    /// The body broke the transaction.
    Failed(asyncsteps_core::Error),
    Panicked(Box<dyn Any + Send>),
    Error(Error),
}

/// Whether the commit failed because of a constraint that is checked then.
fn is_constraint(error: &Error) -> bool {
    let (Error::Storage(cause) | Error::AnswerLost(cause)) = error else { return false };
    let cause = cause.downcast_ref::<rusqlite::Error>();
    cause.and_then(rusqlite::Error::sqlite_error_code) == Some(ErrorCode::ConstraintViolation)
}

impl<T, F> Transaction<T, F>
where
    T: Send + 'static,
    F: FnMut(&Connection) -> BodyResult<T> + Send + 'static,
{
    async fn commit(self) -> BodyResult<T> {
        let Self { journal, body, .. } = self;
        let work = |tables: &SqliteTables, guest: &mut TransactionBody<F>, _| {
            let TransactionBody { body, failure, .. } = guest;
            tables.host(body, failure, |result| {
                Ok(match result {
                    Ok(value) => BodyEnd::Kept(Ok(value)),
                    Err(error) => BodyEnd::RolledBack(Err(error)),
                })
            })
        };
        match SharedBody::new(body).run(&journal, work).await {
            Ok(result) => Ok(result?),
            Err(NoAnswer::Failed(failure)) => Err(failure.into()),
            Err(NoAnswer::Panicked(payload)) => resume_unwind(payload),
            Err(NoAnswer::Error(error)) => Err(refused(error).into()),
        }
    }
}

impl<T, F> IntoFuture for Transaction<T, F>
where
    T: Send + 'static,
    F: FnMut(&Connection) -> BodyResult<T> + Send + 'static,
{
    type Output = BodyResult<T>;
    type IntoFuture = Local<'static, BodyResult<T>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.commit())
    }
}

impl<T, F> transaction::Transaction for Transaction<T, F>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    F: FnMut(&Connection) -> BodyResult<T> + Send + 'static,
{
    type Output = T;

    fn database(&self) -> Database {
        self.journal.0.database
    }

    fn commit(self) -> Local<'static, BodyResult<T>> {
        self.into_future()
    }

    fn prepare(self) -> Local<'static, BodyResult<Box<dyn Prepared>>> {
        let Self { journal, body, gives } = self;
        let prepared = RecordedTransaction { journal, body: SharedBody::new(body), gives };
        Box::pin(async { Ok(Box::new(prepared) as Box<dyn Prepared>) })
    }
}

/// A transaction that is committed with its record: its body runs then, on the thread that writes.
struct RecordedTransaction<T, F> {
    journal: Sqlite,
    body: SharedBody<F>,
    gives: PhantomData<fn() -> T>,
}

impl<T, F> Prepared for RecordedTransaction<T, F>
where
    T: Serialize + DeserializeOwned + 'static,
    F: FnMut(&Connection) -> BodyResult<T> + Send + 'static,
{
    fn commit<'a>(&'a mut self, step: &'a StepEntry) -> Local<'a, Result<Committed, Error>> {
        let step = step.clone();
        let work = move |tables: &SqliteTables, guest: &mut TransactionBody<F>, now| {
            tables.transact(&step, now, guest)
        };
        Box::pin(async move {
            match self.body.run(&self.journal, work).await {
                Ok(committed) => Ok(committed),
                Err(NoAnswer::Failed(failure)) => Ok(Committed::Failed(failure)),
                Err(NoAnswer::Panicked(payload)) => resume_unwind(payload),
                Err(NoAnswer::Error(error)) => Err(error),
            }
        })
    }
}

impl SqliteTables {
    /// Runs the body of a step, and appends the record of its result.
    fn transact<T, F>(
        &self,
        step: &StepEntry,
        now: Moment,
        TransactionBody { body, failure, ran }: &mut TransactionBody<F>,
    ) -> Result<BodyEnd<Committed>, Error>
    where
        T: Serialize + DeserializeOwned,
        F: FnMut(&Connection) -> BodyResult<T>,
    {
        match self.answered(step, ran.as_ref()) {
            Ok(None) => {}
            Ok(Some(answer)) => return Ok(answer),
            Err(Error::Refused(refused)) => {
                return Ok(BodyEnd::RolledBack(Committed::NotWritten(refused.into())));
            }
            Err(error) => return Err(error),
        }
        let began = SystemClock.now();
        self.host(body, failure, |result| {
            let ran = match result.and_then(|result| Ran::new(&result, began)) {
                Ok(result) => ran.insert(result),
                Err(error) => return Ok(BodyEnd::RolledBack(Committed::Failed(error))),
            };
            let answer = match ran.entry(step, &self.seal) {
                (entry, Ok(records)) => self.append_entry(&entry, &records, now)?,
                (_, Err(refused)) => Err(refused.into()),
            };
            Ok(match ran.committed(step, answer) {
                written @ Committed::Written(..) => BodyEnd::Kept(written),
                other @ (Committed::NotWritten(_) | Committed::Failed(_)) => {
                    BodyEnd::RolledBack(other)
                }
            })
        })
    }

    /// The answer to a step that was committed when it ran before, or whose flow has another owner.
    fn answered(
        &self,
        step: &StepEntry,
        ran: Option<&Ran>,
    ) -> Result<Option<BodyEnd<Committed>>, Error> {
        let flow = self.flow(step.append.uid)?;
        let not_written = |why| Ok(Some(BodyEnd::RolledBack(Committed::NotWritten(why))));
        if let Some(ran) = ran {
            let (entry, _) = ran.entry(step, &self.seal);
            let known = self.known_records(&flow, &entry)?;
            match check::repeated(&entry, known, &flow) {
                Ok(None) => {}
                Ok(written) => {
                    return Ok(written.map(|it| BodyEnd::Kept(ran.committed(step, Ok(it)))));
                }
                Err(taken) => return not_written(taken),
            }
        }
        match flow.check_owner(step.append.epoch) {
            Ok(()) => Ok(None),
            Err(stale) => not_written(stale),
        }
    }
}
