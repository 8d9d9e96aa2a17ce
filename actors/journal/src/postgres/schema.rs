//! The tables.

use super::session::{JournalSession, SessionFailure};
use super::tables::{encoded, uid};
use super::{emits, presence, schedules, tags};
use crate::error::Error;
use crate::id::RecordId;
use crate::limits::BATCH;
use crate::record::{Event, Record};
use crate::stored::{FOURTH_FORMAT, GOES_ON, int, second_format};

/// The format that this program writes. Format 3 has the tables of format 2, and records of plans: requests that began
/// in an earlier one do not go on with it. Format 4 knows whom a request acts for.
const FORMAT: i64 = 4;

/// The tables of format 1. States are numbered as in `FlowState`: 4 is parked. Times are milliseconds since 1970.
const TABLES: &str = "
CREATE TABLE program (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);
CREATE TABLE node (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ends BIGINT NOT NULL,
    lease BIGINT NOT NULL
);
CREATE TABLE flow (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uid BYTEA NOT NULL UNIQUE,
    template TEXT NOT NULL,
    version BIGINT NOT NULL,
    pinned BOOLEAN NOT NULL,
    state BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    owner BIGINT,
    ticket BYTEA,
    run BIGINT NOT NULL,
    claims BIGINT NOT NULL,
    deaths BIGINT NOT NULL,
    inbox BIGINT NOT NULL,
    seen BIGINT NOT NULL,
    removed BIGINT NOT NULL,
    created BIGINT NOT NULL,
    due BIGINT,
    ended BIGINT,
    reason TEXT,
    cancel_number BIGINT,
    cancel_by TEXT,
    cancel_at BIGINT,
    scope TEXT,
    key TEXT
);
CREATE UNIQUE INDEX flow_key ON flow (scope, key) WHERE key IS NOT NULL;
CREATE INDEX flow_state ON flow (state, template, version, number);
CREATE INDEX flow_due ON flow (due) WHERE state = 4;
CREATE INDEX flow_owner ON flow (owner, number) WHERE owner IS NOT NULL;
CREATE INDEX flow_ticket ON flow (ticket) WHERE ticket IS NOT NULL;
CREATE INDEX flow_suspect ON flow (owner) WHERE claims > 0;
CREATE INDEX flow_news ON flow (owner) WHERE inbox > seen;
CREATE INDEX flow_ended ON flow (ended) WHERE ended IS NOT NULL;
CREATE TABLE record (
    flow BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    path TEXT NOT NULL,
    kind BIGINT NOT NULL,
    program BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (flow, epoch, sequence)
);
CREATE TABLE signal (
    flow BIGINT NOT NULL,
    number BIGINT NOT NULL,
    id BYTEA NOT NULL,
    name TEXT NOT NULL,
    value BYTEA,
    PRIMARY KEY (flow, number)
);
CREATE UNIQUE INDEX signal_id ON signal (flow, id);
CREATE TABLE format (number BIGINT NOT NULL);
INSERT INTO format VALUES (1);
";

/// The additions of format 2. Callers are compared by bytes, whatever the language of the database
/// is.
const SECOND_FORMAT: &str = concat!(
    second_format!("", r#"TEXT COLLATE "C""#),
    "INSERT INTO journal (passed, seen) VALUES (0, 0);"
);

/// Indexes in place of earlier ones, so that each statement has only one of use; and room in each page, so that a change of
/// a flow which concerns no index stays there and writes none. Earlier programs work with it as well, so it is no other
/// format.
const INDEXES: &str = "
DROP INDEX IF EXISTS flow_due, flow_due_passed, signal_id;
CREATE INDEX flow_due_at ON flow (due) WHERE due IS NOT NULL;
CREATE INDEX flow_due_within ON flow (due_passed) WHERE due_passed IS NOT NULL;
ALTER TABLE flow SET (fillfactor = 70);
";

/// Makes the tables unless they are there, or brings them to the format of this program, and returns the number of
/// the program.
pub(super) async fn set_up(
    session: &JournalSession,
    schema: &str,
    program: &str,
) -> Result<i64, SessionFailure> {
    session
        .transaction(async {
            // nodes that start together make them one after the other
            session.batch("SELECT pg_advisory_xact_lock(x'4173634a'::int)").await?;
            session.batch(&format!("CREATE SCHEMA IF NOT EXISTS {schema}")).await?;
            let there = "SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'format'";
            if session.query(there, &[&schema]).await?.is_empty() {
                session.batch(TABLES).await?;
            }
            let found = session.query("SELECT max(number) FROM format", &[]).await?;
            let found: i64 = found.first().map_or(Ok(0), |row| row.try_get(0))?;
            if found > FORMAT {
                return Err(Error::NewerFormat { found, known: FORMAT }.into());
            }
            if found < GOES_ON {
                let open = session.query("SELECT count(*) FROM flow WHERE state < 7", &[]).await?;
                let open: i64 = open.first().map_or(Ok(0), |row| row.try_get(0))?;
                if open > 0 {
                    return Err(Error::OpenInFormat { open, found, known: FORMAT }.into());
                }
            }
            if found < 2 {
                session.batch(SECOND_FORMAT).await?;
            }
            if found < 4 {
                session.batch(FOURTH_FORMAT).await?;
                fill_local_ids(session).await?;
            }
            let there =
                "SELECT 1 FROM pg_indexes WHERE schemaname = $1 AND indexname = 'flow_due_at'";
            if session.query(there, &[&schema]).await?.is_empty() {
                session.batch(INDEXES).await?;
            }
            session.batch(schedules::TABLE).await?;
            session.batch(emits::TABLE).await?;
            session.batch(tags::TABLE).await?;
            presence::set_up(session, schema).await?;
            session.execute("UPDATE format SET number = $1", &[&FORMAT]).await?;
            let insert = "INSERT INTO program (name) VALUES ($1) ON CONFLICT DO NOTHING";
            session.execute(insert, &[&program]).await?;
            let sql = "SELECT id FROM program WHERE name = $1";
            let rows = session.query(sql, &[&program]).await?;
            Ok(rows.first().map_or(Ok(0), |row| row.try_get(0))?)
        })
        .await
}

/// Whom the stored flows act for. A first record that cannot be read leaves its flow without a user.
async fn fill_local_ids(session: &JournalSession) -> Result<(), SessionFailure> {
    let sql = "SELECT r.path, r.kind, r.body, f.number, f.uid FROM flow f JOIN record r \
               ON r.flow = f.number AND r.epoch = 0 AND r.sequence = 0 \
               WHERE f.number > $1 ORDER BY f.number LIMIT $2";
    let mut last = 0_i64;
    loop {
        let rows = session.query(sql, &[&last, &int(BATCH as u64)]).await?;
        let Some(end) = rows.last() else { return Ok(()) };
        last = end.try_get(3)?;
        for row in &rows {
            let first = encoded(row, 0)?.opened(&session.seal, uid(row, 4)?, RecordId::FIRST);
            if let Ok(Record { event: Event::Started(started), .. }) = first {
                let update = "UPDATE flow SET local_id = $2 WHERE uid = $1";
                let uid: &[u8] = row.try_get(4)?;
                session.execute(update, &[&uid, &started.local_id()]).await?;
            }
        }
    }
}
