//! The tags of flows.

use rusqlite::params;

use super::tables::{SqliteTables, db_error};
use crate::error::Error;
use crate::stored::int;

/// Programs that know no tags ignore the table, so it is no other format; the trigger also removes them for such a
/// program.
pub(super) const TABLE: &str = "CREATE TABLE IF NOT EXISTS flow_tag (
    flow INTEGER NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (flow, tag)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS flow_tag_flow ON flow_tag (tag, flow);
CREATE TRIGGER IF NOT EXISTS flow_tag_removed AFTER DELETE ON flow
    BEGIN DELETE FROM flow_tag WHERE flow = old.number; END;";

impl SqliteTables {
    pub(super) fn insert_tags(&self, flow: i64, tags: &[String]) -> Result<(), Error> {
        for tag in tags {
            let sql = "INSERT OR IGNORE INTO flow_tag (flow, tag) VALUES (?1, ?2)";
            self.prepare(sql)?.execute(params![flow, tag]).map_err(db_error)?;
        }
        Ok(())
    }

    pub(super) fn tags(&self, flow: u64) -> Result<Vec<String>, Error> {
        let mut statement =
            self.prepare("SELECT tag FROM flow_tag WHERE flow = ?1 ORDER BY tag")?;
        let tags = statement.query_map([int(flow)], |row| row.get(0));
        tags.and_then(Iterator::collect::<Result<_, _>>).map_err(db_error)
    }
}
