//! The log beside the file while something else reads the file.

use std::fs;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use asyncsteps_journal::sqlite::{Options, Sqlite};
use asyncsteps_journal::{Clock, Error, Journal, LEASE, Timestamp, Uid};
use rusqlite::Connection;

use super::world::Folder;
use crate::flows::{entry, run, start};

/// A clock that tests set, in milliseconds.
#[derive(Clone, Debug, Default)]
struct SetClock(Arc<AtomicU64>);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_000_000_000 + self.0.load(Ordering::Relaxed))
    }
}

/// What is logged, by all threads.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Written {
    journal: Sqlite,
    uid: Uid,
    count: u64,
}

impl Written {
    fn new(folder: &Folder, options: Options) -> Self {
        let journal = Sqlite::open(folder.file(), options).expect("a journal");
        let uid = run(async {
            let node = journal.register(LEASE).await.expect("a node").node;
            start(&journal, node).await
        });
        Self { journal, uid, count: 0 }
    }

    /// The size of the log, as metrics show it.
    fn counted(&self) -> u64 {
        let counts = run(self.journal.count(Vec::new())).expect("it is counted");
        counts.log_bytes.expect("it has one")
    }

    /// Appends records of 60 kB in one transaction.
    fn write(&mut self, records: u64) -> Result<(), Error> {
        let large = "x".repeat(60_000);
        let numbers = self.count + 1..=self.count + records;
        let batch = numbers.map(|number| entry(self.uid, number, &large)).collect();
        for answer in run(self.journal.append(batch))? {
            answer.expect("it is written");
        }
        self.count += records;
        Ok(())
    }
}

/// A reader of the file, until it is dropped.
fn reader(folder: &Folder) -> Connection {
    let db = Connection::open(folder.file()).expect("it is opened");
    db.execute_batch("BEGIN; SELECT count(*) FROM flow;").expect("it reads");
    db
}

fn log_bytes(folder: &Folder) -> u64 {
    fs::metadata(folder.path().join("journal.db-wal")).map_or(0, |log| log.len())
}

#[test]
fn a_reader_that_stays_is_named_with_its_age_and_the_log_shrinks_when_it_has_left() {
    let (log, folder, clock) = (Log::default(), Folder::new("held"), SetClock::default());
    let writer = log.clone();
    let logged = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    let _ = tracing::subscriber::set_global_default(logged.finish());
    let warned = || {
        let said = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("text");
        let held = |line: &&str| line.contains("journal-") && line.contains("-held/");
        said.lines().filter(held).filter(|line| line.contains("WARN")).map(str::to_owned).collect()
    };
    let options = Options { clock: Arc::new(clock.clone()), ..Options::new("test 1.0") };
    let mut written = Written::new(&folder, options);
    let held = reader(&folder);
    for _ in 0..7 {
        written.write(50).expect("it is written");
    }
    assert!(log_bytes(&folder) > 16 << 20, "{}", log_bytes(&folder));
    let lines: Vec<String> = warned();
    assert_eq!(lines, [""; 0], "it may leave soon");
    for (now, lines) in [(29_000, 0), (31_000, 1), (50_000, 1), (62_000, 2)] {
        clock.0.store(now, Ordering::Relaxed);
        written.write(1).expect("it is written");
        let said: Vec<String> = warned();
        assert_eq!(said.len(), lines, "{now}: {said:?}");
        assert!(said.iter().all(|line| line.contains("has read the journal's file")), "{said:?}");
    }
    let last: Vec<String> = warned();
    assert!(last[1].contains("for at least 62 s"), "{last:?}");
    assert!(written.counted() > 16 << 20);
    drop(held);
    clock.0.store(64_000, Ordering::Relaxed);
    written.write(1).expect("it is written");
    assert!(log_bytes(&folder) < 1 << 20, "{}", log_bytes(&folder));
    written.write(1).expect("it is written");
    assert!(written.counted() < 1 << 20);
}

