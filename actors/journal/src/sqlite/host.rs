//! Runs bodies of the application within a transaction of the journal.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use asyncsteps_core::{BodyResult, StepError, codes};
use rusqlite::{Connection, ErrorCode};

use super::guest::{Guest, SAVEPOINT};
use super::tables::{SqliteTables, db_error};
use crate::error::Error;

/// How a body ended, and what becomes of its changes.
pub(super) enum BodyEnd<A> {
    /// It stays, if the transaction is committed.
    Kept(A),
    /// It is rolled back.
    RolledBack(A),
    /// It is rolled back, because the body panicked.
    Panicked(Box<dyn Any + Send>),
}

impl SqliteTables {
    /// Runs a body of the application, and then what decides whether its effect stays.
    ///
    /// # Errors
    /// If the transaction cannot go on. If that is because of the body, its error is left in `failure`.
    pub(super) fn host<T, A>(
        &self,
        body: &mut impl FnMut(&Connection) -> BodyResult<T>,
        failure: &mut Option<asyncsteps_core::Error>,
        decide: impl FnOnce(Result<T, asyncsteps_core::Error>) -> Result<BodyEnd<A>, Error>,
    ) -> Result<BodyEnd<A>, Error> {
        self.savepoint("SAVEPOINT")?;
        let result = {
            let _inside = self.guest.as_ref().map(Guest::enter);
            catch_unwind(AssertUnwindSafe(|| body(&self.db)))
        };
        let result = result.map(|result| result.map_err(StepError::into_error));
        if let Ok(Err(error)) = &result
            && let Some(error) = of_storage(error)
        {
            return Err(error);
        }
        if self.db.is_autocommit() {
            let ended = || asyncsteps_core::Error::caused_by(codes::INTERNAL_ERROR, NoTransaction);
            *failure = Some(result.ok().and_then(Result::err).unwrap_or_else(ended));
            return Err(Error::Storage(Arc::new(NoTransaction)));
        }
        let ended = match result {
            Ok(result) => decide(result)?,
            Err(payload) => BodyEnd::Panicked(payload),
        };
        if !matches!(ended, BodyEnd::Kept(_)) {
            self.savepoint("ROLLBACK TO")?;
        }
        self.savepoint("RELEASE")?;
        Ok(ended)
    }

    fn savepoint(&self, order: &str) -> Result<(), Error> {
        self.prepare(&format!("{order} {SAVEPOINT}"))?.execute([]).map_err(db_error)?;
        Ok(())
    }
}

/// The body has ended the transaction, or a constraint of the application did.
#[derive(Debug, thiserror::Error)]
#[error("the body of a step has ended its transaction")]
struct NoTransaction;

/// The failure of the storage behind the error of a body: it may pass.
fn of_storage(error: &asyncsteps_core::Error) -> Option<Error> {
    let code = error.find::<rusqlite::Error>()?.sqlite_error_code()?;
    let cause = || Arc::new(error.clone());
    if code == ErrorCode::DiskFull {
        Some(Error::DiskFull(cause()))
    } else if code == ErrorCode::ReadOnly {
        Some(Error::ReadOnly(cause()))
    } else if [ErrorCode::SystemIoFailure, ErrorCode::OutOfMemory].contains(&code) {
        Some(Error::Storage(cause()))
    } else {
        None
    }
}
