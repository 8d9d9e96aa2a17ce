//! The processes that sell on this database, and how often each has reported that it lives.

use std::collections::HashMap;

use rusqlite::Connection;

use super::StoreError;

/// Makes a process known, which has not reported that it lives.
pub(super) fn enter(db: &Connection, instance: &str) -> Result<(), StoreError> {
    let mut insert =
        db.prepare_cached("INSERT OR IGNORE INTO shop_instance (id, beats) VALUES (?1, 0)")?;
    insert.execute([instance])?;
    Ok(())
}

/// Counts a sign of life; returns the counts of all processes.
pub(super) fn beat(db: &Connection, instance: &str) -> Result<HashMap<String, i64>, StoreError> {
    enter(db, instance)?;
    let mut update =
        db.prepare_cached("UPDATE shop_instance SET beats = beats + 1 WHERE id = ?1")?;
    update.execute([instance])?;
    let mut query = db.prepare_cached("SELECT id, beats FROM shop_instance")?;
    Ok(query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?)
}

/// Forgets processes that have ended.
pub(super) fn leave(db: &Connection, instances: &[String]) -> Result<(), StoreError> {
    let mut delete = db.prepare_cached("DELETE FROM shop_instance WHERE id = ?1")?;
    for instance in instances {
        delete.execute([instance])?;
    }
    Ok(())
}
