//! Random numbers and the time of day that decide what a function does.

use std::time::{Duration, SystemTime};

use asyncsteps_core::{BodyResult, Error, Retry};
use asyncsteps_durable::Recorded;
use asyncsteps_executor::{Cx, Next, Returns, Steps};
use asyncsteps_journal::{Clock, Timestamp};

use crate::lab::{Lab, Nothing, at_each_record, result, soon};
use crate::node::{TestClock, run};

/// A number and a time, as they were drawn where steps are defined.
type Drawn = (u64, u64);

fn draw(asi: &Steps<Lab, Nothing>) -> Drawn {
    let since = asi.now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
    (asi.random().number(), u64::try_from(since.as_millis()).expect("it is in this age"))
}

/// Counts what a body was given. It runs when that is stored, so a crash does not change it.
fn see(cx: &Cx<Lab, Nothing>, place: &str, drawn: Drawn) {
    cx.count(format!("{place} {drawn:?}"));
    cx.count(format!("key of {place} {}", cx.random().number()));
}

fn drawn(asi: &mut Steps<Lab, Nothing>) -> Returns<Drawn> {
    let drawn = draw(asi);
    asi.run("first", async move |cx, ()| {
        see(cx, "first", drawn);
        soon().await;
        Ok(())
    })
    .recorded();
    asi.substeps("tried", |asi, ()| {
        let drawn = draw(asi);
        asi.run("try", async move |cx, ()| -> BodyResult<()> {
            see(cx, "try", drawn);
            soon().await;
            if cx.counted("failed") == 0 {
                cx.count("failed");
                return Err(Error::new("Again").into());
            }
            Ok(())
        })
        .recorded()
        .into()
    })
    .retry(Retry::attempts(3).backoff(Duration::from_secs(1)).on_code("Again"));
    asi.repeat("twice", 0, |asi, count| {
        let drawn = draw(asi);
        asi.run("turn", async move |cx, ()| {
            see(cx, &format!("turn {count}"), drawn);
            soon().await;
            Ok(if count == 0 { Next::Continue(1) } else { Next::Break(()) })
        })
        .recorded()
        .into()
    })
    .recorded();
    asi.run("last", async move |cx, ()| {
        see(cx, "last", drawn);
        Ok(drawn)
    })
    .recorded()
    .into()
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
        let clock = TestClock::start();
        let journal = lab.journal();
        let uid = lab.submit(&journal, "drawn", asyncsteps_durable::Options::default()).await;
        let (ending, _) = lab.ended(&journal, uid, &[]).await;
        let (_, at) = result::<Drawn>(&ending);
        let (at, start) = (Timestamp::from_millis(at), Timestamp::from_millis(1_000_000_000));
        assert!(start <= at && at <= clock.now().after(Duration::from_secs(60)), "{at:?}");
    });
}
