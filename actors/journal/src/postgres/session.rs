//! Connections to the server.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use asyncsteps_postgres::{Connected, Dial, DialError, LibpqOptions, PLANS, Silent, is_lost};
use futures_util::future::try_join;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Row, Statement};

use super::tasks::TaskThread;
use crate::error::{Cause, Error};
use crate::seal::Seal;

/// How long the server may take for one request before the connection counts as lost: a claim that takes
/// a thousand flows from a dead node needs a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// Settings of every connection. A session that stops inside of a transaction, with its process, would
/// keep the locks of its flows: after five seconds the server ends it.
pub(super) const SETTINGS: [(&str, &str); 3] = [
    ("synchronous_commit", "on"),
    ("idle_in_transaction_session_timeout", "5s"),
    ("default_transaction_isolation", "read committed"),
];

/// Where the servers are, and which tables are meant.
#[derive(Debug)]
pub(super) struct PostgresServer {
    pub(super) tasks: TaskThread,
    dial: Dial,
    /// The same with the search path of the application.
    for_bodies: Dial,
    /// Changes when the server has been silent: then no session before is of use.
    silences: watch::Sender<()>,
    pub(super) seal: Seal,
}

impl PostgresServer {
    pub(super) fn new(
        tasks: TaskThread,
        (config, libpq, silent_after): (Config, LibpqOptions, Duration),
        schema: &str,
        seal: Seal,
    ) -> Self {
        let dial =
            |settings: &[_]| Dial::new(config.clone(), libpq.clone(), settings, silent_after);
        let for_bodies = dial(&SETTINGS);
        let dial = dial(&[&SETTINGS[..], &PLANS, &[("search_path", schema)]].concat());
        Self { tasks, dial, for_bodies, silences: watch::Sender::new(()), seal }
    }

    /// Fails if sessions do not keep what they set.
    pub(super) async fn check_sessions(&self) -> Result<(), SessionFailure> {
        Ok(self.dial.check_sessions().await?)
    }

    /// A connection whose messages someone else reads.
    pub(super) async fn connect(&self) -> Result<Connected, SessionFailure> {
        Ok(self.dial.connect().await?)
    }

    /// Waits for an answer as long as the server may be silent.
    pub(super) async fn within<T>(
        &self,
        request: impl Future<Output = Result<T, SessionFailure>>,
    ) -> Result<T, SessionFailure> {
        self.dial.within(request).await
    }

    /// The server is silent: requests in flight have no answer, and are made again on other sessions.
    pub(super) fn drop_sessions(&self) {
        self.silences.send_replace(());
    }

    /// A connection with its task.
    pub(super) async fn session(&self) -> Result<JournalSession, SessionFailure> {
        self.open(&self.dial).await
    }

    /// A connection on which bodies of the application run, with its task.
    pub(super) async fn session_for_bodies(&self) -> Result<JournalSession, SessionFailure> {
        self.open(&self.for_bodies).await
    }

    async fn open(&self, dial: &Dial) -> Result<JournalSession, SessionFailure> {
        let (dial, seal, mut silences) =
            (dial.clone(), self.seal.clone(), self.silences.subscribe());
        let opening = async move {
            let (client, connection) = dial.connect().await?;
            // it ends with the client or when the server is silent, and the next request gets its error
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    _ = connection => {}
                    Ok(()) = silences.changed() => {}
                }
            });
            let (prepared, is_spent) = (Mutex::default(), AtomicBool::new(false));
            Ok(JournalSession { client, prepared, is_spent, seal })
        };
        self.tasks.run(opening).await
    }
}

/// Why a request was not answered.
#[derive(Debug)]
pub(super) enum SessionFailure {
    /// The connection is lost: the request may have been done.
    Lost(Cause),
    /// It came into the way of another one, and nothing was done.
    Conflict(Cause),
    /// It was answered with an error, and nothing was done.
    Answered(Error),
}

