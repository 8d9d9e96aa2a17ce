//! An entity sends itself messages, which are carried out once, if the call that sends them is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use asyncsteps_core::BodyResult;
use asyncsteps_durable::entity::{Entity, EntityCx as _, Message, MessageId};
use asyncsteps_durable::{Durable, Node};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Returns, Service, Steps};
use asyncsteps_journal::memory::{Fault, Memory, Operation};
use asyncsteps_journal::request::{FlowState, Query};
use asyncsteps_journal::{Journal, LEASE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::memory;
use crate::node::run;

/// Seats that are held for a while.
struct Seats;

impl Service for Seats {
    type Errors = ();
}

impl Entity for Seats {
    type State = Hall;
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Hall {
    /// The message that ends each hold.
    held: Vec<(i32, MessageId)>,
    sold: Vec<i32>,
    expired: Vec<i32>,
}

#[derive(Deserialize, JsonSchema)]
struct Seat {
    #[expect(dead_code, reason = "it is the key")]
    event: i32,
    seat: i32,
    #[serde(default)]
    fails: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Of {
    #[expect(dead_code, reason = "it is the key")]
    event: i32,
}

impl Seats {
    fn hold(steps: &Steps<Self, Seat>) -> Returns<()> {
        steps
            .run("hold", async |cx, ()| {
                let expire = Message::new("expire", json!({ "seat": cx.params.seat }))?;
                let message = cx.entity().send(expire.after(Duration::from_secs(30)))?;
                Ok(cx.entity().change(|hall| hall.held.push((cx.params.seat, message)))?)
            })
            .repeatable()
            .then("check", async |cx, ()| match cx.params.fails {
                true => Err("it fails".into()),
                false => Ok(()),
            })
            .repeatable()
            .returns()
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn sell(cx: &Cx<Self, Seat>) -> BodyResult<()> {
        let (hall, seat) = (cx.entity(), cx.params.seat);
        let held = hall.get().held.iter().find(|(of, _)| *of == seat).copied();
        if let Some((_, message)) = held {
            hall.withdraw(message)?;
        }
        Ok(hall.change(|hall| {
            hall.held.retain(|(of, _)| *of != seat);
            hall.sold.push(seat);
        })?)
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn expire(cx: &Cx<Self, Seat>) -> BodyResult<()> {
        let seat = cx.params.seat;
        if seat == 13 {
            return Err("nobody expires this one".into());
        }
        Ok(cx.entity().change(|hall| {
            hall.held.retain(|(of, _)| *of != seat);
            hall.expired.push(seat);
        })?)
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn seats(cx: &Cx<Self, Of>) -> BodyResult<Value> {
        let hall = cx.entity().get();
        let held: Vec<i32> = hall.held.iter().map(|(seat, _)| *seat).collect();
        Ok(json!([held, hall.sold, hall.expired]))
    }
}

async fn process(journal: impl Journal) -> (Executor, Node) {
    let durable = Durable::new(journal);
    let interface = Interface::new("test.seats:1.0".parse().expect("it is a name"));
    let executor = Executor::builder().service(interface, Seats, |functions| {
        durable
            .entity(functions, "event")
            .on("hold", Seats::hold)
            .on("sell", Seats::sell)
            .on("expire", Seats::expire)
            .reads("seats", Seats::seats);
    });
    let executor = executor.request_timeout(Duration::from_secs(60)).build();
    let executor = executor.expect("it is complete");
    let node = durable.start(&executor).await.expect("the journal gives a lease");
    (executor, node)
}

async fn call(executor: &Executor, function: &str, seat: i32) -> bool {
    let params = json!({ "event": 7, "seat": seat, "fails": seat < 0 });
    let call = executor.call_as_system::<()>(&format!("test.seats:1.0:{function}"), params);
    call.await.is_ok()
}

async fn seats(executor: &Executor) -> Value {
    let seats = executor.call_as_system("test.seats:1.0:seats", json!({ "event": 7 })).await;
    seats.expect("they are read")
}

async fn of_state(journal: &Memory, state: FlowState) -> usize {
    let query = Query {
        state: Some(state),
        template: Some("test.seats:1:expire".to_owned()),
        limit: 100,
        ..Query::default()
    };
    journal.list(query).await.expect("they are listed").len()
}

#[test]
fn a_message_is_carried_out_at_its_time_unless_it_is_taken_back() {
    run(async {
        let journal = memory();
        let (executor, node) = process(journal.clone()).await;
        for seat in 1..=3 {
            assert!(call(&executor, "hold", seat).await);
        }
        assert!(call(&executor, "sell", 2).await);
        assert!(!call(&executor, "hold", -1).await, "it fails, and so sends nothing");
        assert_eq!(seats(&executor).await, json!([[1, 3], [2], []]));
        node.stop().await;
        let (executor, _node) = process(journal.clone()).await;
        sleep(Duration::from_secs(20)).await;
        assert_eq!(seats(&executor).await, json!([[1, 3], [2], []]));
        sleep(Duration::from_secs(20)).await;
        assert_eq!(seats(&executor).await, json!([[], [2], [1, 3]]), "though nobody has called it");
        assert_eq!(of_state(&journal, FlowState::Ended).await, 3);
    });
}

#[test]
fn a_message_that_fails_is_over_and_changes_nothing() {
    run(async {
        let journal = memory();
        let (executor, _node) = process(journal.clone()).await;
        assert!(call(&executor, "hold", 13).await && call(&executor, "hold", 1).await);
        sleep(Duration::from_secs(40)).await;
        assert_eq!(seats(&executor).await, json!([[13], [], [1]]));
        assert_eq!(of_state(&journal, FlowState::Ended).await, 2);
    });
}

/// The process that holds and expires dies behind each of what it stores; another one goes on.
#[test]
fn each_hold_that_was_answered_expires_once_wherever_a_process_dies() {
    let mut crashes = 0;
    for fault in [Fault::NotDone, Fault::NeverAnswered] {
        for last in 1..40 {
            run(async {
                let journal = memory();
                let count = Arc::new(AtomicUsize::new(0));
                let seen = Arc::clone(&count);
                let faults = move |operation: Operation| {
                    let writes = matches!(operation, Operation::Append | Operation::Submit);
                    let now = seen.fetch_add(usize::from(writes), Ordering::Relaxed)
                        + usize::from(writes);
                    match now {
                        now if now < last => Fault::None,
                        now if now == last && writes => fault,
                        _ => Fault::NotDone,
                    }
                };
                let (dying, _dying) = process(journal.clone().faults(faults)).await;
                let mut held = Vec::new();
                for seat in 1..=3 {
                    if call(&dying, "hold", seat).await {
                        held.push(seat);
                    }
                }
                sleep(Duration::from_secs(40)).await;
                let (heir, _heir) = process(journal.clone()).await;
                sleep(Duration::from_secs(40) + 2 * LEASE).await;
                let now = seats(&heir).await;
                assert_eq!(now[0], json!([]), "{fault:?} {last}: {now}");
                let expired: Vec<i32> = serde_json::from_value(now[2].clone()).expect("seats");
                let mut once = expired.clone();
                once.sort_unstable();
                once.dedup();
                assert_eq!(once.len(), expired.len(), "{fault:?} {last}: {now}");
                assert!(held.iter().all(|seat| once.contains(seat)), "{fault:?} {last}: {now}");
                crashes += usize::from(count.load(Ordering::Relaxed) >= last);
            });
        }
    }
    assert!(crashes > 20, "{crashes}");
}
