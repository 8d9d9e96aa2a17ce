//! Why the cluster cannot be used.

use std::error::Error as StdError;
use std::sync::Arc;

use asyncsteps_core::codes;

/// An error of the cluster's database, or of a request to it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting cannot be used.
    #[error("{0}")]
    Config(String),
    /// The name or the key of a lock cannot be used.
    #[error("{0}")]
    Name(String),
    /// The database was not reached, or its answer was lost.
    #[error("the database of the cluster cannot be reached")]
    Unavailable(#[source] Cause),
    /// The server of the database does not run: nobody reaches it.
    #[error("the server of the cluster's database does not run")]
    Down(#[source] Cause),
    /// The database answered with an error.
    #[error("the database of the cluster refused a request")]
    Refused(#[source] Cause),
    /// A later program made the tables.
    #[error("the tables of the cluster have the format {found}, and this program knows {known}")]
    NewerFormat {
        /// The format of the tables.
        found: i64,
        /// The highest one that this program knows.
        known: i64,
    },
    /// The cluster was closed by this node.
    #[error("this node has left the cluster")]
    Closed,
}

/// The error behind an error.
pub type Cause = Arc<dyn StdError + Send + Sync>;

impl Error {
    /// Whether the same request may succeed later, without a change of anything but the database.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Down(_))
    }
}

#[cfg(feature = "postgres")]
impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        // sessions that are of no use any more or were begun while the server took no changes, and requests that met
        // another one
        let is_transient = error.as_db_error().is_none_or(|answer| {
            let code = answer.code().code();
            asyncsteps_postgres::is_lost(answer)
                || ["40", "53", "57014", "25006"].iter().any(|class| code.starts_with(class))
        });
        let cause: Cause = Arc::new(error);
        if is_transient { Self::Unavailable(cause) } else { Self::Refused(cause) }
    }
}

#[cfg(feature = "postgres")]
impl From<asyncsteps_postgres::Silent> for Error {
    fn from(silent: asyncsteps_postgres::Silent) -> Self {
        Self::Unavailable(Arc::new(silent))
    }
}

/// The error of a step or a call that uses a lock.
impl From<Error> for asyncsteps_core::Error {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Name(_) => codes::INVALID_REQUEST,
            Error::Config(_)
            | Error::Unavailable(_)
            | Error::Down(_)
            | Error::Refused(_)
            | Error::NewerFormat { .. }
            | Error::Closed => codes::INTERNAL_ERROR,
        };
        Self::with_info(code, error.to_string()).with_cause(error)
    }
}
