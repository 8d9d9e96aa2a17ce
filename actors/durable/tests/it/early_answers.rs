//! A step answers the callers of a function, which goes on: each caller gets that answer or the error of a limit, whatever
//! crashes, and a request that fails later has answered all the same.

use std::time::Duration;

use asyncsteps_core::{Error, codes};
use asyncsteps_durable::{Cancelling, Durable, Options};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::test::TestRequest;
use asyncsteps_executor::{Executor, Returns, Steps};
use asyncsteps_journal::Uid;
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::record::Ending;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::lab::{Lab, Nothing, at_each_record, result, soon};
use crate::node::run;

const DRIVE: &str = "test.lab:1.0:drive";
const HURRY: &str = "test.lab:1.0:hurry";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Ride {
    id: String,
    car: i32,
}

/// The program whose cars do not get far. Programs are so many milliseconds slow.
const NO_FUEL: u32 = 4;

/// A car is found, of which the caller hears, and then it drives.
fn drive(steps: &Steps<Lab, Nothing>) -> Returns<Ride> {
    steps
        .run("find", async |cx, ()| {
            tokio::time::sleep(Duration::from_millis(cx.program.into())).await;
            cx.count("found");
            Ok(Ride { id: cx.id().to_owned(), car: cx.counted("found").try_into()? })
        })
        .recorded()
        .undo(async |cx, _| {
            cx.count("released");
            Ok(())
        })
        .answers()
        .then("meet", async |_, ride| {
            soon().await;
            Ok(ride.car)
        })
        .recorded()
        .then("drive", async |cx, car| {
            soon().await;
            cx.count("driven");
            if cx.program == NO_FUEL { Err("no fuel".into()) } else { Ok(car) }
        })
        .recorded()
        .returns()
}

/// The same for callers that wait no longer than this.
fn hurry(steps: &Steps<Lab, Nothing>) -> Returns<Ride> {
    steps.answer_within(LIMIT, || Error::new("Slow"));
    drive(steps)
}

/// How long its callers wait.
const LIMIT: Duration = Duration::from_millis(6);

fn lab() -> Lab {
    Lab::new(|durable, functions| {
        durable.on(functions, "drive", drive);
        durable.on(functions, "hurry", hurry);
    })
}

async fn call(executor: &Executor, function: &str, key: &str) -> Result<Ride, Error> {
    let request = TestRequest::new(function).params(json!({})).key(key);
    request.user("ann", SecurityLevel::SafeOps).call(executor).await
}

async fn uid_of(durable: &Durable, function: &str, key: &str) -> Uid {
    let ann = User::new("ann", SecurityLevel::SafeOps);
    let options = Options::default().caller(&ann).key(key);
    durable.submit(function, json!({}), options).await.expect("it is stored")
}

#[test]
fn a_caller_is_answered_before_the_end_and_each_later_one_in_the_same_way() {
    run(async {
        let lab = lab();
        let (durable, executor) = lab.process(lab.journal());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        let ride = call(&executor, DRIVE, "a").await.expect("a car is found");
        assert_eq!((ride.car, lab.counted("driven")), (1, 0), "it goes on");
        let uid = uid_of(&durable, DRIVE, "a").await;
        assert_eq!(ride.id, uid.to_string());
        assert_eq!(durable.status(uid).await.expect("it is known").ending, None);
        assert_eq!(call(&executor, DRIVE, "a").await.expect("it is known"), ride);
        assert_eq!(lab.counted("driven"), 0, "no caller waits for the end");

        let ending = durable.ended(uid).await.expect("it is known");
        assert_eq!((result::<Ride>(&ending), lab.counted("driven")), (ride.clone(), 1));
        assert_eq!(call(&executor, DRIVE, "a").await.expect("it is kept"), ride);
        assert_eq!(lab.all_counted(), [("driven".to_owned(), 1), ("found".to_owned(), 1)].into());
        node.stop().await;
    });
}

