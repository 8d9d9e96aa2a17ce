//! A service that stops gives its requests back to the journal: those that wait at once, and what the end of the grace
//! cuts goes on at the next owner as after a crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use asyncsteps_core::{BodyResult, Error, Retry};
use asyncsteps_durable::journal::memory::{Fault, Memory, Operation};
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::journal::request::{FlowState, Query};
use asyncsteps_durable::journal::{Clock, LEASE};
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::security::SecurityLevel;
use asyncsteps_executor::test::TestRequest;
use asyncsteps_executor::{Cx, Executor, Returns, Step, Steps};

use crate::bank::{Bank, End, Planned, deals, hold, stays, undoes};
use crate::lab::Nothing;
use crate::log::logged;
use crate::node::run;
use asyncsteps_journal::TokioClock;

fn undo_hangs(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    steps
        .run("charge", async |cx, ()| {
            cx.deal(cx.key());
            Ok(())
        })
        .recorded()
        .undo(async |cx, _| {
            if cx.program == "unreachable" {
                tokio::time::sleep(Duration::from_secs(100_000)).await;
            }
            cx.undo(cx.key());
            Ok(())
        })
        .then("confirm", async |_, ()| Err("Refused".into()))
        .repeatable()
        .returns()
}

#[test]
fn an_undo_that_the_end_of_the_grace_cuts_goes_on_at_the_next_owner() {
    run(async {
        let bank = Bank::new(undo_hangs);
        let journal = bank.journal();
        let uid = bank.submit(&journal, Options::default()).await;
        let (durable, executor) = bank.process("unreachable", None).serve(journal.clone());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(bank.kept(), ["order-charge"], "its undo has not ended");
        let _ = executor.close(Duration::from_secs(5)).await;
        node.stop().await;
        match bank.replay(&journal, uid).await {
            End::Ended(Ending::Failed(_)) => {}
            other @ (End::Ended(_) | End::Paused(_)) => panic!("{other:?}"),
        }
        assert_eq!(bank.kept(), [""; 0]);
    });
}

const HOUR: Duration = Duration::from_secs(3_600);

/// A chain of steps that return nothing.
type Chain<A> = Step<Bank, Nothing, (), A, ()>;

fn charge(steps: &Steps<Bank, Nothing>) -> Chain<()> {
    steps.run("charge", deals).recorded().undo(undoes)
}

async fn nothing(_: &Cx<Bank, Nothing>, (): ()) -> BodyResult<String> {
    Ok(String::new())
}

fn end<A: 'static>(before: Chain<A>) -> Returns<String> {
    before.then("end", nothing).recorded().returns()
}

fn pauses(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    end(charge(steps.locked(|cx| cx.place.clone())).then_pause("pause", HOUR))
}

fn waits_for_signal(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    end(charge(steps.locked(|cx| cx.place.clone())).then_wait_signal("paid"))
}

fn waits_for_lock(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    charge(steps)
        .then_nested("section", |section| section.run("end", nothing).recorded().returns())
        .locked(|cx| cx.lock.clone())
        .returns()
}

fn retries(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    charge(steps.locked(|cx| cx.place.clone()))
        .then("again", async |_, ()| Err(Error::new("Again").into()))
        .recorded()
        .retry(Retry::attempts(2).backoff(HOUR).on_code("Again"))
        .returns()
}

fn repeats(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    end(charge(steps).then("look", stays).repeatable())
}

const WAITING: [(&str, Planned); 5] = [
    ("a pause", pauses),
    ("a signal", waits_for_signal),
    ("a lock", waits_for_lock),
    ("a retry", retries),
    ("a look-up", repeats),
];

#[test]
fn requests_that_wait_go_back_to_the_journal_when_the_executor_closes() {
    for (name, function) in WAITING {
        let log = logged(async {
            let bank = Bank::new(function);
            let journal = bank.journal();
            let uid = bank.submit(&journal, Options::default()).await;
            hold(&bank.lock, 2 * HOUR);
            let (durable, executor) = bank.serve(journal.clone());
            let node = durable.start(&executor).await.expect("the journal gives a lease");
            tokio::time::sleep(Duration::from_secs(5)).await;
            let state = || async { durable.status(uid).await.expect("it is known").flow.state };
            assert_eq!(state().await, FlowState::Running, "{name}");
            let begun = tokio::time::Instant::now();
            let closed = executor.close(Duration::from_secs(10)).await;
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(1), "{name}: {took:?}");
            assert_eq!((closed.cancelled, closed.not_undone), (0, 0), "{name}: {closed:?}");
            node.stop().await;
            assert_eq!(state().await, FlowState::Ready, "{name}");
            assert_eq!(bank.kept(), ["order-charge"], "{name}");
        });
        assert!(log.contains("durable requests went back to the journal flows=1"), "{log}");
        assert!(!log.contains("undone") && !log.contains("cancelled"), "{name}: {log}");
    }
}

fn charges_slowly(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    let charge = steps.run("charge", async |cx, ()| {
        tokio::time::sleep(Duration::from_secs(8)).await;
        cx.deal(cx.key());
        Ok(())
    });
    let charge = charge.recorded().undo(async |_, _| Ok(()));
    end(charge.then_pause("pause", Duration::from_secs(5)))
}

