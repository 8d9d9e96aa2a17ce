//! Work for the threads of the database, and its answers.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;

use asyncsteps::metrics::prometheus_client::metrics::gauge::Gauge;
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::queue::{Adder, Taker, queue};
use super::{StoreError, is_busy};

/// How many jobs wait for a thread at the most: the work of about a second on a slow disk, which takes
/// ten milliseconds or more for a group. When more come, the last job of the longest lane is refused at
/// once, because its request would rather learn that than wait for longer than it may take.
const QUEUE: usize = 4096;

/// How many jobs share a transaction at the most: enough to hide the wait for the disk, few enough
/// that the first one does not wait long for the last.
const GROUP: usize = 64;

/// The answer to a job: a future with its result, after the commit.
///
/// # Cancel safety
/// If it is dropped before the job begins, the job is not done. Afterwards the job is done all the
/// same.
#[derive(Debug)]
#[must_use = "a job without an asker is not done"]
pub struct Pending<T>(oneshot::Receiver<Result<T, StoreError>>);

impl<T> Future for Pending<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|answer| answer.unwrap_or(Err(StoreError::Closed)))
    }
}

/// Where jobs are done.
#[derive(Clone)]
pub(super) enum StoreJobs {
    /// By a thread, which ends with the last copy of its queue.
    Queued(Adder<Box<dyn StoreJob>>, Gauge),
    /// By the caller.
    AtOnce(Arc<Mutex<Connection>>),
}

impl fmt::Debug for StoreJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreJobs").finish_non_exhaustive()
    }
}

impl StoreJobs {
    /// Starts a thread that changes the database, in groups of jobs that share a transaction. `waiting`
    /// counts the jobs that are not answered.
    pub(super) fn writing(db: Connection, waiting: Gauge) -> Result<Self, StoreError> {
        Self::start("store-write", waiting, move |todo| write(&db, &todo))
    }

    /// Starts a thread that reads from the database.
    pub(super) fn reading(db: Connection, waiting: Gauge) -> Result<Self, StoreError> {
        Self::start("store-read", waiting, move |todo| read(&db, &todo))
    }

    /// Has each job done when it is added, in a transaction of its own: for a database without a disk.
    pub(super) fn at_once(db: Connection) -> Self {
        Self::AtOnce(Arc::new(Mutex::new(db)))
    }

    fn start(
        name: &str,
        waiting: Gauge,
        work: impl FnOnce(Taker<Box<dyn StoreJob>>) + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (jobs, todo) = queue(QUEUE);
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(move || work(todo)).map_err(|error| StoreError::Thread(Arc::new(error)))?;
        Ok(Self::Queued(jobs, waiting))
    }

    /// Adds a job that concerns these products.
    pub(super) fn add<'a, T: Send + 'static>(
        &self,
        products: impl IntoIterator<Item = &'a Arc<str>>,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Pending<T> {
        let (asker, answer) = oneshot::channel();
        let mut job = Box::new(AskedJob::new(work, asker));
        match self {
            Self::AtOnce(db) => {
                job.run(&db.lock());
                job.answer(Ok(()));
            }
            Self::Queued(jobs, waiting) => {
                job.counted = Some(JobCountGuard::new(waiting));
                if let Err((job, error)) = jobs.add(products, job) {
                    job.answer(Err(error));
                }
            }
        }
        Pending(answer)
    }
}

/// A job in a queue, whatever its result.
pub(super) trait StoreJob: Send {
    /// Whether its answer is waited for.
    fn is_wanted(&self) -> bool;

    /// Does it.
    fn run(&mut self, db: &Connection);

