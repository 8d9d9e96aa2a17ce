//! The promise: jobs are submitted, asked for and cancelled over the wire; a user sees no job of another
//! one, and an operator all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::sync::mutex::Options;
use asyncsteps_core::{Error, Retry};
use asyncsteps_durable::jobs::{Jobs, JobsFunction};
use asyncsteps_durable::{Durable, Node};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::test::TestRequest;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Steps, TypedCall, TypedCallError};
use asyncsteps_journal::memory::{Fault, Memory, Operation};
use asyncsteps_journal::{Clock, LEASE, Timestamp, TokioClock};
use expect_test::expect_file;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const WORK: &str = "test.work:1.0:work";

#[derive(Deserialize, JsonSchema)]
struct Work {
    /// Seconds that it takes.
    seconds: u16,
    note: Option<String>,
}

fn work(steps: &Steps<(), Work>) -> Returns<String> {
    steps
        .run("work", async |cx, ()| {
            tokio::time::sleep(Duration::from_secs(cx.params.seconds.into())).await;
            Ok(cx.params.note.clone().unwrap_or_else(|| "no note".to_owned()))
        })
        .recorded()
        .returns()
}

async fn start() -> (Executor, Node) {
    start_on(Memory::default()).await
}

async fn start_on(journal: Memory) -> (Executor, Node) {
    tokio::time::pause();
    start_with(journal).await
}

/// The same where the time is virtual already.
async fn start_with(journal: Memory) -> (Executor, Node) {
    let durable = Durable::new(journal);
    let interface = Interface::new("test.work:1.0".parse().expect("a name"));
    let builder = Executor::builder().service(interface, (), |functions| {
        durable.on(functions, "work", work);
        durable.on(functions, "charge", charge);
        durable.on(functions, "pause", pause);
        durable.on(functions, "retry", retry);
        durable.on(functions, "limit", limit);
    });
    let executor = Jobs::new(durable.clone())
        .allow(JobsFunction::ALL)
        .host(builder)
        .build()
        .expect("it is complete");
    let node = durable.start(&executor).await.expect("a lease");
    (executor, node)
}

pub(crate) async fn ask(
    executor: &Executor,
    (user, level): (&str, SecurityLevel),
    function: &str,
    params: Value,
) -> Result<Value, Error> {
    let request = TestRequest::new(format!("asyncsteps.jobs:1.0:{function}")).params(params);
    request.user(user, level).call(executor).await
}

/// A charge whose undo fails, after a note that has none.
fn charge(steps: &Steps<(), Work>) -> Returns<()> {
    steps
        .run("note", async |_, ()| Ok(()))
        .recorded()
        .then("charge", async |_, ()| Ok(()))
        .recorded()
        .undo(async |_, _| Err("Away".into()))
        .then("ship", async |_, ()| Err("NoShip".into()))
        .recorded()
        .returns()
}

/// It waits, and holds a lock.
fn pause(steps: &Steps<(), Work>) -> Returns<()> {
    let own = steps.locked(|_| Mutex::new(Options::default()));
    own.pause("pause", Duration::from_secs(60)).returns()
}

/// It is tried again later, and holds a lock. Each attempt takes a second.
fn retry(steps: &Steps<(), Work>) -> Returns<()> {
    steps
        .locked(|_| Mutex::new(Options::default()))
        .run("try", async |_, ()| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err(Error::new("Again").into())
        })
        .recorded()
        .retry(Retry::attempts(2).backoff(Duration::from_secs(30)).on_code("Again"))
        .returns()
}

/// It goes on when its body ends, and not when its limits do.
fn limit(steps: &Steps<(), Work>) -> Returns<()> {
    let work = |steps: &Steps<(), Work>| {
        let work = steps.run("work", async |_, ()| {
            tokio::time::sleep(Duration::from_secs(90)).await;
            Ok(())
        });
        work.recorded().undo(async |_, _| Ok(())).returns()
    };
    let limit = Duration::from_secs(100);
    steps.timeout(limit).nested("in time", work).timeout(limit).returns()
}

