//! What has ended is removed in pieces: others do not wait for all of it.

use std::pin::pin;
use std::time::Duration;

use asyncsteps_journal::record::{Ended, Ending};
use asyncsteps_journal::request::FirstOwner;
use asyncsteps_journal::sqlite::Sqlite;
use asyncsteps_journal::{Error, Event, Incarnation, Journal, LEASE, Path, Record, Uid, Value};
use futures_util::future::{Either, join, join_all, select};

use super::world::{Folder, open};
use crate::flows::{entry, run, start, submit};

/// Small flows that have ended, in some more pieces than one.
const FLOWS: usize = 300;

/// A flow of several pieces: its records, and the bytes of each.
const LARGE: (u64, usize) = (100, 30 * 1024);

async fn ended(journal: &Sqlite, node: Incarnation, records: u64, bytes: usize) -> Uid {
    let uid = start(journal, node).await;
    let ending = Ending::Completed(Value::encode(&()).expect("a value"));
    let end = Record::new(Path::template("t"), Event::Ended(Ended { ending }));
    for first in 1..=records {
        let mut next = entry(uid, first, &"x".repeat(bytes));
        next.records.extend((first == records).then(|| end.clone()));
        journal.append(vec![next]).await.expect("an answer")[0].clone().expect("it is written");
    }
    uid
}

/// A file with a large flow and small ones, all of which have ended.
async fn filled(folder: &Folder) -> (Sqlite, Vec<Uid>) {
    let journal = open(&folder.file());
    let node = journal.register(LEASE).await.expect("a node").node;
    let mut uids = vec![ended(&journal, node, LARGE.0, LARGE.1).await];
    uids.extend(join_all((0..FLOWS).map(|_| ended(&journal, node, 1, 1))).await);
    (journal, uids)
}

/// Removes what has ended, beside a submit and looks at the large flow.
async fn beside<T>(journal: &Sqlite, large: Uid, removing: impl Future<Output = Result<T, Error>>) {
    let before = journal.totals().commits;
    let looks = async {
        while let Ok(status) = journal.status(large).await {
            assert!(status.ending.is_some(), "its result is known as long as it is");
        }
    };
    let removing = async { join(removing, looks).await.0 };
    let other = journal.submit(submit(FirstOwner::Any));
    match select(pin!(removing), other).await {
        Either::Right((answer, removing)) => {
            answer.expect("a new flow");
            removing.await.map(drop).expect("they are removed");
        }
        Either::Left(_) => panic!("another request has waited for all of it"),
    }
    let commits = journal.totals().commits - before;
    assert!((20..80).contains(&commits), "{commits} pieces");
}

#[test]
fn others_do_not_wait_for_all_that_is_trimmed_or_removed() {
    let folder = Folder::new("pieces-trimmed");
    run(async {
        let (journal, uids) = filled(&folder).await;
        beside(&journal, uids[0], async {
            assert_eq!(journal.trim(Duration::ZERO).await?, FLOWS + 1);
            Ok(())
        })
        .await;
    });
    let folder = Folder::new("pieces-removed");
    run(async {
        let (journal, uids) = filled(&folder).await;
        beside(&journal, uids[0], journal.remove(uids.clone())).await;
        assert!(journal.status(uids[FLOWS]).await.is_err());
    });
}
