//! The file does not stay as large as it was once.

use std::fs;
use std::time::Duration;

use asyncsteps_journal::record::{Ended, Ending};
use asyncsteps_journal::sqlite::Sqlite;
use asyncsteps_journal::{Event, Journal, LEASE, Path, Record, Value};
use rusqlite::Connection;

use super::world::{Folder, open};
use crate::flows::{entry, run, start};

/// Flows, and bytes of each: 12 MB in all.
const FLOWS: usize = 400;
const BYTES: usize = 30 * 1024;

/// Pages that a trim may give back: 4 MiB.
const PIECE: i64 = 1024;

/// Stores flows that have ended.
async fn ended(journal: &Sqlite) {
    let node = journal.register(LEASE).await.expect("a node").node;
    for _ in 0..FLOWS {
        let uid = start(journal, node).await;
        let ending = Ending::Completed(Value::encode(&()).expect("a value"));
        let mut last = entry(uid, 1, &"x".repeat(BYTES));
        last.records.push(Record::new(Path::template("t"), Event::Ended(Ended { ending })));
        for answer in journal.append(vec![last]).await.expect("an answer") {
            answer.expect("it is written");
        }
    }
}

#[test]
fn the_file_shrinks_in_pieces_when_what_has_ended_is_trimmed() {
    let folder = Folder::new("shrinks");
    let size = || fs::metadata(folder.file()).expect("the file").len();
    let journal = open(&folder.file());
    run(ended(&journal));
    let view = Connection::open(folder.file()).expect("a view");
    let pages = || view.query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0));
    let pages = || pages().expect("a number");
    let (mut before, mut trimmed) = (pages(), Vec::new());
    let most = before;
    while trimmed.len() < 6 {
        trimmed.push(run(journal.trim(Duration::ZERO)).expect("trimmed"));
        let freed = before - pages();
        assert!((0..=PIECE + 2).contains(&freed), "{freed} pages at once, with their map");
        before = pages();
    }
    assert_eq!((trimmed[0], trimmed[1]), (FLOWS, 0));
    assert!(before < most / 20, "{before} of {most} pages are left");
    drop((view, journal));
    let small = size();
    assert!(small < 200_000, "{small} bytes are left");
    // it can be used as before
    let journal = open(&folder.file());
    run(ended(&journal));
    drop(journal);
    assert!(size() > (FLOWS * BYTES) as u64);
}
