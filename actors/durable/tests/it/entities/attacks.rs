//! What an attack on entities found: each of these tests failed before.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use asyncsteps_core::{BodyResult, Error};
use asyncsteps_durable::entity::{Entity, EntityCx as _, Message, MessageId};
use asyncsteps_durable::{Durable, Node};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Service};
use asyncsteps_journal::Journal;
use asyncsteps_journal::memory::{Fault, Memory, Operation, SeededFaults};
use asyncsteps_journal::request::{FlowState, Query};
use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::{Process, memory};
use crate::node::run;

/// Clocks that send themselves messages.
pub(super) struct Clocks;

impl Service for Clocks {
    type Errors = ();
}

impl Entity for Clocks {
    type State = Ticks;
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Ticks {
    count: i32,
    last: Option<MessageId>,
}

#[derive(Deserialize, JsonSchema)]
struct Of {
    #[expect(dead_code, reason = "it is the key")]
    name: String,
    /// The parameters of a message.
    #[serde(default)]
    by: Option<i32>,
}

#[derive(Deserialize, JsonSchema)]
struct Send {
    #[expect(dead_code, reason = "it is the key")]
    name: String,
    function: String,
    by: String,
}

#[derive(Deserialize, JsonSchema)]
struct Stuck {
    #[expect(dead_code, reason = "it is the key")]
    name: String,
    #[expect(dead_code, reason = "a program before does not know it")]
    by: String,
}

#[derive(Deserialize, JsonSchema)]
struct TakeBack {
    #[expect(dead_code, reason = "it is the key")]
    name: String,
    #[schemars(with = "String")]
    message: MessageId,
}

const YEAR: Duration = Duration::from_secs(365 * 86_400);

impl Clocks {
    /// Sends itself the next one.
    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn tick(cx: &Cx<Self, Of>) -> BodyResult<i32> {
        cx.entity().send(Message::new("tick", json!({}))?.after(Duration::from_secs(10)))?;
        Ok(cx.entity().change(|ticks| {
            ticks.count += cx.params.by.unwrap_or(1);
            ticks.count
        })?)
    }

    /// Sends one for later, and takes the one before back.
    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn instead(cx: &Cx<Self, Of>) -> BodyResult<()> {
        let next = cx.entity().send(Message::new("tick", json!({}))?.after(YEAR))?;
        if let Some(last) = cx.entity().change(|ticks| ticks.last.replace(next))? {
            cx.entity().withdraw(last)?;
        }
        Ok(())
    }

    /// Sends one for later.
    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn later(cx: &Cx<Self, Of>) -> BodyResult<()> {
        cx.entity().send(Message::new("tick", json!({}))?.after(YEAR))?;
        Ok(())
    }

    /// Never ends.
    async fn stuck(_: &Cx<Self, Stuck>) -> BodyResult<()> {
        pending().await
    }

    /// Sends one of any kind.
    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn wrong(cx: &Cx<Self, Send>) -> BodyResult<()> {
        cx.entity().send(Message::new(&cx.params.function, json!({ "by": cx.params.by }))?)?;
        Ok(())
    }

