//! The promise: an operator sees what is recorded of a durable request, cancels it, and lets one go on that
//! waits for an operator.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use asyncsteps_console::Console;
use asyncsteps_durable::journal::Uid;
use asyncsteps_durable::journal::memory::Memory;
use asyncsteps_durable::{Durable, Node, Options};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps};
use asyncsteps_observe::Locks;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

const FUNCTION: &str = "test.visa:1.0:apply";

/// How often each step was done.
#[derive(Clone, Default)]
struct Visa {
    checked: Arc<AtomicU32>,
    undone: Arc<AtomicU32>,
}

impl Service for Visa {
    type Errors = ();
}

fn apply(steps: &Steps<Visa, ()>) -> Returns<String> {
    steps
        .run("check", async |cx, ()| {
            cx.checked.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
        .recorded()
        .undo(async |cx, _| {
            cx.undone.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
        .then_wait_signal("decision")
        .returns()
}

/// Its body hangs.
fn apply_slowly(steps: &Steps<Visa, ()>) -> Returns<String> {
    steps
        .run("check", async |cx, ()| {
            cx.checked.fetch_add(1, Ordering::Relaxed);
            std::future::pending().await
        })
        .recorded()
        .undo(async |cx, _| {
            cx.undone.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
        .returns()
}

/// A program without the step that is recorded.
fn changed(steps: &Steps<Visa, ()>) -> Returns<String> {
    steps.wait_signal("decision").returns()
}

/// A process, and its console.
struct Process {
    durable: Durable,
    executor: Executor,
    console: Console,
    node: Node,
}

impl Process {
    async fn start(
        journal: &Memory,
        visa: &Visa,
        program: fn(&Steps<Visa, ()>) -> Returns<String>,
    ) -> Self {
        let durable = Durable::new(journal.clone());
        let interface = Interface::new("test.visa:1.0".parse().expect("a name"));
        let executor = Executor::builder().service(interface, visa.clone(), |functions| {
            durable.on(functions, "apply", program);
        });
        let executor = executor.build().expect("a right configuration");
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        let console = Console::new(&executor, Locks::new()).durable(durable.clone());
        Self { durable, executor, console, node }
    }

    async fn submit(&self) -> Uid {
        let ann = User::new("ann", SecurityLevel::SafeOps);
        let submitted = self.durable.submit(FUNCTION, (), Options::default().caller(&ann)).await;
        submitted.expect("it is stored")
    }

    async fn send(&self, method: Method, path: &str, media_type: &str) -> (StatusCode, Value) {
        let peer: SocketAddr = "127.0.0.1:4000".parse().expect("an address");
        let request = Request::builder().method(method).uri(format!("/console/{path}"));
        let request = request.header("host", "localhost:8080").header("content-type", media_type);
        let request = request.extension(peer).body(()).expect("a request");
        let answer = self.console.service().oneshot(request).await.expect("an answer");
        let status = answer.status();
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.send(Method::GET, path, "").await;
        assert_eq!(status, StatusCode::OK, "{path}");
        answer
    }

    async fn order(&self, uid: Uid, order: &str) -> Value {
        let path = format!("durable/{uid}/{order}");
        let (status, answer) = self.send(Method::POST, &path, "application/json").await;
        assert_eq!(status, StatusCode::OK, "{path}");
        answer
    }

    /// The request in the list when it is in this state.
    async fn when(&self, state: &str) -> Value {
        loop {
            let list = self.get(&format!("durable?state={state}")).await;
            if let Some(found) = list["requests"].get(0) {
                return found.clone();
            }
            tokio::task::yield_now().await;
        }
    }
}

/// What is recorded, in words.
fn words(found: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = found["records"].as_array().expect("a list");
    rows.iter().map(|row| format!("{} {}", text(&row["path"]), text(&row["what"]))).collect()
}

#[actix::test]
async fn a_request_is_seen_with_its_records_and_cancelled() {
    let visa = Visa::default();
    let process = Process::start(&Memory::default(), &visa, apply).await;
    let uid = process.submit().await;
    let running = process.when("running").await;
    assert_eq!(
        (&running["uid"], &running["function"]),
        (&json!(uid.to_string()), &json!("test.visa:1:apply"))
    );
    let path = format!("durable/{uid}");
    let found = loop {
        let found = process.get(&path).await;
        if found["all"] == 3 {
            break found;
        }
        tokio::task::yield_now().await;
    };
    let expected = [
        "test.visa:1:apply submitted",
        "test.visa:1:apply/check begun",
        "test.visa:1:apply/check done",
    ];
    assert_eq!(words(&found), expected);
    assert_eq!(found["records"][0]["text"], "for ann");

    // what a page of another site could send is refused
    let cancel = format!("{path}/cancel");
    let refused = process.send(Method::POST, &cancel, "text/plain").await.0;
    assert_eq!(refused, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(process.order(uid, "continue").await["done"], false);
    assert_eq!(process.order(uid, "cancel").await, json!({ "done": true }));
    let ended = process.when("ended").await;
    assert_eq!(ended["cancelled_by"], "the console");
    assert_eq!((&ended["outcome"], &ended["user"]), (&json!("Cancelled"), &json!("ann")));
    assert_eq!(visa.undone.load(Ordering::Relaxed), 1);
    let none = json!({ "requests": [], "next": 0 });
    assert_eq!(process.get("durable?state=running").await, none);
}

#[actix::test]
async fn a_request_is_found_by_its_uid_its_key_and_its_user() {
    let process = Process::start(&Memory::default(), &Visa::default(), apply).await;
    let submit = async |user: &str, key: &str| {
        let user = User::new(user, SecurityLevel::SafeOps);
        let options = Options::default().caller(&user).key(key);
        process.durable.submit(FUNCTION, (), options).await.expect("it is stored").to_string()
    };
    let (anns, bobs) = (submit("ann", "cart 7").await, submit("bob", "cart 8").await);
    for (text, found) in [
        (&*anns, vec![&anns]),
        ("cart 8", vec![&bobs]),
        ("bob", vec![&bobs]),
        (" ", vec![&anns, &bobs]),
        ("cart", Vec::new()),
    ] {
        let list = process.get(&format!("durable?text={}", text.replace(' ', "+"))).await;
        let uids: Vec<_> = list["requests"].as_array().expect("a list").iter().collect();
        assert!(
            uids.iter().map(|it| it["uid"].as_str()).eq(found.iter().map(|it| Some(it.as_str())))
        );
    }
    let opened = process.get(&format!("durable/{bobs}")).await;
    let request = &opened["request"];
    assert_eq!((&request["user"], &request["key"]), (&json!("bob"), &json!("cart 8")));
}

/// The flows in flight once there is one with this text in what it awaits.
async fn flows(process: &Process, awaits: &str) -> Value {
    loop {
        let flows = process.get("flows").await["flows"].take();
        if flows.to_string().contains(&format!(r#""awaits":"{awaits}""#)) {
            return flows;
        }
        tokio::task::yield_now().await;
    }
}

#[actix::test]
async fn a_caller_and_the_durable_request_that_it_waits_for_are_one() {
    let visa = Visa::default();
    let process = Process::start(&Memory::default(), &visa, apply_slowly).await;
    let executor = process.executor.clone();
    let called =
        actix::spawn(async move { executor.call_as_system::<String>(FUNCTION, json!({})).await });
    let seen = flows(&process, "body").await;
    let [flow] = &seen.as_array().expect("a list")[..] else { panic!("one request: {seen}") };
    let uid = process.when("running").await["uid"].clone();
    assert_eq!(flow["durable"], uid);
    let [wait] = &flow["waits"].as_array().expect("a list")[..] else { panic!("one step: {flow}") };
    assert_eq!(wait["steps"].as_array().map(Vec::len), Some(1), "the library's are not shown");
    assert_eq!(wait["steps"][0]["name"], "check");
    assert_eq!(flow["branches"], 1);
    called.abort();
}

#[actix::test]
async fn an_operator_pauses_a_request_that_runs_and_resumes_it() {
    let visa = Visa::default();
    let process = Process::start(&Memory::default(), &visa, apply_slowly).await;
    let uid = process.submit().await;
    let path = format!("durable/{uid}");
    let body = loop {
        let found = process.get(&path).await;
        if let Some(body) = found["running"].get(0) {
            break body.clone();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(
        (&body["path"], &body["attempt"]),
        (&json!("test.visa:1:apply/check"), &json!(1)),
        "{body}"
    );
    assert_eq!(process.order(uid, "pause").await, json!({ "done": true }));
    let paused = process.when("paused").await;
    assert_eq!(paused["reason"], "it was paused by the console");
    assert_eq!(process.get(&path).await["running"], json!([]));
    assert_eq!(process.order(uid, "continue").await, json!({ "done": true }));
    while visa.checked.load(Ordering::Relaxed) < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(visa.undone.load(Ordering::Relaxed), 0);
}

#[actix::test]
async fn a_request_that_waits_for_an_operator_goes_on_from_where_the_operator_says() {
    let (visa, journal) = (Visa::default(), Memory::default());
    let before = Process::start(&journal, &visa, apply).await;
    let uid = before.submit().await;
    while visa.checked.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    before.node.stop().await;
    let other = Process::start(&journal, &visa, changed).await;
    let paused = other.when("paused").await;
    let reason = paused["reason"].as_str().expect("a reason");
    assert!(reason.contains("check"), "{reason}");
    other.node.stop().await;

    let after = Process::start(&journal, &visa, apply).await;
    let found = after.get(&format!("durable/{uid}")).await;
    let begun =
        words(&found).iter().position(|row| row.ends_with("check begun")).expect("it begun");
    let path = format!("durable/{uid}/from/0");
    let whole = after.send(Method::POST, &path, "application/json").await.0;
    assert_eq!(whole, StatusCode::NOT_FOUND);
    assert_eq!(after.order(uid, &format!("from/{begun}")).await, json!({ "done": true }));
    after.durable.signal(uid, "decision", "granted").await.expect("it is stored");
    assert_eq!(after.durable.result::<String>(uid).await.expect("it ends"), "granted");
    // once before, and once more because its record was taken away
    assert_eq!(visa.checked.load(Ordering::Relaxed), 2);
}

#[actix::test]
async fn what_is_not_there_is_told() {
    let process = Process::start(&Memory::default(), &Visa::default(), apply).await;
    let unknown = Uid::random().expect("random bytes");
    for (method, path, status) in [
        (Method::GET, format!("durable/{unknown}"), StatusCode::NOT_FOUND),
        (Method::GET, "durable/7".to_owned(), StatusCode::NOT_FOUND),
        (Method::POST, format!("durable/{unknown}/burn"), StatusCode::NOT_FOUND),
        (Method::GET, format!("durable/{unknown}/cancel"), StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, format!("durable/{unknown}"), StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, "durable".to_owned(), StatusCode::METHOD_NOT_ALLOWED),
        (Method::GET, "durable?state=odd&after=x&%ff".to_owned(), StatusCode::OK),
    ] {
        assert_eq!(process.send(method, &path, "application/json").await.0, status, "{path}");
    }
    let error = process.order(unknown, "cancel").await;
    assert_eq!(error, json!({ "done": false, "error": format!("there is no flow {unknown}") }));
    // a console without a journal has no such view
    let executor = Executor::builder().build().expect("a right configuration");
    let process = Process { console: Console::new(&executor, Locks::new()), ..process };
    assert_eq!(process.send(Method::GET, "durable", "").await.0, StatusCode::NOT_FOUND);
}
