//! The promise: a console answers those who may see it, all open pages share their snapshots, and they
//! end with the executor.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_console::{Console, ConsoleBody};
use asyncsteps_core::Error;
use asyncsteps_executor::observe::Retention;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps};
use asyncsteps_fabric::{
    self as fabric, Call, CallError, Capabilities, Endpoint, Fabric, NodeInfo, Pending, ServeGuard,
};
use asyncsteps_observe::Locks;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use http::{Method, Request, Response, StatusCode, request};
use http_body_util::BodyExt as _;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tower::ServiceExt as _;

fn executor() -> Executor {
    Executor::builder().build().expect("a right configuration")
}

async fn ask(console: &Console, method: Method, path: &str) -> Response<ConsoleBody> {
    send(console, request(method, path)).await
}

/// A request from this machine, as a server gives it to the service.
fn request(method: Method, path: &str) -> request::Builder {
    let peer: SocketAddr = "127.0.0.1:4000".parse().expect("an address");
    let request = Request::builder().method(method).uri(path).header("host", "localhost:8080");
    request.extension(peer)
}

async fn send(console: &Console, request: request::Builder) -> Response<ConsoleBody> {
    let request = request.body(()).expect("a request");
    console.service().oneshot(request).await.expect("an answer")
}

/// Requests that wait for a lock which is never free.
struct Crowd(Mutex);

impl Service for Crowd {
    type Errors = ();
}

#[derive(Deserialize, JsonSchema)]
struct Joined {
    key: String,
}

impl Crowd {
    fn join(steps: &Steps<Self, Joined>) -> Returns<bool> {
        steps
            .run("stay", async |_, ()| Ok(std::future::pending().await))
            .locked(|cx| cx.0.key(&cx.params.key))
            .returns()
    }

    fn leave(steps: &Steps<Self, Joined>) -> Returns<bool> {
        steps
            .run("at the door", async |cx, ()| match cx.params.key.as_str() {
                "odd" => Err(Error::new("InvalidRequest").into()),
                _ => Ok(true),
            })
            .returns()
    }
}

/// An executor with so many requests in flight, half of them behind one key, with keys of so many
/// characters.
async fn crowd(requests: usize, key: usize) -> (Executor, Locks) {
    // none is over its time limit before the last has come, however slow the machine is
    tokio::time::pause();
    let lock = Mutex::named("crowd", Default::default());
    let locks = Locks::new().mutex(&lock);
    let interface = Interface::new("test.crowd:1.0".parse().expect("a name"));
    let executor = Executor::builder().service(interface, Crowd(lock), |functions| {
        functions.on("join", Crowd::join).on("leave", Crowd::leave);
    });
    let executor = executor.build().expect("a right configuration");
    for request in 0..requests {
        let key = if request % 2 == 0 { "k".repeat(key) } else { format!("{request:key$}") };
        let caller = executor.clone();
        actix::spawn(async move {
            let join = "test.crowd:1.0:join";
            let _: Result<Value, _> = caller.call_as_system(join, json!({ "key": key })).await;
        });
    }
    while executor.in_flight_count() < requests {
        tokio::task::yield_now().await;
    }
    (executor, locks)
}

/// A snapshot with such a crowd in flight.
async fn snapshot_of_crowd(requests: usize, key: usize) -> (usize, Value) {
    let (executor, locks) = crowd(requests, key).await;
    tokio::time::resume();
    let console = Console::new(&executor, locks);
    let event = next(&mut ask(&console, Method::GET, "/console/live").await).await;
    let event = event.expect("a snapshot");
    executor.close(Duration::ZERO).await;
    let data = event.strip_prefix(b"data: ").expect("an event");
    (event.len(), serde_json::from_slice(data).expect("JSON"))
}

async fn next(page: &mut Response<ConsoleBody>) -> Option<Bytes> {
    let frame = page.body_mut().frame().await?.expect("no error");
    Some(frame.into_data().expect("data"))
}

