//! The promise: the interface for jobs opens nothing that a function in front of a durable one closes. Each function
//! that changes something is allowed by itself, a signal comes from whom its step names, and an internal function is
//! not reached from outside.

use asyncsteps_core::{BodyResult, Error};
use asyncsteps_durable::jobs::{Jobs, JobsFunction};
use asyncsteps_durable::{Durable, Node, NotEnded, Options};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::plan::Sender;
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::test::TestRequest;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Returns, Service, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::{Refused, Uid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::jobs::{ANN, BOB, OPERATOR, ask};

const DRIVER: (&str, SecurityLevel) = ("don", SecurityLevel::SafeOps);

const RIDE: &str = "acme.rides:1.0:ride";

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Ride {
    driver: String,
}

struct Rides(Durable);

impl Service for Rides {
    type Errors = ();
}

/// The function in front: it decides who drives.
async fn book(cx: &Cx<Rides, ()>) -> BodyResult<String> {
    let (ride, caller) = (Ride { driver: "don".to_owned() }, cx.request().caller());
    Ok(cx.0.submit(RIDE, ride, Options::default().caller(caller)).await?.to_string())
}

fn ride(steps: &Steps<Rides, Ride>) -> Returns<String> {
    let is_driver = |sender: &Sender<Ride>| {
        sender.user().is_some_and(|user| user.local_id() == sender.params.driver)
    };
    steps
        .wait_signal::<()>("paid")
        .then_wait_signal::<()>("delivered")
        .from(is_driver)
        .then_wait_signal::<i32>("rated")
        .from(Sender::<Ride>::is_own)
        .then_wait_signal::<String>("checked")
        .from(SecurityLevel::PrivilegedOps)
        .returns()
}

/// Both waits have to allow the sender.
fn twice(steps: &Steps<Rides, ()>) -> Returns<()> {
    let first = steps.wait_signal::<()>("go").from(SecurityLevel::SafeOps);
    first.then_wait_signal("go").from(SecurityLevel::PrivilegedOps).returns()
}

async fn start(allowed: impl IntoIterator<Item = JobsFunction>) -> (Executor, Durable, Node) {
    tokio::time::pause();
    let durable = Durable::new(Memory::default());
    let interface = Interface::new("acme.rides:1.0".parse().expect("a name"));
    let builder = Executor::builder().service(interface, Rides(durable.clone()), |functions| {
        functions.on("book", book).internal("ride");
        durable.on(functions, "ride", ride);
        durable.on(functions, "twice", twice);
    });
    let jobs = Jobs::new(durable.clone()).allow(allowed);
    let executor = jobs.host(builder).build().expect("it is complete");
    let node = durable.start(&executor).await.expect("a lease");
    (executor, durable, node)
}

async fn booked(executor: &Executor) -> Result<Value, Error> {
    TestRequest::new("acme.rides:1.0:book").user(ANN.0, ANN.1).call(executor).await
}

async fn signal(
    executor: &Executor,
    user: (&str, SecurityLevel),
    uid: &Value,
    (name, value): (&str, Value),
) -> Result<Value, Error> {
    ask(executor, user, "signal", json!({ "uid": uid, "name": name, "value": value })).await
}

#[actix::test]
async fn a_signal_comes_from_whom_its_step_names() -> Result<(), Error> {
    let (executor, durable, _node) = start([JobsFunction::Signal]).await;
    let uid = booked(&executor).await?;
    for (user, name, code) in [
        (ANN, "delivered", "SecurityError"),
        (OPERATOR, "delivered", "SecurityError"),
        (BOB, "delivered", "UnknownJob"),
        (OPERATOR, "rated", "SecurityError"),
        (ANN, "checked", "SecurityError"),
        (ANN, "paid", "SecurityError"),
        (OPERATOR, "paid", "SecurityError"),
        (ANN, "other", "SecurityError"),
    ] {
        let refused = signal(&executor, user, &uid, (name, Value::Null)).await;
        let refused = refused.expect_err(name);
        assert_eq!(refused.code(), code, "{name} of {user:?}: {refused}");
    }
    let job: Uid = uid.as_str().and_then(|uid| uid.parse().ok()).expect("a uid");
    durable.signal(job, "paid", ()).await.expect("the program itself may");
    signal(&executor, DRIVER, &uid, ("delivered", Value::Null)).await?;
    signal(&executor, ANN, &uid, ("rated", json!(5))).await?;
    signal(&executor, OPERATOR, &uid, ("checked", json!("in order"))).await?;
    assert_eq!(durable.result::<String>(job).await?, "in order");
    Ok(())
}

#[actix::test]
async fn all_waits_for_a_name_allow_the_sender() -> Result<(), Error> {
    let (executor, ..) = start([JobsFunction::Signal, JobsFunction::Submit]).await;
    let submitted = ask(&executor, ANN, "submit", json!({ "function": "acme.rides:1.0:twice" }));
    let uid = submitted.await?["uid"].clone();
    let refused = signal(&executor, ANN, &uid, ("go", Value::Null)).await.expect_err("the second");
    assert_eq!(refused.code(), "SecurityError");
    assert_eq!(signal(&executor, OPERATOR, &uid, ("go", Value::Null)).await?, true);
    Ok(())
}

#[actix::test]
async fn an_internal_function_is_reached_by_the_program_alone() -> Result<(), Error> {
    let (executor, ..) = start(JobsFunction::ALL).await;
    let ride = json!({ "driver": "ann" });
    for user in [ANN, OPERATOR] {
        let submission = json!({ "function": RIDE, "params": ride });
        let refused = ask(&executor, user, "submit", submission).await.expect_err("past the front");
        assert_eq!((refused.code(), refused.info()), ("SecurityError", Some("Internal function")));
        for kind in [ChannelKind::Http, ChannelKind::WebSocket, ChannelKind::Node] {
            let called = TestRequest::new(RIDE).params(&ride).user(user.0, user.1);
            let called = called.channel(Channel::new(kind)).call::<Value>(&executor).await;
            assert_eq!(called.expect_err("it is closed").code(), "SecurityError", "{kind:?}");
        }
    }
    let declared = json!({ "name": "daily", "function": RIDE, "params": ride, "cron": "@daily" });
    let refused = ask(&executor, OPERATOR, "schedule", declared).await.expect_err("past the front");
    assert_eq!(refused.code(), "SecurityError");
    let uid = booked(&executor).await?;
    let status = ask(&executor, ANN, "status", json!({ "uid": uid })).await?;
    assert_eq!(status["job"]["function"], "acme.rides:1:ride", "the front reaches it for her");
    let ann = User::new(ANN.0, ANN.1);
    let called = executor.call_for::<Value>(ann, RIDE, ride);
    let called = tokio::time::timeout(std::time::Duration::from_secs(1), called).await;
    called.expect_err("the program's own call waits for the end");
    Ok(())
}

#[actix::test]
async fn what_changes_something_is_refused_unless_it_is_allowed() -> Result<(), Error> {
    let (executor, durable, _node) = start([]).await;
    let uid = booked(&executor).await?;
    for (function, params) in [
        ("submit", json!({ "function": "acme.rides:1.0:twice" })),
        ("cancel", json!({ "uid": uid })),
        ("signal", json!({ "uid": uid, "name": "rated", "value": 5 })),
        ("resume", json!({ "uid": uid })),
        ("settle", json!({ "uid": uid, "path": "a", "how": "kept" })),
        ("undo", json!({ "uid": uid, "path": "a" })),
        ("schedule", json!({ "name": "daily", "function": RIDE, "cron": "@daily" })),
        ("unschedule", json!({ "name": "daily" })),
        ("erase", json!({ "user": "ann" })),
    ] {
        let refused = ask(&executor, ("ann", OPERATOR.1), function, params).await;
        let refused = refused.expect_err(function);
        let text = format!("`{function}` is not allowed here");
        assert_eq!((refused.code(), refused.info()), ("SecurityError", Some(&*text)));
    }
    for (function, params) in [
        ("status", json!({ "uid": uid })),
        ("result", json!({ "uid": uid })),
        ("list", json!({})),
        ("deadLetters", json!({})),
    ] {
        ask(&executor, ANN, function, params).await?;
    }
    ask(&executor, OPERATOR, "schedules", json!({})).await?;
    let job: Uid = uid.as_str().and_then(|uid| uid.parse().ok()).expect("a uid");
    durable.cancel(job, "the program").await.expect("the program itself may");
    assert!(!matches!(
        durable.ended(job).await,
        Err(NotEnded::Journal(asyncsteps_journal::Error::Refused(Refused::NoFlow(_))))
    ));
    Ok(())
}
