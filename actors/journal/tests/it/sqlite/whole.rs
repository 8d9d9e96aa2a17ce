//! Files that are moved, copied, linked or lost: a journal is whole, or opening it says what is missing.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use asyncsteps_journal::sqlite::{Options, Sqlite};
use asyncsteps_journal::{Error, Journal, LEASE, Repeat, Uid};
use rusqlite::Connection;
use tracing_subscriber::util::SubscriberInitExt;

use super::world::{Folder, open};
use crate::flows::{run, start};

/// A file beside the journal's.
fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

async fn started(journal: &Sqlite) -> Uid {
    let node = journal.register(LEASE).await.expect("a node").node;
    start(journal, node).await
}

fn refused(file: &Path) -> Error {
    Sqlite::open(file, Options::new("test 1.0")).expect_err("it cannot be used")
}

#[test]
fn the_file_alone_has_all_after_the_last_handle_is_dropped() {
    for has_reader in [false, true] {
        let (folder, other) = (Folder::new("alone"), Folder::new("copy-alone"));
        let journal = open(&folder.file());
        let uid = run(started(&journal));
        let reader = has_reader.then(|| {
            let tool = Connection::open(folder.file()).expect("a tool of the operator");
            let flows = tool.query_row("SELECT count(*) FROM flow", [], |row| row.get::<_, i64>(0));
            assert_eq!(flows.expect("a view"), 1);
            tool
        });
        drop(journal);
        fs::copy(folder.file(), other.file()).expect("a copy");
        let known = run(async { open(&other.file()).status(uid).await });
        known.unwrap_or_else(|error| panic!("reader {has_reader}: {error}"));
        let log = fs::metadata(beside(&folder.file(), "-wal"));
        assert_eq!(log.map_or(0, |log| log.len()), 0, "reader {has_reader}");
        drop(reader);
    }
}

/// Copies what a killed process leaves.
fn killed(from: &Folder, to: &Folder) {
    for suffix in ["", "-wal", "-lock"] {
        fs::copy(beside(&from.file(), suffix), beside(&to.file(), suffix)).expect("a copy");
    }
}

#[test]
fn a_lost_journal_is_an_error_that_names_it_and_what_is_left() {
    let folder = Folder::new("lost");
    let journal = open(&folder.file());
    run(started(&journal));
    let empty = |file: PathBuf| File::create(file).map(drop);
    type Lose<'a> = &'a dyn Fn(&Path) -> io::Result<()>;
    let cases: [(&str, Lose<'_>, &str); 5] = [
        ("emptied", &|file| empty(file.into()), "-lock"),
        ("removed", &|file| fs::remove_file(file), "-lock"),
        ("without log", &|file| fs::remove_file(beside(file, "-wal")), "-lock"),
        (
            "without both",
            &|file| fs::remove_file(file).and_then(|()| fs::remove_file(beside(file, "-wal"))),
            "-lock",
        ),
        (
            "without lock",
            &|file| empty(file.into()).and_then(|()| fs::remove_file(beside(file, "-lock"))),
            "-wal",
        ),
    ];
    for (name, lose, left) in cases {
        let other = Folder::new("lost-copy");
        killed(&folder, &other);
        lose(&other.file()).expect("it is lost");
        let log = fs::read(beside(&other.file(), "-wal")).ok();
        for _ in 0..2 {
            let error = refused(&other.file());
            let text = error.to_string();
            assert_eq!(error.repeat(), Repeat::Never, "{name}: {text}");
            let left = beside(&other.file(), left);
            assert!(text.contains(&format!("remove {}", left.display())), "{name}: {text}");
            assert!(text.contains(&*other.file().to_string_lossy()), "{name}: {text}");
        }
        assert_eq!(fs::read(beside(&other.file(), "-wal")).ok(), log, "{name}: the log is kept");
        // as the error says: to put the files back, or to begin anew
        killed(&folder, &other);
        drop(open(&other.file()));
        for suffix in ["", "-wal", "-lock"] {
            // some of them are not there after the clean end
            let _ = fs::remove_file(beside(&other.file(), suffix));
        }
        open(&other.file());
    }
}

/// The second name of a journal that a process is to open.
const CHILD: &str = "JOURNAL_BY_ANOTHER_LINK";

#[cfg(target_os = "linux")]
#[test]
fn a_hard_link_lets_no_second_opener_in() {
    if let Some(link) = env::var_os(CHILD) {
        let error = refused(link.as_ref());
        assert!(matches!(error, Error::InUse { .. }), "{error}");
        assert!(error.to_string().contains("hard link"), "{error}");
        return;
    }
    let folder = Folder::new("hard-link");
    let journal = open(&folder.file());
    let link = folder.file().with_file_name("link.db");
    fs::hard_link(folder.file(), &link).expect("a link");
    let other_process = || {
        let mut child = Command::new(env::current_exe().expect("this test"));
        child
            .args(["--exact", "sqlite::whole::a_hard_link_lets_no_second_opener_in"])
            .env(CHILD, &link);
        let output = child.output().expect("it runs");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(told.contains("1 passed"), "{told}");
    };
    other_process();
    // an attempt of this process must not end its own locks
    let error = refused(&link);
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    other_process();
    let uid = run(started(&journal));
    drop(journal);
    run(async { open(&link).status(uid).await }).expect("the first has closed it");
}

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

#[test]
fn the_log_says_what_was_opened() {
    let folder = Folder::new("log");
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _subscribed = subscriber.set_default();
    let said =
        || String::from_utf8(std::mem::take(&mut *log.0.lock().expect("no panic"))).expect("text");
    let journal = open(&folder.file());
    let made = said();
    assert!(made.contains("INFO") && made.contains("a journal was made"), "{made}");
    let id = made.split("journal=").nth(1).and_then(|rest| rest.split_whitespace().next());
    let id: Uid = id.expect("an id").parse().expect("32 digits");
    run(async { (started(&journal).await, started(&journal).await) });
    drop(journal);
    drop(open(&folder.file()));
    let opened = said();
    for part in ["INFO", &format!("journal={id}"), "open=2"] {
        assert!(opened.contains(part), "{part}: {opened}");
    }
    fs::hard_link(folder.file(), folder.file().with_file_name("link.db")).expect("a link");
    drop(open(&folder.file()));
    let linked = said();
    assert!(linked.contains("WARN") && linked.contains("links=2"), "{linked}");
}
