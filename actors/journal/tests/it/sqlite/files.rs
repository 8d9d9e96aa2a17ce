//! Files that cannot be used, and disks that are full.

use std::env;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Command};

use asyncsteps_journal::request::Claim;
use asyncsteps_journal::request::Program;
use asyncsteps_journal::sqlite::{Options, Sqlite};
use asyncsteps_journal::{Error, Journal, LEASE, Repeat, Uid};
use rusqlite::Connection;

use super::world::{Folder, open};
use crate::flows::{entry, run, start};

fn refused(file: &Path) -> Error {
    Sqlite::open(file, Options::new("test 1.0")).expect_err("it cannot be used")
}

#[test]
fn a_second_opener_is_told_who_has_it() {
    let folder = Folder::new("in-use");
    let journal = open(&folder.file());
    let error = refused(&folder.file());
    let text = error.to_string();
    let Error::InUse { file, holder } = error else { panic!("{error}") };
    assert_eq!((file, holder), (folder.file(), format!("process {}", process::id())));
    assert!(text.contains("in use by process"), "{text}");
    drop(journal);
    open(&folder.file());
}

#[cfg(unix)]
#[test]
fn an_opener_through_a_link_is_told_who_has_it() {
    let folder = Folder::new("in-use-link");
    let file = folder.file();
    let beside = |name| file.with_file_name(name);
    let (link, link_of_folder) = (beside("link.db"), beside("folder"));
    // the file is not there yet
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    std::os::unix::fs::symlink(".", &link_of_folder).expect("a link");
    let through_folder = link_of_folder.join(file.file_name().expect("a file"));
    let names = [&link, &file, &through_folder];
    for first in names {
        let journal = open(first);
        for second in names {
            let error = refused(second);
            assert!(matches!(error, Error::InUse { .. }), "{first:?}, {second:?}: {error}");
        }
        drop(journal);
    }
}

#[test]
fn flows_of_an_earlier_process_can_be_claimed_at_once() {
    let folder = Folder::new("restart");
    let uid = run(async {
        let journal = open(&folder.file());
        let node = journal.register(LEASE).await.unwrap().node;
        start(&journal, node).await
    });
    run(async {
        let journal = open(&folder.file());
        let node = journal.register(LEASE).await.unwrap().node;
        let program = Program { template: "t".to_owned(), version: 1, compatible: Vec::new() };
        let ticket = Uid::random().unwrap();
        let claim = Claim {
            node,
            ticket,
            programs: vec![program],
            limit: 9,
            awaited: Vec::new(),
            suspects: 1,
        };
        let claimed = journal.claim(claim).await.unwrap();
        assert_eq!(claimed.iter().map(|claimed| claimed.uid).collect::<Vec<_>>(), [uid]);
    });
}

#[test]
fn a_newer_format_is_named() {
    let folder = Folder::new("newer");
    drop(open(&folder.file()));
    let db = Connection::open(folder.file()).unwrap();
    db.pragma_update(None, "user_version", 9).unwrap();
    let error = refused(&folder.file());
    assert!(matches!(error, Error::NewerFormat { found: 9, known: 4 }), "{error}");
}

#[test]
fn a_record_of_a_later_program_names_the_program() {
    let folder = Folder::new("later");
    run(async {
        let journal = open(&folder.file());
        let node = journal.register(LEASE).await.unwrap().node;
        let uid = start(&journal, node).await;
        let later = Options::new("shop 7.2");
        let sql = "UPDATE record SET kind = 99, program = (SELECT id FROM program WHERE name = ?1)";
        drop(journal);
        drop(Sqlite::open(folder.file(), later).unwrap());
        Connection::open(folder.file()).unwrap().execute(sql, ["shop 7.2"]).unwrap();
        let error = open(&folder.file()).load(uid).await.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.repeat(), Repeat::Never);
        for part in ["record 0", &uid.to_string(), "shop 7.2", "kind 99"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    });
}

