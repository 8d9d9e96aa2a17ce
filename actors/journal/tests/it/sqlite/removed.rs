//! What was removed is not in the files any more.

use std::fs;
use std::time::Duration;

use asyncsteps_journal::record::{Done, Ended, Ending};
use asyncsteps_journal::request::{FirstOwner, Signal, StoredSchedule};
use asyncsteps_journal::sqlite::Sqlite;
use asyncsteps_journal::{Event, Journal, LEASE, Path, Record, Uid, Value};

use super::world::{Folder, open};
use crate::flows::{entry, run, submit};

/// How often a mark is in the file and in its log.
fn count(folder: &Folder, mark: &str) -> usize {
    let files = [folder.file(), folder.path().join("journal.db-wal")];
    let bytes = files.iter().filter_map(|file| fs::read(file).ok());
    bytes.map(|all| all.windows(mark.len()).filter(|part| *part == mark.as_bytes()).count()).sum()
}

/// A flow with the mark in its key, a signal, and values that take several pages; it ends, and others are beside it.
async fn ended(journal: &Sqlite, mark: &str) -> Uid {
    let node = journal.register(LEASE).await.expect("a node").node;
    let value = |times| Value::encode(&mark.repeat(times)).expect("a value");
    let mut new = submit(FirstOwner::Node(node));
    let uid = new.uid;
    new.started.parameters = value(1);
    new.key = Some(asyncsteps_journal::request::CallerKey {
        scope: mark.to_owned(),
        key: mark.to_owned(),
    });
    journal.submit(new).await.expect("it is stored");
    let id = Uid::random().expect("random bytes");
    let signal = Signal { id, name: mark.to_owned(), value: value(1) };
    journal.signal(uid, signal).await.expect("it is stored");
    for first in (1..40).step_by(2) {
        // each replaces the one before, as iterations do
        let done = Event::Done(Done { value: value(700), attempt: 1, millis: 1 });
        let mut step = entry(uid, first, mark);
        step.records.push(Record::new(Path::template("t").step("s"), done));
        step.seen = 1;
        if first > 1 {
            step.replaces =
                vec![asyncsteps_journal::RecordId { epoch: step.epoch, sequence: first - 1 }];
        }
        journal.append(vec![step]).await.expect("an answer")[0].clone().expect("it is written");
        journal.submit(submit(FirstOwner::Any)).await.expect("it is stored");
    }
    let end = Event::Ended(Ended { ending: Ending::Completed(value(1)) });
    let mut last = entry(uid, 41, mark);
    last.records = vec![Record::new(Path::template("t"), end)];
    last.seen = 1;
    journal.append(vec![last]).await.expect("an answer")[0].clone().expect("it is written");
    uid
}

#[test]
fn a_removed_request_is_neither_in_the_file_nor_in_its_log() {
    let folder = Folder::new("removed");
    let journal = open(&folder.file());
    run(async {
        let (ann, bob) = (ended(&journal, "ann@").await, ended(&journal, "bob@").await);
        let value = Value::encode("ann@").expect("a value");
        let schedule = StoredSchedule { name: "daily".to_owned(), value };
        journal.put_schedule(schedule).await.expect("it is stored");
        let (before, other) = (count(&folder, "ann@"), count(&folder, "bob@"));
        assert!(before > 700 && other > 700, "{before} and {other}: this test can fail");
        journal.remove_schedule("daily".to_owned()).await.expect("it is removed");
        journal.remove(vec![ann]).await.expect("it is removed");
        assert_eq!(count(&folder, "ann@"), 0);
        assert!(count(&folder, "bob@") > 700, "it is there");
        journal.load(bob).await.expect("it is there");
        // what is trimmed is gone at the latest when the file is closed
        assert_eq!(journal.trim(Duration::ZERO).await.expect("an answer"), 1);
    });
    drop(journal);
    assert_eq!(count(&folder, "bob@"), 0);
}
