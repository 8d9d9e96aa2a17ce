//! An entity has one owner at a time, and its state comes along.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::message::Request;
use asyncsteps_executor::{Caller, Executor, Incoming, ReplyBody};
use asyncsteps_journal::memory::{Fault, Faults, Memory, Operation};
use asyncsteps_journal::request::{FlowState, Query};
use asyncsteps_journal::{Epoch, Journal, LEASE};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::{Process, memory};
use crate::node::run;

#[test]
fn the_next_process_goes_on_where_one_has_stopped() {
    run(async {
        let journal = memory();
        for count in 1..=3 {
            let process = Process::start(journal.clone()).await;
            let begun = Instant::now();
            assert_eq!(process.add("a", 1).await.expect("it is added"), count);
            assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
            process.stop().await;
        }
    });
}

#[test]
fn two_processes_hand_an_entity_over_and_lose_no_call() {
    run(async {
        let journal = memory();
        let one = Process::start(journal.clone()).await;
        let other = Process::start(journal.clone()).await;
        for round in 0..10 {
            let process = if round % 2 == 0 { &one } else { &other };
            assert_eq!(process.add("a", 1).await.expect("it is added"), round + 1);
        }
        let adds = |process| async move {
            for _ in 0..20 {
                Process::add(process, "a", 1).await.expect("it is added");
            }
        };
        tokio::join!(adds(&one), adds(&other), adds(&one));
        assert_eq!((one.sum("a").await, other.sum("a").await), (70, 70));
    });
}

/// In the time of the machine, because there are two threads.
#[test]
fn an_entity_at_rest_whose_owner_is_blocked_goes_to_the_process_that_calls_it() {
    let journal = Memory::default();
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let (tell, told) = oneshot::channel();
    thread::scope(|threads| {
        let owner = journal.clone();
        threads.spawn(move || {
            actix::System::new().block_on(async {
                let process = Process::start(owner).await;
                assert_eq!(process.add("a", 1).await.expect("it is added"), 1);
                tell.send(()).expect("it is waited for");
                // no task of the arbiter runs meanwhile
                gate.recv().expect_err("nothing is sent");
                assert_eq!(process.add("a", 1).await.expect("it is added"), 3);
                process.stop().await;
            });
        });
        actix::System::new().block_on(async {
            told.await.expect("the other process has it");
            let process = Process::start(journal).await;
            assert_eq!(process.add("a", 1).await.expect("it is added"), 2);
            drop(release);
            process.stop().await;
        });
    });
}

/// A process whose journal it no longer reaches once this is set.
async fn cut_off(journal: &Memory) -> (Process, Arc<AtomicBool>) {
    let is_cut = Arc::new(AtomicBool::new(false));
    (Process::start(journal.clone().faults(cut_by(&is_cut))).await, is_cut)
}

fn cut_by(is_cut: &Arc<AtomicBool>) -> impl Faults {
    let cut = Arc::clone(is_cut);
    move |_: Operation| match cut.load(Ordering::Relaxed) {
        true => Fault::NotDone,
        false => Fault::None,
    }
}

#[test]
fn the_entities_of_a_dead_node_go_on_after_its_lease() {
    run(async {
        let journal = memory();
        let (one, is_cut) = cut_off(&journal).await;
        for name in 0..50 {
            one.add(&name.to_string(), 1).await.expect("it is added");
        }
        is_cut.store(true, Ordering::Relaxed);
        let other = Process::start(journal.clone()).await;
        let begun = Instant::now();
        let names: Vec<_> = (0..50).map(|name: u32| name.to_string()).collect();
        let sums = join_all(names.iter().map(|name| other.add(name, 1))).await;
        assert!(sums.into_iter().all(|sum| sum.is_ok_and(|sum| sum == 2)));
        assert!(begun.elapsed() < LEASE + Duration::from_secs(5), "{:?}", begun.elapsed());
    });
}

