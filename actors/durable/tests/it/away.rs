//! The promise: what needs something that is away waits for it and says so, and ends by itself. A person is asked
//! about what is not away.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::{Error, Retry, StepError, UndoPolicy, codes};
use asyncsteps_durable::Options;
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::journal::request::{FlowInfo, FlowState};
use asyncsteps_executor::{Returns, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::{Cause, Uid};
use tokio::time::Instant;

use crate::lab::{Lab, Nothing};
use crate::node::run;

const SECOND: Duration = Duration::from_secs(1);

/// How long the bank and the store are away, and how long a request waits at the most when they are back.
const AWAY: Duration = Duration::from_secs(600);
const LATEST: Duration = Duration::from_secs(121);

/// The error of a store, which has that of its database as its cause.
#[derive(Debug, thiserror::Error)]
#[error("the store failed")]
struct StoreError(#[source] Arc<rusqlite::Error>);

/// The disk of a SQLite database is full.
fn full() -> StoreError {
    let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
    StoreError(Arc::new(rusqlite::Error::SqliteFailure(full, None)))
}

/// Fails as this program does.
async fn fails(program: u32) -> Result<(), StepError> {
    match program {
        1 => Err(Error::new(codes::COMM_ERROR).into()),
        2 => Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()),
        3 => Err(full().into()),
        4 => std::future::pending().await,
        5 => Err(asyncsteps_journal::Error::Unavailable(Arc::new(full()) as Cause).into()),
        6 => Err("NoSuchPayment".into()),
        _ => Err(io::Error::other("a mistake").into()),
    }
}

/// The undo of a payment fails until the bank is back.
fn order(steps: &Steps<Lab, Nothing>, back: Instant) -> Returns<()> {
    let policy = UndoPolicy::default().timeout(SECOND).retry(Retry::attempts(2).backoff(SECOND));
    steps
        .run("pay", async |_, ()| Ok(()))
        .recorded()
        .undo_with(policy, async move |cx, _| {
            cx.count("tries");
            if Instant::now() < back {
                fails(cx.program).await?;
            }
            cx.count("refund");
            Ok(())
        })
        .then("send", async |_, ()| Err::<(), _>("SoldOut".into()))
        .recorded()
        .returns()
}

/// The body of a step fails until its store is back.
fn place(steps: &Steps<Lab, Nothing>, back: Instant, is_once: bool) -> Returns<()> {
    let step = steps.run("look", async |_, ()| Ok(())).recorded().undo(async |cx, _| {
        cx.count("undone");
        Ok(())
    });
    let step = step.then("write", async move |cx, ()| {
        cx.count("tries");
        if Instant::now() < back { fails(cx.program).await } else { Ok(()) }
    });
    if is_once { step.once().returns() } else { step.recorded().returns() }
}

/// The first step is over when the process crashes, and looks for something again then.
fn looks(steps: &Steps<Lab, Nothing>, back: Instant) -> Returns<()> {
    steps
        .nested("first", move |first| {
            first
                .run("look", async move |cx, ()| {
                    let is_away = cx.counted("looks") > 0 && Instant::now() < back;
                    cx.count("looks");
                    if is_away { fails(cx.program).await } else { Ok(()) }
                })
                .repeatable()
                .then("pay", async |_, ()| Ok(()))
                .recorded()
                .undo(async |_, _| Ok(()))
                .returns()
        })
        .then_pause("rest", SECOND * 20)
        .returns()
}

fn lab(program: u32) -> Lab {
    let back = Instant::now() + AWAY;
    let lab = Lab::with_programs(move |_, durable, functions| {
        durable.on(functions, "order", move |steps: &Steps<_, _>| order(steps, back));
        durable.on(functions, "place", move |steps: &Steps<_, _>| place(steps, back, false));
        durable.on(functions, "once", move |steps: &Steps<_, _>| place(steps, back, true));
        durable.on(functions, "looks", move |steps: &Steps<_, _>| looks(steps, back));
    });
    lab.with_program(program)
}

/// What was seen of a request until it ended or was paused.
struct Seen {
    end: FlowInfo,
    ending: Option<Ending>,
    /// Why it waited, newest last.
    reasons: Vec<String>,
    took: Duration,
}

/// Runs the request, which a process leaves by a crash after each of these times; cancels it then, if that is wanted.
async fn run_to_end(
    lab: &Lab,
    (journal, uid): (&Memory, Uid),
    crashes: &[Duration],
    cancel: bool,
) -> Seen {
    let (begun, mut reasons) = (Instant::now(), Vec::<String>::new());
    let mut crashes = crashes.iter();
    loop {
        let (durable, executor) = lab.process(journal.clone());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        let crash = crashes.next().copied().unwrap_or(AWAY * 100);
        let crash = Instant::now() + crash;
        while Instant::now() < crash {
            let status = durable.status(uid).await.expect("it is known");
            if matches!(status.flow.state, FlowState::Ended | FlowState::Paused) {
                node.stop().await;
                let (end, ending, took) = (status.flow, status.ending, begun.elapsed());
                return Seen { end, ending, reasons, took };
            }
            if status.flow.state == FlowState::Parked
                && let Some(reason) = status.flow.reason
                && reasons.last() != Some(&reason)
            {
                reasons.push(reason);
            }
            tokio::time::sleep(SECOND / 2).await;
        }
        if cancel {
            durable.cancel(uid, "ann").await.expect("it is known");
        } else {
            drop(node);
            tokio::time::sleep(SECOND * 60).await;
        }
    }
}

async fn seen(function: &str, program: u32, crashes: &[Duration]) -> (Lab, Seen) {
    let lab = lab(program);
    let journal = lab.journal();
    let uid = lab.submit(&journal, function, Options::default()).await;
    let seen = run_to_end(&lab, (&journal, uid), crashes, false).await;
    (lab, seen)
}

#[test]
fn an_undo_is_tried_until_what_it_needs_is_back() {
    run(async {
        for program in 1..=5 {
            for crashes in [&[][..], &[SECOND * 100], &[SECOND, SECOND * 100]] {
                let (lab, seen) = seen("order", program, crashes).await;
                let Seen { end, ending, reasons, took } = seen;
                let case = format!("{program}, {crashes:?}: {end:?}");
                let Some(Ending::Failed(failure)) = ending else { panic!("{case}") };
                assert_eq!(failure.code, codes::INTERNAL_ERROR, "{case}");
                assert_eq!(lab.counted("refund"), 1, "{case}");
                assert!(took >= AWAY && took < AWAY + LATEST, "{case}: {took:?}");
                assert!(lab.counted("tries") < 60, "{case}: {}", lab.counted("tries"));
                let since = |reason: &str| reason.split(": ").next().map(str::to_owned);
                let first = since(&reasons[0]);
                for reason in &reasons {
                    assert!(reason.starts_with("waits since "), "{case}: {reason}");
                    assert!(reason.contains("order/pay"), "{case}: {reason}");
                    assert_eq!(since(reason), first, "{case}");
                }
            }
        }
    });
}

#[test]
fn an_undo_that_nothing_keeps_from_succeeding_waits_for_an_operator() {
    run(async {
        for program in [6, 7] {
            let (lab, seen) = seen("order", program, &[]).await;
            assert_eq!(seen.end.state, FlowState::Paused, "{:?}", seen.end);
            assert!(seen.took < SECOND * 10, "{:?}", seen.took);
            let (tries, tried) = (lab.counted("tries"), lab.counted("refund"));
            assert!(tries >= 2 && tried == 0, "{program}: {tries}, {tried}");
        }
    });
}

#[test]
fn a_body_whose_store_is_away_begins_anew_when_it_is_back() {
    run(async {
        for program in [3, 5] {
            for crashes in [&[][..], &[SECOND * 100]] {
                let (lab, seen) = seen("place", program, crashes).await;
                let case = format!("{program}, {crashes:?}: {:?}", seen.end);
                assert!(matches!(seen.ending, Some(Ending::Completed(_))), "{case}");
                assert!(seen.took >= AWAY && seen.took < AWAY + LATEST, "{case}: {:?}", seen.took);
                assert!(lab.counted("tries") < 15, "{case}: {}", lab.counted("tries"));
                assert_eq!(lab.counted("undone"), 0, "{case}");
                let [first, ..] = &*seen.reasons else { panic!("{case}") };
                assert!(first.contains("place/write needs a store that is away"), "{first}");
            }
        }
    });
}

#[test]
fn a_body_that_fails_for_another_reason_or_runs_once_fails_at_once() {
    run(async {
        for (function, program) in [("place", 1), ("place", 6), ("once", 3)] {
            let (lab, seen) = seen(function, program, &[]).await;
            let case = format!("{function}, {program}: {:?}", seen.end);
            assert!(matches!(seen.ending, Some(Ending::Failed(_))), "{case}");
            assert!(seen.took < SECOND * 2, "{case}: {:?}", seen.took);
            assert_eq!(lab.counted("tries"), 1, "{case}");
            assert_eq!(lab.counted("undone"), 1, "{case}");
        }
    });
}

#[test]
fn a_request_that_waits_for_its_store_is_cancelled_and_undone_at_once() {
    run(async {
        let lab = lab(3);
        let journal = lab.journal();
        let uid = lab.submit(&journal, "place", Options::default()).await;
        let seen = run_to_end(&lab, (&journal, uid), &[SECOND * 100], true).await;
        assert_eq!(seen.ending, Some(Ending::Cancelled), "{:?}", seen.end);
        assert!(seen.took < SECOND * 105, "{:?}", seen.took);
        assert_eq!(lab.counted("undone"), 1);
    });
}

#[test]
fn a_request_that_waits_for_its_store_ends_with_its_deadline() {
    run(async {
        let lab = lab(3);
        let journal = lab.journal();
        let deadline = asyncsteps_journal::Clock::now(&asyncsteps_journal::TokioClock::start());
        let options = Options::default().deadline(deadline.after(SECOND * 100));
        let uid = lab.submit(&journal, "place", options).await;
        let seen = run_to_end(&lab, (&journal, uid), &[], false).await;
        let Some(Ending::Failed(failure)) = &seen.ending else { panic!("{:?}", seen.end) };
        assert_eq!(failure.code, codes::TIMEOUT);
        assert!(seen.took < SECOND * 105, "{:?}", seen.took);
        assert_eq!(lab.counted("undone"), 1);
    });
}

#[test]
fn a_look_up_of_a_step_that_is_over_waits_for_what_is_away() {
    run(async {
        for program in [1, 3] {
            let (lab, seen) = seen("looks", program, &[SECOND * 5]).await;
            let case = format!("{program}: {:?}", seen.end);
            assert!(matches!(seen.ending, Some(Ending::Completed(_))), "{case}");
            assert!(seen.took >= AWAY && seen.took < AWAY + LATEST, "{case}: {:?}", seen.took);
            assert!(lab.counted("looks") < 15, "{case}");
        }
        let (_, seen) = seen("looks", 6, &[SECOND * 5]).await;
        assert_eq!(seen.end.state, FlowState::Paused, "{:?}", seen.end);
    });
}
