//! Events that flows emit.

use super::reads;
use super::session::{JournalSession, SessionFailure};
use crate::check;
use crate::error::NotWritten;
use crate::head::{EmittedSoFar, FlowHead};
use crate::id::Uid;
use crate::limits::Limits;
use crate::moment::Moment;
use crate::request::{Emit, Emitted, EmittedPage, FlowState};
use crate::sealed::Place;
use crate::stored::{int, millis, timestamp, unsigned};

/// Programs that know no events ignore the table, so it is no other format; events go with their flow whoever removes
/// that. `bytes` are those of all events up to this one. A path is too long for an index.
pub(super) const TABLE: &str = r#"CREATE TABLE IF NOT EXISTS emitted (
    flow BIGINT NOT NULL REFERENCES flow (number) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    run BIGINT NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    value BYTEA NOT NULL,
    PRIMARY KEY (flow, number)
);
CREATE INDEX IF NOT EXISTS emitted_once ON emitted (flow, hashtextextended(path || key, 0));"#;

/// Stores an event of a flow that is locked.
pub(super) async fn emit(
    session: &JournalSession,
    (emit, value): (&Emit, &[u8]),
    flow: &FlowHead,
    (now, limits): (Moment, &Limits),
) -> Result<Result<(), NotWritten>, SessionFailure> {
    if let Err(stale) = flow.check_owner(emit.epoch) {
        return Ok(Err(stale));
    }
    let (number, run, path) = (int(flow.number), i64::from(flow.run), emit.path.as_str());
    let sql = "SELECT 1 FROM emitted WHERE flow = $1 AND run = $2 AND path = $3 AND key = $4 \
               AND hashtextextended(path || key, 0) = hashtextextended($3::text || $4::text, 0)";
    if !session.query(sql, &[&number, &run, &path, &emit.key]).await?.is_empty() {
        return Ok(Ok(()));
    }
    let sql = "SELECT number, bytes FROM emitted WHERE flow = $1 ORDER BY number DESC LIMIT 1";
    let last = session.query(sql, &[&number]).await?;
    let so_far = match last.first() {
        Some(row) => {
            EmittedSoFar { count: unsigned(row.try_get(0)?), bytes: unsigned(row.try_get(1)?) }
        }
        None => EmittedSoFar::default(),
    };
    let with = match so_far.with(emit.bytes(), limits) {
        Ok(with) => with,
        Err(refused) => return Ok(Err(refused)),
    };
    let sql = "INSERT INTO emitted (flow, number, run, path, key, at, bytes, value) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let (count, at, bytes) = (int(with.count), millis(now.now), int(with.bytes));
    session.execute(sql, &[&number, &count, &run, &path, &emit.key, &at, &bytes, &value]).await?;
    Ok(Ok(()))
}

/// The flow is read before its events: of one that has ended all are there then.
pub(super) async fn emitted(
    session: &JournalSession,
    uid: Uid,
    (after, most): (u64, usize),
) -> Result<EmittedPage, SessionFailure> {
    let (flow, most) = (reads::flow(session, uid).await?, check::limit(most));
    let sql = "SELECT number, at, path, key, value FROM emitted \
               WHERE flow = $1 AND number > $2 ORDER BY number LIMIT $3";
    let page = [int(flow.number), int(after), int(most as u64)];
    let rows = session.query(sql, &[&page[0], &page[1], &page[2]]).await?;
    let read = |row: &tokio_postgres::Row| {
        let place = Place::Event { flow: uid, path: row.try_get(2)?, key: row.try_get(3)? };
        let value = session.seal.open_value(&place, row.try_get(4)?)?;
        let (number, at) = (unsigned(row.try_get(0)?), timestamp(row.try_get(1)?));
        Ok(Emitted { number, at, value })
    };
    let events: Vec<_> = rows.iter().map(read).collect::<Result<_, SessionFailure>>()?;
    let is_last = flow.state == FlowState::Ended && events.len() < most;
    Ok(EmittedPage { events, is_last })
}
