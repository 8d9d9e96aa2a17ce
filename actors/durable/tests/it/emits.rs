//! The promise: each event that a request emits is read once, in order, wherever the process dies; readers share what they
//! read.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use asyncsteps_core::{BodyResult, Error, Retry, codes};
use asyncsteps_durable::{Durable, EmittedEvent, Options};
use asyncsteps_executor::plan::Emits;
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::test::TestRequest;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Returns, Steps};
use asyncsteps_journal::memory::{Fault, Memory, Operation};
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::{FlowState, Resume};
use asyncsteps_journal::sqlite::{self, Sqlite};
use asyncsteps_journal::{self as journal, Journal, Limits, Refused, TokioClock, Uid};
use futures_util::future::join_all;
use futures_util::{FutureExt, Stream, StreamExt, TryStreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::lab::{Lab, at_each_record, result, soon};
use crate::node::run;
use crate::transact::bank::Folder;

#[derive(Deserialize, JsonSchema)]
struct Watched {}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Progress {
    Done { what: String },
    Counted(u32),
    Undone,
}

impl Emits for Watched {
    type Event = Progress;
}

fn done(what: &str) -> Progress {
    Progress::Done { what: what.to_owned() }
}

fn lab() -> Lab {
    Lab::new(|durable, functions| {
        durable.on(functions, "order", order);
        durable.on(functions, "many", many);
        durable.on(functions, "stops", stops);
        functions.on("plain", plain);
    })
}

type Turn = ControlFlow<(), u32>;

/// Emits in a step and its undo, in a step that is tried again, in a loop and for items.
fn order(steps: &Steps<Lab, Watched>) -> Returns<()> {
    steps
        .run("pay", async |cx, ()| {
            cx.emit(&done("pay")).await?;
            soon().await;
            cx.emit_as("half", &done("half")).await?;
            cx.emit(&done("another value")).await?;
            Ok(())
        })
        .recorded()
        .undo(async |cx, _| Ok(cx.emit(&Progress::Undone).await?))
        .then("try", async |cx, ()| {
            cx.emit(&done("try")).await?;
            if cx.attempt() == 1 { Err(Error::new(codes::COMM_ERROR).into()) } else { Ok(0) }
        })
        .recorded()
        .retry(Retry::attempts(2).backoff(Duration::from_secs(1)).on_code(codes::COMM_ERROR))
        .then_repeat("loop", |turn| {
            turn.run("count", async |cx, number: u32| {
                cx.emit(&Progress::Counted(number)).await?;
                Ok(number)
            })
            .recorded()
            .then("next", async |_, number| {
                Ok::<Turn, _>(match number {
                    2 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(number + 1),
                })
            })
            .repeatable()
            .returns()
        })
        .recorded_with_input()
        .then("ship", async |cx, ()| {
            cx.emit(&done("ship")).await?;
            Err(Error::new("SoldOut").into())
        })
        .recorded()
        .returns()
}

/// How many events a request may emit here.
const MOST: u32 = 5;

/// Emits more than it may, and ends well.
fn many(steps: &Steps<Lab, Watched>) -> Returns<(u32, String)> {
    steps
        .run("many", async |cx, ()| {
            let mut refused = (0, String::new());
            for number in 0..2 * MOST {
                if let Err(error) =
                    cx.emit_as(&number.to_string(), &Progress::Counted(number)).await
                {
                    refused = (refused.0 + 1, error.to_string());
                }
            }
            Ok(refused)
        })
        .recorded()
        .returns()
}

/// Waits for a person after an event.
fn stops(steps: &Steps<Lab, Watched>) -> Returns<()> {
    steps
        .run("before", async |cx, ()| Ok(cx.emit(&done("before")).await?))
        .recorded()
        .then_wait_signal::<()>("go")
        .then("after", async |cx, _| Ok(cx.emit(&done("after")).await?))
        .recorded()
        .returns()
}

async fn plain(cx: &Cx<Lab, Watched>) -> BodyResult<String> {
    cx.emit(&done("nothing")).await?;
    Ok("done".to_owned())
}

async fn all(journal: impl Journal, uid: Uid) -> Vec<Progress> {
    let read: Vec<EmittedEvent<Progress>> =
        Durable::new(journal).events(uid, 0).try_collect().await.expect("it is there");
    let numbers: Vec<_> = read.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (1..=read.len() as u64).collect::<Vec<_>>());
    read.into_iter().map(|event| event.event).collect()
}