pub(crate) const ANN: (&str, SecurityLevel) = ("ann", SecurityLevel::SafeOps);
pub(crate) const BOB: (&str, SecurityLevel) = ("bob", SecurityLevel::SafeOps);
pub(crate) const OPERATOR: (&str, SecurityLevel) = ("eve", SecurityLevel::PrivilegedOps);

async fn submit(executor: &Executor, params: Value, key: Option<&str>) -> Result<Value, Error> {
    let submission = json!({ "function": WORK, "params": params, "key": key });
    Ok(ask(executor, ANN, "submit", submission).await?["uid"].clone())
}

#[actix::test]
async fn a_result_is_waited_for_no_longer_than_it_may_take() -> Result<(), Error> {
    let (executor, _node) = start().await;
    let uid = submit(&executor, json!({ "seconds": 10, "note": null }), None).await?;
    let soon = ask(&executor, ANN, "result", json!({ "uid": uid, "wait": 1000 })).await?;
    assert_eq!(soon, json!({ "state": "running", "result": null, "error": "", "text": "" }));
    // the time limit of the request itself is 5 s by default, and no error
    let later = ask(&executor, ANN, "result", json!({ "uid": uid, "wait": 60_000 })).await?;
    assert_eq!(later["state"], "running");
    let ended = ask(&executor, ANN, "result", json!({ "uid": uid, "wait": 60_000 })).await?;
    assert_eq!(ended, json!({ "state": "ended", "result": "no note", "error": "", "text": "" }));
    let status = ask(&executor, ANN, "status", json!({ "uid": uid })).await?;
    assert_eq!(status["job"]["function"], "test.work:1:work");
    assert_eq!(status["kept"], json!([]), "it has a result");
    assert!(status["job"]["ended"].as_f64() >= status["job"]["created"].as_f64(), "{status}");
    Ok(())
}

/// The same as a call by its type.
#[derive(Serialize)]
struct Submit {
    function: &'static str,
    params: Value,
    key: Option<&'static str>,
}

impl TypedCall for Submit {
    const FUNCTION: &'static str = "asyncsteps.jobs:1.0:submit";
    type Result = Value;
    type Errors = std::convert::Infallible;
}

#[actix::test]
async fn the_header_of_a_submission_is_its_key_and_a_second_one_is_refused() -> Result<(), Error> {
    let (executor, _node) = start().await;
    let ann = User::new(ANN.0, ANN.1);
    let client = executor.client_for(&ann).with_key("header");
    let submit = async |key| {
        let submitted =
            client.call(Submit { function: WORK, params: json!({ "seconds": 1 }), key });
        submitted.await.map_err(TypedCallError::into_error)
    };
    assert_eq!(submit(None).await?["uid"], submit(None).await?["uid"]);
    let refused = submit(Some("parameter")).await.expect_err("which of them is it");
    assert_eq!(refused.code(), "InvalidRequest");
    Ok(())
}

#[actix::test]
async fn a_key_gives_the_first_job_and_wrong_requests_are_told() -> Result<(), Error> {
    let (executor, _node) = start().await;
    let first = submit(&executor, json!({ "seconds": 1 }), Some("k")).await?;
    assert_eq!(submit(&executor, json!({ "seconds": 1 }), Some("k")).await?, first);
    let other = submit(&executor, json!({ "seconds": 2 }), Some("k")).await;
    let other = other.expect_err("the key is used");
    // as for a call of the function
    assert_eq!(other.code(), "InvalidRequest");
    let told = format!(
        "the key `k` was used for something else, by the flow {}",
        first.as_str().unwrap_or_default()
    );
    assert_eq!(other.info(), Some(&*told));
    let none = json!({ "function": "test.work:1.0:rest" });
    let none = ask(&executor, ANN, "submit", none).await.expect_err("no such function");
    assert_eq!(none.code(), "NotDurable");
    for uid in ["", "x", &"0".repeat(32)] {
        let unknown = ask(&executor, ANN, "status", json!({ "uid": uid })).await;
        assert_eq!(unknown.expect_err("no such job").code(), "UnknownJob");
    }
    for key in [" ", "k\u{e4}", "\t"] {
        let refused = submit(&executor, json!({ "seconds": 1 }), Some(key)).await;
        let refused = refused.expect_err("it cannot be a header");
        assert_eq!(refused.code(), "InvalidRequest", "{key:?}");
        assert!(refused.info().is_some_and(|text| text.contains("printable")), "{refused}");
    }
    let wrong = submit(&executor, json!({ "seconds": "many" }), None).await;
    let wrong = wrong.expect_err("it is refused before it is stored");
    assert_eq!(wrong.code(), "InvalidRequest");
    assert!(wrong.info().is_some_and(|text| text.contains("seconds")), "{wrong}");
    let listed = ask(&executor, OPERATOR, "list", json!({})).await?;
    assert_eq!(listed["jobs"].as_array().map(Vec::len), Some(1), "{listed}");
    Ok(())
}