impl SessionFailure {
    /// The failure, if the server has decided for another transaction.
    pub(super) fn conflict(error: &tokio_postgres::Error) -> Option<Self> {
        let conflicts = [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
        let answer = error.as_db_error().filter(|answer| conflicts.contains(answer.code()))?;
        Some(Self::Conflict(Arc::new(answer.clone())))
    }

    /// Whether a row of the request is there already.
    pub(super) fn is_stored(&self) -> bool {
        let Self::Answered(Error::Storage(cause)) = self else { return false };
        let error = cause.downcast_ref::<tokio_postgres::Error>();
        error.and_then(tokio_postgres::Error::code) == Some(&SqlState::UNIQUE_VIOLATION)
    }

    /// Whether the server said nothing.
    pub(super) fn is_silence(&self) -> bool {
        let Self::Lost(cause) = self else { return false };
        cause.is::<Silent>() || matches!(cause.downcast_ref(), Some(DialError::Silent(_)))
    }

    /// The error for an asker who has to repeat the request.
    pub(super) fn told(self) -> Error {
        match self {
            Self::Lost(cause) => Error::AnswerLost(cause),
            Self::Conflict(cause) => Error::Unavailable(cause),
            Self::Answered(error) => error,
        }
    }
}

impl From<Error> for SessionFailure {
    fn from(error: Error) -> Self {
        Self::Answered(error)
    }
}

impl From<crate::error::Refused> for SessionFailure {
    fn from(refused: crate::error::Refused) -> Self {
        Self::Answered(refused.into())
    }
}

impl From<tokio_postgres::Error> for SessionFailure {
    fn from(error: tokio_postgres::Error) -> Self {
        let code = error.as_db_error().map(|answer| answer.code().clone());
        let is_lost = error.as_db_error().is_some_and(is_lost);
        // a conversion of a row fails in this process
        let is_foreign = error.source().is_some_and(|source| {
            source.is::<tokio_postgres::types::WrongType>()
                || source.is::<tokio_postgres::types::WasNull>()
        });
        if let Some(conflict) = Self::conflict(&error) {
            return conflict;
        }
        let cause: Cause = Arc::new(error);
        let Some(code) = code else {
            let damaged = is_foreign.then(|| Self::Answered(Error::Damaged(cause.clone())));
            return damaged.unwrap_or(Self::Lost(cause));
        };
        if is_lost {
            return Self::Lost(cause);
        }
        Self::Answered(match code.code() {
            "53100" => Error::DiskFull(cause),
            "25006" => Error::ReadOnly(cause),
            "XX001" | "XX002" => Error::Damaged(cause),
            _ => Error::Storage(cause),
        })
    }
}

impl From<Silent> for SessionFailure {
    fn from(silent: Silent) -> Self {
        Self::Lost(Arc::new(silent))
    }
}

impl From<DialError> for SessionFailure {
    fn from(error: DialError) -> Self {
        let DialError::Refused(error) = error else { return Self::Lost(Arc::new(error)) };
        error.into()
    }
}

/// The server takes no changes on a session.
#[derive(Debug, thiserror::Error)]
#[error("the server takes no changes")]
struct TakesNoChanges;

/// A session that takes no changes is as one that is lost.
pub(super) fn read_only() -> SessionFailure {
    SessionFailure::Lost(Arc::new(TakesNoChanges))
}

/// Gives up after a while.
pub(super) async fn within<T>(
    request: impl Future<Output = Result<T, SessionFailure>>,
) -> Result<T, SessionFailure> {
    timeout(PATIENCE, request).await.unwrap_or_else(|_| Err(Silent(PATIENCE).into()))
}

/// A connection, and its prepared statements.
pub(super) struct JournalSession {
    client: Client,
    prepared: Mutex<HashMap<&'static str, Statement>>,
    /// It was begun while the server took no changes, or does not know it any more.
    is_spent: AtomicBool,
    /// What rows are sealed with.
    pub(super) seal: Seal,
}

impl JournalSession {
    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_spent.load(Ordering::Relaxed) || self.client.is_closed()
    }

    /// The failure of a request; another session may do better.
    fn failed(&self, error: tokio_postgres::Error) -> SessionFailure {
        let failure = SessionFailure::from(error);
        let is_spent = matches!(
            failure,
            SessionFailure::Lost(_) | SessionFailure::Answered(Error::ReadOnly(_))
        );
        self.is_spent.fetch_or(is_spent, Ordering::Relaxed);
        failure
    }

    /// Whether the server takes no changes on it.
    pub(super) async fn is_read_only(&self) -> Result<bool, SessionFailure> {
        let rows = self.query("SELECT current_setting('transaction_read_only')::bool", &[]).await?;
        Ok(rows.first().ok_or_else(super::tables::foreign)?.try_get(0)?)
    }

    /// Prepares a statement once, so that it is sent at once from then on, in the order in which futures are polled.
    pub(super) async fn prepare(&self, sql: &'static str) -> Result<Statement, SessionFailure> {
        let known = self.prepared.lock().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await.map_err(|it| self.failed(it))?;
        let mut prepared = self.prepared.lock();
        prepared.insert(sql, statement.clone());
        Ok(statement)
    }

    pub(super) async fn query(
        &self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, SessionFailure> {
        let statement = self.prepare(sql).await?;
        self.client.query(&statement, values).await.map_err(|it| self.failed(it))
    }

    pub(super) async fn execute(
        &self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, SessionFailure> {
        let statement = self.prepare(sql).await?;
        self.client.execute(&statement, values).await.map_err(|it| self.failed(it))
    }

    /// Statements without values or rows.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), SessionFailure> {
        self.client.batch_execute(sql).await.map_err(|it| self.failed(it))
    }

    /// Does something in a transaction. If it fails, the session cannot be used any more: the
    /// server ends the transaction with it.
    pub(super) async fn transaction<T>(
        &self,
        work: impl Future<Output = Result<T, SessionFailure>>,
    ) -> Result<T, SessionFailure> {
        self.in_transaction(async {
            let result = work.await?;
            self.batch("COMMIT").await?;
            Ok(result)
        })
        .await
    }

    /// The same for work that commits by itself. What it sends first goes behind the beginning at once, because
    /// nothing but a lost connection keeps a transaction from beginning.
    pub(super) async fn in_transaction<T>(
        &self,
        work: impl Future<Output = Result<T, SessionFailure>>,
    ) -> Result<T, SessionFailure> {
        within(async {
            match try_join(self.batch("BEGIN"), work).await {
                Ok(((), result)) => Ok(result),
                Err(failure) => {
                    // the first failure is reported
                    let _ = self.batch("ROLLBACK").await;
                    Err(failure)
                }
            }
        })
        .await
    }
}
