//! Connections to the server.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join;
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Connection, NoTls, Row, Socket, Statement};

use crate::error::{Cause, Error};
use crate::seal::Seal;

/// How long the server may take for one request before the connection counts as lost: a claim that takes
/// a thousand flows from a dead node needs a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// Settings of every connection. A session that stops inside of a transaction, with its process, would
/// keep the locks of its flows: after five seconds the server ends it.
const SETTINGS: &str = "-c synchronous_commit=on -c idle_in_transaction_session_timeout=5000 \
                        -c default_transaction_isolation=read\\ committed";

/// Where the server is, and which tables are meant.
#[derive(Clone, Debug)]
pub(super) struct PostgresServer {
    config: Config,
    /// The same with the search path of the application.
    for_bodies: Config,
    pub(super) seal: Seal,
}

impl PostgresServer {
    pub(super) fn new(mut config: Config, schema: &str, seal: Seal) -> Self {
        let given = config.get_options().unwrap_or_default().to_owned();
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(10));
        }
        let mut for_bodies = config.clone();
        for_bodies.options(format!("{given} {SETTINGS}"));
        config.options(format!("{given} {SETTINGS} -c search_path={schema}"));
        Self { config, for_bodies, seal }
    }

    /// A connection whose messages someone else reads.
    pub(super) async fn connect(&self) -> Result<Connected, SessionFailure> {
        connect(&self.config).await
    }

    /// A connection with its task.
    pub(super) async fn session(&self) -> Result<JournalSession, SessionFailure> {
        JournalSession::open(&self.config, self.seal.clone()).await
    }

    /// A connection on which bodies of the application run, with its task.
    pub(super) async fn session_for_bodies(&self) -> Result<JournalSession, SessionFailure> {
        JournalSession::open(&self.for_bodies, self.seal.clone()).await
    }
}

/// A client, and the connection that has to be read for it.
type Connected = (Client, Connection<Socket, tokio_postgres::tls::NoTlsStream>);

async fn connect(config: &Config) -> Result<Connected, SessionFailure> {
    within(async { Ok(config.connect(NoTls).await?) }).await
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
        // connections that the server ends, and those it does not take yet
        if code.code().starts_with("57P") || code.code().starts_with("08") {
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

/// The server did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("the server did not answer within {PATIENCE:?}")]
struct Silent;

/// Gives up after a while.
pub(super) async fn within<T>(
    request: impl Future<Output = Result<T, SessionFailure>>,
) -> Result<T, SessionFailure> {
    timeout(PATIENCE, request).await.unwrap_or_else(|_| Err(SessionFailure::Lost(Arc::new(Silent))))
}

/// A connection, and its prepared statements.
pub(super) struct JournalSession {
    client: Client,
    prepared: Mutex<HashMap<&'static str, Statement>>,
    /// What rows are sealed with.
    pub(super) seal: Seal,
}

impl JournalSession {
    async fn open(config: &Config, seal: Seal) -> Result<Self, SessionFailure> {
        let (client, connection) = connect(config).await?;
        // it ends with the client, and the next request gets its error
        tokio::spawn(async move { connection.await.ok() });
        Ok(Self { client, prepared: Mutex::default(), seal })
    }

    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Prepares a statement once, so that it is sent at once from then on, in the order in which futures are polled.
    pub(super) async fn prepare(&self, sql: &'static str) -> Result<Statement, SessionFailure> {
        let known = self.prepared.lock().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
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
        Ok(self.client.query(&statement, values).await?)
    }

    pub(super) async fn execute(
        &self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, SessionFailure> {
        let statement = self.prepare(sql).await?;
        Ok(self.client.execute(&statement, values).await?)
    }

    /// Statements without values or rows.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), SessionFailure> {
        Ok(self.client.batch_execute(sql).await?)
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