#[test]
fn other_files_are_no_journals() {
    let folder = Folder::new("other");
    fs::write(folder.file(), "no database at all, but long enough for a header".repeat(30))
        .unwrap();
    assert!(matches!(refused(&folder.file()), Error::Damaged(_)));
    fs::remove_file(folder.file()).unwrap();
    let db = Connection::open(folder.file()).unwrap();
    db.execute_batch("CREATE TABLE mine (id INTEGER)").unwrap();
    assert!(matches!(refused(&folder.file()), Error::Damaged(_)));
    let tables: i64 =
        db.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 1, "it was left alone");
}

#[test]
fn a_damaged_page_is_an_error_and_not_a_result() {
    let folder = Folder::new("damaged");
    run(async {
        let journal = open(&folder.file());
        let node = journal.register(LEASE).await.unwrap().node;
        let uid = start(&journal, node).await;
        for number in 1..200 {
            let text = "x".repeat(200);
            journal.append(vec![entry(uid, number, &text)]).await.unwrap()[0].clone().unwrap();
        }
        drop(journal);
        let db = Connection::open(folder.file()).unwrap();
        let sql = "SELECT rootpage FROM sqlite_master WHERE name = 'record'";
        let page: u32 = db.query_row(sql, [], |row| row.get(0)).unwrap();
        db.close().unwrap();
        let file = OpenOptions::new().write(true).open(folder.file()).unwrap();
        file.write_all_at(&[0xff; 4096], u64::from(page - 1) * 4096).unwrap();
        let journal = open(&folder.file());
        let error = journal.load(uid).await.unwrap_err();
        assert!(matches!(error, Error::Damaged(_)), "{error}");
        let error = journal.append(vec![entry(uid, 999, "")]).await.unwrap_err();
        assert!(matches!(error, Error::Damaged(_)), "{error}");
    });
}

#[test]
fn a_full_disk_loses_nothing_that_was_answered() {
    let folder = Folder::new("full");
    run(async {
        let options = Options { max_bytes: Some(400_000), ..Options::new("test 1.0") };
        let journal = Sqlite::open(folder.file(), options).unwrap();
        let node = journal.register(LEASE).await.unwrap().node;
        let uid = start(&journal, node).await;
        let large = "x".repeat(10_000);
        let mut answered = 0;
        let error = loop {
            match journal.append(vec![entry(uid, answered + 1, &large)]).await {
                Ok(answers) => answers[0].clone().map(|_| answered += 1).unwrap(),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::DiskFull(_)), "{error}");
        assert_eq!(error.repeat(), Repeat::Later);
        assert!(answered > 10, "{answered}");
        assert_eq!(journal.load(uid).await.unwrap().next(), answered + 1);
        drop(journal);
        // with more room the same append is done
        let journal = open(&folder.file());
        assert_eq!(journal.load(uid).await.unwrap().next(), answered + 1);
        journal.append(vec![entry(uid, answered + 1, &large)]).await.unwrap()[0].clone().unwrap();
    });
}

/// A user without rights; root may write everything, so the test goes on as this one.
const NOBODY: u32 = 65_534;

/// The journal that a process without rights is to open.
const CHILD: &str = "JOURNAL_TO_READ";

#[test]
fn a_file_that_cannot_be_written_is_named() {
    if let Some(file) = env::var_os(CHILD) {
        let error = refused(file.as_ref());
        assert!(matches!(error, Error::ReadOnly(_)), "{error}");
        return;
    }
    let folder = Folder::new("read-only");
    drop(open(&folder.file()));
    let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    for file in fs::read_dir(folder.path()).unwrap() {
        allow(&file.unwrap().path(), 0o444).unwrap();
    }
    allow(folder.path(), 0o555).unwrap();
    let test = folder.path().with_extension("test");
    fs::copy(env::current_exe().unwrap(), &test).unwrap();
    let mut child = Command::new(&test);
    child.args(["--exact", "sqlite::files::a_file_that_cannot_be_written_is_named"]);
    child.env(CHILD, folder.file()).current_dir("/");
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        child.uid(NOBODY).gid(NOBODY);
    }
    let output = child.output().unwrap();
    allow(folder.path(), 0o755).unwrap();
    fs::remove_file(test).unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("1 passed"), "{told}");
}
