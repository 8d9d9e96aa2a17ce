//! Rows of the tables.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use rusqlite::{CachedStatement, Connection, ErrorCode, OptionalExtension, Row, params};

use super::cache::Cache;
use super::guest::Guest;
use super::log::WriteAheadLog;
use crate::coding::Encoded;
use crate::error::{Error, Refused};
use crate::head::FlowHead;
use crate::id::{Epoch, Incarnation, Uid};
use crate::limits::Limits;
use crate::moment::{ClockState, Doubt, Look};
use crate::path::Path;
use crate::request::StoredCancel;
use crate::seal::Seal;
use crate::stored::{self, int, millis, timestamp, unsigned};
use crate::time::{Reading, Timestamp};

/// A connection.
pub(super) struct SqliteTables {
    pub(super) db: Connection,
    /// The number of this program in the table of programs.
    pub(super) program: i64,
    pub(super) limits: Limits,
    pub(super) seal: Seal,
    /// Of the connection that writes.
    pub(super) cache: Option<Cache>,
    /// Of the connection that writes.
    pub(super) guest: Option<Guest>,
    /// Of the connection that writes.
    pub(super) log: Option<WriteAheadLog>,
    /// Whether the log is to be emptied after the transaction, because of what was removed.
    pub(super) erased: Cell<bool>,
}

macro_rules! head_columns {
    () => {
        "number, uid, template, version, pinned, state, epoch, owner, ticket, run, claims, deaths, \
         inbox, seen, removed, created, due, ended, reason, cancel_number, cancel_by, cancel_at, \
         due_passed, ended_seen, cancel_code, cancel_text"
    };
}

/// The columns of a head, as [`head`] reads them.
pub(super) const HEAD: &str = head_columns!();

impl SqliteTables {
    pub(super) fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>, Error> {
        self.db.prepare_cached(sql).map_err(db_error)
    }

    /// The flow with this name.
    pub(super) fn flow(&self, uid: Uid) -> Result<FlowHead, Error> {
        if let Some(known) = self.cache.as_ref().and_then(|cache| cache.head(uid)) {
            return Ok(known);
        }
        let sql = concat!("SELECT ", head_columns!(), " FROM flow WHERE uid = ?1");
        let found = self.prepare(sql)?.query_row([uid.as_bytes()], head).optional();
        let found = found.map_err(db_error)?.ok_or(Refused::NoFlow(uid))?;
        if let Some(cache) = &self.cache {
            cache.keep(&found);
        }
        Ok(found)
    }

    /// Records of the flow were removed. That is in no index, so it costs less than an [update](Self::update).
    pub(super) fn add_removed(&self, flow: &mut FlowHead, removed: u64) -> Result<(), Error> {
        if removed == 0 {
            return Ok(());
        }
        flow.removed += removed;
        let sql = "UPDATE flow SET removed = ?2 WHERE number = ?1";
        let values = params![int(flow.number), int(flow.removed)];
        self.prepare(sql)?.execute(values).map_err(db_error)?;
        if let Some(cache) = &self.cache {
            cache.keep(flow);
        }
        Ok(())
    }

    /// Writes back the changes of a flow.
    pub(super) fn update(&self, old: &FlowHead, new: &FlowHead) -> Result<(), Error> {
        if old == new {
            return Ok(());
        }
        let sql = "UPDATE flow SET version = ?2, pinned = ?3, state = ?4, epoch = ?5, owner = ?6, \
             ticket = ?7, run = ?8, claims = ?9, deaths = ?10, inbox = ?11, seen = ?12, \
             removed = ?13, due = ?14, ended = ?15, reason = ?16, cancel_number = ?17, \
             cancel_by = ?18, cancel_at = ?19, due_passed = ?20, ended_seen = ?21, \
             cancel_code = ?22, cancel_text = ?23 WHERE number = ?1";
        let cancel = new.cancel.as_ref();
        let by = cancel.map(|cancel| stored::cancelled_by(&cancel.by));
        let (by, code, text) = by.unwrap_or_default();
        let values = params![
            int(new.number),
            new.version,
            new.pinned,
            new.state as i64,
            int(new.epoch.get()),
            new.owner.map(|node| int(node.get())),
            new.ticket.as_ref().map(Uid::as_bytes),
            new.run,
            new.claims,
            new.deaths,
            int(new.inbox),
            int(new.seen),
            int(new.removed),
            new.due.map(millis),
            new.ended.map(millis),
            new.reason,
            cancel.map(|cancel| int(cancel.number)),
            by,
            cancel.map(|cancel| millis(cancel.at)),
            new.due_passed.map(millis),
            new.ended_seen.map(millis),
            code,
            text,
        ];
        self.prepare(sql)?.execute(values).map_err(db_error)?;
        if let Some(cache) = &self.cache {
            cache.keep(new);
        }
        Ok(())
    }

