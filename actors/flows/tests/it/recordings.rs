//! The promise: a recording tells in one line where the time of a flow went, in bounded memory.

use std::cell::Cell;
use std::time::Duration;

use asyncsteps_actors::flow::{FlowHandle, start_flow};
use asyncsteps_actors::record::{self, Ending, Recording, StepEventKind};
use asyncsteps_actors::sync::{Limiter, Mutex, Throttle};
use asyncsteps_core::{BodyResult, Error, Flow, Retry, codes, sleep};
use tokio::task::{LocalSet, spawn_local};
use tracing::Span;

const MS: Duration = Duration::from_millis(1);

/// A body that takes so long.
async fn takes(time: Duration) -> BodyResult<()> {
    sleep(time).await;
    Ok(())
}

/// Starts a flow that is recorded, in virtual time.
fn start(mut flow: Flow) -> (FlowHandle<()>, Recording) {
    let recording = Recording::start();
    record::observe(&mut flow, &Span::none(), None, Some(&recording));
    (start_flow(flow), recording)
}

/// Runs a flow to its end.
async fn run(flow: Flow) -> (Result<(), Error>, String) {
    let (handle, recording) = start(flow);
    let result = handle.await;
    (result, recording.recorded().to_string())
}

#[tokio::test(start_paused = true)]
async fn attempts_pauses_and_what_a_lock_took_are_told_apart() {
    let tell = async {
        let stock = Mutex::named("stock", Default::default());
        let held = stock.lock().await.expect("it is free");
        spawn_local(async move {
            tokio::time::sleep(30 * MS).await;
            drop(held);
        });
        let mut flow = Flow::new();
        flow.run(async |()| takes(5 * MS).await).named("open");
        let tries = Cell::new(0);
        flow.run(async move |()| {
            sleep(20 * MS).await;
            tries.set(tries.get() + 1);
            if tries.get() < 3 { Err(Error::new(codes::COMM_ERROR).into()) } else { Ok(()) }
        })
        .named("bank")
        .locked(&stock)
        .timeout(300 * MS)
        .retry(Retry::attempts(3).on_code(codes::COMM_ERROR).backoff(45 * MS));
        run(flow).await
    };
    let (result, line) = LocalSet::new().run_until(tell).await;
    result.expect("the third attempt succeeds");
    assert_eq!(
        line,
        "open 5ms, bank 220ms { stock 25ms, try 1 20ms CommError, pause 45ms, \
         try 2 20ms CommError, pause 90ms, try 3 20ms }"
    );
}

#[tokio::test(start_paused = true)]
async fn branches_are_inside_of_their_step() {
    let tell = async {
        let mut flow = Flow::new();
        flow.add(|asi, ()| {
            asi.parallel(|p| {
                p.run(async |()| takes(20 * MS).await).named("slow");
                p.add(|asi, ()| {
                    asi.run(async |()| takes(3 * MS).await).named("inner");
                });
            });
        })
        .named("both");
        flow.each(vec![1, 2], 1, async |ms| takes(ms * MS).await).named("each");
        flow.add(|_, _: Vec<()>| {});
        run(flow).await.1
    };
    let line = LocalSet::new().run_until(tell).await;
    assert_eq!(line, "both 20ms { slow 20ms, inner 3ms }, each 3ms");
}

#[tokio::test(start_paused = true)]
async fn waits_for_limits_are_steps_under_their_names() {
    let tell = async {
        let options = asyncsteps_core::sync::throttle::Options { max: 1, ..Default::default() };
        let throttle = Throttle::named("rate", options);
        let limiter = Limiter::named("client", Default::default());
        let mut flow = Flow::new();
        for name in ["first", "second"] {
            flow.sync(&throttle, |_, ()| {}).named(name);
        }
        flow.run(async |()| takes(2 * MS).await).named("work").limited(&limiter);
        run(flow).await.1
    };
    let line = LocalSet::new().run_until(tell).await;
    assert_eq!(line, "first 0us, second 1000ms { rate 1000ms }, work 2ms");
}

