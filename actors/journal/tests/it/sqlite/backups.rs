//! Backups that are taken while a journal is open.

use std::fs;

use asyncsteps_journal::request::{Claim, FlowState, Program, StoredSchedule};
use asyncsteps_journal::sqlite::Sqlite;
use asyncsteps_journal::{Error, Journal, LEASE, Refused, Uid, Value};
use rusqlite::{Connection, OpenFlags};

use super::world::{Folder, open};
use crate::flows::{entry, run, start};

/// What `sqlite3 FILE "VACUUM INTO 'BACKUP'"` does.
fn back_up(folder: &Folder) {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let db = Connection::open_with_flags(folder.file(), flags).expect("the file is there");
    let backup = folder.path().join("backup.db");
    db.execute("VACUUM INTO ?1", [backup.to_str().expect("UTF-8")]).expect("a backup");
}

/// The steps of the flow's first epoch that are recorded, once a new node has it.
async fn claimed(journal: &Sqlite, uid: Uid) -> usize {
    let node = journal.register(LEASE).await.expect("a node").node;
    let programs = vec![Program { template: "t".to_owned(), version: 1, compatible: Vec::new() }];
    let ticket = Uid::random().expect("random bytes");
    let claim = Claim { node, ticket, programs, limit: 9, awaited: Vec::new(), suspects: 1 };
    let claimed = journal.claim(claim).await.expect("it has a lease");
    assert_eq!(claimed.iter().map(|flow| flow.uid).collect::<Vec<_>>(), [uid]);
    journal.load(uid).await.expect("it is there").records.len() - 1
}

#[test]
fn a_backup_of_an_open_journal_goes_on_from_where_it_was_taken() {
    let folder = Folder::new("backup");
    let journal = open(&folder.file());
    let (uid, later) = run(async {
        let node = journal.register(LEASE).await.expect("a node").node;
        let uid = start(&journal, node).await;
        let value = Value::encode("daily").expect("a value");
        let schedule = StoredSchedule { name: "reports".to_owned(), value };
        journal.put_schedule(schedule).await.expect("it is stored");
        journal.append(vec![entry(uid, 1, "before")]).await.expect("it is written");
        back_up(&folder);
        for number in 2..5 {
            let appended = journal.append(vec![entry(uid, number, "after")]).await;
            assert!(appended.expect("it is written")[0].is_ok());
        }
        (uid, start(&journal, node).await)
    });
    drop(journal);
    // in place of the journal, without its log
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(folder.path().join(format!("journal.db{suffix}")));
    }
    fs::copy(folder.path().join("backup.db"), folder.file()).expect("it is restored");
    let journal = open(&folder.file());
    run(async {
        let unknown = journal.status(later).await.expect_err("it came after the backup");
        assert!(matches!(unknown, Error::Refused(Refused::NoFlow(_))), "{unknown}");
        assert_eq!(journal.status(uid).await.expect("known").flow.state, FlowState::Running);
        assert_eq!(claimed(&journal, uid).await, 1, "its owner is dead, whatever its lease was");
        assert_eq!(journal.schedules().await.expect("they are kept").len(), 1);
    });
}