#[test]
fn an_effect_goes_on_within_the_grace() {
    run(async {
        let bank = Bank::new(charges_slowly);
        let journal = bank.journal();
        let uid = bank.submit(&journal, Options::default()).await;
        let (durable, executor) = bank.serve(journal.clone());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(Duration::from_secs(5)).await;
        let begun = tokio::time::Instant::now();
        let closed = executor.close(Duration::from_secs(10)).await;
        let took = begun.elapsed();
        assert!(Duration::from_secs(3) <= took && took < Duration::from_secs(4), "{took:?}");
        assert_eq!(closed.cancelled, 0, "{closed:?}");
        node.stop().await;
        assert!(matches!(bank.replay(&journal, uid).await, End::Ended(Ending::Completed(_))));
        assert_eq!(bank.entries().len(), 1, "it was charged once");
    });
}

/// It holds no lock, so no node has it while it pauses.
fn is_parked(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    end(charge(steps).then_pause("pause", HOUR))
}

/// Its callers wait for so long.
fn answers_within(steps: &Steps<Bank, Nothing>, bank: &Bank) -> Returns<String> {
    pauses(steps.answer_within(Duration::from_secs(4), || Error::new("Timeout")), bank)
}

/// Has ann call the function, and closes the executor after a while; returns the answer, and how long after the close
/// it came.
async fn call_and_close(executor: &Executor, after: Duration) -> (Result<String, Error>, Duration) {
    let request = TestRequest::new("test.bank:1.0:order").user("ann", SecurityLevel::SafeOps);
    let call = async {
        let answer = request.call(executor).await;
        (answer, tokio::time::Instant::now())
    };
    let close = async {
        tokio::time::sleep(after).await;
        let begun = tokio::time::Instant::now();
        let _ = executor.close(Duration::from_secs(10)).await;
        begun
    };
    let ((answer, answered), begun) = tokio::join!(call, close);
    (answer, answered - begun)
}

#[test]
fn callers_of_requests_that_go_back_to_the_journal_are_answered_when_the_executor_closes() {
    let parked: [(&str, Planned); 2] =
        [("no node has it", is_parked), ("a caller's limit", answers_within)];
    for (name, function) in WAITING.into_iter().chain(parked) {
        run(async {
            let bank = Bank::new(function);
            hold(&bank.lock, 2 * HOUR);
            let (durable, executor) = bank.serve(bank.journal());
            let _node = durable.start(&executor).await.expect("the journal gives a lease");
            let (answer, took) = call_and_close(&executor, Duration::from_secs(3)).await;
            assert_left(answer, &durable, name).await;
            assert!(took < Duration::from_secs(1), "{name}: {took:?}");
            assert_eq!(bank.kept(), ["order-charge"], "{name}");
        });
    }
}

/// The caller was told the name of the request, which is in the journal and has not ended.
async fn assert_left(answer: Result<String, Error>, durable: &Durable, name: &str) {
    let error = answer.expect_err("it has not ended");
    assert_eq!(error.code(), "OutcomeUnknown", "{name}: {error}");
    let all = Query { limit: 10, ..Query::default() };
    let flows = durable.list(all).await.expect("the journal answers");
    let [flow] = &flows[..] else { panic!("{name}: one request: {flows:?}") };
    assert!(matches!(flow.state, FlowState::Ready | FlowState::Parked), "{name}: {flow:?}");
    assert!(error.info().is_some_and(|info| info.contains(&flow.uid.to_string())), "{error}");
}

#[test]
fn a_caller_whose_request_is_loaded_when_the_executor_closes_is_answered() {
    run(async {
        let clock = TokioClock::start();
        let back = clock.now().after(Duration::from_millis(500));
        let journal = Memory::new(clock).faults(move |operation| {
            let is_away = operation == Operation::Load && clock.now() < back;
            if is_away { Fault::NotDone } else { Fault::None }
        });
        let (durable, executor) = Bank::new(charges_for_a_while).serve(journal);
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let (answer, took) = call_and_close(&executor, Duration::from_millis(200)).await;
        // the node loads it after a second, and its executor takes no request any more
        assert_left(answer, &durable, "it has not begun").await;
        assert!(took < Duration::from_secs(2), "{took:?}");
    });
}

fn charges_for_a_while(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    let charge = steps.run("charge", async |cx, ()| {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cx.deal(cx.key());
        Ok(())
    });
    end(charge.recorded())
}

#[test]
fn a_caller_of_a_request_that_runs_is_answered_within_the_grace() {
    run(async {
        let bank = Bank::new(charges_for_a_while);
        let (durable, executor) = bank.serve(bank.journal());
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let (answer, took) = call_and_close(&executor, Duration::from_secs(2)).await;
        assert_eq!(answer.expect("it ends within the grace"), "");
        assert!((Duration::from_secs(1)..Duration::from_secs(2)).contains(&took), "{took:?}");
        assert_eq!(bank.kept(), ["order-charge"]);
    });
}

#[test]
fn a_stop_does_not_wait_for_a_journal_that_has_failed_for_as_long_as_the_lease() {
    run(async {
        let bank = Bank::new(pauses);
        let is_full = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_full);
        let journal = bank.journal().faults(move |_: Operation| {
            if seen.load(Ordering::Relaxed) { Fault::NotDone } else { Fault::None }
        });
        let uid = bank.submit(&journal, Options::default()).await;
        let (durable, executor) = bank.serve(journal);
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(Duration::from_secs(5)).await;
        is_full.store(true, Ordering::Relaxed);
        // such as the grace of the server
        tokio::time::sleep(LEASE).await;
        let begun = tokio::time::Instant::now();
        node.stop().await;
        let took = begun.elapsed();
        assert!(took <= Duration::from_secs(2), "{took:?}");
        is_full.store(false, Ordering::Relaxed);
        assert_eq!(durable.status(uid).await.expect("it is known").ending, None);
    });
}