#[actix::test]
async fn a_user_sees_and_cancels_own_jobs_only() -> Result<(), Error> {
    let (executor, _node) = start().await;
    let uid = submit(&executor, json!({ "seconds": 100 }), None).await?;
    let named = json!({ "uid": uid });
    for function in ["status", "result", "cancel"] {
        let hidden = ask(&executor, BOB, function, named.clone()).await;
        assert_eq!(hidden.expect_err("of another user").code(), "UnknownJob", "{function}");
    }
    let listed = async |user| {
        let list = ask(&executor, user, "list", json!({ "state": "running" })).await?;
        Ok::<_, Error>(list["jobs"].as_array().map_or(0, Vec::len))
    };
    assert_eq!((listed(BOB).await?, listed(ANN).await?, listed(OPERATOR).await?), (0, 1, 1));
    let resumed = ask(&executor, ANN, "resume", named.clone()).await;
    assert_eq!(resumed.expect_err("it is for operators").code(), "PleaseReauth");
    let resumed = ask(&executor, OPERATOR, "resume", named.clone()).await;
    assert_eq!(resumed.expect_err("it runs").code(), "NotStopped");
    assert_eq!(ask(&executor, ANN, "cancel", named.clone()).await?, json!("requested"));
    let ended = ask(&executor, ANN, "result", json!({ "uid": uid, "wait": 4000 })).await?;
    assert_eq!((&ended["state"], &ended["error"]), (&json!("ended"), &json!("Cancelled")));
    assert_eq!(ask(&executor, ANN, "cancel", named).await?, json!("tooLate"));
    Ok(())
}

#[actix::test]
async fn a_result_that_does_not_come_here_is_not_waited_for_when_the_executor_closes()
-> Result<(), Error> {
    let (executor, _node) = start().await;
    let submission = json!({ "function": "test.work:1.0:pause", "params": { "seconds": 1 } });
    let uid = ask(&executor, ANN, "submit", submission).await?["uid"].clone();
    let close = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let begun = tokio::time::Instant::now();
        let _ = executor.close(Duration::from_secs(10)).await;
        begun.elapsed()
    };
    let result = ask(&executor, ANN, "result", json!({ "uid": uid, "wait": 60_000 }));
    let (result, took) = tokio::join!(result, close);
    assert_eq!(result?["state"], "ready");
    assert!(took < Duration::from_secs(1), "{took:?}");
    Ok(())
}

#[actix::test]
async fn a_job_starts_within_a_year() -> Result<(), Error> {
    let (executor, _node) = start().await;
    let uid = submit(&executor, json!({ "seconds": 1 }), None).await?;
    let status = ask(&executor, ANN, "status", json!({ "uid": uid })).await?;
    let now = status["job"]["created"].as_f64().unwrap_or_default();
    let day = 24.0 * 3_600_000.0;
    let at = |start: f64| {
        let submission = json!({ "function": WORK, "params": { "seconds": 1 }, "start": start });
        ask(&executor, ANN, "submit", submission)
    };
    at(now + 365.0 * day).await?;
    // a time in microseconds
    for start in [now + 367.0 * day, now * 1_000.0, f64::MAX] {
        let refused = at(start).await.expect_err("it is far ahead");
        assert_eq!(refused.code(), "InvalidRequest", "{start}");
        assert!(refused.info().is_some_and(|text| text.contains("366 days")), "{refused}");
    }
    Ok(())
}