#[actix::test]
async fn each_path_has_its_methods() {
    let console = Console::new(&executor(), Locks::new());
    for (method, path, status) in [
        (Method::GET, "/console", StatusCode::OK),
        (Method::HEAD, "/console/", StatusCode::OK),
        (Method::GET, "/console/main.js", StatusCode::OK),
        (Method::POST, "/console/main.js", StatusCode::METHOD_NOT_ALLOWED),
        (Method::GET, "/console/live", StatusCode::OK),
        (Method::POST, "/console/live", StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, "/console/nodes", StatusCode::METHOD_NOT_ALLOWED),
        (Method::GET, "/console/history", StatusCode::OK),
        (Method::POST, "/console/history", StatusCode::METHOD_NOT_ALLOWED),
        (Method::GET, "/console/entities", StatusCode::NOT_FOUND),
        (Method::GET, "/console/plan.js", StatusCode::OK),
        (Method::GET, "/console/plan", StatusCode::NOT_FOUND),
        (Method::GET, "/console/plan?function=a:1.0:%ff", StatusCode::NOT_FOUND),
        (Method::POST, "/console/plan", StatusCode::METHOD_NOT_ALLOWED),
        (Method::GET, "/console/steps/7", StatusCode::NOT_FOUND),
        (Method::GET, "/console/steps/none", StatusCode::NOT_FOUND),
        (Method::GET, "/console/cancel/7", StatusCode::METHOD_NOT_ALLOWED),
        // a form of another site could send it
        (Method::POST, "/console/cancel/7", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Method::GET, "/console/../secret", StatusCode::NOT_FOUND),
        (Method::GET, "/consoles", StatusCode::NOT_FOUND),
        (Method::GET, "/", StatusCode::NOT_FOUND),
    ] {
        let answer = ask(&console, method.clone(), path).await;
        assert_eq!(answer.status(), status, "{method} {path}");
        let policy = answer.headers().get("content-security-policy").expect("a policy");
        assert!(policy.to_str().is_ok_and(|it| it.starts_with("default-src 'none'; ")));
    }
}

#[actix::test]
async fn a_page_of_another_site_reaches_nothing() {
    let console = Console::new(&executor(), Locks::new());
    for (method, path) in [
        (Method::GET, "/console/live"),
        (Method::GET, "/console/nodes"),
        (Method::GET, "/console/flows?cause=mutex"),
        (Method::GET, "/console/steps/7"),
        (Method::GET, "/console/plan?function=test.crowd:1.0:join"),
        (Method::POST, "/console/cancel/7"),
    ] {
        let foreign = request(method.clone(), path).header("origin", "http://localhost:8081");
        let foreign = send(&console, foreign.header("content-type", "application/json")).await;
        assert_eq!(foreign.status(), StatusCode::FORBIDDEN, "{method} {path}");
        let image = request(method.clone(), path).header("sec-fetch-site", "cross-site");
        assert_eq!(send(&console, image).await.status(), StatusCode::FORBIDDEN, "{method} {path}");
    }
    let own = request(Method::POST, "/console/cancel/7").header("origin", "http://localhost:8080");
    let own = send(&console, own.header("content-type", "application/json")).await;
    assert_eq!(own.status(), StatusCode::OK);
}

#[actix::test]
async fn without_its_token_it_tells_nothing() {
    let console = Console::new(&executor(), Locks::new()).token("a-long-secret");
    assert_eq!(ask(&console, Method::GET, "/console").await.status(), StatusCode::OK);
    for path in ["/console/live", "/console/nodes", "/console/plan", "/console/steps/7"] {
        let answer = ask(&console, Method::GET, path).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{path}");
    }
    let cancel = ask(&console, Method::POST, "/console/cancel/7").await;
    assert_eq!(cancel.status(), StatusCode::UNAUTHORIZED);
}