    /// Takes a message back that may be another's.
    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn take_back(cx: &Cx<Self, TakeBack>) -> BodyResult<()> {
        Ok(cx.entity().withdraw(cx.params.message)?)
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn count(cx: &Cx<Self, Of>) -> BodyResult<i32> {
        Ok(cx.entity().get().count)
    }
}

pub(super) async fn clocks(journal: impl Journal) -> (Executor, Node) {
    let durable = Durable::new(journal);
    let interface = Interface::new("test.clocks:1.0".parse().expect("a name"));
    let executor = Executor::builder().service(interface, Clocks, |functions| {
        let clocks = durable.entity(functions, "name").on("tick", Clocks::tick);
        let clocks = clocks.on("instead", Clocks::instead).on("later", Clocks::later);
        let clocks = clocks.on("takeBack", Clocks::take_back).on("stuck", Clocks::stuck);
        clocks.on("wrong", Clocks::wrong).reads("count", Clocks::count);
    });
    let executor = executor.build().expect("it is complete");
    let node = durable.start(&executor).await.expect("the journal gives a lease");
    (executor, node)
}

pub(super) async fn call(executor: &Executor, function: &str) -> Result<i32, Error> {
    let named = json!({ "name": "a" });
    executor.call_as_system(&format!("test.clocks:1.0:{function}"), named).await
}

/// The journal, of which one operation fails while the switch is on.
pub(super) fn switched(journal: &Memory, of: Operation) -> (Memory, Arc<AtomicBool>) {
    let is_on = Arc::new(AtomicBool::new(false));
    let on = Arc::clone(&is_on);
    let faults = move |operation: Operation| match operation == of && on.load(Ordering::Relaxed) {
        true => Fault::NotDone,
        false => Fault::None,
    };
    (journal.clone().faults(faults), is_on)
}

/// How many requests the journal has in this state.
pub(super) async fn in_state(journal: &Memory, state: FlowState) -> usize {
    let query = Query { state: Some(state), limit: 1000, ..Query::default() };
    journal.list(query).await.expect("they are listed").len()
}

#[test]
fn reads_see_what_is_stored_although_its_caller_has_left() {
    run(async {
        let (journal, is_full) = switched(&memory(), Operation::Append);
        let process = Process::start(journal).await;
        process.add("a", 1).await.expect("it is added");
        is_full.store(true, Ordering::Relaxed);
        timeout(Duration::from_secs(1), process.add("a", 10)).await.expect_err("it is not stored");
        is_full.store(false, Ordering::Relaxed);
        sleep(Duration::from_secs(10)).await;
        assert_eq!((process.sum("a").await, process.stored("a").await), (11, 11));
    });
}

#[test]
fn a_failed_call_tells_nothing_that_is_not_stored() {
    run(async {
        let (journal, is_full) = switched(&memory(), Operation::Append);
        let process = Process::start(journal).await;
        process.add("a", 1).await.expect("it is added");
        is_full.store(true, Ordering::Relaxed);
        let fails = json!({ "name": "a", "add": 1, "fails": "yes" });
        let (added, failed) = tokio::join!(
            timeout(Duration::from_secs(20), process.add("a", 10)),
            timeout(Duration::from_secs(20), process.call::<i32>("add", fails)),
        );
        assert!(added.is_err() && failed.is_err(), "{added:?} {failed:?}");
    });
}

#[test]
fn a_message_outlives_a_journal_that_is_full_for_a_moment() {
    run(async {
        let (journal, is_full) = switched(&memory(), Operation::Submit);
        let (executor, _node) = clocks(journal).await;
        call(&executor, "tick").await.expect("it is sent");
        sleep(Duration::from_secs(25)).await;
        is_full.store(true, Ordering::Relaxed);
        sleep(Duration::from_secs(9)).await;
        is_full.store(false, Ordering::Relaxed);
        sleep(Duration::from_secs(600)).await;
        let count = call(&executor, "count").await.expect("it is read");
        assert!(count > 30, "{count}");
    });
}

#[test]
fn messages_of_failed_calls_are_not_stored_and_those_taken_back_end() {
    run(async {
        let journal = memory();
        let (executor, _node) = clocks(journal.clone()).await;
        let instead = async || {
            let call =
                executor.call_as_system::<()>("test.clocks:1.0:instead", json!({ "name": "b" }));
            call.await.expect("it is sent");
        };
        for _ in 0..20 {
            instead().await;
        }
        sleep(Duration::from_secs(5)).await;
        assert_eq!(in_state(&journal, FlowState::Parked).await, 1, "those taken back have ended");
        let later = async || {
            let later = json!({ "name": "a" });
            executor.call_as_system::<()>("test.clocks:1.0:later", later).await
        };
        for number in 0..1100 {
            assert_eq!(later().await.is_ok(), number < 1000, "{number}");
        }
        let query = Query { limit: 1000, after: 1000, ..Query::default() };
        let all = 1000 + journal.list(query).await.expect("they are listed").len();
        // two entities, the messages of one and of the other
        assert_eq!(all, 2 + 20 + 1000);
    });
}

#[test]
fn a_message_that_cannot_be_carried_out_is_not_sent() {
    run(async {
        let journal = memory();
        let (executor, _node) = clocks(journal.clone()).await;
        for function in ["tick", "nosuch", "count"] {
            let sent = json!({ "name": "a", "function": function, "by": "text" });
            let sent = executor.call_as_system::<()>("test.clocks:1.0:wrong", sent).await;
            let error = sent.expect_err("it is wrong");
            let info = error.info().unwrap_or_default();
            assert!(info.starts_with(&format!("a message to {function} cannot")), "{error:?}");
        }
        assert_eq!(in_state(&journal, FlowState::Running).await, 1, "the entity");
        assert_eq!(in_state(&journal, FlowState::New).await, 0);
    });
}

#[test]
fn a_key_that_is_too_long_fails_alone() {
    run(async {
        let process = Process::start(memory()).await;
        let long = "/".repeat(1000);
        let add = json!({ "name": "a", "add": 1 });
        let (added, refused) =
            tokio::join!(process.add("a", 1), process.keyed(&long, "key", add.clone()));
        assert_eq!((added.expect("it is added"), refused), (1, Err("InvalidRequest".to_owned())));
        assert_eq!(process.keyed("ann", "key", add).await, Ok(json!(2)));
    });
}

#[test]
fn no_call_waits_for_ever_or_is_refused_among_those_that_fail_elsewhere() {
    for seed in 0..30 {
        run(async {
            let journal = memory();
            let processes = join_all((0..3).map(|node| {
                let faults = SeededFaults::new(seed * 10 + node, 1_000_000, 6);
                Process::start(journal.clone().faults(faults))
            }));
            let processes = &processes.await;
            let added = &AtomicUsize::new(0);
            let calls = (0..6).map(|number| async move {
                for call in 0..20 {
                    let process = &processes[number % 3];
                    if call % 3 == 0 {
                        process.add("a", 1).await.expect("it is added");
                        added.fetch_add(1, Ordering::Relaxed);
                    } else {
                        let fails = json!({ "name": "a", "add": 1, "fails": "yes" });
                        let error = process.call::<i32>("add", fails).await.expect_err("it fails");
                        assert_eq!(error.code(), "TooMuch", "{error:?}");
                    }
                }
            });
            join_all(calls).await;
            let sum = usize::try_from(processes[0].sum("a").await);
            assert_eq!(sum, Ok(added.load(Ordering::Relaxed)));
        });
    }
}

#[test]
fn only_an_own_message_is_taken_back() {
    run(async {
        let journal = memory();
        let (executor, _node) = clocks(journal.clone()).await;
        call(&executor, "tick").await.expect("it is sent");
        let query = || Query { state: Some(FlowState::Parked), limit: 10, ..Query::default() };
        let sent = journal.list(query()).await.expect("they are listed")[0].uid;
        let other = json!({ "name": "b", "message": sent.to_string() });
        let taken = executor.call_as_system::<()>("test.clocks:1.0:takeBack", other);
        taken.await.expect("it does nothing");
        sleep(Duration::from_secs(5)).await;
        let waits = journal.list(query()).await.expect("they are listed");
        assert_eq!(waits.iter().map(|flow| flow.uid).collect::<Vec<_>>(), [sent]);
        // an operator ends it, and it is not carried out
        journal.cancel(sent, "an operator".into(), None).await.expect("it is there");
        sleep(Duration::from_secs(5)).await;
        assert_eq!(in_state(&journal, FlowState::Ended).await, 1);
        assert_eq!(call(&executor, "count").await.expect("it is read"), 1);
    });
}

/// Has no state that could be made.
struct Stateless;

impl Service for Stateless {
    type Errors = ();
}

impl Entity for Stateless {
    type State = Unmade;
}

#[derive(Clone, Serialize, Deserialize)]
struct Unmade;

impl Default for Unmade {
    fn default() -> Self {
        panic!("there is no state")
    }
}

#[test]
fn keys_of_entities_whose_state_cannot_be_made_leave_nothing_behind() {
    run(async {
        let journal = memory();
        let durable = Durable::new(journal.clone());
        let interface = Interface::new("test.stateless:1.0".parse().expect("it is a name"));
        let builder = Executor::builder().service(interface, Stateless, |functions| {
            let stateless = durable.entity(functions, "name");
            stateless.on("touch", async |_: &Cx<Stateless, super::Named>| Ok(1));
        });
        let executor = builder.build().expect("it is complete");
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        for name in ["a", "b", "c"] {
            let params = json!({ "name": name });
            let touched = executor.call_as_system::<i32>("test.stateless:1.0:touch", params).await;
            let error = touched.expect_err("it has no state");
            assert_eq!(error.code(), "InternalError");
            assert!(error.info().unwrap_or_default().contains("cannot be made"), "{error:?}");
        }
        let all = Query { limit: 9, ..Query::default() };
        assert_eq!(journal.list(all).await.expect("they are listed").len(), 0);
    });
}
