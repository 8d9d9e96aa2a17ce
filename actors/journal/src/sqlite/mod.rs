//! A journal in a SQLite file, for the flows of one process.
//!
//! # What is guaranteed
//!
//! An answered request survives kill -9 and the loss of power ([`Durability::Full`], unless said
//! otherwise): the file has a write-ahead log, and an answer waits for its flush. All flows of the process
//! share flushes: what arrives during one is written by the next, in one transaction. A flow that is alone
//! waits for one flush.
//!
//! A file is used by one process at a time. A lock of the operating system sees to that: it ends with the
//! process, however that ends. Flows of an earlier process can be claimed at once.
//!
//! When the last handle is dropped, the log is moved into the file, which then has all of the journal: a copy of the
//! file alone is complete. A copy of files while the journal is open may lose what was answered, or be damaged; `VACUUM
//! INTO`, `.backup` of `sqlite3` and programs that follow the log, such as litestream, take one state. After a kill a
//! copy needs the `-wal` file too. The `-lock` file has the journal's id. If the file is emptied or removed and this one
//! is left, opening it is an error: an empty journal does not take the place of a lost one.
//!
//! What is removed is overwritten with zeros (`PRAGMA secure_delete`), and [`remove`](crate::Journal::remove) also empties
//! the log before it is answered, unless another process reads the file meanwhile, which is logged at WARN. After a
//! trim, and where records replace others, the log has the old ones until it is used again or moved into the file.
//!
//! What has ended is removed in pieces, between which the writer goes on. Each [`trim`](crate::Journal::trim) takes up to 4 MiB off the end of the file, as far as pages of it are free. A
//! file that an earlier program has made uses them again, and does not shrink unless it is made anew while no process
//! has it: `sqlite3 FILE "PRAGMA auto_vacuum = INCREMENTAL; VACUUM"`, with room for a second file.
//!
//! While anything else reads the file, such as a backup or a shell, the log is not used again and grows: by some 75 kB
//! with each order of the demo. One of more than 16 MiB is emptied as soon as the reader has left. A reader that stays
//! for 30 s is logged at WARN, with how long it has been there. [`Options::max_bytes`] bounds file and log together,
//! and [`Sqlite::totals`] has the size of the log.
//!
//! The file has to be on a disk of the machine: network file systems do not keep the promises that SQLite
//! needs. The clock of the machine may jump: leases and lengths of time do not depend on it while nodes run.

mod cache;
mod claims;
mod emits;
mod flows;
mod guard;
mod guest;
mod host;
#[cfg(target_os = "linux")]
mod inode;
mod log;
mod pieces;
mod reads;
mod schedules;
mod schema;
mod tables;
mod tags;
mod transaction;
mod worker;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::check;
use crate::error::{Error, NotWritten};
use crate::id::{Incarnation, Uid};
use crate::journal::{Answer, Journal};
use crate::limits::Limits;
use crate::moment::Moment;
use crate::request::{
    Append, Appended, CallerKey, Cancelled, CancelledBy, Claim, Claimed, Counts, Emit, EmittedPage,
    FlowInfo, Inbox, Loaded, News, Query, ReadSchedule, Registered, Resume, Signal, Status,
    StoredSchedule, Submit, Submitted,
};
use crate::seal::Seal;
use crate::stored;
use crate::time::{Clock, Reading, SystemClock};
use crate::transaction::Database;
use guard::FileLock;
use tables::SqliteTables;
use worker::{SqliteWorker, WorkerAccess};

pub use transaction::Transaction;

/// How a journal in SQLite is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which losses it survives.
    pub durability: Durability,
    /// Its limits.
    pub limits: Limits,
    /// The size in bytes that the file and its log may have in all; as large as the disk by default. Beyond that nothing
    /// is written, [`Error::DiskFull`].
    pub max_bytes: Option<u64>,
    /// The name and version of the program, for errors about records that another one cannot read.
    pub program: String,
    /// The clock of leases and waits.
    pub clock: Arc<dyn Clock>,
    /// The keys that seal what is recorded; by default it is stored as it is.
    #[cfg(feature = "encryption")]
    pub keys: Option<crate::Keys>,
}

impl Options {
    /// The defaults, for a program with this name and version.
    #[must_use]
    pub fn new(program: &str) -> Self {
        Self {
            durability: Durability::Full,
            limits: Limits::default(),
            max_bytes: None,
            program: program.to_owned(),
            clock: Arc::new(SystemClock),
            #[cfg(feature = "encryption")]
            keys: None,
        }
    }

