//! Rows of the tables.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::session::{JournalSession, SessionFailure};
use crate::coding::Encoded;
use crate::error::Error;
use crate::head::FlowHead;
use crate::id::{Epoch, Incarnation, Uid};
use crate::moment::{ClockState, Doubt, Look, Moment};
use crate::path::ParsePathError;
use crate::request::StoredCancel;
use crate::stored::{self, int, millis, timestamp, unsigned};
use crate::time::{Reading, Timestamp};

/// The columns of a head, as [`head`] reads them.
macro_rules! head_columns {
    () => {
        "f.number, f.uid, f.template, f.version, f.pinned, f.state, f.epoch, f.owner, f.ticket, \
         f.run, f.claims, f.deaths, f.inbox, f.seen, f.removed, f.created, f.due, f.ended, \
         f.reason, f.cancel_number, f.cancel_by, f.cancel_at, f.due_passed, f.ended_seen, \
         f.cancel_code, f.cancel_text"
    };
}
pub(super) use head_columns;

/// The clock of the server, in milliseconds.
macro_rules! now {
    () => {
        "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}
/// A lease ends at the time in the parameter, which is [`Moment::seen`]: not before it has run for its whole
/// length since the server started, because no node could renew while the server was unreachable.
macro_rules! lease_is_over {
    ($seen:literal) => {
        concat!(
            "(ends <= ",
            $seen,
            " AND extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) * 1000 \
             NOT BETWEEN 0 AND lease)"
        )
    };
}
pub(super) use lease_is_over;

pub(super) fn head(row: &Row) -> Result<FlowHead, SessionFailure> {
    let number = |at: usize| row.try_get::<_, i64>(at).map(unsigned);
    let small = |at: usize| number(at).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    let time = |at: usize| row.try_get::<_, Option<i64>>(at).map(|time| time.map(timestamp));
    let cancel = match row.try_get::<_, Option<i64>>(19)? {
        Some(at) => Some(StoredCancel {
            number: unsigned(at),
            by: stored::cancelled(row.try_get(20)?, row.try_get(24)?, row.try_get(25)?),
            at: timestamp(row.try_get(21)?),
        }),
        None => None,
    };
    let ticket = row.try_get::<_, Option<&[u8]>>(8)?.map(uid_of).transpose()?;
    Ok(FlowHead {
        number: number(0)?,
        uid: uid(row, 1)?,
        template: row.try_get(2)?,
        version: small(3)?,
        pinned: row.try_get(4)?,
        state: stored::state(row.try_get(5)?).ok_or_else(foreign)?,
        epoch: Epoch::new(number(6)?),
        owner: row.try_get::<_, Option<i64>>(7)?.map(|node| Incarnation::new(unsigned(node))),
        ticket,
        run: small(9)?,
        claims: small(10)?,
        deaths: small(11)?,
        inbox: number(12)?,
        seen: number(13)?,
        removed: number(14)?,
        created: timestamp(row.try_get(15)?),
        due: time(16)?,
        due_passed: time(22)?,
        ended: time(17)?,
        ended_seen: time(23)?,
        reason: row.try_get(18)?,
        cancel,
    })
}

pub(super) fn uid(row: &Row, at: usize) -> Result<Uid, SessionFailure> {
    uid_of(row.try_get(at)?)
}

fn uid_of(bytes: &[u8]) -> Result<Uid, SessionFailure> {
    Ok(Uid::from_bytes(bytes.try_into().map_err(|_| foreign())?))
}

/// The columns `path, kind, body` from `at` on.
pub(super) fn encoded(row: &Row, at: usize) -> Result<Encoded, SessionFailure> {
    let path: &str = row.try_get(at)?;
    let path = path.parse().map_err(|wrong: ParsePathError| {
        SessionFailure::Answered(Error::Damaged(std::sync::Arc::new(wrong)))
    })?;
    let kind = u8::try_from(row.try_get::<_, i64>(at + 1)?).map_err(|_| foreign())?;
    Ok(Encoded { path, kind, body: row.try_get(at + 2)? })
}

/// No program writes such a row.
pub(super) fn foreign() -> SessionFailure {
    #[derive(Debug, thiserror::Error)]
    #[error("a row has a value that no program writes")]
    struct ForeignRow;
    SessionFailure::Answered(Error::Damaged(std::sync::Arc::new(ForeignRow)))
}

/// The journal's record of time, and the time of the server's clock.
async fn times(session: &JournalSession) -> Result<(ClockState, Timestamp), SessionFailure> {
    let sql =
        concat!("SELECT wall, doubt_from, doubt_since, passed, seen, ", now!(), " FROM journal");
    let rows = session.query(sql, &[]).await?;
    let row = rows.first().ok_or_else(foreign)?;
    let optional = |at: usize| row.try_get::<_, Option<i64>>(at).map(|time| time.map(timestamp));
    let time = |at: usize| row.try_get(at).map(timestamp);
    let doubt = optional(1)?.zip(optional(2)?).map(|(from, since)| Doubt { from, since });
    let times = ClockState { wall: optional(0)?, passed: time(3)?, seen: time(4)?, doubt };
    Ok((times, time(5)?))
}

pub(super) async fn moment(session: &JournalSession) -> Result<Moment, SessionFailure> {
    let (times, wall) = times(session).await?;
    Ok(times.at(wall))
}

/// A node looks at the clock, in an open transaction: nodes look one after the other. Returns the time that leases run
/// by, and the reading of the node.
pub(super) async fn look(
    session: &JournalSession,
    look: Look,
) -> Result<(Timestamp, Reading), SessionFailure> {
    session.query("SELECT 1 FROM journal FOR UPDATE", &[]).await?;
    let (times, wall) = times(session).await?;
    let (times, reading) = times.look(wall, look);
    let sql = "UPDATE journal SET wall = $1, passed = $2, seen = $3, doubt_from = $4, \
         doubt_since = $5";
    let values: [&(dyn ToSql + Sync); 5] = [
        &times.wall.map(millis),
        &millis(times.passed),
        &millis(times.seen),
        &times.doubt.map(|doubt| millis(doubt.from)),
        &times.doubt.map(|doubt| millis(doubt.since)),
    ];
    session.execute(sql, &values).await?;
    Ok((times.seen, reading))
}

/// Writes back what can change of a flow.
pub(super) const SAVE: &str = "UPDATE flow SET version = $2, pinned = $3, state = $4, epoch = $5, owner = $6, \
     ticket = $7, run = $8, claims = $9, deaths = $10, inbox = $11, seen = $12, removed = $13, \
     due = $14, ended = $15, reason = $16, cancel_number = $17, cancel_by = $18, \
     cancel_at = $19, due_passed = $20, ended_seen = $21, cancel_code = $22, \
     cancel_text = $23 WHERE uid = $1";

/// Writes back the changes of a flow.
pub(super) async fn save(session: &JournalSession, new: &FlowHead) -> Result<(), SessionFailure> {
    let cancel = new.cancel.as_ref();
    let by = cancel.map(|cancel| stored::cancelled_by(&cancel.by));
    let (by, code, text) = by.unwrap_or_default();
    let values: [&(dyn ToSql + Sync); 23] = [
        &new.uid.as_bytes().as_slice(),
        &i64::from(new.version),
        &new.pinned,
        &(new.state as i64),
        &int(new.epoch.get()),
        &new.owner.map(|node| int(node.get())),
        &new.ticket.map(|ticket| ticket.as_bytes().to_vec()),
        &i64::from(new.run),
        &i64::from(new.claims),
        &i64::from(new.deaths),
        &int(new.inbox),
        &int(new.seen),
        &int(new.removed),
        &new.due.map(millis),
        &new.ended.map(millis),
        &new.reason,
        &cancel.map(|cancel| int(cancel.number)),
        &by,
        &cancel.map(|cancel| millis(cancel.at)),
        &new.due_passed.map(millis),
        &new.ended_seen.map(millis),
        &code,
        &text,
    ];
    session.execute(SAVE, &values).await?;
    Ok(())
}