/// A call that has so much time, as its caller learns how it ended.
pub(super) async fn add_within(
    executor: &Executor,
    time: Duration,
    add: &Value,
) -> Result<Value, String> {
    let Value::Object(params) = add.clone() else { panic!("parameters are a map") };
    let request = Request::new("test.counters:1.0:add", params);
    let incoming = Incoming::new(request, Channel::local()).with_caller(Caller::system());
    match executor.dispatch(incoming.with_deadline(clock::now() + time)).await.into_parts().1 {
        ReplyBody::Message(message) => {
            let result = message.response().clone().into_result();
            result.map_err(|error| {
                format!("{}: {}", error.code, error.description.unwrap_or_default())
            })
        }
        ReplyBody::Nothing | ReplyBody::Raw(_) => panic!("it is answered with a message"),
    }
}

#[test]
fn a_caller_whose_time_ends_before_its_turn_learns_what_it_waited_for() {
    run(async {
        let journal = memory();
        let (one, is_cut) = cut_off(&journal).await;
        let add = |millis: u32| json!({ "name": "a", "add": 1, "millis": millis });
        let second = Duration::from_secs(1);
        let calls = [add(800), add(0), add(0)];
        let calls = join_all(calls.iter().map(|add| add_within(&one.executor, second, add))).await;
        let queued = "DefenseRejected: the time ended while other calls of test.counters:1@a were before this one";
        // the first one is not answered in its time, and the others do not begin
        assert_eq!(calls[1..], [Err(queued.to_owned()), Err(queued.to_owned())]);
        assert_eq!(one.sum("a").await, 0);
        one.add("a", 1).await.expect("it is added");

        is_cut.store(true, Ordering::Relaxed);
        let other = Process::start(journal.clone()).await;
        let owned = "DefenseRejected: the time ended while the node that owns test.counters:1@a had not released it";
        assert_eq!(add_within(&other.executor, second, &add(0)).await, Err(owned.to_owned()));
        // as the code says, it may be repeated
        sleep(LEASE).await;
        assert_eq!(add_within(&other.executor, second, &add(0)).await, Ok(json!(2)));
    });
}

#[test]
fn a_node_whose_session_is_gone_answers_nothing_from_memory() {
    run(async {
        let journal = memory();
        let is_cut = Arc::new(AtomicBool::new(false));
        let machine = journal.clone().faults(cut_by(&is_cut));
        let one = Process::start(machine.clone()).await;
        one.add("a", 1).await.expect("it is added");
        // without its session it renews at once, which it cannot
        is_cut.store(true, Ordering::Relaxed);
        machine.change_session();
        let entity = journal.list(Query { limit: 1, ..Query::default() }).await;
        journal.end_lease(entity.expect("it is there")[0].owner.expect("it is owned"));
        let other = Process::start(journal.clone()).await;
        let begun = Instant::now();
        assert_eq!(other.add("a", 10).await.expect("it is added"), 11);
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        let read = tokio::time::timeout(Duration::from_secs(5), one.sum("a")).await;
        assert!(read.is_err(), "{read:?}");
        is_cut.store(false, Ordering::Relaxed);
        assert_eq!(one.sum("a").await, 11);
    });
}

#[test]
fn a_node_that_was_cut_off_answers_nothing_of_what_it_only_believes() {
    run(async {
        let journal = memory();
        let (one, is_cut) = cut_off(&journal).await;
        one.add("a", 1).await.expect("it is added");
        is_cut.store(true, Ordering::Relaxed);
        let other = Process::start(journal.clone()).await;
        let (stale, read, taken) = tokio::join!(
            one.add("a", 10),
            async {
                sleep(LEASE + Duration::from_secs(1)).await;
                one.call::<i32>("sum", json!({ "name": "a" })).await
            },
            async {
                sleep(LEASE + Duration::from_secs(1)).await;
                other.add("a", 100).await
            }
        );
        assert_eq!(taken.expect("it is added"), 101);
        assert!(stale.is_err() && read.is_err(), "{stale:?} {read:?}");
        is_cut.store(false, Ordering::Relaxed);
        sleep(LEASE * 2).await;
        assert_eq!(one.add("a", 1000).await.expect("it is added"), 1101);
        assert_eq!(other.all("a").await, [1, 100, 1000]);
    });
}

#[test]
fn an_entity_without_calls_is_given_back_and_costs_a_row() {
    run(async {
        let journal = memory();
        let process = Process::start(journal.clone()).await;
        process.add("a", 1).await.expect("it is added");
        let state = async || {
            let all = journal.list(Query { limit: 10, ..Query::default() }).await;
            all.expect("they are listed")[0].state
        };
        assert_eq!(state().await, FlowState::Running);
        sleep(Duration::from_secs(65)).await;
        assert_eq!(state().await, FlowState::Ready);
        assert_eq!(process.add("a", 1).await.expect("it is added"), 2);
        drop(process.durable);
    });
}