    #[cfg_attr(not(feature = "encryption"), expect(clippy::unused_self, reason = "it has no keys"))]
    fn seal(&self) -> Seal {
        #[cfg(feature = "encryption")]
        return self.keys.clone().into();
        #[cfg(not(feature = "encryption"))]
        Seal::default()
    }
}

/// Which losses an answered request survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Kill -9 and the loss of power: each answer waits for a flush (`synchronous=FULL`).
    #[default]
    Full,
    /// Kill -9, and not the loss of power (`synchronous=NORMAL`): then the last seconds may be missing,
    /// also where an effect is there whose record is not. For effects that may be repeated.
    Relaxed,
}

/// The counts of writes of a journal since it was opened: requests by commits is how many share a
/// flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Requests that write.
    pub requests: u64,
    /// Transactions that they were written in, each with one flush.
    pub commits: u64,
}

/// A journal in a SQLite file. Clones share it; when the last one is dropped, that waits until all
/// requests are done.
#[derive(Clone, derive_more::Debug)]
#[debug("Sqlite {{ .. }}")]
pub struct Sqlite(Arc<SqliteState>);

struct SqliteState {
    reader: SqliteWorker,
    /// Dropped after the reader: the last connection moves the log into the file.
    writer: SqliteWorker,
    changes: watch::Sender<u64>,
    /// The size of the log before the last group.
    log_bytes: Arc<AtomicU64>,
    database: Database,
    seal: Seal,
    /// Dropped last: then another process may open the file.
    _guard: FileLock,
}

impl Sqlite {
    /// Opens the journal in a file, which is made if it is not there. Next to it are files with its name and `-wal`,
    /// `-shm` and `-lock`: the name of the file itself, if this is a symbolic link. The opened file is logged at INFO:
    /// the journal's id, and that it was made or how many requests are open.
    ///
    /// A file that has several hard links must be opened by one of them only: more than one is logged at WARN,
    /// and on Linux the file itself is locked too, so no other process gets in by another one meanwhile.
    ///
    /// This blocks for a few flushes, and longer after a crash, when the log is read.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process has it as a journal, [`Error::Locked`] if one has a transaction open in it,
    /// [`Error::NewerFormat`] if a later program made it, [`Error::OpenInFormat`] if an earlier one has left requests
    /// open, [`Error::Damaged`] if it is something else, [`Error::Emptied`] if it has no tables, and the lock file next
    /// to it is of a journal that was there, [`Error::ReadOnly`], or [`Error::Storage`] if it cannot be opened.
    pub fn open(file: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let mut guard = FileLock::lock(file.as_ref())?;
        let (writer, opened) = schema::open_writer(&guard, &options)?;
        guard.keep(opened.name)?;
        opened.log(guard.file());
        let reader = schema::open_reader(guard.file(), &options)?;
        let (changes, seal, clock) = (watch::Sender::new(0), options.seal(), options.clock);
        let log_bytes = writer.log.as_ref().map(|log| Arc::clone(&log.bytes)).unwrap_or_default();
        let writer = SqliteWorker::start(WorkerAccess::Write, writer, Arc::clone(&clock))?;
        let reader = SqliteWorker::start(WorkerAccess::Read, reader, clock)?;
        Ok(Self(Arc::new(SqliteState {
            reader,
            writer,
            changes,
            log_bytes,
            database: Database::open(),
            seal,
            _guard: guard,
        })))
    }

    /// How much was written so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let (requests, commits) = self.0.writer.done();
        Totals { requests, commits }
    }

    fn read<'a, T: Send + 'static>(
        &'a self,
        work: impl FnMut(&SqliteTables, Moment) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'a, T> {
        Box::pin(self.0.reader.run(work))
    }

    fn write<'a, T: Send + 'static>(
        &'a self,
        work: impl FnMut(&SqliteTables, Moment) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'a, T> {
        Box::pin(self.0.writer.run(work))
    }

    /// Writes something after which there may be work or news.
    fn change<'a, T: Send + 'static>(
        &'a self,
        work: impl FnMut(&SqliteTables, Moment) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let result = self.0.writer.run(work).await;
            self.0.changes.send_modify(|number| *number += 1);
            result
        })
    }
}