#[test]
fn a_request_that_fails_later_is_undone_and_has_answered() {
    run(async {
        let lab = lab().with_program(NO_FUEL);
        let (durable, executor) = lab.process(lab.journal());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        let ride = call(&executor, DRIVE, "a").await.expect("a car is found");
        let uid = uid_of(&durable, DRIVE, "a").await;
        let error = durable.result::<Ride>(uid).await.expect_err("it has no fuel");
        assert_eq!((error.code(), lab.counted("released")), (codes::INTERNAL_ERROR, 1));
        assert_eq!(call(&executor, DRIVE, "a").await.expect("it was answered"), ride);
        node.stop().await;
    });
}

#[test]
fn an_operator_cancels_what_has_answered_and_a_late_limit_does_not() {
    run(async {
        for millis in 0..12 {
            let lab = lab();
            let (durable, executor) = lab.process(lab.journal());
            let node = durable.start(&executor).await.expect("the journal gives a lease");
            let caller = call(&executor, HURRY, "a");
            let operator = async {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                let uid = uid_of(&durable, HURRY, "a").await;
                (uid, durable.cancel(uid, "the test").await.expect("the journal takes it"))
            };
            let (answer, (uid, cancel)) = tokio::join!(caller, operator);
            let ending = durable.ended(uid).await.expect("it is known");
            let what = format!("after {millis} ms: {answer:?} {cancel:?} {ending:?}");
            match (&ending, cancel) {
                (Ending::Completed(_), Cancelling::TooLate) => {
                    assert!(answer.is_ok() && lab.counted("released") == 0, "{what}");
                }
                (Ending::Cancelled, Cancelling::Requested) => {
                    assert!(lab.counted("released") >= lab.counted("found"), "{what}");
                }
                _ => panic!("{what}"),
            }
            assert_eq!(answer.is_ok(), millis >= 1, "{what}");
            node.stop().await;
        }
    });
}

#[test]
fn of_a_limit_and_the_answer_the_first_one_is_what_all_callers_get() {
    run(async {
        let mut answered = [0; 2];
        for slow in 1..12 {
            let lab = lab().with_program(slow);
            let journal = lab.journal();
            let (durable, executor) = lab.process(journal.clone());
            let (_, other) = lab.process(journal);
            let node = durable.start(&executor).await.expect("the journal gives a lease");
            let (first, elsewhere) =
                tokio::join!(call(&executor, HURRY, "a"), call(&other, HURRY, "a"));
            let uid = uid_of(&durable, HURRY, "a").await;
            let again = call(&executor, HURRY, "a").await;
            let ending = durable.ended(uid).await;
            let last = call(&other, HURRY, "a").await;
            let answer = |answer: &Result<Ride, Error>| {
                answer.clone().map_err(|error| error.code().to_owned())
            };
            let what = format!("{slow} ms: {first:?} {ending:?}");
            for other in [elsewhere, again, last] {
                assert_eq!(answer(&other), answer(&first), "{what}");
            }
            let is_undone = lab.counted("released") >= lab.counted("found");
            assert_eq!(first.is_err() || slow == NO_FUEL, is_undone, "{what}");
            answered[usize::from(first.is_ok())] += 1;
            node.stop().await;
        }
        assert!(answered.iter().all(|count| *count > 2), "{answered:?}");
    });
}

#[test]
fn an_answer_is_the_same_after_a_crash_at_any_record() {
    run(async {
        at_each_record(
            lab,
            "drive",
            async |_: &Memory, _| {},
            |lab, ending, crash| {
                let ride = result::<Ride>(ending);
                assert!(
                    ride.car >= 1 && lab.counted("found") >= ride.car.unsigned_abs(),
                    "{crash:?}: {ride:?}"
                );
                assert!(lab.counted("driven") >= 1 && lab.counted("released") == 0, "{crash:?}");
            },
        )
        .await;
    });
}