#[tokio::test(start_paused = true)]
async fn errors_are_told_where_they_come_from() {
    let tell = async {
        let mut flow = Flow::new();
        flow.add(|asi, ()| {
            asi.run(async |()| takes(500 * MS).await).named("slow").timeout(300 * MS);
        })
        .named("outer")
        .on_error(|asi, error| match error.code() {
            codes::TIMEOUT => asi.error("Late", "too slow"),
            _ => Ok(()),
        });
        run(flow).await
    };
    let (result, line) = LocalSet::new().run_until(tell).await;
    assert_eq!(result.expect_err("it is late").code(), "Late");
    assert_eq!(line, "outer 300ms Late { slow 300ms Timeout(300ms) }");
}

#[tokio::test(start_paused = true)]
async fn what_is_in_progress_and_what_was_cancelled_is_told() {
    let tell = async {
        let mut flow = Flow::new();
        flow.run(async |()| takes(500 * MS).await).named("slow");
        let (handle, recording) = start(flow);
        tokio::time::sleep(40 * MS).await;
        let running = recording.recorded().to_string();
        handle.cancel();
        let _ = handle.await;
        (running, recording.recorded().to_string())
    };
    let (running, cancelled) = LocalSet::new().run_until(tell).await;
    assert_eq!(running, "slow 40ms ...");
    assert_eq!(cancelled, "slow 40ms cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_long_flow_keeps_its_first_and_its_last_events() {
    let tell = async {
        let mut flow = Flow::new();
        flow.repeat(1000, |asi, _| {
            asi.add(|_, ()| {}).named("round");
        })
        .named("rounds");
        flow.add(|_, ()| {}).named("last");
        let (handle, recording) = start(flow);
        handle.await.expect("nothing fails");
        recording.recorded()
    };
    let recorded = LocalSet::new().run_until(tell).await;
    assert_eq!((recorded.events.len(), recorded.lost), (96, 2 * 1002 - 96));
    let first = recorded.events.first().expect("events");
    assert_eq!(first.location.name(), Some("rounds"));
    assert!(matches!(first.kind, StepEventKind::Began));
    let last = recorded.events.last().expect("events");
    assert_eq!(last.location.name(), Some("last"));
    assert!(matches!(last.kind, StepEventKind::Ended(Ending::Success)));
    let tree = recorded.tree();
    let outer: Vec<_> = tree.steps.iter().map(|step| step.location.name()).collect();
    assert_eq!(outer, [Some("rounds"), Some("last")]);
    assert!(tree.steps[0].ended.is_some());
    let line = recorded.to_string();
    assert_eq!(line, "rounds 0us { round 0us x46 }, last 0us (1908 events lost)");
}

#[tokio::test(start_paused = true)]
async fn a_line_ends_before_it_is_too_long() {
    let tell = async {
        let mut flow = Flow::new();
        for _ in 0..46 {
            flow.run(async |()| takes(MS).await).named("one of many");
            flow.run(async |()| takes(2 * MS).await).named("another");
        }
        run(flow).await.1
    };
    let line = LocalSet::new().run_until(tell).await;
    assert!(
        line.ends_with("another 2ms, and more (88 events lost)") && line.len() < 1000,
        "{line}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_rounds_of_a_loop_are_no_attempts() {
    let tell = async {
        let mut flow = Flow::new();
        let place = std::panic::Location::caller();
        flow.repeat(2, move |asi, _| {
            asi.add(|asi, ()| {
                asi.run(async |()| takes(20 * MS).await).named("turn");
            })
            .located_at(place);
        })
        .located_at(place);
        run(flow).await
    };
    let (result, line) = LocalSet::new().run_until(tell).await;
    result.expect("it ends well");
    assert_eq!(line, "turn 20ms, turn 20ms");
}
