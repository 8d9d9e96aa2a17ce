//! What has ended is removed in pieces, between which the writer goes on: another request waits for one of them.

use std::time::Duration;

use rusqlite::params;

use super::Sqlite;
use super::tables::{SqliteTables, db_error};
use crate::coding::EventKind;
use crate::error::{Error, Refused};
use crate::head::FlowHead;
use crate::id::Uid;
use crate::limits::BATCH;
use crate::moment::Moment;
use crate::request::FlowState;
use crate::stored::{int, millis, unsigned};
use crate::time::Timestamp;

/// Bytes of the file that a piece changes, about: they are written in one or two milliseconds.
const PIECE: u64 = 1 << 18;

/// Of these, a flow changes so many without its records: a page in each of its indexes, where its neighbours are others.
const FLOW: u64 = 16 << 10;

/// And a record, without its value.
const RECORD: u64 = 256;

/// Moves the last pages of the file to free ones, a quarter of a piece at once, and how often for each trim: 4 MiB.
const SHRINK: (&str, usize) = ("PRAGMA incremental_vacuum(64)", 16);

impl Sqlite {
    /// See [`Journal::trim`](crate::Journal::trim).
    pub(super) async fn trim_in_pieces(&self, age: Duration) -> Result<usize, Error> {
        let mut trimmed = 0;
        loop {
            let most = (BATCH - trimmed).min((PIECE / FLOW) as usize);
            let trim =
                move |tables: &SqliteTables, now: Moment| tables.trim(now.seen_before(age), most);
            let (removed, found) = self.0.writer.run(trim).await?;
            trimmed += removed;
            if trimmed == BATCH || removed == found && found < most {
                break;
            }
        }
        self.shrink().await?;
        Ok(trimmed)
    }

    /// See [`Journal::remove`](crate::Journal::remove).
    pub(super) async fn remove_in_pieces(&self, uids: Vec<Uid>) -> Result<(), Error> {
        let mut left = self.0.reader.run(move |tables, _| tables.ended(&uids)).await?;
        if left.is_empty() {
            return Ok(());
        }
        while !left.is_empty() {
            let flows = left.clone();
            let removed = self.0.writer.run(move |tables, _| tables.remove_ended(&flows)).await?;
            left.drain(..removed);
        }
        self.shrink().await
    }

    /// Takes free pages off the file. A file that was made without that keeps them for later.
    async fn shrink(&self) -> Result<(), Error> {
        for _ in 0..SHRINK.1 {
            if !self.0.writer.run(|tables, _| tables.shrink()).await? {
                break;
            }
        }
        Ok(())
    }
}

impl SqliteTables {
    /// Removes a piece of what ended before; returns how many flows are gone, of how many that it has looked at.
    fn trim(&self, before: Timestamp, most: usize) -> Result<(usize, usize), Error> {
        let old = self.heads(
            "ended_seen <= ?1 ORDER BY ended_seen LIMIT ?2",
            params![millis(before), int(most as u64)],
        )?;
        Ok((self.drop_flows(&old)?, old.len()))
    }

    /// Those of the flows that have ended.
    fn ended(&self, uids: &[Uid]) -> Result<Vec<FlowHead>, Error> {
        let mut ended: Vec<FlowHead> = Vec::new();
        for uid in uids {
            match self.flow(*uid) {
                Ok(flow) => ended.extend((flow.state == FlowState::Ended).then_some(flow)),
                Err(Error::Refused(Refused::NoFlow(_))) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ended)
    }

    /// Removes a piece of these flows, with the last one also from the log; returns how many are gone.
    fn remove_ended(&self, flows: &[FlowHead]) -> Result<usize, Error> {
        let removed = self.drop_flows(flows)?;
        if removed == flows.len() {
            self.erased.set(true);
        }
        Ok(removed)
    }

    /// Removes the first flows, as many as a piece has room for; returns how many. One that is larger loses some of its
    /// records; those by which its key and its result are known go with it.
    fn drop_flows(&self, flows: &[FlowHead]) -> Result<usize, Error> {
        let mut room = PIECE;
        for (removed, flow) in flows.iter().enumerate() {
            if self.drop_events(flow.number)? {
                return Ok(removed);
            }
            let number = int(flow.number);
            let sql =
                "SELECT count(*), coalesce(sum(octet_length(body)), 0) FROM record WHERE flow = ?1";
            let size = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let (records, bytes) =
                self.prepare(sql)?.query_row([number], size).map_err(db_error)?;
            let (records, bytes) = (unsigned(records), unsigned(bytes));
            let size = FLOW + records * RECORD + bytes;
            if size > room && removed > 0 {
                return Ok(removed);
            }
            if size > PIECE && records > 2 {
                let sql = "DELETE FROM record WHERE flow = ?1 AND (epoch, sequence) IN (SELECT epoch, sequence \
                           FROM record WHERE flow = ?1 AND sequence > 0 AND kind <> ?2 LIMIT ?3)";
                let some = int((records * PIECE / size).max(1));
                let values = params![number, EventKind::Ended as u8, some];
                self.prepare(sql)?.execute(values).map_err(db_error)?;
                return Ok(removed);
            }
            for sql in [
                "DELETE FROM record WHERE flow = ?1",
                "DELETE FROM signal WHERE flow = ?1",
                "DELETE FROM flow WHERE number = ?1",
            ] {
                self.prepare(sql)?.execute([number]).map_err(db_error)?;
            }
            if let Some(cache) = &self.cache {
                cache.forget(flow.uid);
            }
            room = room.saturating_sub(size);
        }
        Ok(flows.len())
    }

    /// Whether it has taken pages off the file.
    fn shrink(&self) -> Result<bool, Error> {
        let pages = || {
            let pages =
                self.prepare("PRAGMA page_count")?.query_row([], |row| row.get::<_, i64>(0));
            pages.map_err(db_error)
        };
        let before = pages()?;
        {
            let mut statement = self.prepare(SHRINK.0)?;
            let mut freed = statement.query([]).map_err(db_error)?;
            while freed.next().map_err(db_error)?.is_some() {}
        }
        Ok(pages()? < before)
    }
}
