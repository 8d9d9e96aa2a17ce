//! Locks in a PostgreSQL database.

mod listen;
mod schema;
mod session;

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_postgres::{Connected, Dial, DialError, LibpqOptions, PLANS, SILENT_AFTER};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::{Answer, ClusterNodeId, Freed, LockId, LockStore, Quota, QuotaShare, Taken};
use crate::error::Error;
use session::StatementValue::{self, Int, Text};
use session::StoreSession;

/// Settings of every connection. What the server answered survives a loss of power; no request waits for
/// longer than this node waits for its answer.
const SETTINGS: [(&str, &str); 3] = [
    ("synchronous_commit", "on"),
    ("statement_timeout", "3s"),
    ("default_transaction_isolation", "read committed"),
];

/// Locks in a schema of a PostgreSQL database. A request is one call of a function of the schema, so one transaction that
/// ends whatever becomes of its caller.
#[derive(derive_more::Debug)]
#[debug("Postgres {{ schema: {:?}, .. }}", self.database.schema)]
pub struct Postgres {
    database: Arc<LockDatabase>,
    requests: StoreSession,
    /// Renewals have a connection of their own, so that no other request delays them.
    leases: StoreSession,
}

/// Where the database is, and which tables are meant.
struct LockDatabase {
    dial: Dial,
    has_one_host: bool,
    schema: String,
}

impl Postgres {
    /// Makes the tables and functions, unless they are there. The files of `libpq` are read whenever a connection is
    /// made. Sessions have the name of the program and the version of this crate (`application_name`), if `server` has no
    /// other name for them.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the server is not reached, [`Error::NewerFormat`] if a later program made the tables, or
    /// [`Error::Refused`] by the server, such as for a lack of rights.
    ///
    /// # Cancel safety
    /// Dropping the future leaves all tables or none.
    pub async fn connect(
        mut server: tokio_postgres::Config,
        libpq: LibpqOptions,
        schema: &str,
    ) -> Result<Self, Error> {
        if server.get_application_name().is_none() {
            server.application_name(program());
        }
        let has_one_host = server.get_hosts().len() == 1;
        let settings = [&SETTINGS[..], &PLANS, &[("search_path", schema)]].concat();
        let dial = Dial::new(server, libpq, &settings, SILENT_AFTER);
        let database = Arc::new(LockDatabase { dial, has_one_host, schema: schema.to_owned() });
        database.dial.check_sessions().await.map_err(|error| database.not_dialled(error))?;
        schema::set_up(&database).await?;
        let [requests, leases] = [(); 2].map(|()| StoreSession::new(Arc::clone(&database)));
        Ok(Self { database, requests, leases })
    }
}

impl LockDatabase {
    async fn connect(&self) -> Result<Connected, Error> {
        self.dial.connect().await.map_err(|error| self.not_dialled(error))
    }

    fn not_dialled(&self, error: DialError) -> Error {
        let DialError::Refused(error) = error else { return Error::Unavailable(Arc::new(error)) };
        self.connect_error(error.into())
    }

    /// Where nothing listens, no server runs, if there is no other place.
    fn connect_error(&self, error: Error) -> Error {
        let Error::Unavailable(cause) = error else { return error };
        let source = cause.source().and_then(|source| source.downcast_ref::<io::Error>());
        let is_down = source.is_some_and(|source| {
            matches!(source.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
        });
        if is_down && self.has_one_host { Error::Down(cause) } else { Error::Unavailable(cause) }
    }
}

impl LockStore for Postgres {
    fn register(&self, lease: Duration) -> Answer<'_, ClusterNodeId> {
        Box::pin(async move {
            let rows = self.leases.query("SELECT register($1)", &[Int(millis(lease))]).await?;
            Ok(ClusterNodeId(one(&rows, 0)?))
        })
    }