    /// The journal's record of time.
    pub(super) fn times(&self) -> Result<ClockState, Error> {
        let sql = "SELECT wall, passed, seen, doubt_from, doubt_since FROM journal";
        let row = |row: &Row<'_>| {
            let time = |index| row.get::<_, Option<i64>>(index).map(|time| time.map(timestamp));
            let doubt = time(3)?.zip(time(4)?).map(|(from, since)| Doubt { from, since });
            let (passed, seen) = (timestamp(row.get(1)?), timestamp(row.get(2)?));
            Ok(ClockState { wall: time(0)?, passed, seen, doubt })
        };
        self.prepare(sql)?.query_row([], row).map_err(db_error)
    }

    /// A node looks at the clock: returns the time that leases run by, and the reading of the node.
    pub(super) fn look(&self, wall: Timestamp, look: Look) -> Result<(Timestamp, Reading), Error> {
        let (times, reading) = self.times()?.look(wall, look);
        let sql = "UPDATE journal SET wall = ?1, passed = ?2, seen = ?3, doubt_from = ?4, \
             doubt_since = ?5";
        let values = params![
            times.wall.map(millis),
            millis(times.passed),
            millis(times.seen),
            times.doubt.map(|doubt| millis(doubt.from)),
            times.doubt.map(|doubt| millis(doubt.since)),
        ];
        self.prepare(sql)?.execute(values).map_err(db_error)?;
        Ok((times.seen, reading))
    }

    /// Forgets changes that were not committed, or were dropped.
    pub(super) fn forget(&self) {
        if let Some(cache) = &self.cache {
            cache.clear();
        }
    }

    pub(super) fn insert_record(
        &self,
        flow: u64,
        epoch: Epoch,
        sequence: u64,
        record: &Encoded,
    ) -> Result<(), Error> {
        let sql = "INSERT INTO record (flow, epoch, sequence, path, kind, program, body) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let path = record.path.as_str();
        let (flow, epoch, sequence) = (int(flow), int(epoch.get()), int(sequence));
        let values = params![flow, epoch, sequence, path, record.kind, self.program, record.body];
        self.prepare(sql)?.execute(values).map_err(db_error)?;
        Ok(())
    }
}

pub(super) fn head(row: &Row<'_>) -> rusqlite::Result<FlowHead> {
    let number = |index| row.get(index).map(unsigned);
    let time = |index| row.get::<_, Option<i64>>(index).map(|time| time.map(timestamp));
    let state = stored::state(row.get(5)?).ok_or(rusqlite::Error::InvalidQuery)?;
    let cancel = match row.get::<_, Option<i64>>(19)? {
        Some(at) => {
            let by = stored::cancelled(row.get(20)?, row.get(24)?, row.get(25)?);
            Some(StoredCancel { number: unsigned(at), by, at: timestamp(row.get(21)?) })
        }
        None => None,
    };
    Ok(FlowHead {
        number: number(0)?,
        uid: Uid::from_bytes(row.get(1)?),
        template: row.get(2)?,
        version: row.get(3)?,
        pinned: row.get(4)?,
        state,
        epoch: Epoch::new(number(6)?),
        owner: row.get::<_, Option<i64>>(7)?.map(|node| Incarnation::new(unsigned(node))),
        ticket: row.get::<_, Option<_>>(8)?.map(Uid::from_bytes),
        run: row.get(9)?,
        claims: row.get(10)?,
        deaths: row.get(11)?,
        inbox: number(12)?,
        seen: number(13)?,
        removed: number(14)?,
        created: timestamp(row.get(15)?),
        due: time(16)?,
        due_passed: time(22)?,
        ended: time(17)?,
        ended_seen: time(23)?,
        reason: row.get(18)?,
        cancel,
    })
}

/// The columns `path, kind, body` from `at` on.
pub(super) fn encoded(row: &Row<'_>, at: usize) -> rusqlite::Result<Encoded> {
    let path: String = row.get(at)?;
    let path: Path = path.parse().map_err(|_| rusqlite::Error::InvalidQuery)?;
    Ok(Encoded { path, kind: row.get(at + 1)?, body: row.get(at + 2)? })
}

/// The error of the journal for an error of SQLite.
pub(super) fn db_error(error: rusqlite::Error) -> Error {
    let code = error.sqlite_error_code();
    // a row that cannot be read was not written by this program
    let is_foreign = code.is_none();
    let cause = Arc::new(error);
    match code {
        Some(ErrorCode::DiskFull) => Error::DiskFull(cause),
        Some(ErrorCode::ReadOnly) => Error::ReadOnly(cause),
        Some(ErrorCode::DatabaseBusy) => Error::Locked(cause),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::Damaged(cause),
        _ if is_foreign => Error::Damaged(cause),
        _ => Error::Storage(cause),
    }
}

pub(super) fn io_error(error: &io::Error) -> Error {
    let kind = error.kind();
    let cause = Arc::new(io::Error::new(kind, error.to_string()));
    let is_read_only = [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::PermissionDenied];
    if kind == io::ErrorKind::StorageFull {
        Error::DiskFull(cause)
    } else if is_read_only.contains(&kind) {
        Error::ReadOnly(cause)
    } else {
        Error::Storage(cause)
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi::{self, SQLITE_BUSY};

    use super::*;
    use crate::error::Repeat;

    #[test]
    fn a_file_that_another_process_has_locked_says_what_to_do() {
        let busy = ffi::Error::new(SQLITE_BUSY);
        let error = db_error(rusqlite::Error::SqliteFailure(busy, Some("locked".to_owned())));
        // as a `main` shows it that returns it
        let shown = format!("{error:?}");
        assert!(shown.starts_with("another process has locked the file of the journal"), "{shown}");
        assert!(shown.contains("end that: locked"), "{shown}");
        assert_eq!(error.repeat(), Repeat::Later);
    }
}
