//! Errors of stores that are away for a while: full, locked, or not reached.

use std::io;

use crate::error::{Error, Repeat};

/// Whether this error is of a store that may answer later, or an error of one caused it: a journal that is not
/// reached; a database in SQLite (feature `sqlite`) that is full, locked or cannot be read or written now; a server of
/// PostgreSQL (feature `postgres`) that is lost, lacks room, or can only be read; a disk that is full.
#[must_use]
pub fn is_store_away(error: &asyncsteps_core::Error) -> bool {
    const FULL: [io::ErrorKind; 3] = [
        io::ErrorKind::StorageFull,
        io::ErrorKind::QuotaExceeded,
        io::ErrorKind::ReadOnlyFilesystem,
    ];
    error.find::<Error>().is_some_and(|error| error.repeat() != Repeat::Never)
        || error.find::<io::Error>().is_some_and(|error| FULL.contains(&error.kind()))
        || is_sqlite_away(error)
        || is_postgres_away(error)
}

#[cfg(feature = "sqlite")]
fn is_sqlite_away(error: &asyncsteps_core::Error) -> bool {
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, OutOfMemory, ReadOnly, SystemIoFailure,
    };

    const AWAY: [rusqlite::ErrorCode; 7] = [
        CannotOpen,
        DatabaseBusy,
        DatabaseLocked,
        DiskFull,
        OutOfMemory,
        ReadOnly,
        SystemIoFailure,
    ];
    // also behind one that is shared, which is not found by its own type
    error.find::<rusqlite::ffi::Error>().is_some_and(|error| AWAY.contains(&error.code))
}

#[cfg(not(feature = "sqlite"))]
fn is_sqlite_away(_: &asyncsteps_core::Error) -> bool {
    false
}

#[cfg(feature = "postgres")]
fn is_postgres_away(error: &asyncsteps_core::Error) -> bool {
    use std::error::Error as _;

    if let Some(answer) = error.find::<tokio_postgres::error::DbError>() {
        let code = answer.code().code();
        return ["08", "53", "57P"].iter().any(|class| code.starts_with(class)) || code == "25006";
    }
    error.find::<tokio_postgres::Error>().is_some_and(|error| {
        error.is_closed() || error.source().is_some_and(|source| source.is::<io::Error>())
    })
}

#[cfg(not(feature = "postgres"))]
fn is_postgres_away(_: &asyncsteps_core::Error) -> bool {
    false
}

#[cfg(all(test, feature = "sqlite", feature = "postgres"))]
mod tests {
    use rusqlite::ffi::{self, SQLITE_BUSY_SNAPSHOT, SQLITE_CONSTRAINT, SQLITE_IOERR_WRITE};
    use tokio_postgres::NoTls;

    use super::*;
    use crate::{Refused, Uid};

    fn is_away(cause: impl std::error::Error + Send + Sync + 'static) -> bool {
        is_store_away(&asyncsteps_core::Error::caused_by("InternalError", cause))
    }

    #[tokio::test]
    async fn a_store_is_away_that_may_answer_later() {
        let sqlite = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        assert!(is_away(sqlite(SQLITE_IOERR_WRITE)) && is_away(sqlite(SQLITE_BUSY_SNAPSHOT)));
        assert!(!is_away(sqlite(SQLITE_CONSTRAINT)));
        assert!(is_away(io::Error::from(io::ErrorKind::StorageFull)));
        assert!(!is_away(io::Error::from(io::ErrorKind::NotFound)));
        let uid = Uid::random().expect("there is chance");
        assert!(!is_away(Error::from(Refused::NoFlow(uid))));
        // nothing listens there
        let refused = tokio_postgres::connect("host=127.0.0.1 port=1 user=ann", NoTls).await;
        assert!(is_away(refused.err().expect("it is refused")));
        let wrong = "host".parse::<tokio_postgres::Config>().expect_err("it has no value");
        assert!(!is_away(wrong));
    }
}