#[actix::test]
async fn lists_have_pages() -> Result<(), Error> {
    let (executor, _node) = start().await;
    for _ in 0..5 {
        submit(&executor, json!({ "seconds": 1 }), None).await?;
    }
    let mut sizes = Vec::new();
    let mut after = json!(0);
    loop {
        let page = json!({ "function": WORK, "after": after, "most": 2 });
        let page = ask(&executor, OPERATOR, "list", page).await?;
        sizes.push(page["jobs"].as_array().map_or(0, Vec::len));
        after = page["next"].clone();
        if after == 0 {
            break;
        }
    }
    assert_eq!(sizes, [2, 2, 1]);
    let dead = ask(&executor, OPERATOR, "deadLetters", json!({})).await?;
    assert_eq!(dead, json!({ "jobs": [], "next": 0 }));
    Ok(())
}

#[actix::test]
async fn lists_are_of_a_user_and_of_a_time() -> Result<(), Error> {
    tokio::time::pause();
    let (executor, _node) = start_with(Memory::new(TokioClock::start())).await;
    let mut uids = Vec::new();
    for user in [ANN, BOB, OPERATOR, ANN] {
        let submission = json!({ "function": WORK, "params": { "seconds": 1 } });
        uids.push(ask(&executor, user, "submit", submission).await?["uid"].clone());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let status = ask(&executor, OPERATOR, "status", json!({ "uid": uids[1] })).await?;
    let second = status["job"]["created"].as_f64().expect("a time");
    let (ann, bob) = (json!("ann"), json!("bob"));
    for (user, filter, expected) in [
        (OPERATOR, json!({ "user": ann }), &[0, 3][..]),
        (OPERATOR, json!({ "user": "an" }), &[]),
        (OPERATOR, json!({ "from": second }), &[1, 2, 3]),
        (OPERATOR, json!({ "from": second + 1.0 }), &[2, 3]),
        (OPERATOR, json!({ "before": second }), &[0]),
        (OPERATOR, json!({ "from": second, "before": second + 1.0 }), &[1]),
        (OPERATOR, json!({ "from": second, "user": ann }), &[3]),
        (OPERATOR, json!({ "from": second, "before": second }), &[]),
        (ANN, json!({ "from": second }), &[3]),
        (ANN, json!({ "user": ann, "before": second }), &[0]),
        (ANN, json!({ "user": bob }), &[]),
    ] {
        let (mut listed, mut page) = (Vec::new(), filter.clone());
        page["most"] = json!(1);
        loop {
            let answer = ask(&executor, user, "list", page.clone()).await?;
            let jobs = answer["jobs"].as_array().expect("jobs");
            listed.extend(jobs.iter().map(|job| job["uid"].clone()));
            page["after"] = answer["next"].clone();
            if page["after"] == 0 {
                break;
            }
        }
        let expected: Vec<_> = expected.iter().map(|place: &usize| uids[*place].clone()).collect();
        assert_eq!(listed, expected, "{filter}");
    }
    for wrong in [json!({ "from": -1 }), json!({ "before": "today" }), json!({ "user": 7 })] {
        let refused = ask(&executor, OPERATOR, "list", wrong.clone()).await;
        assert_eq!(refused.expect_err("it is wrong").code(), "InvalidRequest", "{wrong}");
    }
    Ok(())
}

#[actix::test]
async fn callers_need_the_level() {
    let (executor, _node) = start().await;
    let own = ["submit", "status", "result", "cancel", "signal", "list", "deadLetters"];
    for function in own.into_iter().chain(["resume"]) {
        let name = format!("asyncsteps.jobs:1.0:{function}");
        let anonymous = TestRequest::new(&name).call::<Value>(&executor).await;
        assert_eq!(anonymous.expect_err("anonymous").code(), "SecurityError", "{function}");
    }
}

/// Has a user submit a job that begins a day after a time.
async fn submit_for_tomorrow(
    executor: &Executor,
    user: (&str, SecurityLevel),
    now: f64,
    key: Option<&str>,
) -> Result<Value, Error> {
    let params = json!({ "seconds": 1 });
    let start = now + 24.0 * 3_600_000.0;
    let submission = json!({ "function": WORK, "params": params, "start": start, "key": key });
    Ok(ask(executor, user, "submit", submission).await?["uid"].clone())
}

#[actix::test]
async fn no_more_than_a_thousand_jobs_of_a_caller_wait() -> Result<(), Error> {
    let (executor, _node) = start().await;
    let running = submit(&executor, json!({ "seconds": 1000 }), None).await?;
    let status = ask(&executor, ANN, "status", json!({ "uid": running })).await?;
    let now = status["job"]["created"].as_f64().unwrap_or_default();
    let first = submit_for_tomorrow(&executor, ANN, now, Some("first")).await?;
    for _ in 1..1000 {
        submit_for_tomorrow(&executor, ANN, now, None).await?;
    }
    let refused = submit_for_tomorrow(&executor, ANN, now, None).await;
    let refused = refused.expect_err("a thousand wait");
    assert_eq!(refused.code(), "DefenseRejected");
    let text = refused.info().unwrap_or_default();
    assert!(text.contains("1000 requests") && text.contains("cancel"), "{text}");
    let called = TestRequest::new(WORK).params(json!({ "seconds": 1 })).user(ANN.0, ANN.1);
    let called = called.call::<Value>(&executor).await.expect_err("it would be stored too");
    assert_eq!(called.code(), "DefenseRejected");
    // what is stored already is not counted once more
    assert_eq!(submit_for_tomorrow(&executor, ANN, now, Some("first")).await?, first);
    submit_for_tomorrow(&executor, BOB, now, None).await?;
    assert_eq!(ask(&executor, ANN, "cancel", json!({ "uid": first })).await?, json!("requested"));
    let ended = ask(&executor, ANN, "result", json!({ "uid": first, "wait": 4000 })).await?;
    assert_eq!(ended["error"], "Cancelled");
    submit_for_tomorrow(&executor, ANN, now, None).await?;
    submit_for_tomorrow(&executor, ANN, now, None).await.expect_err("a thousand wait again");
    Ok(())
}

#[actix::test]
async fn callers_without_a_user_are_told_apart_by_address() -> Result<(), Error> {
    tokio::time::pause();
    let durable = Durable::new(Memory::default()).waiting_per_caller(3);
    let mut interface = Interface::new("test.work:1.0".parse().expect("a name"));
    interface.allow_anonymous();
    let builder = Executor::builder().service(interface, (), |functions| {
        durable.on(functions, "work", work);
    });
    let jobs =
        Jobs::new(durable.clone()).callers(SecurityLevel::Anonymous).allow([JobsFunction::Submit]);
    let executor = jobs.host(builder).build().expect("it is complete");
    // no node runs: what is stored waits
    let from = |address: &str| {
        let peer: SocketAddr = address.parse().expect("an address");
        let submission = json!({ "function": WORK, "params": { "seconds": 1 } });
        let request = TestRequest::new("asyncsteps.jobs:1.0:submit").params(submission);
        request.channel(Channel::new(ChannelKind::Http).with_peer(peer)).call::<Value>(&executor)
    };
    for port in 1..=3 {
        from(&format!("[2001:db8::{port}]:{port}")).await?;
    }
    let refused = from("[2001:db8::ffff:1]:7").await.expect_err("it is the same network");
    let text = refused.info().unwrap_or_default();
    assert_eq!(refused.code(), "DefenseRejected");
    assert!(text.starts_with("3 requests of anonymous callers at 2001:db8::/64 wait"), "{text}");
    for client in 1..=27 {
        from(&format!("192.0.2.{client}:80")).await?;
    }
    let refused = from("192.0.2.28:80").await.expect_err("one with many addresses would do that");
    let text = refused.info().unwrap_or_default();
    assert!(text.starts_with("30 requests of anonymous callers wait"), "{text}");
    let params = json!({ "seconds": 1 });
    let own = durable.submit(WORK, params, asyncsteps_durable::Options::default()).await;
    own.expect("the program itself has no quota");
    Ok(())
}

/// A clock that a test sets.
#[derive(Clone, Debug, Default)]
struct SetClock(Arc<AtomicU64>);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_000_000_000 + self.0.load(Ordering::Relaxed))
    }
}

