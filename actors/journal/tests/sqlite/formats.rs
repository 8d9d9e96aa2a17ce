//! Files that earlier programs wrote.

use std::time::Duration;

use asyncsteps_journal::record::Timer;
use asyncsteps_journal::request::{Claim, FlowState, Program};
use asyncsteps_journal::{Event, Journal, LEASE, Timestamp, Uid};
use rusqlite::Connection;

use super::flows::run;
use super::world::{Folder, open};

#[test]
fn a_file_of_the_first_format_is_taken_over() {
    let folder = Folder::new("format-1");
    let db = Connection::open(folder.file()).expect("a database");
    db.execute_batch(include_str!("format_1.sql")).expect("the tables");
    drop(db);
    let [ended, parked, begun] = [1, 2, 3].map(|byte| Uid::from_bytes([byte; 16]));
    // the second time it is of the new format
    for _ in 0..2 {
        drop(open(&folder.file()));
    }
    let journal = open(&folder.file());
    run(async {
        let state = async |uid| journal.status(uid).await.expect("it is there").flow.state;
        assert_eq!(state(ended).await, FlowState::Ended);
        assert_eq!(state(parked).await, FlowState::Parked);
        let node = journal.register(LEASE).await.expect("a node").node;
        let programs =
            vec![Program { template: "t".to_owned(), version: 1, compatible: Vec::new() }];
        let ticket = Uid::random().expect("random bytes");
        let claimed = journal.claim(Claim { node, ticket, programs, limit: 9, suspects: 1 }).await;
        let mut uids: Vec<_> = claimed.expect("it lives").iter().map(|flow| flow.uid).collect();
        uids.sort_unstable();
        assert_eq!(uids, [parked, begun]);
        let loaded = journal.load(parked).await.expect("it is read");
        let at = Timestamp::from_millis(1_700_000_030_000);
        let timer = Event::Timer(Timer { at, attempt: 2, ends: None });
        assert_eq!(loaded.records[1].record.event, timer);
        assert_eq!(journal.trim(Duration::ZERO).await.expect("an answer"), 1);
    });
}