#[actix::test]
async fn pages_share_a_snapshot_a_second_until_the_executor_closes() {
    tokio::time::pause();
    let executor = executor();
    let console = Console::new(&executor, Locks::new());
    let mut one = ask(&console, Method::GET, "/console/live").await;
    let mut other = ask(&console, Method::GET, "/console/live").await;
    let began = tokio::time::Instant::now();
    for _ in 0..3 {
        let (event, same) = tokio::join!(next(&mut one), next(&mut other));
        let event = event.expect("a snapshot");
        assert!(event.starts_with(b"data: {") && event.ends_with(b"}\n\n"), "{event:?}");
        // the same memory
        assert_eq!(same.expect("a snapshot").as_ptr(), event.as_ptr());
    }
    // in virtual time, whose timers are late by a millisecond at the most
    let seconds = began.elapsed().as_secs_f64();
    assert!((2.0..2.1).contains(&seconds), "{seconds}");

    executor.close(Duration::ZERO).await;
    assert_eq!((next(&mut one).await, next(&mut other).await), (None, None));
}

#[actix::test]
async fn the_figures_of_five_minutes_are_kept_while_no_page_is_open() {
    let (executor, locks) = crowd(1, 0).await;
    let console = Console::new(&executor, locks);
    let history = async || -> Vec<Value> {
        let mut answer = ask(&console, Method::GET, "/console/history").await;
        let body = answer.body_mut().collect().await.expect("a body").to_bytes();
        serde_json::from_slice(&body).expect("an array")
    };
    assert_eq!(history().await, Vec::<Value>::new());
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    let _ = executor.call_as_system::<bool>("test.crowd:1.0:leave", json!({ "key": "0" })).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let samples = history().await;
    assert_eq!(samples.len(), 4, "one a second");
    assert_eq!(
        (&samples[0]["interval"], &samples[0]["health"]["in_flight"]),
        (&json!(null), &json!(1))
    );
    let last = &samples[3];
    assert!(last["interval"]["rate"].as_f64().is_some_and(|rate| rate > 0.5), "{last}");
    assert_eq!(last["functions"][0]["function"], "test.crowd:1.0:leave");
    assert_eq!(samples[2]["functions"], json!([]), "those without a request are left out");
    tokio::time::sleep(Duration::from_secs(400)).await;
    let samples = history().await;
    assert_eq!(samples.len(), 300, "five minutes");
    assert!(samples.is_sorted_by(|one, other| one["at"].as_f64() <= other["at"].as_f64()));
}

#[actix::test]
async fn no_more_pages_are_open_than_people_can_look_at_and_the_newest_are() {
    tokio::time::pause();
    let console = Console::new(&executor(), Locks::new());
    let open = || ask(&console, Method::GET, "/console/live");
    let mut pages = join_all((0..33).map(|_| open())).await;
    assert!(pages.iter().all(|page| page.status() == StatusCode::OK));
    // none of them was read before
    assert_eq!(next(&mut pages[0]).await, None, "the oldest has ended");
    for page in &mut pages[1..] {
        assert!(next(page).await.is_some());
    }
    // also one that waits for its next snapshot
    let (mut waiting, newest) = (pages.remove(1), open());
    let (ended, newest) = tokio::join!(next(&mut waiting), newest);
    assert_eq!((ended, newest.status()), (None, StatusCode::OK));
}

#[actix::test]
async fn a_page_ends_after_half_a_minute() {
    tokio::time::pause();
    let console = Console::new(&executor(), Locks::new());
    let mut page = ask(&console, Method::GET, "/console/live").await;
    let mut snapshots = 0;
    while next(&mut page).await.is_some() {
        snapshots += 1;
    }
    assert!((30..=31).contains(&snapshots), "{snapshots}");
}

#[actix::test]
async fn a_snapshot_is_as_small_with_ten_thousand_requests_as_with_a_few_hundred() {
    let (few, _) = snapshot_of_crowd(400, 500).await;
    let (many, snapshot) = snapshot_of_crowd(10_000, 500).await;
    // numbers are longer
    assert!(many < few + few / 10, "{many} bytes instead of {few}");
    assert!(many < 512 * 1024, "{many} bytes");
    let length = |list: &str| snapshot.pointer(list).and_then(Value::as_array).map(Vec::len);
    assert_eq!(snapshot["flows"]["all"], 10_000);
    assert_eq!(length("/flows/flows"), Some(200));
    assert_eq!(snapshot["waits"]["all"], 4_999);
    assert_eq!(length("/locks/0/keys"), Some(20));
    assert_eq!(length("/locks/0/keys/0/waiting"), Some(8));

    // what callers chose does not lengthen it either
    let (long, _) = snapshot_of_crowd(400, 10_000).await;
    assert!(long < few + few / 10, "{long} bytes instead of {few}");
}

