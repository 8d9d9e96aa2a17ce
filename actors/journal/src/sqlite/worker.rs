//! Threads that work on a connection, and their queues.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::log;
use super::tables::{SqliteTables, db_error, io_error};
use crate::error::Error;
use crate::moment::Moment;
use crate::time::Clock;

/// How many requests wait for a thread; others wait in their tasks until there is room. This bounds what
/// a stuck disk collects.
const QUEUE: usize = 4096;

/// How many requests share a flush at the most: they take about as long to write as the flush, and the first one does
/// not wait much longer for the last.
const GROUP: usize = 512;

/// How long a crowd may be late. Flows that were answered together ask for the next record together, a
/// moment later: without this, the first of them would have a flush for itself and the others would wait
/// for two. A thirtieth of a flush; after a group of one there is no wait.
const CROWD_GAP: Duration = Duration::from_micros(120);

/// The use of a thread's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkerAccess {
    /// Requests one by one, each with one view of the file.
    Read,
    /// Groups of requests, each group in a transaction with one flush.
    Write,
}

/// A thread with a connection. Dropping it waits for queued requests.
pub(super) struct SqliteWorker {
    jobs: Option<Sender<Box<dyn WorkerJob>>>,
    room: Arc<Semaphore>,
    done: Arc<WorkerCounts>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The counts of a thread.
#[derive(Default)]
struct WorkerCounts {
    requests: AtomicU64,
    groups: AtomicU64,
}

impl SqliteWorker {
    pub(super) fn start(
        access: WorkerAccess,
        tables: SqliteTables,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let (jobs, todo) = channel();
        let name = match access {
            WorkerAccess::Read => "journal-read",
            WorkerAccess::Write => "journal-write",
        };
        let thread = thread::Builder::new().name(name.to_owned());
        let done = Arc::<WorkerCounts>::default();
        let groups = Groups { access, tables, clock, todo, done: Arc::clone(&done) };
        let work = move || groups.run();
        let thread = thread.spawn(work).map_err(|error: io::Error| io_error(&error))?;
        let room = Arc::new(Semaphore::new(QUEUE));
        Ok(Self { jobs: Some(jobs), room, done, thread: Mutex::new(Some(thread)) })
    }

    /// How many requests were committed, in how many groups.
    pub(super) fn done(&self) -> (u64, u64) {
        let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
        (get(&self.done.requests), get(&self.done.groups))
    }

    /// Lets the thread do something. It may be done twice: the first time is undone then.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnMut(&SqliteTables, Moment) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let room = Arc::clone(&self.room).acquire_owned().await.map_err(|_| Error::Closed)?;
        let (asker, answer) = oneshot::channel();
        let job = AskedWork { work, result: Err(Error::Closed), asker, _room: room };
        let jobs = self.jobs.as_ref().ok_or(Error::Closed)?;
        jobs.send(Box::new(job)).map_err(|_| Error::Closed)?;
        answer.await.unwrap_or(Err(Error::Closed))
    }
}

impl Drop for SqliteWorker {
    fn drop(&mut self) {
        self.jobs = None;
        let thread = self.thread.lock().take();
        // a panic of the thread was printed, and nothing waits for it any more
        let _ = thread.map(JoinHandle::join);
    }
}

/// A request in a queue.
trait WorkerJob: Send {
    /// Does it, or not: an error is one of the storage, after which the transaction cannot go on.
    fn run(&mut self, tables: &SqliteTables, now: Moment) -> Result<(), Error>;

