//! Random numbers and the time of day that decide what a function does.

use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

use asyncsteps_core::{BodyResult, Error, Retry};
use asyncsteps_executor::plan::Given;
use asyncsteps_executor::{Cx, Returns, Steps};
use asyncsteps_journal::{Clock, Timestamp, TokioClock};

use crate::lab::{Lab, Nothing, at_each_record, result, soon};
use crate::node::run;

/// A number and a time, as they were drawn in front of the steps that they decide on.
type Drawn = (u64, u64);

fn draw(given: &Given<'_, Nothing>) -> Drawn {
    let since = given.now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
    (given.random().number(), u64::try_from(since.as_millis()).expect("it is in this age"))
}

/// Counts what a body was given. It runs when that is stored, so a crash does not change it.
fn see(cx: &Cx<Lab, Nothing>, place: &str, drawn: Drawn) {
    cx.count(format!("{place} {drawn:?}"));
    cx.count(format!("key of {place} {}", cx.random().number()));
}

async fn tries(cx: &Cx<Lab, Nothing>, drawn: Drawn) -> BodyResult<()> {
    see(cx, "try", drawn);
    soon().await;
    if cx.counted("failed") == 0 {
        cx.count("failed");
        return Err(Error::new("Again").into());
    }
    Ok(())
}

async fn turns(cx: &Cx<Lab, Nothing>, (count, drawn): (i32, Drawn)) -> BodyResult<i32> {
    see(cx, &format!("turn {count}"), drawn);
    soon().await;
    Ok(count + 1)
}

fn drawn(steps: &Steps<Lab, Nothing>) -> Returns<Drawn> {
    let again = Retry::attempts(3).backoff(Duration::from_secs(1)).on_code("Again");
    steps
        .when_some(
            "begin",
            |given, ()| Some(draw(given)),
            |steps| {
                let first = steps.run("first", async |cx, drawn| {
                    see(cx, "first", drawn);
                    soon().await;
                    Ok(())
                });
                first.recorded().returns()
            },
        )
        .then_nested("tried", |steps| {
            let decide = |given: &Given<'_, _>, _| Some(draw(given));
            steps
                .when_some("draw", decide, |steps| steps.run("try", tries).recorded().returns())
                .returns()
        })
        .retry(again)
        .then("count", async |_, _| Ok(0))
        .recorded()
        .then_repeat("twice", |turn| {
            let decide = |given: &Given<'_, _>, count| vec![(count, draw(given))];
            turn.each("draw", decide, |turn| turn.run("turn", turns).recorded().returns())
                .then("next", async |_, next| {
                    Ok(if next[0] < 2 {
                        ControlFlow::Continue(next[0])
                    } else {
                        ControlFlow::Break(())
                    })
                })
                .repeatable()
                .returns()
        })
        .recorded_with_input()
        .then_when_some(
            "end",
            |given, ()| Some(draw(given)),
            |steps| {
                let last = steps.run("last", async |cx, drawn| {
                    see(cx, "last", drawn);
                    Ok(drawn)
                });
                last.recorded().returns()
            },
        )
        .then("result", async |_, drawn| drawn.ok_or_else(|| "NotDrawn".into()))
        .repeatable()
        .returns()
}
/// How many different things were counted that begin like this.
fn different(lab: &Lab, beginning: &str) -> usize {
    lab.all_counted().keys().filter(|what| what.starts_with(beginning)).count()
}

#[test]
fn numbers_and_times_are_the_same_whenever_a_request_goes_on() {
    let lab = || Lab::new(|durable, functions| _ = durable.on(functions, "drawn", drawn));
    run(at_each_record(
        lab,
        "drawn",
        async |_, _| {},
        |lab, ending, crash| {
            let drawn = result::<Drawn>(ending);
            assert_eq!(lab.counted(&format!("last {drawn:?}")).min(1), 1, "{crash:?}");
            for place in ["first", "last", "turn 0", "turn 1"] {
                let seen = [place.to_owned(), format!("key of {place}")];
                let seen = seen.map(|what| different(lab, &what));
                assert_eq!(seen, [1, 1], "{place}: {crash:?}: {:?}", lab.all_counted());
            }
            // the attempt that failed, unless a crash came before that was stored, and the other
            assert!((1..=2).contains(&different(lab, "try")), "{crash:?}");
        },
    ));
}

#[test]
fn a_time_is_that_of_the_clock_of_the_requests() {
    let lab = Lab::new(|durable, functions| _ = durable.on(functions, "drawn", drawn));
    run(async move {
        let clock = TokioClock::start();
        let journal = lab.journal();
        let uid = lab.submit(&journal, "drawn", asyncsteps_durable::Options::default()).await;
        let (ending, _) = lab.ended(&journal, uid, &[]).await;
        let (_, at) = result::<Drawn>(&ending);
        let (at, start) = (Timestamp::from_millis(at), Timestamp::from_millis(1_000_000_000));
        assert!(start <= at && at <= clock.now().after(Duration::from_secs(60)), "{at:?}");
    });
}