#[actix::test]
async fn flows_are_found_by_function_and_cause_among_all() {
    let executor = executor();
    let console = Console::new(&executor, Locks::new());
    for (query, status) in [
        ("/console/flows", StatusCode::OK),
        ("/console/flows?function=a%3Ab&cause=mutex&other", StatusCode::OK),
        ("/console/flows?%ff=%&&==", StatusCode::OK),
    ] {
        let mut answer = ask(&console, Method::GET, query).await;
        assert_eq!(answer.status(), status, "{query}");
        let body = next(&mut answer).await.expect("a body");
        let flows: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(flows, json!({ "flows": [], "all": 0 }), "{query}");
    }
    let posted = ask(&console, Method::POST, "/console/flows").await.status();
    assert_eq!(posted, StatusCode::METHOD_NOT_ALLOWED);
}

#[actix::test]
async fn flows_are_searched_by_one_request_at_a_time_and_few_wait() {
    let (executor, locks) = crowd(10, 1).await;
    let console = Console::new(&executor, locks);
    let statuses = join_all((0..20).map(|_| search(&console))).await;
    let of = |status| statuses.iter().filter(|it| **it == status).count();
    assert_eq!((of(StatusCode::OK), of(StatusCode::SERVICE_UNAVAILABLE)), (9, 11));
    assert_eq!(search(&console).await, StatusCode::OK);

    // a search whose client has gone leaves its place
    let gone = join_all((0..9).map(|_| search(&console))).now_or_never();
    assert_eq!(gone, None, "no search is over at once");
    assert_eq!(search(&console).await, StatusCode::OK);
    executor.close(Duration::ZERO).await;
}

#[actix::test]
async fn the_plan_of_a_function_says_what_runs_in_each_step() {
    let (executor, locks) = crowd(10, 3).await;
    let console = Console::new(&executor, locks);
    let path = "/console/plan?function=test.crowd%3A1.0%3Ajoin";
    let mut answer = ask(&console, Method::GET, path).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let body = next(&mut answer).await.expect("a body");
    let told: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(told["plan"]["steps"][0]["name"], "stay");
    assert_eq!(told["reports"][0]["running"], 10);
    // each other one has a key of its own, and one of the others holds theirs
    assert_eq!(told["reports"][0]["waits"], json!({ "future": 6, "mutex": 4 }));
    let all = join_all((0..20).map(|_| ask(&console, Method::GET, path))).await;
    let full = all.iter().filter(|it| it.status() == StatusCode::SERVICE_UNAVAILABLE).count();
    assert_eq!(full, 11, "it looks at all requests");
    executor.close(Duration::ZERO).await;
}