    fn renew(&self, node: ClusterNodeId, lease: Duration) -> Answer<'_, bool> {
        Box::pin(async move {
            let values = [Int(node.0), Int(millis(lease))];
            one(&self.leases.query("SELECT renew($1, $2)", &values).await?, 0)
        })
    }

    fn session_ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.leases.ended())
    }

    fn leave(&self, node: ClusterNodeId) -> Answer<'_, ()> {
        Box::pin(async move { self.done("SELECT leave($1)", &[Int(node.0)]).await })
    }

    fn take<'a>(&'a self, lock: &'a LockId, node: ClusterNodeId) -> Answer<'a, Taken> {
        Box::pin(async move {
            let values = [Text(lock.name), Text(&lock.key), Int(node.0)];
            let sql = "SELECT drawn, held_for FROM take($1, $2, $3)";
            let rows = self.requests.query(sql, &values).await?;
            if let Some(epoch) = one::<Option<i64>>(&rows, 0)? {
                return Ok(Taken::Epoch(epoch.unsigned_abs()));
            }
            Ok(one::<Option<i64>>(&rows, 1)?.map_or(Taken::NoLease, |left| Taken::Held(time(left))))
        })
    }

    fn give_back<'a>(&'a self, lock: &'a LockId, epoch: u64) -> Answer<'a, ()> {
        Box::pin(async move {
            let epoch = i64::try_from(epoch).unwrap_or(i64::MAX);
            let values = [Text(lock.name), Text(&lock.key), Int(epoch)];
            self.done("SELECT give_back($1, $2, $3)", &values).await
        })
    }

    fn share<'a>(
        &'a self,
        quota: &'a Quota,
        node: ClusterNodeId,
        has: u32,
    ) -> Answer<'a, Option<QuotaShare>> {
        Box::pin(async move {
            let (has, total) = (i64::from(has), i64::from(quota.total));
            let values = [
                Text(&quota.name),
                Text(&quota.key),
                Int(node.0),
                Int(has),
                Int(total),
                Int(millis(quota.period)),
            ];
            let sql = "SELECT granted, counts_in FROM share_in($1, $2, $3, $4, $5, $6)";
            let rows = self.requests.query(sql, &values).await?;
            let Some(units) = one::<Option<i64>>(&rows, 0)? else { return Ok(None) };
            let counts_in = time(one::<Option<i64>>(&rows, 1)?.unwrap_or_default());
            Ok(Some(QuotaShare { units: u32::try_from(units).unwrap_or_default(), counts_in }))
        })
    }

    fn return_share<'a>(&'a self, quota: &'a Quota, node: ClusterNodeId) -> Answer<'a, ()> {
        Box::pin(async move {
            let period = millis(quota.period);
            let values = [Text(&quota.name), Text(&quota.key), Int(node.0), Int(period)];
            self.done("SELECT return_share($1, $2, $3, $4)", &values).await
        })
    }

    fn count<'a>(
        &'a self,
        lock: &'a LockId,
        max: u32,
        period: Duration,
    ) -> Answer<'a, Option<Duration>> {
        Box::pin(async move {
            let (max, period) = (i64::from(max), millis(period));
            let values = [Text(lock.name), Text(&lock.key), Int(max), Int(period)];
            let sql = "SELECT count_entry($1, $2, $3, $4)";
            let left: i64 = one(&self.requests.query(sql, &values).await?, 0)?;
            Ok((left > 0).then(|| time(left)))
        })
    }

    fn trim(&self) -> Answer<'_, ()> {
        Box::pin(self.done("SELECT trim_rows()", &[]))
    }

    fn listen<'a>(&'a self, freed: &'a Freed<'a>) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(listen::listen(&self.database, freed))
    }
}

impl Postgres {
    async fn done(&self, sql: &str, values: &[StatementValue<'_>]) -> Result<(), Error> {
        self.requests.query(sql, values).await.map(drop)
    }
}

/// The name of the process, and the version of this crate.
fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    format!("{name} with {} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
}

fn one<'a, T: FromSql<'a>>(rows: &'a [Row], column: usize) -> Result<T, Error> {
    let Some(row) = rows.first() else {
        return Err(Error::Refused(Arc::new(NoRow)));
    };
    Ok(row.try_get(column)?)
}

/// A function of the schema returned nothing.
#[derive(Debug, thiserror::Error)]
#[error("a function of the cluster's schema returned no row")]
struct NoRow;

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn time(millis: i64) -> Duration {
    Duration::from_millis(millis.unsigned_abs())
}
