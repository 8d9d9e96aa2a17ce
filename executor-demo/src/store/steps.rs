//! What the steps of durable requests have done, by their idempotency keys.
//!
//! A crash may come between what a step did here and the record of it in the journal. The step runs
//! again then. So each notes its result in the transaction of its effect, and looks for it first.

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension, ToSql, params};

use super::StoreError;

/// The result of a step, if it was done.
pub(super) fn find<T: FromSql>(db: &Connection, step: &str) -> Result<Option<T>, StoreError> {
    let mut query = db.prepare_cached("SELECT result FROM shop_step WHERE key = ?1")?;
    Ok(query.query_row([step], |row| row.get(0)).optional()?)
}

/// Notes the result of a step.
pub(super) fn done(db: &Connection, step: &str, result: &impl ToSql) -> Result<(), StoreError> {
    let mut insert = db.prepare_cached("INSERT INTO shop_step (key, result) VALUES (?1, ?2)")?;
    insert.execute(params![step, result])?;
    Ok(())
}
