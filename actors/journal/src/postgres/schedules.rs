//! The schedules that are kept with the flows.

use super::session::{JournalSession, SessionFailure};
use crate::check;
use crate::limits::BATCH;
use crate::request::{ReadSchedule, StoredSchedule};
use crate::sealed::Place;

/// Programs that know no stored schedules ignore the table, so it is no other format.
pub(super) const TABLE: &str = r#"CREATE TABLE IF NOT EXISTS schedule (
    name TEXT COLLATE "C" PRIMARY KEY,
    value BYTEA NOT NULL
)"#;

pub(super) async fn all(session: &JournalSession) -> Result<Vec<ReadSchedule>, SessionFailure> {
    let rows = session.query("SELECT name, value FROM schedule ORDER BY name", &[]).await?;
    let schedule = |row: &tokio_postgres::Row| {
        Ok(session.seal.open_schedule(row.try_get(0)?, row.try_get(1)?))
    };
    rows.iter().map(schedule).collect()
}

pub(super) async fn put(
    session: &JournalSession,
    schedule: &StoredSchedule,
) -> Result<(), SessionFailure> {
    let StoredSchedule { name, value } = schedule;
    // one after the other, so that they are counted
    session.execute("LOCK TABLE schedule IN EXCLUSIVE MODE", &[]).await?;
    let rows = session.query("SELECT count(*) FROM schedule WHERE name <> $1", &[name]).await?;
    let others: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    check::schedule(name, usize::try_from(others).unwrap_or(BATCH))?;
    let sql = "INSERT INTO schedule (name, value) VALUES ($1, $2) \
               ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    let value = session.seal.seal_value(&Place::Schedule { name }, value)?;
    session.execute(sql, &[name, &value]).await?;
    Ok(())
}

pub(super) async fn remove(session: &JournalSession, name: &str) -> Result<bool, SessionFailure> {
    Ok(session.execute("DELETE FROM schedule WHERE name = $1", &[&name]).await? > 0)
}