    /// Answers it, after the transaction.
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

struct AskedWork<T, F> {
    work: F,
    result: Result<T, Error>,
    asker: oneshot::Sender<Result<T, Error>>,
    /// Its place in the queue.
    _room: OwnedSemaphorePermit,
}

impl<T, F> WorkerJob for AskedWork<T, F>
where
    T: Send,
    F: FnMut(&SqliteTables, Moment) -> Result<T, Error> + Send,
{
    fn run(&mut self, tables: &SqliteTables, now: Moment) -> Result<(), Error> {
        self.result = (self.work)(tables, now);
        match &self.result {
            // a refused request has changed nothing
            Ok(_)
            | Err(Error::Refused(_) | Error::UnknownRecord { .. } | Error::UnknownValue { .. }) => {
                Ok(())
            }
            Err(error) => Err(error.clone()),
        }
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        // the asker may have left
        let _ = self.asker.send(committed.and(self.result));
    }
}

struct Groups {
    access: WorkerAccess,
    tables: SqliteTables,
    clock: Arc<dyn Clock>,
    todo: Receiver<Box<dyn WorkerJob>>,
    done: Arc<WorkerCounts>,
}

impl Groups {
    /// Works until the last asker is gone.
    fn run(&self) {
        let mut last = 1;
        while let Ok(first) = self.todo.recv() {
            let mut group = self.gather(first, last);
            last = group.len();
            let committed = self.commit(&mut group);
            if committed.is_err() && group.len() > 1 {
                // one of them may be what cannot be done
                for job in group {
                    let mut alone = vec![job];
                    let committed = self.commit(&mut alone);
                    answer(alone, &committed);
                }
            } else {
                answer(group, &committed);
            }
        }
        if self.access == WorkerAccess::Write {
            self.move_log();
        }
    }

    /// Moves the log into the file, so that the file alone has all. The log is kept if that fails.
    fn move_log(&self) {
        match log::empty(&self.tables.db, log::BUSY) {
            Ok(true) => {}
            Ok(false) => tracing::warn!(
                "another connection reads the journal's file: a copy of it needs the `-wal` beside it, and what was \
                 removed may still be there"
            ),
            Err(error) => tracing::warn!(
                %error,
                "the log could not be moved into the journal's file: a copy of it needs the `-wal` beside it, and \
                 what was removed may still be there"
            ),
        }
    }

    /// The queued jobs, and after a group as many as it had, if they come at once.
    fn gather(&self, first: Box<dyn WorkerJob>, last: usize) -> Vec<Box<dyn WorkerJob>> {
        let mut group = vec![first];
        if self.access == WorkerAccess::Read {
            return group;
        }
        group.extend(self.todo.try_iter().take(GROUP - 1));
        while group.len() < last {
            let Ok(job) = self.todo.recv_timeout(CROWD_GAP) else { break };
            group.push(job);
        }
        group
    }

    fn commit(&self, group: &mut [Box<dyn WorkerJob>]) -> Result<(), Error> {
        let done = self.attempt(group);
        if done.is_err() {
            self.tables.forget();
            if !self.tables.db.is_autocommit() {
                // the first error is reported
                let _ = self.tables.db.execute_batch("ROLLBACK");
            }
        }
        done
    }

    fn attempt(&self, group: &mut [Box<dyn WorkerJob>]) -> Result<(), Error> {
        let db = &self.tables.db;
        if let Some(log) = &self.tables.log {
            log.look(db, self.clock.now())?;
        }
        let begin = match self.access {
            WorkerAccess::Read => "BEGIN DEFERRED",
            WorkerAccess::Write => "BEGIN IMMEDIATE",
        };
        let execute = |sql| db.prepare_cached(sql).and_then(|mut sql| sql.execute([]));
        execute(begin).map_err(db_error)?;
        if let Some(cache) = &self.tables.cache {
            cache.begin();
        }
        let now = self.tables.times()?.at(self.clock.now());
        group.iter_mut().try_for_each(|job| job.run(&self.tables, now))?;
        execute("COMMIT").map_err(|error| {
            let error = db_error(error);
            // the flush failed: the log may be found after a restart
            if let Error::Storage(cause) = error { Error::AnswerLost(cause) } else { error }
        })?;
        if self.tables.erased.take() {
            self.move_log();
        }
        self.done.requests.fetch_add(group.len() as u64, Ordering::Relaxed);
        self.done.groups.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn answer(group: Vec<Box<dyn WorkerJob>>, committed: &Result<(), Error>) {
    for job in group {
        job.answer(committed.clone());
    }
}