#[test]
fn file_and_log_have_one_limit() {
    let folder = Folder::new("bounded");
    let most = 4_000_000;
    let options = Options { max_bytes: Some(most), ..Options::new("test 1.0") };
    let mut written = Written::new(&folder, options);
    let held = reader(&folder);
    let full = (0..100).find_map(|_| written.write(2).err()).expect("it is full");
    assert!(matches!(full, Error::DiskFull(_)), "{full}");
    assert!(format!("{full:?}").contains("another connection has read"), "{full:?}");
    let file = fs::metadata(folder.file()).expect("it is there").len();
    let bytes = file + log_bytes(&folder);
    assert!((most..most + 300_000).contains(&bytes), "{bytes}");
    drop(held);
    written.write(2).expect("there is room");
    let (uid, count) = (written.uid, written.count);
    assert_eq!(run(written.journal.load(uid)).expect("it is read").next(), count + 1);
}

/// The restored journal has all that was answered.
fn check(restored: &Folder, written: &Written) {
    let journal = super::world::open(&restored.file());
    let loaded = run(journal.load(written.uid)).expect("it is there");
    assert_eq!(loaded.next(), written.count + 1);
}

#[test]
fn a_copy_of_the_files_has_all_if_nothing_is_written_meanwhile() {
    let (folder, with_log, alone) =
        (Folder::new("cp"), Folder::new("cp-wal"), Folder::new("cp-file"));
    let mut written = Written::new(&folder, Options::new("test 1.0"));
    written.write(3).expect("it is written");
    let copy = |suffix: &str, to: &Folder| {
        let name = format!("journal.db{suffix}");
        fs::copy(folder.path().join(&name), to.path().join(&name)).expect("a copy");
    };
    copy("", &with_log);
    copy("-wal", &with_log);
    check(&with_log, &written);
    let Written { journal, uid, count } = written;
    drop(journal);
    copy("", &alone);
    let journal = super::world::open(&alone.file());
    check(&with_log, &Written { journal, uid, count });
    assert_eq!(
        run(super::world::open(&with_log.file()).load(uid)).expect("there").next(),
        count + 1
    );
}

#[test]
fn a_backup_by_the_shell_of_sqlite_has_all_that_was_answered() {
    let (folder, to) = (Folder::new("shell"), Folder::new("shell-backup"));
    let mut written = Written::new(&folder, Options::new("test 1.0"));
    written.write(30).expect("it is written");
    let mut shell = std::process::Command::new("sqlite3");
    shell.arg(folder.file()).arg(format!(".backup '{}'", to.file().display()));
    match shell.status() {
        // `tests/run` installs it where it can
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        status => assert!(status.expect("it runs").success()),
    }
    check(&to, &written);
    written.write(1).expect("the journal goes on");
}

/// A program that reads all the time, so that the log is kept until it has copied it, and then empties the log itself.
#[test]
fn a_follower_of_the_log_with_checkpoints_of_its_own_has_all_that_was_answered() {
    let (folder, to) = (Folder::new("follow"), Folder::new("follow-restored"));
    let mut written = Written::new(&folder, Options::new("test 1.0"));
    let follower = reader(&folder);
    fs::copy(folder.file(), to.file()).expect("a snapshot");
    let log = folder.path().join("journal.db-wal");
    let mut copied = Vec::new();
    for records in [1, 40, 2] {
        written.write(records).expect("it is written");
        copied.push(fs::read(&log).expect("the log"));
        let restart = "COMMIT; PRAGMA wal_checkpoint(RESTART); BEGIN; SELECT count(*) FROM flow;";
        follower.execute_batch(restart).expect("it is moved");
    }
    for log in copied {
        fs::write(to.path().join("journal.db-wal"), log).expect("it is written");
        let restored = Connection::open(to.file()).expect("it is opened");
        restored.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("it is moved");
    }
    check(&to, &written);
}
