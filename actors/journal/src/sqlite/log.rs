//! The write-ahead log beside the file, which grows as long as anything else reads the file.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::Connection;

use crate::error::Error;
use crate::time::Timestamp;

/// From this size on the log is emptied as soon as that can be, and so much of it stays at the most when SQLite begins it
/// anew: four times what SQLite collects before it moves it.
pub(super) const LOG_BYTES: u64 = 16 << 20;

/// The milliseconds between attempts to empty it.
const PAUSE: u64 = 1_000;

/// How many milliseconds a reader may stay before that is in the log, and between lines about it.
const PATIENCE: u64 = 30_000;

/// How long statements wait for other connections.
pub(super) const BUSY: Duration = Duration::from_secs(5);

/// The log of the connection that writes.
pub(super) struct WriteAheadLog {
    file: PathBuf,
    log: PathBuf,
    /// What file and log may have in all.
    max_bytes: Option<u64>,
    /// Its size when it was looked at last.
    pub(super) bytes: Arc<AtomicU64>,
    /// Since when a reader keeps it from being emptied.
    held_since: Cell<Option<u64>>,
    tried: Cell<u64>,
    warned: Cell<u64>,
}

impl WriteAheadLog {
    pub(super) fn new(file: &Path, log: PathBuf, max_bytes: Option<u64>) -> Self {
        let file = file.to_owned();
        let (held_since, tried, warned) = (Cell::default(), Cell::default(), Cell::default());
        Self { file, log, max_bytes, bytes: Arc::default(), held_since, tried, warned }
    }

    /// Looks at the log before something is written, and empties a large one, unless a reader keeps it.
    ///
    /// # Errors
    /// If file and log have no more room.
    pub(super) fn look(&self, db: &Connection, now: Timestamp) -> Result<(), Error> {
        let size = |path| fs::metadata(path).map_or(0, |found| found.len());
        let (bytes, now) = (size(&self.log), now.as_millis());
        self.bytes.store(bytes, Ordering::Relaxed);
        let has_room = self.max_bytes.is_none_or(|most| size(&self.file) + bytes <= most);
        let is_small = bytes <= LOG_BYTES && has_room;
        if is_small || (has_room && now.abs_diff(self.tried.get()) < PAUSE) {
            return Ok(());
        }
        self.tried.set(now);
        if empty(db, Duration::ZERO).is_ok_and(|emptied| emptied) {
            self.held_since.set(None);
            return Ok(());
        }
        let since = self.held_since.get().unwrap_or(now);
        self.held_since.set(Some(since));
        let held = HeldLog { bytes, seconds: now.saturating_sub(since) / 1000 };
        if now.saturating_sub(since.max(self.warned.get())) >= PATIENCE {
            self.warned.set(now);
            tracing::warn!(log = %self.log.display(), "{held}: end what reads it, such as a backup or a shell");
        }
        if has_room { Ok(()) } else { Err(Error::DiskFull(Arc::new(held))) }
    }
}

/// The log cannot be emptied.
#[derive(Debug, thiserror::Error)]
#[error(
    "another connection has read the journal's file for at least {seconds} s, so its log has {bytes} bytes and grows"
)]
struct HeldLog {
    bytes: u64,
    seconds: u64,
}

/// Moves the log into the file, unless a reader does not end within this time: returns whether it is empty.
pub(super) fn empty(db: &Connection, wait: Duration) -> rusqlite::Result<bool> {
    db.busy_timeout(wait)?;
    let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
    let is_busy = db.query_row(sql, [], |row| row.get::<_, bool>(0));
    db.busy_timeout(BUSY)?;
    is_busy.map(|is_busy| !is_busy)
}
