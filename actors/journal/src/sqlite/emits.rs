//! Events that flows emit.

use rusqlite::{OptionalExtension, params};

use super::tables::{SqliteTables, db_error};
use crate::check;
use crate::error::{Error, NotWritten};
use crate::head::EmittedSoFar;
use crate::id::Uid;
use crate::moment::Moment;
use crate::request::{Emit, Emitted, EmittedPage, FlowState};
use crate::sealed::Place;
use crate::stored::{int, millis, timestamp, unsigned};

/// Programs that know no events ignore the table, so it is no other format; the trigger also removes them for such a
/// program. `bytes` are those of all events up to this one.
pub(super) const TABLE: &str = "CREATE TABLE IF NOT EXISTS emitted (
    flow INTEGER NOT NULL,
    number INTEGER NOT NULL,
    run INTEGER NOT NULL,
    path TEXT NOT NULL,
    key TEXT NOT NULL,
    at INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (flow, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS emitted_once ON emitted (flow, path, key, run);
CREATE TRIGGER IF NOT EXISTS emitted_removed AFTER DELETE ON flow
    BEGIN DELETE FROM emitted WHERE flow = old.number; END;";

/// How many events of a flow that is removed a piece has.
const PIECE: u64 = 64;

impl SqliteTables {
    pub(super) fn emit(
        &self,
        emit: &Emit,
        value: &[u8],
        now: Moment,
    ) -> Result<Result<(), NotWritten>, Error> {
        let flow = match self.flow(emit.uid) {
            Ok(flow) => flow,
            Err(Error::Refused(refused)) => return Ok(Err(refused.into())),
            Err(error) => return Err(error),
        };
        if let Err(stale) = flow.check_owner(emit.epoch) {
            return Ok(Err(stale));
        }
        let (number, path) = (int(flow.number), emit.path.as_str());
        let sql = "SELECT 1 FROM emitted WHERE flow = ?1 AND path = ?2 AND key = ?3 AND run = ?4";
        let id = params![number, path, emit.key, flow.run];
        if self.prepare(sql)?.exists(id).map_err(db_error)? {
            return Ok(Ok(()));
        }
        let sql = "SELECT number, bytes FROM emitted WHERE flow = ?1 ORDER BY number DESC LIMIT 1";
        let last = self.prepare(sql)?.query_row([number], |row| {
            Ok(EmittedSoFar { count: unsigned(row.get(0)?), bytes: unsigned(row.get(1)?) })
        });
        let so_far = last.optional().map_err(db_error)?.unwrap_or_default();
        let with = match so_far.with(emit.bytes(), &self.limits) {
            Ok(with) => with,
            Err(refused) => return Ok(Err(refused)),
        };
        let sql = "INSERT INTO emitted (flow, number, run, path, key, at, bytes, value) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let (count, at, bytes) = (int(with.count), millis(now.now), int(with.bytes));
        let row = params![number, count, flow.run, path, emit.key, at, bytes, value];
        self.prepare(sql)?.execute(row).map_err(db_error)?;
        Ok(Ok(()))
    }

    pub(super) fn emitted(&self, uid: Uid, after: u64, most: usize) -> Result<EmittedPage, Error> {
        let (flow, most) = (self.flow(uid)?, check::limit(most));
        let sql = "SELECT number, at, path, key, value FROM emitted \
                   WHERE flow = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
        let mut statement = self.prepare(sql)?;
        let page = params![int(flow.number), int(after), int(most as u64)];
        let rows = statement.query_map(page, |row| {
            let (path, key): (String, String) = (row.get(2)?, row.get(3)?);
            Ok((
                unsigned(row.get(0)?),
                timestamp(row.get(1)?),
                path,
                key,
                row.get::<_, Vec<u8>>(4)?,
            ))
        });
        let read = |row: rusqlite::Result<_>| {
            let (number, at, path, key, value): (_, _, String, String, Vec<u8>) =
                row.map_err(db_error)?;
            let place = Place::Event { flow: uid, path: &path, key: &key };
            Ok(Emitted { number, at, value: self.seal.open_value(&place, &value)? })
        };
        let events: Vec<_> = rows.map_err(db_error)?.map(read).collect::<Result<_, Error>>()?;
        let is_last = flow.state == FlowState::Ended && events.len() < most;
        Ok(EmittedPage { events, is_last })
    }

    /// Removes some of the events of a flow; returns whether there may be more.
    pub(super) fn drop_events(&self, flow: u64) -> Result<bool, Error> {
        let sql = "DELETE FROM emitted WHERE flow = ?1 AND number IN \
                   (SELECT number FROM emitted WHERE flow = ?1 ORDER BY number LIMIT ?2)";
        let removed = self.prepare(sql)?.execute([int(flow), int(PIECE)]).map_err(db_error)?;
        Ok(removed as u64 == PIECE)
    }
}