#[test]
fn events_are_emitted_once_and_in_order_wherever_the_process_dies() {
    run(async {
        let uids = std::cell::RefCell::new(Vec::new());
        let note = async |journal: &Memory, uid| uids.borrow_mut().push((journal.clone(), uid));
        let check = |_: &Lab, ending: &Ending, crash| {
            // the lab declares no errors
            assert!(matches!(ending, Ending::Failed(_)), "{ending:?} after {crash:?}");
        };
        at_each_record(lab, "order", note, check).await;
        let uids = uids.into_inner();
        assert!(uids.len() > 30, "it crashes at each record and event: {}", uids.len());
        let counted = (0..=2).map(Progress::Counted);
        let events = [done("pay"), done("half"), done("try")].into_iter().chain(counted);
        let events: Vec<_> = events.chain([done("ship"), Progress::Undone]).collect();
        for (journal, uid) in uids {
            assert_eq!(all(journal, uid).await, events);
        }
    });
}

#[test]
fn more_events_than_a_request_may_emit_are_errors_and_nothing_else() {
    run(async {
        let (lab, clock) = (lab(), TokioClock::start());
        let limits = Limits { events: MOST.into(), ..Limits::default() };
        let journal = Memory::new(clock).limits(limits);
        let uid = lab.submit(&journal, "many", Options::default()).await;
        let (ending, _) = lab.ended(&journal, uid, &[]).await;
        let (refused, why) = result::<(u32, String)>(&ending);
        assert_eq!(refused, MOST);
        assert!(why.contains("has emitted 5 events"), "{why}");
        let events = all(journal, uid).await;
        assert_eq!(events, (0..MOST).map(Progress::Counted).collect::<Vec<_>>());
    });
}

#[test]
fn a_stream_ends_with_the_request_and_not_while_it_waits_for_a_person() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let uid = lab.submit(&journal, "stops", Options::default()).await;
        let (durable, executor) = lab.process(journal.clone());
        let node = durable.start(&executor).await.expect("a lease");
        let mut here = pin!(durable.events::<Progress>(uid, 0));
        let elsewhere = Durable::new(journal.clone());
        let mut elsewhere = pin!(elsewhere.events::<Progress>(uid, 0));
        let next = async |stream: &mut (
                                   dyn Stream<Item = Result<EmittedEvent<Progress>, journal::Error>>
                                       + Unpin
                               )| {
            stream.next().await.transpose().expect("it is read").map(|event| event.event)
        };
        assert_eq!(next(&mut here).await, Some(done("before")));
        assert_eq!(next(&mut elsewhere).await, Some(done("before")));
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(here.next().now_or_never().is_none(), "it has not ended");
        durable.pause(uid, "a test").await.expect("it is paused");
        let is_paused = async || durable.status(uid).await.expect("it is there").flow.state;
        while is_paused().await != FlowState::Paused {
            soon().await;
        }
        assert!(here.next().now_or_never().is_none(), "it waits for an operator");
        durable.resume(uid, Resume::Continue).await.expect("it goes on");
        durable.signal(uid, "go", ()).await.expect("it is stored");
        assert_eq!(next(&mut here).await, Some(done("after")));
        assert_eq!(next(&mut elsewhere).await, Some(done("after")));
        assert_eq!((next(&mut here).await, next(&mut elsewhere).await), (None, None));
        let mut later = pin!(durable.events::<Progress>(uid, 1));
        assert_eq!(next(&mut later).await, Some(done("after")));
        assert_eq!(next(&mut later).await, None);
        let wrong: Vec<_> = durable.events::<u32>(uid, 0).collect().await;
        assert!(
            wrong.iter().all(|it| matches!(it, Err(journal::Error::UnknownValue { .. }))),
            "{wrong:?}"
        );
        assert_eq!(wrong.len(), 2);
        let nobody = Uid::random().expect("chance");
        let unknown: Vec<_> = durable.events::<Progress>(nobody, 0).collect().await;
        let is_unknown = matches!(unknown[..], [Err(journal::Error::Refused(Refused::NoFlow(_)))]);
        assert!(is_unknown, "{unknown:?}");
        node.stop().await;
    });
}