    /// Sends its result to the asker, unless the transaction around it failed.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

struct AskedJob<T, F> {
    /// Until it is done.
    work: Option<F>,
    result: Result<T, StoreError>,
    asker: oneshot::Sender<Result<T, StoreError>>,
    /// Dropped with the job.
    counted: Option<JobCountGuard>,
}

/// Counts a job until this is dropped.
struct JobCountGuard(Gauge);

impl JobCountGuard {
    fn new(waiting: &Gauge) -> Self {
        waiting.inc();
        Self(waiting.clone())
    }
}

impl Drop for JobCountGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl<T, F> AskedJob<T, F> {
    fn new(work: F, asker: oneshot::Sender<Result<T, StoreError>>) -> Self {
        Self { work: Some(work), result: Err(StoreError::Closed), asker, counted: None }
    }
}

impl<T, F> StoreJob for AskedJob<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T, StoreError> + Send,
{
    fn is_wanted(&self) -> bool {
        !self.asker.is_closed()
    }

    fn run(&mut self, db: &Connection) {
        if let Some(work) = self.work.take() {
            self.result = work(db);
        }
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        // the asker may have left meanwhile
        let _ = self.asker.send(committed.and(self.result));
    }
}

/// Takes groups of jobs until the last [`StoreJobs`] is gone.
fn write(db: &Connection, todo: &Taker<Box<dyn StoreJob>>) {
    loop {
        let mut group = todo.take(GROUP);
        if group.is_empty() {
            return;
        }
        let committed = commit(db, &mut group).map_err(StoreError::from);
        if let Err(error) = &committed {
            tracing::error!(?error, "a group of jobs was not committed");
            // nothing to roll back if the transaction did not begin or ended with the error
            let _ = db.execute_batch("ROLLBACK");
        }
        for job in group {
            job.answer(committed.clone());
        }
    }
}

/// Does those jobs of a group whose answers are waited for, in one transaction; drops the others.
///
/// Here it is decided between an asker that leaves and a job that is done: a job begins if it is
/// wanted when the transaction has begun, and is done then.
fn commit(db: &Connection, group: &mut Vec<Box<dyn StoreJob>>) -> rusqlite::Result<()> {
    group.retain(|job| job.is_wanted());
    if group.is_empty() {
        return Ok(());
    }
    while let Err(error) = db.execute_batch("BEGIN IMMEDIATE") {
        if !is_busy(&error) {
            return Err(error);
        }
        // another process writes, for longer than a statement waits
        tracing::warn!(
            jobs = group.len(),
            "the database is locked by another process: trying again"
        );
        group.retain(|job| job.is_wanted());
        if group.is_empty() {
            return Ok(());
        }
    }
    group.retain(|job| job.is_wanted());
    group.iter_mut().for_each(|job| job.run(db));
    db.execute_batch("COMMIT")
}

/// Takes jobs one by one until the last [`StoreJobs`] is gone.
fn read(db: &Connection, todo: &Taker<Box<dyn StoreJob>>) {
    while let Some(mut job) = todo.take(1).pop() {
        if job.is_wanted() {
            job.run(db);
            job.answer(Ok(()));
        }
    }
}

/// Does a part of a transaction that leaves nothing behind if it fails.
pub(super) fn in_savepoint<T>(
    db: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    db.execute_batch("SAVEPOINT job")?;
    let result = work(db);
    let end = if result.is_ok() { "RELEASE job" } else { "ROLLBACK TO job; RELEASE job" };
    match db.execute_batch(end) {
        // a transaction that had no room may be rolled back as a whole
        Err(error) if result.is_ok() => Err(error.into()),
        Ok(()) | Err(_) => result,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    fn result<T>(pending: Pending<T>) -> Result<T, StoreError> {
        pending.0.blocking_recv().expect("a job is answered")
    }

    #[test]
    fn a_full_queue_refuses_and_jobs_without_an_asker_are_not_done() {
        let jobs =
            StoreJobs::writing(Connection::open_in_memory().unwrap(), Gauge::default()).unwrap();
        let ((begins, begun), (go, wait)) = (mpsc::channel(), mpsc::channel::<()>());
        let first = jobs.add(&[], move |_| {
            begins.send(()).expect("the test waits");
            wait.recv().expect("the test lets it go on");
            Ok(())
        });
        begun.recv().expect("the thread takes the first job");
        let done = Arc::new(AtomicUsize::new(0));
        let add = || {
            let done = Arc::clone(&done);
            jobs.add(&[], move |_| Ok(done.fetch_add(1, Ordering::Relaxed)))
        };
        let mut others: Vec<_> = (0..QUEUE).map(|_| add()).collect();
        assert!(matches!(result(add()), Err(StoreError::Full)));
        let last = others.pop().expect("the queue has room for some");
        drop(others);
        go.send(()).expect("it waits");
        result(first).expect("done");
        assert_eq!(result(last).expect("done"), 0, "it is the first that was done");
        assert_eq!(result(add()).expect("there is room again"), 1);
    }

    #[test]
    fn jobs_of_a_product_that_all_want_do_not_delay_those_of_others() {
        const HOT: usize = 1000;
        let jobs =
            StoreJobs::writing(Connection::open_in_memory().unwrap(), Gauge::default()).unwrap();
        let ((begins, begun), (go, wait)) = (mpsc::channel(), mpsc::channel::<()>());
        let first = jobs.add(&[], move |_| {
            begins.send(()).expect("the test waits");
            wait.recv().expect("the test lets it go on");
            Ok(())
        });
        begun.recv().expect("the thread takes the first job");
        let done = Arc::new(AtomicUsize::new(0));
        let add = |product: &str| {
            let done = Arc::clone(&done);
            jobs.add(&[product.into()], move |_| Ok(done.fetch_add(1, Ordering::Relaxed)))
        };
        let mut hot: Vec<_> = (0..HOT).map(|_| add("hot")).collect();
        let cold = add("cold");
        go.send(()).expect("it waits");
        result(first).expect("done");
        let before = result(cold).expect("done");
        assert!(before < 2, "{before} of {HOT} were done before it");
        let last = result(hot.pop().expect("many")).expect("done");
        assert_eq!(last, HOT, "in their order");
    }

    #[test]
    fn a_job_waits_as_long_as_another_process_has_the_database() {
        static TRIES: AtomicUsize = AtomicUsize::new(0);
        let file = std::env::temp_dir().join(format!("jobs-{}.db", std::process::id()));
        let other = Connection::open(&file).unwrap();
        other.execute_batch("CREATE TABLE t (n); BEGIN IMMEDIATE").unwrap();
        let mut db = Connection::open(&file).unwrap();
        db.busy_handler(Some(|_| {
            TRIES.fetch_add(1, Ordering::Relaxed);
            false
        }))
        .unwrap();
        let jobs = StoreJobs::writing(db, Gauge::default()).unwrap();
        let left = jobs.add(&[], |db| Ok(db.execute("INSERT INTO t VALUES (1)", [])?));
        let kept = jobs.add(&[], |db| Ok(db.execute("INSERT INTO t VALUES (2)", [])?));
        while TRIES.load(Ordering::Relaxed) < 3 {
            thread::yield_now();
        }
        drop(left);
        other.execute_batch("COMMIT").unwrap();
        assert_eq!(result(kept).expect("the other process is done"), 1);
        let first: i64 = other.query_row("SELECT min(n) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(first, 2, "a job whose asker has left is not done");
        drop(jobs);
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn a_job_that_fails_leaves_the_others_of_its_group_alone() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY)").unwrap();
        let insert = |n: i64, times: usize| {
            move |db: &Connection| {
                in_savepoint(db, |db| {
                    for _ in 0..times {
                        db.execute("INSERT INTO t VALUES (?1)", [n])?;
                    }
                    Ok(())
                })
            }
        };
        let mut group: Vec<Box<dyn StoreJob>> = Vec::new();
        let mut answers = Vec::new();
        for work in [insert(1, 1), insert(2, 2), insert(3, 1)] {
            let (asker, answer) = oneshot::channel();
            group.push(Box::new(AskedJob::new(work, asker)));
            answers.push(answer);
        }
        commit(&db, &mut group).unwrap();
        group.into_iter().for_each(|job| job.answer(Ok(())));
        let answers = answers.into_iter().map(|answer| answer.blocking_recv().unwrap().is_ok());
        assert_eq!(answers.collect::<Vec<_>>(), [true, false, true]);
        let sum: i64 = db.query_row("SELECT sum(n) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, 4);
    }
}