#[actix::test]
async fn requests_that_are_over_are_searched_among_all_that_are_kept() {
    let interface = Interface::new("test.crowd:1.0".parse().expect("a name"));
    let crowd = Crowd(Mutex::named("crowd", Default::default()));
    let executor = Executor::builder().record(Retention::ALL);
    let executor = executor.service(interface, crowd, |functions| {
        functions.on("leave", Crowd::leave);
    });
    let executor = executor.build().expect("a right configuration");
    for number in 1..=150 {
        let key = if number == 7 { "odd" } else { "even" };
        let leave = "test.crowd:1.0:leave";
        let left: Result<bool, _> = executor.call_as_system(leave, json!({ "key": key })).await;
        assert_eq!(left.is_ok(), number != 7);
    }
    let console = Console::new(&executor, Locks::new());
    let found = async |query: &str| -> Vec<Value> {
        let mut answer = ask(&console, Method::GET, &format!("/console/recent?{query}")).await;
        let body = next(&mut answer).await.expect("a body");
        serde_json::from_slice(&body).expect("JSON")
    };
    let seventh = found("number=7").await;
    let trace = seventh[0]["trace"].as_str().expect("a trace");
    for (query, numbers) in [
        ("outcome=failed", &[7][..]),
        ("outcome=InvalidRequest&function=test.crowd:1.0:leave", &[7]),
        (&format!("text={trace}"), &[7]),
        ("text=invalidrequest+LEAVE+at+the+door", &[7]),
        ("text=%23150", &[150]),
        ("text=%23150&outcome=failed", &[]),
        ("text=at+the+window", &[]),
        ("function=leave", &[]),
        ("number=none", &[]),
    ] {
        let found = found(query).await;
        let found: Vec<_> = found.iter().filter_map(|it| it["number"].as_u64()).collect();
        assert_eq!(found, numbers, "{query}");
    }
    assert_eq!(found("").await.len(), 100, "the newest ones");
    let mut snapshots = ask(&console, Method::GET, "/console/live").await;
    let snapshot = next(&mut snapshots).await.expect("a snapshot");
    let snapshot: Value = serde_json::from_slice(&snapshot["data: ".len()..]).expect("JSON");
    assert_eq!(snapshot["kept"], 150);
}

async fn search(console: &Console) -> StatusCode {
    ask(console, Method::GET, "/console/flows?cause=mutex").await.status()
}

/// A fabric of many nodes with long names; counts how often it is asked.
struct Crowded {
    asked: AtomicUsize,
}

impl Fabric for Crowded {
    fn call(&self, _: Call) -> Pending<'_, Result<fabric::Response, CallError>> {
        unreachable!("a console does not call")
    }

    fn serve(&self, _: Vec<Endpoint>, _: Executor) -> Pending<'_, Result<ServeGuard, CallError>> {
        unreachable!("a console does not serve")
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeInfo>, CallError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let node = |number: usize| {
            let interfaces = vec!["i".repeat(10_000); 100];
            let node = json!({
                "node": format!("{number:0>10000}"), "interfaces": interfaces,
                "in_flight": number, "is_draining": false,
            });
            serde_json::from_value(node).expect("a node")
        };
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            Ok((0..1_000).map(node).collect())
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::in_process()
    }
}

#[actix::test]
async fn nodes_are_asked_once_a_second_and_bounded() {
    tokio::time::pause();
    let fabric = Arc::new(Crowded { asked: AtomicUsize::new(0) });
    let console = Console::new(&executor(), Locks::new()).nodes(Arc::<Crowded>::clone(&fabric));
    let nodes = || async { next(&mut ask(&console, Method::GET, "/console/nodes").await).await };
    let (one, other) = tokio::join!(nodes(), nodes());
    let (one, other) = (one.expect("a body"), other.expect("a body"));
    assert_eq!(one.as_ptr(), other.as_ptr(), "the same memory");
    assert_eq!(fabric.asked.load(Ordering::Relaxed), 1);
    assert!(one.len() < 2 * 1024 * 1024, "{} bytes", one.len());
    let told: Value = serde_json::from_slice(&one).expect("JSON");
    assert_eq!(told["all"], 1_000);
    let listed = told["nodes"].as_array().expect("a list");
    assert_eq!(listed.len(), 200);
    assert_eq!(listed[7]["in_flight"], 7);
    assert_eq!(listed[7]["interfaces"].as_array().map(Vec::len), Some(21));
    tokio::time::sleep(Duration::from_secs(1)).await;
    nodes().await;
    assert_eq!(fabric.asked.load(Ordering::Relaxed), 2);

    let mut snapshots = ask(&console, Method::GET, "/console/live").await;
    let snapshot = next(&mut snapshots).await.expect("a snapshot");
    assert!(String::from_utf8_lossy(&snapshot).contains("\"has_nodes\":true"));
    let alone = Console::new(&executor(), Locks::new());
    let answer = ask(&alone, Method::GET, "/console/nodes").await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
}
