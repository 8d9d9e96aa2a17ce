//! The journal is away for a while, or the process is held up: what was accepted goes on afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::{BodyResult, Retry, sync};
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Returns, Service, Steps};
use asyncsteps_journal::memory::{Fault, Memory, Operation};
use asyncsteps_journal::request::{FlowState, Query};
use asyncsteps_journal::{Clock, Journal as _, LEASE, Limits, Timestamp, TokioClock, Uid};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::node::run;

/// How long a call of the bank may take.
const BANK: Duration = Duration::from_millis(600);

/// How long it takes to greet who is slow.
const SLOW: Duration = Duration::from_secs(5);

struct Greeter;

impl Service for Greeter {
    type Errors = ();
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

async fn greets(cx: &Cx<Greeter, Name>, (): ()) -> BodyResult<String> {
    if cx.params.name == "slow" {
        tokio::time::sleep(SLOW).await;
    }
    Ok(format!("hello {}", cx.params.name))
}

fn greet(steps: &Steps<Greeter, Name>) -> Returns<String> {
    steps.run("greet", greets).recorded().returns()
}

/// The same within a time limit. It can be undone, so its beginning is stored first.
fn soon(steps: &Steps<Greeter, Name>) -> Returns<String> {
    steps
        .run("greet", greets)
        .timeout(SLOW / 2)
        .recorded()
        .undo(async |_, _| Ok(()))
        .recover(async |_, error| Ok(error.code().to_owned()))
        .then("give", async |_, greeting| Ok(greeting))
        .recorded()
        .returns()
}

/// How often the bank was called is the result. Each attempt takes 100 ms of its 600 ms.
fn pay(steps: &Steps<Greeter, Name>) -> Returns<i32> {
    let bank = Mutex::new(sync::mutex::Options::default());
    steps
        .run("pay", async |cx, ()| Ok(called_bank(cx.attempt().try_into()?).await))
        .recorded()
        .timeout(BANK)
        .limited(move |_| bank.clone())
        .retry(Retry::attempts(4).within(BANK * 2).on_code("Timeout"))
        .returns()
}

/// The same with the limit around several steps.
fn pay_nested(steps: &Steps<Greeter, Name>) -> Returns<i32> {
    steps.nested("pay", called_twice).timeout(BANK).returns()
}

/// The same with a limit that the function sets on itself.
fn pay_within(steps: &Steps<Greeter, Name>) -> Returns<i32> {
    called_twice(steps.timeout(BANK))
}

fn called_twice(steps: &Steps<Greeter, Name>) -> Returns<i32> {
    let bank = Mutex::new(sync::mutex::Options::default());
    steps
        .run("call", async |_, ()| Ok(called_bank(1).await))
        .recorded()
        .locked(move |_| bank.clone())
        .then("count", async |_, calls| Ok(called_bank(calls).await))
        .recorded()
        .returns()
}

async fn called_bank(calls: i32) -> i32 {
    tokio::time::sleep(BANK / 6).await;
    calls
}

fn process(journal: Memory) -> (Durable, Executor) {
    let durable = Durable::new(journal);
    let interface = Interface::new("test.greeter:1.0".parse().expect("it is a name"));
    let executor = Executor::builder().service(interface, Greeter, |functions| {
        durable.on(functions, "greet", greet);
        durable.on(functions, "soon", soon);
        durable.on(functions, "pay", pay);
        durable.on(functions, "payNested", pay_nested);
        durable.on(functions, "payWithin", pay_within);
    });
    let executor = executor.build().expect("the interface is complete");
    (durable, executor)
}

async fn submit(durable: &Durable, name: &str) -> Uid {
    submit_to(durable, "greet", name).await
}

async fn submit_to(durable: &Durable, function: &str, name: &str) -> Uid {
    let ann = User::new("ann", SecurityLevel::SafeOps);
    let (options, name) = (Options::default().caller(&ann), json!({ "name": name }));
    let uid = durable.submit(&format!("test.greeter:1.0:{function}"), name, options).await;
    uid.expect("it is accepted")
}

async fn greeted(durable: &Durable) -> String {
    let uid = submit(durable, "ann").await;
    durable.result(uid).await.expect("it is greeted")
}

/// How many requests are in this state.
async fn count(durable: &Durable, state: FlowState) -> usize {
    let query = Query { state: Some(state), limit: 10_000, ..Query::default() };
    durable.list(query).await.expect("the journal is there").len()
}

/// The clock of a server, which goes on while a process is held up.
#[derive(Clone, Debug)]
struct ServerClock {
    clock: TokioClock,
    ahead: Arc<AtomicU64>,
}

impl Clock for ServerClock {
    fn now(&self) -> Timestamp {
        self.clock.now().after(Duration::from_millis(self.ahead.load(Ordering::Relaxed)))
    }
}

#[test]
fn a_flow_that_cannot_be_loaded_at_once_is_loaded_later() {
    run(async {
        let clock = TokioClock::start();
        let back = clock.now().after(LEASE / 2);
        let journal = Memory::new(clock).faults(move |operation| {
            let is_away = operation == Operation::Load && clock.now() < back;
            if is_away { Fault::NotDone } else { Fault::None }
        });
        let (durable, executor) = process(journal);
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        assert_eq!(greeted(&durable).await, "hello ann");
        assert!(clock.now() >= back, "it was loaded before");
    });
}

#[test]
fn a_process_that_was_held_up_past_its_lease_accepts_requests() {
    run(async {
        let clock = TokioClock::start();
        let server = ServerClock { clock, ahead: Arc::default() };
        let ahead = Arc::clone(&server.ahead);
        let journal = Memory::new(server);
        let (durable, executor) = process(journal.clone());
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        // the node does not know yet
        let lease = u64::try_from(LEASE.as_millis()).expect("some seconds");
        ahead.store(2 * lease, Ordering::Relaxed);
        // another node looks at the clock
        journal.register(LEASE).await.expect("the journal gives a lease");
        assert_eq!(greeted(&durable).await, "hello ann");
    });
}

#[test]
fn a_request_runs_whose_caller_leaves_while_it_is_stored() {
    run(async {
        let clock = TokioClock::start();
        let (durable, executor) = process(Memory::new(clock));
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        assert_eq!(submit(&durable, "ann").now_or_never(), None, "it is being stored");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(count(&durable, FlowState::Ended).await, 1);
    });
}

#[test]
fn requests_wait_in_the_journal_while_a_node_has_no_room() {
    run(async {
        const REQUESTS: usize = 1_700;
        let clock = TokioClock::start();
        let (durable, executor) = process(Memory::new(clock));
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        join_all((0..REQUESTS).map(|_| submit(&durable, "slow"))).await;
        tokio::time::sleep(SLOW / 2).await;
        assert_eq!(
            (node.running(), count(&durable, FlowState::New).await),
            (750, REQUESTS - 750),
            "a quarter of its room is for callers who wait"
        );
        tokio::time::sleep(SLOW * 3).await;
        let left = [FlowState::New, FlowState::Running].map(|state| count(&durable, state));
        assert_eq!(join_all(left).await, [0, 0]);
    });
}

#[test]
fn the_time_limit_of_a_body_begins_when_its_beginning_is_stored() {
    run(async {
        let clock = TokioClock::start();
        let back = clock.now().after(SLOW * 3);
        let journal = Memory::new(clock).faults(move |operation| {
            let is_away = operation == Operation::Append && clock.now() < back;
            if is_away { Fault::NotDone } else { Fault::None }
        });
        let (durable, executor) = process(journal);
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        for (name, given) in [("ann", "hello ann"), ("slow", "Timeout")] {
            let uid = submit_to(&durable, "soon", name).await;
            let result: String = durable.result(uid).await.expect("it is recovered");
            assert_eq!(result, given);
        }
        assert!(clock.now() >= back, "the journal was away");
        let (before, uid) = (clock.now(), submit_to(&durable, "soon", "slow").await);
        let result: String = durable.result(uid).await.expect("it is recovered");
        assert_eq!(result, "Timeout");
        assert!(clock.now() < before.after(SLOW), "the limit was over before");
    });
}

#[test]
fn what_succeeded_in_time_has_succeeded_however_long_it_takes_to_store_it() {
    for function in ["pay", "payNested", "payWithin"] {
        run(async {
            let clock = TokioClock::start();
            // the journal stalls while the bank answers
            let (from, to) = (clock.now().after(BANK / 12), clock.now().after(BANK * 3));
            let journal = Memory::new(clock).faults(move |operation| {
                let stalls = operation == Operation::Append && (from..to).contains(&clock.now());
                if stalls { Fault::NotDone } else { Fault::None }
            });
            let (durable, executor) = process(journal);
            let _node = durable.start(&executor).await.expect("the journal gives a lease");
            let uid = submit_to(&durable, function, "ann").await;
            let calls: i32 = durable.result(uid).await.expect("the bank answered in time");
            assert_eq!((calls, clock.now() >= to), (1, true), "{function}: it was paid once");
        });
    }
}

#[test]
fn a_request_whose_records_the_journal_refuses_waits_for_an_operator() {
    run(async {
        let limits = Limits { records: 1, ..Limits::default() };
        let (durable, executor) = process(Memory::new(TokioClock::start()).limits(limits));
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let uid = submit(&durable, "ann").await;
        tokio::time::sleep(SLOW).await;
        let flow = durable.status(uid).await.expect("it is known").flow;
        assert_eq!(flow.state, FlowState::Paused, "{:?}", flow.reason);
    });
}
