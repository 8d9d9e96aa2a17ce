//! What a node asks of the database.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use super::Database;
use super::session::{Session, Value};
use crate::error::Error;
use crate::lock_id::LockId;
use crate::quota::Quota;

/// Requests on one connection.
pub(crate) struct Requests(Session);

/// The answer to the wish for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is taken, with this epoch.
    Epoch(u64),
    /// Another node has it, with a lease for so long.
    Held(Duration),
    /// This node has no lease.
    NoLease,
}

impl Requests {
    pub(crate) fn new(database: &Arc<Database>) -> Self {
        Self(Session::new(Arc::clone(database)))
    }

    /// A new node with a lease.
    pub(crate) async fn register(&self, lease: Duration) -> Result<i64, Error> {
        let lease = millis(lease);
        one(&self.0.query("SELECT register($1)", &[(&lease, Type::INT8)]).await?, 0)
    }

    /// Renews the lease of a node; `false` if it has none any more.
    pub(crate) async fn renew(&self, node: i64, lease: Duration) -> Result<bool, Error> {
        let lease = millis(lease);
        let values: [Value<'_>; 2] = [(&node, Type::INT8), (&lease, Type::INT8)];
        one(&self.0.query("SELECT renew($1, $2)", &values).await?, 0)
    }

    /// Takes a lock, if it is free or its holder has no lease any more.
    pub(crate) async fn take(&self, id: &LockId, node: i64) -> Result<Taken, Error> {
        let sql = "SELECT drawn, held_for FROM take($1, $2, $3)";
        let values: [Value<'_>; 3] =
            [(&id.name, Type::TEXT), (&&*id.key, Type::TEXT), (&node, Type::INT8)];
        let rows = self.0.query(sql, &values).await?;
        if let Some(epoch) = one::<Option<i64>>(&rows, 0)? {
            return Ok(Taken::Epoch(epoch.unsigned_abs()));
        }
        Ok(match one::<Option<i64>>(&rows, 1)? {
            Some(left) => Taken::Held(Duration::from_millis(left.unsigned_abs())),
            None => Taken::NoLease,
        })
    }

    /// Gives a lock back that was taken with this epoch; does nothing if it was taken again since.
    pub(crate) async fn give_back(&self, id: &LockId, epoch: u64) -> Result<(), Error> {
        let epoch = i64::try_from(epoch).unwrap_or(i64::MAX);
        let values: [Value<'_>; 3] =
            [(&id.name, Type::TEXT), (&&*id.key, Type::TEXT), (&epoch, Type::INT8)];
        self.0.query("SELECT give_back($1, $2, $3)", &values).await.map(drop)
    }

    /// The share of a node, which has so many units, in so many units per period, and when what is new in
    /// it counts; `None` if the node has no lease.
    pub(crate) async fn share(
        &self,
        quota: &Quota,
        (node, has): (i64, u32),
    ) -> Result<Option<(u32, Duration)>, Error> {
        let (has, total, period) = (i64::from(has), i64::from(quota.total), millis(quota.period));
        let sql = "SELECT granted, counts_in FROM share_in($1, $2, $3, $4, $5, $6)";
        let values: [Value<'_>; 6] = [
            (&&*quota.name, Type::TEXT),
            (&&*quota.key, Type::TEXT),
            (&node, Type::INT8),
            (&has, Type::INT8),
            (&total, Type::INT8),
            (&period, Type::INT8),
        ];
        let rows = self.0.query(sql, &values).await?;
        let Some(units) = one::<Option<i64>>(&rows, 0)? else { return Ok(None) };
        let counts_in = one::<Option<i64>>(&rows, 1)?.unwrap_or_default();
        let units = u32::try_from(units).unwrap_or_default();
        Ok(Some((units, Duration::from_millis(counts_in.unsigned_abs()))))
    }

    /// Gives a share back, of which units may have been used in this period.
    pub(crate) async fn return_share(&self, quota: &Quota, node: i64) -> Result<(), Error> {
        let period = millis(quota.period);
        let values: [Value<'_>; 4] = [
            (&&*quota.name, Type::TEXT),
            (&&*quota.key, Type::TEXT),
            (&node, Type::INT8),
            (&period, Type::INT8),
        ];
        self.0.query("SELECT return_share($1, $2, $3, $4)", &values).await.map(drop)
    }

    /// Counts an entry of this period; else gives how long that lasts.
    pub(crate) async fn count(
        &self,
        id: &LockId,
        (most, period): (u32, Duration),
    ) -> Result<Option<Duration>, Error> {
        let (most, period) = (i64::from(most), millis(period));
        let values: [Value<'_>; 4] = [
            (&id.name, Type::TEXT),
            (&&*id.key, Type::TEXT),
            (&most, Type::INT8),
            (&period, Type::INT8),
        ];
        let rows = self.0.query("SELECT count_entry($1, $2, $3, $4)", &values).await?;
        let left: i64 = one(&rows, 0)?;
        Ok((left > 0).then(|| Duration::from_millis(left.unsigned_abs())))
    }

    /// The node is gone: what it holds is free.
    pub(crate) async fn leave(&self, node: i64) -> Result<(), Error> {
        self.0.query("SELECT leave($1)", &[(&node, Type::INT8)]).await.map(drop)
    }

    /// Removes rows that stand for nothing.
    pub(crate) async fn trim(&self) -> Result<(), Error> {
        self.0.query("SELECT trim_rows()", &[]).await.map(drop)
    }
}

fn one<'a, T: FromSql<'a>>(rows: &'a [Row], column: usize) -> Result<T, Error> {
    let Some(row) = rows.first() else {
        return Err(Error::Refused(Arc::new(NoRow)));
    };
    Ok(row.try_get(column)?)
}

/// A function of the schema gave nothing.
#[derive(Debug, thiserror::Error)]
#[error("a function of the cluster's schema gave no row")]
struct NoRow;

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
