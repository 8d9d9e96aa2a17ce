//! Files that earlier programs wrote.

use std::path::Path;
use std::time::Duration;

use asyncsteps_journal::record::{Intent, IntentForm, Timer};
use asyncsteps_journal::request::{Claim, FlowState, Program, Query};
use asyncsteps_journal::sqlite::{Options, Sqlite};
use asyncsteps_journal::{Error, Event, Journal, LEASE, Timestamp, Uid};
use rusqlite::Connection;

use super::world::{Folder, open};
use crate::flows::run;

/// Each file has a request that has ended, one that is parked, and one whose owner died.
const EARLIER: [(i64, &str, &str); 2] = [
    (1, include_str!("format_1.sql"), "ended = 1700000019910"),
    (2, include_str!("format_2.sql"), "ended = 1700000019910, ended_seen = 1700000019910"),
];

fn uid(number: u8) -> Uid {
    Uid::from_bytes([number; 16])
}

fn write(file: &Path, sql: &str) {
    Connection::open(file).expect("a database").execute_batch(sql).expect("the tables");
}

#[test]
fn a_file_of_an_earlier_format_is_refused_while_requests_are_open_and_then_taken_over() {
    for (format, sql, ended) in EARLIER {
        let folder = Folder::new(&format!("format-{format}"));
        let file = folder.file();
        write(&file, sql);
        for _ in 0..2 {
            let refused = Sqlite::open(&file, Options::new("test 1.0")).expect_err("two are open");
            let is_right = matches!(
                refused,
                Error::OpenInFormat { open: 2, found, known: 4 } if found == format
            );
            assert!(is_right, "{refused}");
        }
        write(&file, &format!("UPDATE flow SET state = 7, {ended} WHERE state < 7"));
        write(&file, FOR_ANN);
        // the second time it is of the new format
        for _ in 0..2 {
            drop(open(&file));
        }
        let journal = open(&file);
        run(async {
            for number in 1..=3 {
                let flow = journal.status(uid(number)).await.expect("it is there").flow;
                assert_eq!(flow.state, FlowState::Ended);
            }
            assert_eq!(of_ann(&journal).await, [uid(2)]);
            assert_eq!(journal.trim(Duration::ZERO).await.expect("an answer"), 3);
        });
    }
}

/// The second request acts for a user as requests have it: the first record has `{"lid":"ann"}`.
const FOR_ANN: &str = "UPDATE record SET body = X'84617401820141806D7B226C6964223A22616E6E227D' \
                       WHERE flow = 2 AND kind = 1";

/// The requests of the user.
async fn of_ann(journal: &Sqlite) -> Vec<Uid> {
    let query = Query { user: Some("ann".to_owned()), limit: 9, ..Query::default() };
    journal.list(query).await.expect("an answer").iter().map(|flow| flow.uid).collect()
}

#[test]
fn requests_of_the_format_before_go_on() {
    let folder = Folder::new("format-3");
    write(&folder.file(), include_str!("format_3.sql"));
    write(&folder.file(), FOR_ANN);
    // the second time it is of the new format
    drop(open(&folder.file()));
    let journal = open(&folder.file());
    run(async {
        let state =
            async |number| journal.status(uid(number)).await.expect("it is there").flow.state;
        assert_eq!(state(1).await, FlowState::Ended);
        assert_eq!(state(2).await, FlowState::Parked);
        assert_eq!(of_ann(&journal).await, [uid(2)]);
        let node = journal.register(LEASE).await.expect("a node").node;
        let programs =
            vec![Program { template: "t".to_owned(), version: 1, compatible: Vec::new() }];
        let ticket = Uid::random().expect("random bytes");
        let claimed = journal
            .claim(Claim { node, ticket, programs, limit: 9, awaited: Vec::new(), suspects: 1 })
            .await;
        let mut uids: Vec<_> = claimed.expect("it lives").iter().map(|flow| flow.uid).collect();
        uids.sort_unstable();
        assert_eq!(uids, [uid(2), uid(3)]);
        let at = Timestamp::from_millis(1_700_000_030_000);
        let parked = journal.load(uid(2)).await.expect("it is read");
        let timer = Event::Timer(Timer { at, attempt: 2, ends: None });
        assert_eq!(parked.records[1].record.event, timer);
        let begun = journal.load(uid(3)).await.expect("it is read");
        let intent = Intent {
            at,
            attempt: 1,
            locks: Vec::new(),
            has_undo: Some(true),
            input: None,
            form: Some(IntentForm::Once),
        };
        assert_eq!(begun.records[2].record.event, Event::Intent(intent));
    });
}