#[actix::test]
async fn a_status_says_that_the_clock_has_jumped() -> Result<(), Error> {
    let clock = SetClock::default();
    let (executor, _node) = start_on(Memory::new(clock.clone())).await;
    let uid = submit(&executor, json!({ "seconds": 100 }), None).await?;
    let status = ask(&executor, ANN, "status", json!({ "uid": uid })).await?;
    assert_eq!(status["job"]["clock_jump"], Value::Null, "{status}");
    clock.0.store(3_600_000, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let status = ask(&executor, ANN, "status", json!({ "uid": uid })).await?;
    let jump = json!({ "from": 1_000_000_000, "to": 1_003_600_000 });
    assert_eq!(status["job"]["clock_jump"], jump, "{status}");
    Ok(())
}

#[test]
fn its_definition_is_written_down() {
    let interface = Jobs::new(Durable::new(Memory::default())).interface();
    let text = format!("{:#}\n", interface.to_json().expect("types of FTN3"));
    expect_file!["../../ifaces/asyncsteps.jobs-1.0-iface.json"].assert_eq(&text);
    interface.definition().expect("it keeps to FTN3");
}

#[actix::test]
async fn an_operator_settles_what_a_paused_job_has_begun() -> Result<(), Error> {
    let (executor, _node) = start().await;
    let submission = json!({ "function": "test.work:1.0:charge", "params": { "seconds": 1 } });
    let uid = ask(&executor, ANN, "submit", submission).await?["uid"].clone();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let status = ask(&executor, ANN, "status", json!({ "uid": uid })).await?;
    let reason = status["job"]["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("test.work:1:charge/charge was begun"), "{status}");
    let (note, path) = ("test.work:1:charge/note", "test.work:1:charge/charge");
    assert_eq!((&status["kept"], &status["kept_count"]), (&json!([note]), &json!(1)), "{status}");
    let kept = json!({ "uid": uid, "path": path, "how": "kept", "why": "case 7" });
    ask(&executor, ANN, "settle", kept.clone()).await.expect_err("ann is no operator");
    for (wrong, code) in [
        (json!({ "uid": uid, "path": "test.work:1:charge/other", "how": "kept" }), "UnknownStep"),
        (json!({ "uid": uid, "path": "\n", "how": "kept" }), "UnknownStep"),
        (json!({ "uid": uid, "path": path, "how": "result" }), "InvalidRequest"),
        (json!({ "uid": uid, "path": path, "how": "result", "result": "{" }), "InvalidRequest"),
        (json!({ "uid": uid, "path": path, "how": "kept", "result": "1" }), "InvalidRequest"),
    ] {
        let refused = ask(&executor, OPERATOR, "settle", wrong.clone()).await;
        assert_eq!(refused.expect_err("it is wrong").code(), code, "{wrong}");
    }
    let undo = json!({ "uid": uid, "path": note });
    let refused = ask(&executor, OPERATOR, "undo", undo).await.expect_err("it has no undo");
    assert_eq!(refused.code(), "NoUndo");
    let again = json!({ "uid": uid, "path": path, "why": "the bank is back" });
    assert_eq!(ask(&executor, OPERATOR, "undo", again.clone()).await?, json!(true));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let status = ask(&executor, ANN, "status", json!({ "uid": uid })).await?;
    let reason = status["job"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("charge cannot be undone") || reason.contains("was begun"), "{status}");
    assert_eq!(ask(&executor, OPERATOR, "settle", kept).await?, json!(true));
    let ended = ask(&executor, ANN, "result", json!({ "uid": uid, "wait": 4_000 })).await?;
    assert_eq!((&ended["state"], &ended["error"]), (&json!("ended"), &json!("InternalError")));
    let status = ask(&executor, ANN, "status", json!({ "uid": uid })).await?;
    assert_eq!(status["kept"], json!([path, note]), "the operator has kept the charge");
    let refused = ask(&executor, OPERATOR, "undo", again).await.expect_err("it has ended");
    assert_eq!(refused.code(), "NotStopped");
    Ok(())
}

#[actix::test]
async fn a_running_job_is_due_when_its_wait_ends_or_its_next_attempt_begins() -> Result<(), Error> {
    tokio::time::pause();
    let (executor, _node) = start_with(Memory::new(TokioClock::start())).await;
    for (function, due) in [("pause", Some(60.0)), ("retry", Some(31.0)), ("limit", None)] {
        let function = format!("test.work:1.0:{function}");
        let submission = json!({ "function": function, "params": { "seconds": 1 } });
        let uid = ask(&executor, ANN, "submit", submission).await?["uid"].clone();
        let status = async || ask(&executor, ANN, "status", json!({ "uid": uid })).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let job = status().await?["job"].clone();
        assert_eq!(job["state"], "running", "{job}");
        let created = job["created"].as_f64().expect("a time");
        let after = job["due"].as_f64().map(|due| ((due - created) / 1000.0).round());
        assert_eq!(after, due, "{function}: {job}");
        // the second attempt runs
        tokio::time::sleep(Duration::from_secs_f64(due.unwrap_or(60.0) - 4.5)).await;
        assert_eq!(status().await?["job"]["due"], Value::Null, "{function}");
    }
    Ok(())
}

#[actix::test]
async fn a_suspect_says_why_it_is_one_and_how_many_are_before_it() -> Result<(), Error> {
    tokio::time::pause();
    let journal = Memory::new(TokioClock::start());
    let (executor, node) = start_with(journal.clone()).await;
    let mut uids = Vec::new();
    for _ in 0..4 {
        let submission = json!({ "function": "test.work:1.0:limit", "params": { "seconds": 1 } });
        uids.push(ask(&executor, ANN, "submit", submission).await?["uid"].clone());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(node);
    let (executor, _node) = start_with(journal).await;
    tokio::time::sleep(LEASE + Duration::from_secs(3)).await;
    let mut jobs = Vec::new();
    for uid in uids {
        jobs.push(ask(&executor, ANN, "status", json!({ "uid": uid })).await?["job"].clone());
    }
    let shown: Vec<_> =
        jobs.iter().map(|job| (job["state"].as_str(), job["place"].as_f64())).collect();
    let suspect = |place| (Some("suspect"), Some(place));
    assert_eq!(shown, [(Some("running"), None), suspect(1.0), suspect(2.0), suspect(3.0)]);
    assert_eq!(jobs[3]["reason"], "its owner died while an effect of it was open");
    Ok(())
}

#[actix::test]
async fn a_journal_that_cannot_store_a_request_now_has_its_callers_try_again() -> Result<(), Error>
{
    let is_full = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_full);
    let journal = Memory::default().faults(move |operation: Operation| {
        let fails = operation == Operation::Submit && seen.load(Ordering::Relaxed);
        if fails { Fault::NotDone } else { Fault::None }
    });
    let (executor, _node) = start_on(journal).await;
    is_full.store(true, Ordering::Relaxed);
    let submission = json!({ "function": WORK, "params": { "seconds": 1 } });
    let submitted = ask(&executor, ANN, "submit", submission).await;
    let call = TestRequest::new(WORK).params(json!({ "seconds": 1 })).user(ANN.0, ANN.1);
    let called = call.call::<Value>(&executor).await;
    for refused in [submitted, called] {
        let refused = refused.expect_err("it is not stored");
        let told =
            "the journal cannot store the request now, so it was not accepted: repeat it later";
        assert_eq!((refused.code(), refused.info()), ("DefenseRejected", Some(told)));
    }
    is_full.store(false, Ordering::Relaxed);
    submit(&executor, json!({ "seconds": 1 }), None).await?;
    Ok(())
}
