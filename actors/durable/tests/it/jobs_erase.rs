//! The promise: an operator removes what is recorded about a user or under a key, and is told what is left.

use std::time::Duration;

use asyncsteps_durable::jobs::{Jobs, JobsFunction};
use asyncsteps_durable::{Durable, Erase, Node, Options, Schedule};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Steps};
use asyncsteps_journal::limits::BATCH;
use asyncsteps_journal::memory::Memory;
use serde_json::{Value, json};

use crate::jobs::{ANN, BOB, OPERATOR, ask};
use crate::node::run;
use asyncsteps_journal::TokioClock;

const FUNCTION: &str = "test.letters:1.0:letter";

fn letter(steps: &Steps<(), ()>) -> Returns<String> {
    steps.run("write", async |_, ()| Ok("dear ann".to_owned())).recorded().returns()
}

fn answered(steps: &Steps<(), ()>) -> Returns<()> {
    steps.wait_signal::<()>("answer").returns()
}

async fn start() -> (Durable, Executor, Node) {
    let durable = Durable::new(Memory::new(TokioClock::start()));
    let interface = Interface::new("test.letters:1.0".parse().expect("a name"));
    let builder = Executor::builder().service(interface, (), |functions| {
        durable.on(functions, "letter", letter);
        durable.on(functions, "answered", answered);
    });
    let own = Schedule::new("own", "@yearly").expect("it is right");
    let own = own.caller(User::new("ann", SecurityLevel::SafeOps));
    durable.schedule(own, FUNCTION, json!({})).expect("it is declared");
    let executor = Jobs::new(durable.clone())
        .allow(JobsFunction::ALL)
        .host(builder)
        .build()
        .expect("it is complete");
    let node = durable.start(&executor).await.expect("a lease");
    (durable, executor, node)
}

type Asker = (&'static str, SecurityLevel);

async fn submit(executor: &Executor, user: Asker, function: &str, key: &str) -> Value {
    let function = format!("test.letters:1.0:{function}");
    let submission = json!({ "function": function, "key": key });
    ask(executor, user, "submit", submission).await.expect("it is stored")["uid"].clone()
}

async fn uids(executor: &Executor, user: Asker) -> Value {
    let jobs = ask(executor, OPERATOR, "list", json!({ "user": user.0 })).await.expect("listed");
    jobs["jobs"].as_array().expect("jobs").iter().map(|job| job["uid"].clone()).collect()
}

#[test]
fn an_operator_erases_what_is_recorded_about_a_user() {
    run(async {
        let (durable, executor, _node) = start().await;
        let first = submit(&executor, ANN, "letter", "k").await;
        let open = submit(&executor, ANN, "answered", "l").await;
        let other = submit(&executor, BOB, "letter", "k").await;
        let ann = ("ann", SecurityLevel::PrivilegedOps);
        for (user, name) in [(ann, "of ann"), (OPERATOR, "of eve")] {
            let schedule = json!({ "name": name, "function": FUNCTION, "cron": "@hourly" });
            ask(&executor, user, "schedule", schedule).await.expect("it is stored");
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = uids(&executor, ANN).await;
        // the next ones of both schedules are stored already
        let [own, _, _, hourly] = &before.as_array().expect("jobs")[..] else { panic!("{before}") };
        let erased = ask(&executor, OPERATOR, "erase", json!({ "user": "ann" })).await;
        let left = json!([own, open, hourly]);
        let expected =
            json!({ "removed": 1, "schedules": ["of ann"], "unread": [], "open": 3, "uids": left });
        assert_eq!(erased.expect("it is erased"), expected);
        assert_eq!(uids(&executor, ANN).await, left);
        let gone = ask(&executor, OPERATOR, "status", json!({ "uid": first })).await;
        assert_eq!(gone.expect_err("it is removed").code(), "UnknownJob");
        assert_eq!(uids(&executor, BOB).await, json!([other]));
        for uid in left.as_array().expect("uids") {
            ask(&executor, OPERATOR, "cancel", json!({ "uid": uid })).await.expect("it is there");
        }
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        let erased = durable.erase(Erase::User("ann".to_owned())).await.expect("it is erased");
        assert_eq!((erased.removed, erased.open, erased.schedules.len()), (3, 0, 0), "{erased:?}");
        assert_eq!(uids(&executor, ANN).await, json!([]));
        // the key is free
        assert_ne!(submit(&executor, ANN, "letter", "k").await, first);
    });
}

#[test]
fn an_operator_erases_what_has_a_key() {
    run(async {
        let (_durable, executor, _node) = start().await;
        let of_both = [
            submit(&executor, ANN, "letter", "k").await,
            submit(&executor, BOB, "letter", "k").await,
        ];
        let other = submit(&executor, ANN, "letter", "l").await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let erased = ask(&executor, OPERATOR, "erase", json!({ "key": "k" })).await;
        let removed = of_both.len();
        let expected =
            json!({ "removed": removed, "schedules": [], "unread": [], "open": 0, "uids": [] });
        assert_eq!(erased.expect("it is erased"), expected);
        assert_eq!(uids(&executor, BOB).await, json!([]));
        assert_eq!(uids(&executor, ANN).await[1], other, "behind the next one of the schedule");
        let none = ask(&executor, OPERATOR, "erase", json!({ "user": "nobody" })).await;
        assert_eq!(none.expect("there is nothing")["removed"], 0);
        for wrong in [json!({}), json!({ "user": "ann", "key": "k" }), json!({ "key": 7 })] {
            let refused = ask(&executor, OPERATOR, "erase", wrong.clone()).await;
            assert_eq!(refused.expect_err("it is wrong").code(), "InvalidRequest", "{wrong}");
        }
        let refused = ask(&executor, ANN, "erase", json!({ "user": "ann" })).await;
        assert_eq!(refused.expect_err("she is no operator").code(), "PleaseReauth");
    });
}

/// More than one transaction takes.
#[test]
fn many_requests_are_erased() {
    run(async {
        let (durable, executor, _node) = start().await;
        let ann = User::new("ann", SecurityLevel::SafeOps);
        let submitted = async |function: &str| {
            let options = Options::default().caller(&ann);
            durable.submit(function, json!({}), options).await.expect("it is stored")
        };
        let mut open = Vec::new();
        for _ in 0..=BATCH {
            submitted(FUNCTION).await;
            open.push(submitted("test.letters:1.0:answered").await);
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        let erased = durable.erase(Erase::User("ann".to_owned())).await.expect("it is erased");
        assert_eq!(erased.removed, BATCH + 1);
        // and the next one of the schedule
        assert_eq!((erased.open, erased.named.len()), (BATCH + 2, BATCH));
        let answer = ask(&executor, OPERATOR, "erase", json!({ "user": "ann" })).await;
        assert_eq!(answer.expect("it is erased")["uids"].as_array().map(Vec::len), Some(100));
    });
}