#[test]
fn readers_of_a_request_share_each_look() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let uid = lab.submit(&journal, "stops", Options::default()).await;
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        let journal_read = journal.clone().faults(move |operation: Operation| {
            counted.fetch_add(usize::from(operation == Operation::Load), Ordering::Relaxed);
            Fault::None
        });
        let readers = Durable::new(journal_read);
        let reads = (0..200).map(|_| readers.events::<Progress>(uid, 0).try_collect::<Vec<_>>());
        let mut reads = pin!(join_all(reads));
        let idle = tokio::time::sleep(Duration::from_secs(100));
        tokio::select! {
            _ = reads.as_mut() => panic!("it has not begun"),
            () = idle => {}
        }
        let idle = looks.swap(0, Ordering::Relaxed);
        assert!((90..=110).contains(&idle), "one look a second for all of them: {idle}");
        let (durable, executor) = lab.process(journal);
        durable.signal(uid, "go", ()).await.expect("it is stored");
        let node = durable.start(&executor).await.expect("a lease");
        for read in reads.await {
            assert_eq!(read.expect("it is read").len(), 2);
        }
        let read = looks.load(Ordering::Relaxed);
        assert!(read < 20, "they share what was read: {read}");
        node.stop().await;
    });
}

#[test]
fn a_request_that_is_not_durable_emits_nothing() {
    run(async {
        let (_durable, executor) = lab().process(Memory::default());
        let request = TestRequest::new("test.lab:1.0:plain").params(json!({}));
        let request = request.user("ann", SecurityLevel::SafeOps);
        assert_eq!(request.call::<String>(&executor).await.expect("a result"), "done");
    });
}

/// How many events the request emits that 200 readers read, and at which one its process dies.
const EVENTS: u32 = 500;
const DIES_AT: u32 = 230;

/// The process with the readers, which may die: returns the position of each reader.
fn process(file: &std::path::Path, run: u32, uid: Option<Uid>, after: &[u64]) -> (Uid, Vec<u64>) {
    actix::System::new().block_on(async {
        // the threads of the process before may still be at their end
        let journal = loop {
            match Sqlite::open(file, sqlite::Options::new("test")) {
                Err(journal::Error::InUse { .. }) => std::thread::yield_now(),
                opened => break opened.expect("a journal"),
            }
        };
        let durable = Durable::new(journal);
        let interface = Interface::new("test.emits:1.0".parse().expect("a name"));
        let executor = Executor::builder().service(interface, (), |functions| {
            durable.on(functions, "emit", move |steps: &Steps<(), Watched>| {
                let emit = async move |cx: &Cx<(), Watched>, ()| {
                    for number in 0..EVENTS {
                        // a later value of an event that is there changes nothing
                        let event = Progress::Counted(number + run * EVENTS);
                        cx.emit_as(&number.to_string(), &event).await?;
                        if run == 0 && number == DIES_AT {
                            std::future::pending::<()>().await;
                        }
                    }
                    Ok(())
                };
                steps.run("emit", emit).recorded().returns()
            });
        });
        let executor = executor.build().expect("it is complete");
        let uid = match uid {
            Some(uid) => uid,
            None => {
                let options = Options::default().caller(User::new("ann", SecurityLevel::SafeOps));
                let submit = durable.submit("test.emits:1.0:emit", json!({}), options);
                submit.await.expect("it is stored")
            }
        };
        let _node = durable.start(&executor).await.expect("a lease");
        let read = after.iter().enumerate().map(async |(reader, after)| {
            let mut events = pin!(durable.events::<Progress>(uid, *after));
            // each reader is at another event when the process dies
            let until = if run == 0 { u64::from(DIES_AT + 1) - reader as u64 } else { u64::MAX };
            let mut last = *after;
            while last < until
                && let Some(event) = events.next().await
            {
                let EmittedEvent { number, event, .. } = event.expect("it is read");
                assert_eq!(number, last + 1, "none is lost, doubled or out of order");
                let first = u32::try_from(number - 1).expect("they are few");
                let of_run = if first > DIES_AT { EVENTS } else { 0 };
                assert_eq!(event, Progress::Counted(first + of_run));
                last = number;
            }
            last
        });
        (uid, join_all(read).await)
    })
}

#[test]
fn two_hundred_readers_go_on_where_they_were_when_their_process_has_died() {
    let folder = Folder::new("emits");
    let (uid, positions) = process(&folder.file(), 0, None, &[0; 200]);
    let (_, positions) = process(&folder.file(), 1, Some(uid), &positions);
    assert!(positions.iter().all(|last| *last == u64::from(EVENTS)), "{positions:?}");
}