impl Journal for Sqlite {
    fn submit(&self, submit: Submit) -> Answer<'_, Submitted> {
        let started = match check::submit(&submit, &self.0.seal) {
            Ok(started) => started,
            Err(refused) => return Box::pin(async { Err(refused.into()) }),
        };
        self.change(move |tables, now| tables.submit(&submit, &started, now))
    }

    fn append(&self, batch: Vec<Append>) -> Answer<'_, Vec<Result<Appended, NotWritten>>> {
        if let Err(refused) = check::batch(&batch) {
            return Box::pin(async { Err(refused.into()) });
        }
        let gives_up = stored::gives_up(&batch);
        // on this thread, so that the writer only writes
        let sealed = |entry| check::append(entry, &self.0.seal);
        let records: Vec<_> = batch.iter().map(sealed).collect();
        let work = move |tables: &SqliteTables, now| tables.append(&batch, &records, now);
        if gives_up { self.change(work) } else { self.write(work) }
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Vec<Claimed>> {
        self.write(move |tables, now| tables.claim(&claim, now))
    }

    fn load(&self, uid: Uid) -> Answer<'_, Loaded> {
        self.read(move |tables, _| tables.load(uid))
    }

    fn inbox(&self, uid: Uid) -> Answer<'_, Inbox> {
        self.read(move |tables, _| tables.inbox(&tables.flow(uid)?))
    }

    fn news(&self, node: Incarnation) -> Answer<'_, Vec<News>> {
        self.read(move |tables, _| tables.news(node))
    }

    fn find(&self, key: CallerKey) -> Answer<'_, Option<Uid>> {
        self.read(move |tables, _| tables.find(&key))
    }

    fn status(&self, uid: Uid) -> Answer<'_, Status> {
        self.read(move |tables, _| tables.status(uid))
    }

    fn list(&self, query: Query) -> Answer<'_, Vec<FlowInfo>> {
        self.read(move |tables, now| tables.list(&query, now))
    }

    fn count(&self, templates: Vec<String>) -> Answer<'_, Counts> {
        let log_bytes = Arc::clone(&self.0.log_bytes);
        self.read(move |tables, now| {
            let log_bytes = Some(log_bytes.load(Ordering::Relaxed));
            Ok(Counts { log_bytes, ..tables.count(&templates, now)? })
        })
    }

    fn signal(&self, uid: Uid, signal: Signal) -> Answer<'_, ()> {
        self.change(move |tables, _| tables.signal(uid, &signal))
    }

    fn emit(&self, emit: Emit) -> Answer<'_, Result<(), NotWritten>> {
        match check::emit(&emit, &self.0.seal) {
            Ok(value) => self.write(move |tables, now| tables.emit(&emit, &value, now)),
            Err(refused) => Box::pin(async { Ok(Err(refused.into())) }),
        }
    }

    fn emitted(&self, uid: Uid, after: u64, most: usize) -> Answer<'_, EmittedPage> {
        self.read(move |tables, _| tables.emitted(uid, after, most))
    }

    fn cancel(
        &self,
        uid: Uid,
        by: CancelledBy,
        unless: Option<crate::Path>,
    ) -> Answer<'_, Cancelled> {
        self.change(move |tables, now| tables.cancel(uid, &by, unless.as_ref(), now.now))
    }

    fn resume(&self, uid: Uid, how: Resume) -> Answer<'_, ()> {
        self.change(move |tables, _| tables.resume(uid, &how))
    }

    fn trim(&self, age: Duration) -> Answer<'_, usize> {
        Box::pin(self.trim_in_pieces(age))
    }

    fn remove(&self, uids: Vec<Uid>) -> Answer<'_, ()> {
        match check::remove(&uids) {
            Ok(()) => Box::pin(self.remove_in_pieces(uids)),
            Err(refused) => Box::pin(async { Err(refused.into()) }),
        }
    }

    fn schedules(&self) -> Answer<'_, Vec<ReadSchedule>> {
        self.read(|tables, _| tables.schedules())
    }

    fn put_schedule(&self, schedule: StoredSchedule) -> Answer<'_, ()> {
        self.write(move |tables, _| tables.put_schedule(&schedule))
    }

    fn remove_schedule(&self, name: String) -> Answer<'_, bool> {
        self.write(move |tables, _| tables.remove_schedule(&name))
    }

    fn register(&self, lease: Duration) -> Answer<'_, Registered> {
        self.write(move |tables, now| tables.register(now, lease))
    }

    fn renew(&self, node: Incarnation, lease: Duration) -> Answer<'_, Reading> {
        self.write(move |tables, now| tables.renew(node, now, lease))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    fn database(&self) -> Option<Database> {
        Some(self.0.database)
    }
}
