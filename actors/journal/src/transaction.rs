//! Transactions of the application in the database of a journal.

use std::future::Future;
use std::pin::Pin;

use asyncsteps_core::BodyResult;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, NotWritten};
use crate::path::Path;
use crate::record::Record;
use crate::request::{Append, Appended};

/// A future that stays on its thread.
pub type Local<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The database of an open journal. Clones of a journal have the same one; a journal that is opened again
/// has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Database(u64);

impl Database {
    /// The database of a journal that is being opened.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn open() -> Self {
        use std::sync::atomic::{AtomicU64, Ordering};

        static OPENED: AtomicU64 = AtomicU64::new(0);
        Self(OPENED.fetch_add(1, Ordering::Relaxed))
    }
}

/// The work of the application in one transaction of the journal's database: alone, or together with
/// the record of the step that does it.
///
/// `Sqlite::transaction` and `Postgres::transaction` make one.
pub trait Transaction: 'static {
    /// Its result.
    type Output: Serialize + DeserializeOwned + 'static;

    /// Where it commits.
    fn database(&self) -> Database;

    /// Does it, and commits it without a record.
    ///
    /// # Errors
    /// The error of the body, or InternalError if it cannot be committed.
    fn commit(self) -> Local<'static, BodyResult<Self::Output>>;

    /// Runs the part that can be done before its record has a number.
    ///
    /// # Errors
    /// The error of the body.
    fn prepare(self) -> Local<'static, BodyResult<Box<dyn Prepared>>>;
}

/// A transaction that is to be committed with the record of its step. Dropping it rolls it back.
pub trait Prepared {
    /// Commits it with its record. If the answer is lost, the same is asked again until it is answered: it
    /// commits once.
    ///
    /// # Errors
    /// The errors of the storage, as for [`Journal::append`](crate::Journal::append).
    ///
    /// # Panics
    /// If the body does.
    fn commit<'a>(&'a mut self, step: &'a StepEntry) -> Local<'a, Result<Committed, Error>>;
}

/// The append to the flow of a step with its transaction.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "it is what an owner of a flow says")]
pub struct StepEntry {
    /// The entry, without the record of the result, which comes last.
    pub append: Append,
    /// The step.
    pub path: Path,
    /// Which attempt of it this is, from 1.
    pub attempt: u32,
}

/// How the transaction of a step ended.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "each answer needs its own behaviour")]
pub enum Committed {
    /// It is committed, and so is this record.
    Written(Appended, Record),
    /// The record was not written, and nothing of the transaction is left.
    NotWritten(NotWritten),
    /// The body failed, and nothing of the transaction is left.
    Failed(asyncsteps_core::Error),
}