#[test]
fn an_entity_that_rests_goes_on_where_it_was() {
    run(async {
        let journal = memory();
        let one = Process::start(journal.clone()).await;
        let add = json!({ "name": "a", "add": 1 });
        for round in 1..4 {
            assert_eq!(one.keyed("ann", "k", add.clone()).await, Ok(json!(1)));
            assert_eq!(one.add("a", 10).await.expect("it is added"), 1 + 10 * round);
            // its writer ends, and a later look of the node lets go of that
            sleep(Duration::from_secs(5)).await;
            let all = journal.list(Query { limit: 10, ..Query::default() }).await;
            assert_eq!(all.expect("they are listed")[0].epoch, Epoch::new(1), "it stays");
        }
        let other = Process::start(journal).await;
        assert_eq!(other.all("a").await, [1, 10, 10, 10]);
    });
}

/// A call that fails.
async fn fail(process: &Process, name: &str) {
    let fails = json!({ "name": name, "add": 1, "fails": "yes" });
    process.call::<i32>("add", fails).await.expect_err("it fails");
}

async fn states(journal: &Memory) -> Vec<FlowState> {
    let all = journal.list(Query { limit: 10, ..Query::default() }).await;
    all.expect("they are listed").iter().map(|flow| flow.state).collect()
}

#[test]
fn calls_that_fail_leave_nothing_behind() {
    run(async {
        let journal = memory();
        let one = Process::start(journal.clone()).await;
        let other = Process::start(journal.clone()).await;
        for name in ["a", "b", "c"] {
            fail(&one, name).await;
        }
        assert_eq!(states(&journal).await.len(), 3);
        // one that another process asks for goes on there
        assert_eq!(other.add("a", 1).await.expect("it is added"), 1);
        assert_eq!((other.stored("b").await, other.sum("b").await), (0, 0));
        sleep(Duration::from_secs(65)).await;
        assert_eq!(states(&journal).await, [FlowState::Ready], "those of failed calls are gone");
        assert_eq!(one.add("b", 1).await.expect("it is added"), 1);
        one.stop().await;
        assert_eq!(other.sum("a").await, 1);
    });
}

#[test]
fn an_entity_that_has_ended_and_was_not_removed_begins_anew() {
    run(async {
        let journal = memory();
        let faults = |operation: Operation| match operation == Operation::Trim {
            true => Fault::NotDone,
            false => Fault::None,
        };
        let one = Process::start(journal.clone().faults(faults)).await;
        fail(&one, "a").await;
        one.stop().await;
        assert_eq!(states(&journal).await, [FlowState::Ended]);
        let other = Process::start(journal.clone()).await;
        assert_eq!((other.stored("a").await, other.sum("a").await), (0, 0));
        assert_eq!(other.add("a", 1).await.expect("it is added"), 1);
        assert_eq!(states(&journal).await, [FlowState::Running]);
    });
}

#[test]
fn calls_wait_while_the_lease_cannot_be_renewed() {
    run(async {
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        let faults = move |operation: Operation| match operation == Operation::Lease
            && cut.load(Ordering::Relaxed)
        {
            true => Fault::NotDone,
            false => Fault::None,
        };
        let process = Process::start(memory().faults(faults)).await;
        process.add("a", 1).await.expect("it is added");
        is_cut.store(true, Ordering::Relaxed);
        let add = async |tenths: u32| {
            sleep(Duration::from_millis(100) * tenths).await;
            process.add("a", 1).await
        };
        let renewed = async {
            sleep(LEASE + Duration::from_secs(5)).await;
            is_cut.store(false, Ordering::Relaxed);
        };
        let (added, ()) = tokio::join!(join_all((0..200).map(add)), renewed);
        let added = added.iter().filter(|added| added.is_ok()).count();
        assert!(added > 100, "{added}");
        let sum = usize::try_from(process.sum("a").await).expect("a number");
        // what is not known to be added may be
        assert!((added + 1..=201).contains(&sum), "{sum} of {added}");
    });
}
