//! The promise: it can be asked where the time of a request went, while it runs and when it is over,
//! and a request that was slow or failed has it in its line of the log.

use std::time::Duration;

use asyncsteps_core::{BodyResult, Error, Template, sleep};
use asyncsteps_executor::observe::Retention;
use asyncsteps_executor::{Builder, Executor};
use asyncsteps_support::definition;
use asyncsteps_support::log::Log;
use serde_json::{Value, json};

const CHARGE: &str = "test.bank:1.0:charge";

const DEFINITION: &str = r#"{
    "iface": "test.bank",
    "version": "1.0",
    "ftn3rev": "1.9",
    "funcs": {
        "charge": {
            "params": { "ms": "integer", "fails": "boolean" },
            "result": "boolean",
            "throws": [ "Declined" ]
        }
    },
    "requires": [ "AllowAnonymous" ]
}"#;

/// Waits as long as it is told to, and then fails if it is told to, which undoes the wait.
fn executor(change: impl FnOnce(Builder) -> Builder) -> Executor {
    use asyncsteps_executor::RequestSteps as _;

    let charge = Template::build(|asi| {
        asi.add(|asi, ()| {
            let (ms, fails): (u64, bool) = (asi.param("ms")?, asi.param("fails")?);
            asi.run(async move |()| -> BodyResult<()> {
                sleep(Duration::from_millis(ms)).await;
                Ok(())
            })
            .named("wait")
            .undo(async |_| {
                sleep(Duration::from_millis(30)).await;
                Ok(())
            });
            asi.add(
                move |asi, ()| {
                    if fails { asi.error("Declined", "no money") } else { asi.reply(true) }
                },
            )
            .named("decide");
            Ok(())
        });
    });
    let builder =
        Executor::builder().interface(definition("test.bank:1.0", DEFINITION), |functions| {
            functions.add("charge", &charge);
        });
    change(builder).build().expect("a right configuration")
}

async fn call(executor: &Executor, ms: u64, fails: bool) -> Result<Value, Error> {
    executor.call_as_system(CHARGE, json!({ "ms": ms, "fails": fails })).await
}

/// The lines of the requests that were kept, the newest first.
fn lines(executor: &Executor) -> Vec<String> {
    executor.recent().iter().map(|record| round(&record.to_string())).collect()
}

/// How many hundredths of a second they took.
fn totals(executor: &Executor) -> Vec<u128> {
    executor.recent().iter().map(|record| record.total.as_millis() / 10).collect()
}

/// A line with its milliseconds rounded down to tens: timers may be late by one.
fn round(line: &str) -> String {
    let round = |word: &str| {
        let (ms, rest) = word.split_at(word.find("ms")?);
        Some(format!("{}{rest}", ms.parse::<u32>().ok()? / 10 * 10))
    };
    let words = line.split(' ').map(|word| round(word).unwrap_or_else(|| word.to_owned()));
    words.collect::<Vec<_>>().join(" ")
}

#[actix::test]
async fn what_was_slow_or_failed_is_kept() {
    tokio::time::pause();
    let executor = executor(|builder| builder);
    call(&executor, 480, false).await.expect("quick");
    call(&executor, 500, false).await.expect("slow");
    call(&executor, 20, true).await.expect_err("fails");
    assert_eq!(
        lines(&executor),
        [
            "test.bank:1.0:charge 50ms Declined { wait 20ms, decide 0us Declined, \
             undo 30ms { wait 30ms } }",
            "test.bank:1.0:charge 500ms success { wait 500ms, decide 0us, result 0us }",
        ]
    );
    let numbers: Vec<u64> = executor.recent().iter().map(|record| record.number).collect();
    assert_eq!(numbers, [3, 2]);
}

#[actix::test]
async fn no_more_are_kept_than_the_options_say() {
    tokio::time::pause();
    let keep = Retention { most: 2, ..Retention::ALL };
    let all = executor(|builder| builder.record(keep));
    for ms in [10, 20, 30, 40, 50] {
        call(&all, ms, false).await.expect("a success");
    }
    assert_eq!(totals(&all), [5, 4]);

    let keep = Retention { slow: None, failed: false, one_in: 3, ..Retention::default() };
    let some = executor(|builder| builder.record(keep));
    for ms in 1..=9 {
        let _ = call(&some, ms * 10, ms == 5).await;
    }
    assert_eq!(totals(&some), [9, 6, 3]);
}

#[actix::test]
async fn a_request_in_flight_tells_what_its_steps_have_done() {
    tokio::time::pause();
    let executor = executor(|builder| builder.record(Retention::ALL));
    let running = actix_rt::spawn({
        let executor = executor.clone();
        async move { call(&executor, 300, false).await }
    });
    tokio::time::sleep(Duration::from_millis(40)).await;
    let [request] = <[_; 1]>::try_from(executor.in_flight().await).expect("one request");
    let steps = executor.steps(request.number).await.expect("it is recorded");
    assert_eq!(round(&steps.to_string()), "wait 40ms ...");
    running.await.expect("no panic").expect("a success");
    let steps = executor.steps(request.number).await.expect("it is kept");
    assert_eq!(round(&steps.to_string()), "wait 300ms, decide 0us, result 0us");
    assert!(executor.steps(request.number + 1).await.is_none());
}

#[actix::test]
async fn without_recording_nothing_is_kept() {
    tokio::time::pause();
    let executor = executor(Builder::unrecorded);
    call(&executor, 900, true).await.expect_err("fails");
    assert!(executor.recent().is_empty());
    assert!(executor.steps(1).await.is_none());
}

#[actix::test]
async fn the_line_of_a_slow_request_says_where_the_time_went() {
    tokio::time::pause();
    let log = Log::default();
    let open = log.open_with_spans();
    let executor = executor(|builder| builder);
    call(&executor, 700, false).await.expect("slow");
    call(&executor, 1, false).await.expect("quick");
    drop(open);
    let text = round(&log.take());
    let of_requests = text.lines().filter(|line| line.contains(CHARGE)).collect::<Vec<_>>();
    assert!(of_requests[0].contains("steps=wait 700ms, decide 0us"), "{text}");
    assert!(!of_requests[1].contains("steps="), "{text}");
}
