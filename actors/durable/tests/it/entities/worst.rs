//! What another attack on entities found: each of these tests failed before.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use asyncsteps_core::BodyResult;
use asyncsteps_durable::entity::EntityCx as _;
use asyncsteps_durable::{Durable, Node};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor};
use asyncsteps_journal::memory::{Fault, Memory, Operation};
use asyncsteps_journal::request::{FlowState, Query};
use asyncsteps_journal::{Epoch, Journal, LEASE};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::attacks::{Clocks, call, clocks, in_state, switched};
use super::{Process, memory};
use crate::node::run;

#[derive(Deserialize, JsonSchema)]
struct Named {
    #[expect(dead_code, reason = "it is the key")]
    name: String,
}

/// The program before: it does not know the parameter `by` of `stuck`.
async fn clocks_before(journal: Memory) -> (Executor, Node) {
    async fn stuck(cx: &Cx<Clocks, Named>) -> BodyResult<()> {
        Ok(cx.entity().change(|_| ())?)
    }
    let durable = Durable::new(journal);
    let interface = Interface::new("test.clocks:1.0".parse().expect("a name"));
    let executor = Executor::builder().service(interface, Clocks, |functions| {
        durable.entity(functions, "name").on("stuck", stuck);
        functions.others_not_implemented();
    });
    let executor = executor.build().expect("it is complete");
    let node = durable.start(&executor).await.expect("the journal gives a lease");
    (executor, node)
}

/// Sends a message that never ends.
async fn send_stuck(executor: &Executor) {
    let send = json!({ "name": "a", "function": "stuck", "by": "text" });
    let sent = executor.call_as_system::<()>("test.clocks:1.0:wrong", send).await;
    sent.expect("it is sent");
}

#[test]
fn a_message_that_a_program_of_another_version_refuses_waits_for_one_that_does_not() {
    run(async {
        let journal = memory();
        let (sends, is_down) = switched(&journal, Operation::Claim);
        let (executor, node) = clocks(sends).await;
        call(&executor, "tick").await.expect("the entity is there");
        is_down.store(true, Ordering::Relaxed);
        send_stuck(&executor).await;
        node.stop().await;
        let (_before, node) = clocks_before(journal.clone()).await;
        sleep(Duration::from_secs(600)).await;
        let (paused, parked) = (
            in_state(&journal, FlowState::Paused).await,
            in_state(&journal, FlowState::Parked).await,
        );
        assert_eq!((paused, parked), (0, 1));
        sleep(Duration::from_secs(7200)).await;
        assert_eq!(in_state(&journal, FlowState::Paused).await, 1, "an operator is needed");
        node.stop().await;
    });
}

#[test]
fn the_messages_of_a_call_whose_caller_leaves_before_its_changes_end() {
    run(async {
        let journal = memory();
        let submits = Arc::new(AtomicUsize::new(0));
        let faults = move |operation: Operation| {
            // the first one makes the entity
            let is_message =
                operation == Operation::Submit && submits.fetch_add(1, Ordering::Relaxed) == 1;
            if is_message { Fault::NeverAnswered } else { Fault::None }
        };
        let (executor, _node) = clocks(journal.clone().faults(faults)).await;
        let later = executor.call_as_system::<()>("test.clocks:1.0:later", json!({ "name": "a" }));
        timeout(Duration::from_secs(1), later).await.expect_err("it is not answered");
        sleep(Duration::from_secs(70)).await;
        assert_eq!(in_state(&journal, FlowState::Parked).await, 0);
        assert_eq!(in_state(&journal, FlowState::Ended).await, 1, "the message");
    });
}

#[test]
fn a_message_that_its_owners_die_with_waits_for_an_operator() {
    run(async {
        let journal = memory();
        // each second one takes it: the one before has seen its owner die
        for _ in 0..62 {
            // one that dies: the journal hears nothing more of it
            let (own, is_dead) = cut_off(&journal);
            let (executor, node) = clocks(own).await;
            if in_state(&journal, FlowState::Running).await == 0 {
                send_stuck(&executor).await;
            }
            sleep(Duration::from_secs(5)).await;
            is_dead.store(1, Ordering::Relaxed);
            drop((executor, node));
            sleep(LEASE + Duration::from_secs(1)).await;
        }
        let (_executor, _node) = clocks(journal.clone()).await;
        sleep(Duration::from_secs(5)).await;
        assert_eq!(in_state(&journal, FlowState::Paused).await, 1);
    });
}

/// The journal as it is reached until this is set.
fn cut_off(journal: &Memory) -> (Memory, Arc<AtomicUsize>) {
    let is_cut = Arc::new(AtomicUsize::new(0));
    let cut = Arc::clone(&is_cut);
    let faults = move |_: Operation| match cut.load(Ordering::Relaxed) {
        0 => Fault::None,
        _ => Fault::NotDone,
    };
    (journal.clone().faults(faults), is_cut)
}

/// The flows of the journal.
async fn flows(journal: &Memory) -> Vec<asyncsteps_journal::request::FlowInfo> {
    journal.list(Query { limit: 10, ..Query::default() }).await.expect("they are listed")
}

#[test]
fn an_entity_that_an_operator_cancels_while_it_is_given_back_is_not_kept() {
    run(async {
        let journal = memory();
        let (one, two) =
            (Process::start(journal.clone()).await, Process::start(journal.clone()).await);
        let fails = json!({ "name": "a", "add": 1, "fails": "yes" });
        one.call::<i32>("add", fails).await.expect_err("it fails");
        let entity = flows(&journal).await[0].uid;
        journal.cancel(entity, "an operator".into(), None).await.expect("it is there");
        one.stop().await;
        assert_eq!(flows(&journal).await, []);
        let begun = Instant::now();
        assert_eq!(two.add("a", 1).await.expect("it is added"), 1);
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    });
}

#[test]
fn a_node_does_not_give_back_what_it_asked_for_itself() {
    run(async {
        let journal = memory();
        let (own, is_dead) = cut_off(&journal);
        let one = Process::start(own).await;
        one.add("a", 1).await.expect("it is added");
        is_dead.store(1, Ordering::Relaxed);
        let other = Process::start(journal.clone()).await;
        assert_eq!(other.add("a", 1).await.expect("it is added"), 2);
        sleep(Duration::from_secs(5)).await;
        let entity = &flows(&journal).await[0];
        assert_eq!((entity.state, entity.epoch), (FlowState::Running, Epoch::new(2)));
        other.stop().await;
        let entity = entity.uid;
        assert_eq!(journal.inbox(entity).await.expect("it is there").signals, []);
    });
}
