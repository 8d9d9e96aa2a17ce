//! The tables, and how the file is opened.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, params};

use super::cache::Cache;
use super::guard::{FileLock, beside};
use super::guest::Guest;
use super::log::{LOG_BYTES, WriteAheadLog};
use super::tables::{SqliteTables, db_error, encoded};
use super::{Durability, Options, emits, schedules, tags};
use crate::error::Error;
use crate::id::{RecordId, Uid};
use crate::record::{Event, Record};
use crate::seal::Seal;
use crate::stored::{FOURTH_FORMAT, GOES_ON, second_format};

/// Marks the file as a journal (`PRAGMA application_id`): "AsJl".
const APPLICATION: i64 = 0x4173_4a6c;

/// The format that this program writes (`PRAGMA user_version`). Format 3 has the tables of format 2, and records of
/// plans: requests that began in an earlier one do not go on with it. Format 4 knows whom a request acts for.
const FORMAT: i64 = 4;

/// The tables of format 1. States are numbered as in `FlowState`: 3 runs, 4 is parked, 7 has ended.
const TABLES: &str = "
CREATE TABLE program (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE node (id INTEGER PRIMARY KEY AUTOINCREMENT, ends INTEGER NOT NULL);
CREATE TABLE flow (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    uid BLOB NOT NULL UNIQUE,
    template TEXT NOT NULL,
    version INTEGER NOT NULL,
    pinned INTEGER NOT NULL,
    state INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    owner INTEGER,
    ticket BLOB,
    run INTEGER NOT NULL,
    claims INTEGER NOT NULL,
    deaths INTEGER NOT NULL,
    inbox INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    created INTEGER NOT NULL,
    due INTEGER,
    ended INTEGER,
    reason TEXT,
    cancel_number INTEGER,
    cancel_by TEXT,
    cancel_at INTEGER,
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
    flow INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    path TEXT NOT NULL,
    kind INTEGER NOT NULL,
    program INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (flow, epoch, sequence)
) WITHOUT ROWID;
CREATE TABLE signal (
    flow INTEGER NOT NULL,
    number INTEGER NOT NULL,
    id BLOB NOT NULL,
    name TEXT NOT NULL,
    value BLOB,
    PRIMARY KEY (flow, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX signal_id ON signal (flow, id);
";

/// The additions of format 2.
const SECOND_FORMAT: &str = concat!(
    second_format!("id BLOB NOT NULL,", "TEXT"),
    "INSERT INTO journal (id, passed, seen) VALUES (randomblob(16), 0, 0);"
);

/// How many requests have not ended.
const OPEN: &str = "SELECT count(*) FROM flow WHERE state < 7";

/// Statements that a connection keeps prepared: all of this journal's.
const STATEMENTS: usize = 64;

/// The connection that writes, with the tables made and the nodes of earlier processes dead.
pub(super) fn open_writer(
    guard: &FileLock,
    options: &Options,
) -> Result<(SqliteTables, OpenedFile), Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut db = open(guard.file(), flags)?;
    if db.is_readonly("main").map_err(db_error)? {
        return Err(Error::ReadOnly(Arc::new(NotWritable)));
    }
    let is_new = check_format(&db)?;
    if is_new {
        guard.check_new()?;
    }
    set_up(&db, options).map_err(db_error)?;
    let opened = OpenedFile::look(&db, is_new).map_err(db_error)?;
    let program =
        db.query_row("SELECT id FROM program WHERE name = ?1", [&options.program], |row| {
            row.get(0)
        });
    let (program, limits) = (program.map_err(db_error)?, options.limits);
    let (seal, cache) = (options.seal(), Some(Cache::default()));
    let guest = Some(Guest::watch(&mut db).map_err(db_error)?);
    let (file, log) = (guard.file(), beside(guard.file(), "-wal"));
    let log = Some(WriteAheadLog::new(file, log, options.max_bytes));
    let erased = Cell::new(false);
    Ok((SqliteTables { db, program, limits, seal, cache, guest, log, erased }, opened))
}

/// The file that was opened.
pub(super) struct OpenedFile {
    /// The journal's id.
    pub(super) name: Uid,
    is_new: bool,
    /// How many requests have not ended.
    open: i64,
}

impl OpenedFile {
    fn look(db: &Connection, is_new: bool) -> rusqlite::Result<Self> {
        let sql = "SELECT id, (SELECT count(*) FROM flow WHERE state < 7) FROM journal";
        db.query_row(sql, [], |row| {
            Ok(Self { name: Uid::from_bytes(row.get(0)?), is_new, open: row.get(1)? })
        })
    }

    /// Says it in the log.
    pub(super) fn log(&self, file: &Path) {
        let (file, journal) = (file.display(), self.name);
        if self.is_new {
            tracing::info!(%file, %journal, "a journal was made");
        } else {
            tracing::info!(%file, %journal, open = self.open, "the journal was opened");
        }
    }
}

/// A connection that reads in parallel to the one that writes.
pub(super) fn open_reader(file: &Path, options: &Options) -> Result<SqliteTables, Error> {
    let db = open(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let (limits, seal) = (options.limits, options.seal());
    let (cache, guest, log, erased) = (None, None, None, Cell::new(false));
    Ok(SqliteTables { db, program: 0, limits, seal, cache, guest, log, erased })
}

fn open(file: &Path, flags: OpenFlags) -> Result<Connection, Error> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags).map_err(db_error)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    // how a statement is carried out may not depend on its values: it would be prepared anew for each
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(db_error)?;
    Ok(db)
}

/// Whether the file has no tables yet.
fn check_format(db: &Connection) -> Result<bool, Error> {
    let number = |pragma: &str| db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let application = number("application_id").map_err(db_error)?;
    let found = number("user_version").map_err(db_error)?;
    let tables = "SELECT count(*) FROM sqlite_master";
    let tables: i64 = db.query_row(tables, [], |row| row.get(0)).map_err(db_error)?;
    if application != APPLICATION && tables > 0 {
        return Err(Error::Damaged(Arc::new(NotJournal)));
    }
    if application == APPLICATION && found > FORMAT {
        return Err(Error::NewerFormat { found, known: FORMAT });
    }
    if tables > 0 && found < GOES_ON {
        let open = db.query_row(OPEN, [], |row| row.get(0)).map_err(db_error)?;
        if open > 0 {
            return Err(Error::OpenInFormat { open, found, known: FORMAT });
        }
    }
    Ok(tables == 0)
}

pub(super) fn set_up(db: &Connection, options: &Options) -> rusqlite::Result<()> {
    // before the first page is written; a file that has tables keeps the mode that it has
    db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    // its answer is the mode, which is looked at by the test of a crash
    db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    let synchronous = match options.durability {
        Durability::Full => "FULL",
        Durability::Relaxed => "NORMAL",
    };
    db.pragma_update(None, "synchronous", synchronous)?;
    let kept = i64::try_from(LOG_BYTES).unwrap_or(i64::MAX);
    db.pragma_update_and_check(None, "journal_size_limit", kept, |_| Ok(()))?;
    // what is removed is overwritten
    db.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    if let Some(bytes) = options.max_bytes {
        let page: u64 = db.pragma_query_value(None, "page_size", |row| {
            Ok(u64::try_from(row.get::<_, i64>(0)?).unwrap_or(4096))
        })?;
        let pages = i64::try_from(bytes / page.max(1)).unwrap_or(i64::MAX).max(1);
        db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    let change = db.unchecked_transaction()?;
    let format: i64 = change.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if format == 0 {
        change.execute_batch(TABLES)?;
        change.pragma_update(None, "application_id", APPLICATION)?;
    }
    if format < 2 {
        change.execute_batch(SECOND_FORMAT)?;
    }
    if format < 4 {
        change.execute_batch(FOURTH_FORMAT)?;
        fill_local_ids(&change, &options.seal())?;
    }
    change.execute_batch(schedules::TABLE)?;
    change.execute_batch(emits::TABLE)?;
    change.execute_batch(tags::TABLE)?;
    change.pragma_update(None, "user_version", FORMAT)?;
    change.execute("INSERT OR IGNORE INTO program (name) VALUES (?1)", [&options.program])?;
    // this process has locked the file, so no other node lives
    change.execute("UPDATE node SET ends = 0", [])?;
    change.commit()
}

/// Whom the stored flows act for. A first record that cannot be read leaves its flow without a user.
fn fill_local_ids(db: &Connection, seal: &Seal) -> rusqlite::Result<()> {
    let sql = "SELECT path, kind, body, number, uid FROM flow JOIN record ON flow = number \
               AND record.epoch = 0 AND sequence = 0";
    let mut update = db.prepare("UPDATE flow SET local_id = ?2 WHERE number = ?1")?;
    let mut flows = db.prepare(sql)?;
    let mut rows = flows.query([])?;
    while let Some(row) = rows.next()? {
        let first = encoded(row, 0)?.opened(seal, Uid::from_bytes(row.get(4)?), RecordId::FIRST);
        if let Ok(Record { event: Event::Started(started), .. }) = first {
            update.execute(params![row.get::<_, i64>(3)?, started.local_id()])?;
        }
    }
    Ok(())
}

/// The file system does not let this process write.
#[derive(Debug, thiserror::Error)]
#[error("the file or its folder cannot be written")]
struct NotWritable;

/// The file is the database of another program.
#[derive(Debug, thiserror::Error)]
#[error("the file is a database, and no journal")]
struct NotJournal;

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn a_statement_is_prepared_once_whatever_its_values_are() {
        let db = open(Path::new(":memory:"), OpenFlags::default()).expect("a database");
        db.execute_batch(TABLES).expect("tables");
        let sql = "SELECT uid FROM flow WHERE owner = ?1 AND inbox > seen LIMIT ?2";
        let mut statement = db.prepare(sql).expect("a statement");
        for most in [1, 2] {
            assert_eq!(statement.query_map([7, most], |_| Ok(())).expect("rows").count(), 0);
        }
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    }
}
