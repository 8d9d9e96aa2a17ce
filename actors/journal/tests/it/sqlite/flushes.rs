//! Flows share flushes, a flow that is alone has one, and who reads waits for no flush.

use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use asyncsteps_journal::sqlite::{Options, Sqlite};
use asyncsteps_journal::{Clock, Journal, LEASE, SystemClock, Timestamp};
use futures_util::future::{join, join_all};

use super::world::{Folder, open};
use crate::flows::{entry, run, start};

#[test]
fn a_flow_that_is_alone_has_one_flush_per_append() {
    let folder = Folder::new("alone");
    run(async {
        let journal = open(&folder.file());
        let node = journal.register(LEASE).await.unwrap().node;
        let uid = start(&journal, node).await;
        let before = journal.totals();
        for number in 1..=20 {
            journal.append(vec![entry(uid, number, "")]).await.unwrap()[0].clone().unwrap();
        }
        let after = journal.totals();
        let difference = (after.requests - before.requests, after.commits - before.commits);
        assert_eq!(difference, (20, 20));
    });
}

/// A clock that is read by the writer inside of a transaction: there it can be stopped.
struct Gate {
    is_closed: Mutex<bool>,
    entered: Mutex<Sender<()>>,
    opened: Mutex<Receiver<()>>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

impl Clock for Gate {
    fn now(&self) -> Timestamp {
        let is_writer = std::thread::current().name() == Some("journal-write");
        if is_writer && *self.is_closed.lock().expect("no panic") {
            *self.is_closed.lock().expect("no panic") = false;
            self.entered.lock().expect("no panic").send(()).expect("the test waits");
            self.opened.lock().expect("no panic").recv().expect("the test goes on");
        }
        SystemClock.now()
    }
}

#[test]
fn what_arrives_during_a_flush_shares_the_next_and_reads_go_on() {
    let folder = Folder::new("shared");
    let ((entered, enters), (opens, opened)) = (channel(), channel());
    let gate = Arc::new(Gate {
        is_closed: Mutex::new(false),
        entered: Mutex::new(entered),
        opened: Mutex::new(opened),
    });
    let options = Options { clock: Arc::clone(&gate) as _, ..Options::new("test 1.0") };
    let journal = Sqlite::open(folder.file(), options).unwrap();
    run(async {
        let node = journal.register(LEASE).await.unwrap().node;
        let uids = join_all((0..100).map(|_| start(&journal, node))).await;
        let before = journal.totals();
        *gate.is_closed.lock().unwrap() = true;
        let first = journal.append(vec![entry(uids[0], 1, "")]);
        let meanwhile = async {
            enters.recv().unwrap();
            let others =
                join_all(uids[1..].iter().map(|uid| journal.append(vec![entry(*uid, 1, "")])));
            let reads = async {
                // the writer is in a transaction, and 99 requests wait for it
                let seen = journal.load(uids[0]).await.unwrap();
                assert_eq!(seen.next(), 1, "what is not committed is not seen");
                opens.send(()).unwrap();
            };
            join(others, reads).await.0
        };
        let (first, others) = join(first, meanwhile).await;
        assert!(first.unwrap()[0].is_ok());
        assert!(others.into_iter().all(|answer| answer.unwrap()[0].is_ok()));
        let after = journal.totals();
        assert_eq!(after.requests - before.requests, 100);
        assert_eq!(after.commits - before.commits, 2, "one for the first, one for the crowd");
    });
}
