//! The schedules that are kept with the flows.

use rusqlite::params;

use super::tables::{SqliteTables, db_error};
use crate::check;
use crate::error::Error;
use crate::limits::BATCH;
use crate::request::{ReadSchedule, StoredSchedule};
use crate::sealed::Place;

/// Programs that know no stored schedules ignore the table, so it is no other format.
pub(super) const TABLE: &str = "CREATE TABLE IF NOT EXISTS schedule (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;";

impl SqliteTables {
    pub(super) fn schedules(&self) -> Result<Vec<ReadSchedule>, Error> {
        let mut statement = self.prepare("SELECT name, value FROM schedule ORDER BY name")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        let read = |row: rusqlite::Result<(String, Vec<u8>)>| {
            let (name, value) = row.map_err(db_error)?;
            Ok(self.seal.open_schedule(name, &value))
        };
        rows.map_err(db_error)?.map(read).collect()
    }

    pub(super) fn put_schedule(&self, schedule: &StoredSchedule) -> Result<(), Error> {
        let StoredSchedule { name, value } = schedule;
        let mut count = self.prepare("SELECT count(*) FROM schedule WHERE name <> ?1")?;
        let others: i64 = count.query_row([name], |row| row.get(0)).map_err(db_error)?;
        check::schedule(name, usize::try_from(others).unwrap_or(BATCH))?;
        let sql = "INSERT INTO schedule (name, value) VALUES (?1, ?2) \
                   ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        let row = params![name, self.seal.seal_value(&Place::Schedule { name }, value)?];
        self.prepare(sql)?.execute(row).map(drop).map_err(db_error)
    }

    pub(super) fn remove_schedule(&self, name: &str) -> Result<bool, Error> {
        let mut delete = self.prepare("DELETE FROM schedule WHERE name = ?1")?;
        self.erased.set(true);
        delete.execute([name]).map(|removed| removed > 0).map_err(db_error)
    }
}
