//! The promise: a client that sends too much is told so before its request is read, and no other
//! client notices (FTN6 §1.5).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::available_parallelism;
use std::time::Duration;

use asyncsteps_actors::budget::{Budget, Limits};
use asyncsteps_core::Template;
use asyncsteps_core::sync::limiter::Options;
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_executor::message::{Coding, Request};
use asyncsteps_executor::security::{
    Attempt, AuthOutcome, Grant, PasswordHash, Refusal, Secret, SecurityLevel, SecurityProvider,
    StaticUsers, User,
};
use asyncsteps_executor::{
    AssignError, ClientLimits, ClientPermit, ConfigError, Executor, Incoming, Refused, Reply,
    RequestSteps, builtin,
};
use asyncsteps_support::PATIENCE;
use asyncsteps_support::conform;
use asyncsteps_support::jobs::Jobs;
use expect_test::expect;
use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::sync::Notify;

fn channel(peer: &str) -> Channel {
    let peer: SocketAddr = peer.parse().expect("an address");
    Channel::new(ChannelKind::Http).with_peer(peer)
}

async fn admit(executor: &Executor, peer: &str) -> Result<ClientPermit, Refused> {
    executor.admit(&channel(peer)).await
}

fn executor(limits: ClientLimits) -> Executor {
    Executor::builder().client_limits(limits).build().expect("a right configuration")
}

/// So many at once, any rate.
fn at_once(concurrent: u32) -> Options {
    Options { concurrent, rate: 1_000_000, ..Options::default() }
}

#[actix::test]
async fn each_client_has_its_own_limit() {
    let executor = executor(
        ClientLimits::new()
            .define("one", at_once(1))
            .define("two", at_once(2))
            .range("10.0.0.0/8".parse().unwrap(), "two")
            .others("one"),
    );
    let first = admit(&executor, "192.0.2.1:1").await.unwrap();
    let refused = admit(&executor, "192.0.2.1:2").await.unwrap_err();
    let reply = Reply::refused(&refused, None, Coding::Json).into_bytes().unwrap();
    expect![[r#"{"e":"DefenseRejected","edesc":"Mutex queue limit"}"#]]
        .assert_eq(&String::from_utf8(reply).unwrap());
    let _other = admit(&executor, "192.0.2.2:1").await.unwrap();
    // one network of IPv6 is one client
    let _v6 = admit(&executor, "[2001:db8::1]:1").await.unwrap();
    assert!(admit(&executor, "[2001:db8::ffff:1]:1").await.is_err());
    let _v6 = admit(&executor, "[2001:db8:0:1::1]:1").await.unwrap();
    // the range counts for an IPv4 address however it is written
    let _ranged = (
        admit(&executor, "10.1.2.3:1").await.unwrap(),
        admit(&executor, "[::ffff:10.1.2.3]:2").await.unwrap(),
    );
    assert!(admit(&executor, "10.1.2.3:3").await.is_err());
    drop(first);
    assert!(admit(&executor, "192.0.2.1:3").await.is_ok());
}

#[actix::test]
async fn a_rate_is_kept_from_one_request_to_the_next() {
    tokio::time::pause();
    let slow = Options { rate: 2, period: Duration::from_secs(1), ..at_once(10) };
    let limits = ClientLimits::new().define("slow", slow).others("slow");
    let executor = executor(limits);
    for _ in 0..3 {
        assert!(admit(&executor, "192.0.2.1:1").await.is_ok());
        assert!(admit(&executor, "192.0.2.1:1").await.is_ok());
        assert!(admit(&executor, "192.0.2.1:1").await.is_err());
        assert!(admit(&executor, "192.0.2.2:1").await.is_ok());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[actix::test]
async fn a_request_keeps_its_place_until_it_is_answered() {
    let (mut jobs, builder) = Jobs::add(Executor::builder());
    let limits = ClientLimits::new().define("one", at_once(1)).others("one");
    let executor = builder.client_limits(limits).build().unwrap();
    let peer = "192.0.2.1:1";
    let pass = admit(&executor, peer).await.unwrap();
    let request = Request::parse(br#"{"f":"test.jobs:1.0:wait","p":{}}"#).unwrap();
    let incoming = Incoming::new(request, channel(peer)).with_client_permit(pass);
    let serving = executor.clone();
    let answer = actix_rt::spawn(async move { serving.dispatch(incoming).await });
    let job = jobs.started().await;
    assert!(admit(&executor, peer).await.is_err());
    job.finish();
    answer.await.unwrap();
    assert!(admit(&executor, peer).await.is_ok());
}

#[actix::test]
async fn a_user_has_a_limit_of_its_own_in_place_of_the_address() {
    let (mut jobs, builder) = Jobs::add(Executor::builder());
    let hash = PasswordHash::new(&Secret::new("pass")).unwrap();
    let users = StaticUsers::new().with_password("ann", hash.clone()).with_password("bob", hash);
    let limits = ClientLimits::new()
        .define("one", at_once(1))
        .define("users", at_once(1))
        .others("one")
        .users("users");
    let executor = builder.security(users).client_limits(limits).build().unwrap();
    let peer = "192.0.2.1:1";
    #[expect(clippy::async_yields_async, reason = "the call goes on meanwhile")]
    let call = async |user: &str| {
        let message = json!({ "f": "test.jobs:1.0:wait", "p": {}, "sec": format!("{user}:pass") });
        let request = Request::parse(message.to_string().as_bytes()).unwrap();
        // the place of the address is free again once the user is known
        let pass = admit(&executor, peer).await.expect("a place");
        let incoming = Incoming::new(request, channel(peer)).with_client_permit(pass);
        let serving = executor.clone();
        actix_rt::spawn(async move { serving.dispatch(incoming).await.into_bytes().unwrap() })
    };
    let ann = call("ann").await;
    let first = jobs.started().await;
    let bob = call("bob").await;
    let second = jobs.started().await;
    let again = call("ann").await.await.unwrap();
    expect![[r#"{"e":"DefenseRejected","edesc":"Mutex queue limit"}"#]]
        .assert_eq(&String::from_utf8(again).unwrap());
    first.finish();
    second.finish();
    ann.await.unwrap();
    bob.await.unwrap();
}

/// How many of three requests that come over a channel are let in at once.
async fn let_in(executor: &Executor, channel: &Channel) -> usize {
    let mut passes = Vec::new();
    for _ in 0..3 {
        passes.extend(executor.admit(channel).await.ok());
    }
    passes.len()
}

#[actix::test]
async fn addresses_have_another_limit_until_its_time_is_over() {
    tokio::time::pause();
    let limits = ClientLimits::new()
        .define("one", at_once(1))
        .define("two", at_once(2))
        .define("many", at_once(100))
        .range("10.0.0.0/8".parse().unwrap(), "one")
        .assignments(2);
    let executor = executor(limits);
    let seconds = Duration::from_secs;
    let give = |range: &str, limiter: &str, time: u64| {
        executor.limit_addresses(range.parse().unwrap(), limiter, seconds(time))
    };
    assert_eq!(let_in(&executor, &channel("10.1.2.3:1")).await, 1);
    give("10.1.0.0/16", "many", 120).unwrap();
    give("10.1.2.3", "two", 60).unwrap();
    assert_eq!(let_in(&executor, &channel("10.1.2.3:1")).await, 2);
    assert_eq!(let_in(&executor, &channel("10.1.2.4:1")).await, 3);
    assert_eq!(let_in(&executor, &channel("10.2.0.1:1")).await, 1);
    // no more than configured, but a known one can be changed
    assert!(matches!(give("10.1.2.4", "two", 60), Err(AssignError::Full { limit: 2 })));
    give("10.1.2.3", "two", 60).unwrap();
    tokio::time::advance(seconds(60)).await;
    // the wider range counts on
    assert_eq!(let_in(&executor, &channel("10.1.2.3:1")).await, 3);
    // the one that is over makes room
    give("10.1.2.4", "two", 60).unwrap();
    assert_eq!(let_in(&executor, &channel("10.1.2.4:1")).await, 2);
    give("10.1.2.4", "two", 0).unwrap();
    assert_eq!(let_in(&executor, &channel("10.1.2.4:1")).await, 3);
    tokio::time::advance(seconds(60)).await;
    assert_eq!(let_in(&executor, &channel("10.1.2.3:1")).await, 1);
    assert!(matches!(give("10.1.2.3", "none", 60), Err(AssignError::NoSuchLimiter { .. })));
}

#[actix::test]
async fn a_user_has_another_limit_until_its_time_is_over() {
    tokio::time::pause();
    let (_jobs, executor) = ann();
    let hers =
        Channel::new(ChannelKind::WebSocket).with_peer("192.0.2.1:1".parse::<SocketAddr>().ok());
    answer(&executor, anns("test.jobs:1.0:none", &json!({})), hers.clone()).await;
    assert_eq!(let_in(&executor, &hers).await, 1);
    executor.limit_user("ann", "three", Duration::from_secs(60)).unwrap();
    assert_eq!(let_in(&executor, &hers).await, 3);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(let_in(&executor, &hers).await, 1);
}

#[actix::test]
async fn the_default_limit_of_the_specification_is_there_to_be_asked_for() {
    tokio::time::pause();
    let executor = executor(ClientLimits::ftn6());
    let mut inside = Vec::new();
    for _ in 0..8 {
        inside.push(admit(&executor, "192.0.2.1:1").await.unwrap());
    }
    let mut waiting: Vec<_> = (0..32).map(|_| Box::pin(admit(&executor, "192.0.2.1:1"))).collect();
    assert!(waiting.iter_mut().all(|pass| pass.now_or_never().is_none()));
    assert!(admit(&executor, "192.0.2.1:1").await.is_err());
    // two more in the first second
    inside.clear();
    let mut now = waiting.iter_mut().filter_map(|pass| pass.now_or_never());
    assert_eq!(now.by_ref().take_while(Result::is_ok).count(), 2);
}

/// An executor where the user Ann may have one request at a time.
fn ann() -> (Jobs, Executor) {
    let (jobs, builder) = Jobs::add(Executor::builder());
    let hash = PasswordHash::new(&Secret::new("pass")).expect("right texts");
    let limits = ClientLimits::new()
        .define("one", at_once(1))
        .define("three", at_once(3))
        .others("three")
        .users("one");
    let burst =
        Loader::new([Source::builtin()]).load(&"futoin.burst:0.1".parse().expect("right texts"));
    let executor = builder
        .interface(burst.expect("right texts"), builtin::burst)
        .security(StaticUsers::new().with_password("ann", hash))
        .client_limits(limits)
        .build();
    (jobs, executor.expect("right texts"))
}

/// A message with Ann's credentials.
fn anns(function: &str, params: &Value) -> Request {
    let message = json!({ "f": function, "p": params, "sec": "ann:pass", "forcersp": true });
    Request::parse(message.to_string().as_bytes()).expect("right texts")
}

async fn answer(executor: &Executor, request: Request, channel: Channel) -> Value {
    let reply =
        executor.dispatch(Incoming::new(request, channel)).await.into_bytes().expect("a message");
    serde_json::from_slice(&reply).expect("JSON")
}

#[actix::test]
async fn a_connection_has_the_limit_of_its_last_authenticated_user() {
    let (_jobs, executor) = ann();
    let peer: SocketAddr = "192.0.2.1:1".parse().unwrap();
    let connect = || Channel::new(ChannelKind::WebSocket).with_peer(peer);
    let (hers, other) = (connect(), connect());
    let at_first = [(); 3].map(|()| executor.admit(&hers).now_or_never().unwrap().is_ok());
    assert_eq!(at_first, [true; 3]);
    let refused = answer(&executor, anns("test.jobs:1.0:none", &json!({})), hers.clone()).await;
    assert_eq!(refused["e"], "InvalidRequest", "{refused}");
    let place = executor.admit(&hers).await.unwrap();
    assert!(executor.admit(&hers).await.is_err());
    let _others = [executor.admit(&other).await.unwrap(), executor.admit(&other).await.unwrap()];
    // with the place that it has, a further request of hers needs none
    let again = anns("test.jobs:1.0:none", &json!({}));
    let incoming = Incoming::new(again, hers.clone()).with_client_permit(place);
    let reply = executor.dispatch(incoming).await.into_bytes().unwrap();
    assert!(String::from_utf8(reply).unwrap().contains("InvalidRequest"));
    assert!(executor.admit(&hers).await.is_ok());
}

#[actix::test]
async fn users_with_credentials_are_limited_on_any_channel_and_calls_for_a_user_are_not() {
    let (mut jobs, executor) = ann();
    let serving = executor.clone();
    let request = anns("test.jobs:1.0:wait", &json!({ "n": 1 }));
    let first = actix_rt::spawn(async move {
        answer(&serving, request, Channel::new(ChannelKind::WebSocket)).await
    });
    let first_job = jobs.started().await;
    for channel in [Channel::local(), Channel::new(ChannelKind::Http)] {
        let second = answer(&executor, anns("test.jobs:1.0:wait", &json!({})), channel).await;
        assert_eq!(second["e"], "DefenseRejected", "{second}");
    }
    // a call in the process may be a part of her request
    let user = User::new("ann", SecurityLevel::SafeOps);
    let call = executor.call_for::<Value>(&user, "test.jobs:1.0:wait", json!({ "n": 2 }));
    let call = actix_rt::spawn(call);
    jobs.started().await.finish();
    assert_eq!(call.await.unwrap().unwrap(), json!({ "n": 2 }));
    first_job.finish();
    assert_eq!(first.await.unwrap(), json!({ "r": { "n": 1 } }));

    let calls = json!({ "requests": [{ "f": "test.jobs:1.0:wait", "p": { "n": 3 } }] });
    let burst = anns("futoin.burst:0.1:resultBurst", &calls);
    let serving = executor.clone();
    let burst = actix_rt::spawn(async move { answer(&serving, burst, Channel::local()).await });
    jobs.started().await.finish();
    assert_eq!(burst.await.unwrap()["r"]["responses"], json!([{ "r": { "n": 3 } }]));
}

#[actix::test]
async fn a_message_that_turns_out_to_be_large_is_refused_after_its_credentials_were_checked() {
    let open = Arc::new(Notify::new());
    let budget = Budget::new(Limits { memory: 10_000, ..Limits::default() });
    let (_jobs, builder) = Jobs::add(Executor::builder().budget(budget));
    let types = Template::build(|asi| {
        asi.add(|asi, ()| asi.reply(json!({ "got": {} })));
    });
    let builder = builder.interface(conform::definition("conform.main:1.2"), |functions| {
        functions.others_not_implemented();
        functions.add("types", &types);
    });
    let executor = builder.security(Doorkeeper(Arc::clone(&open))).build().unwrap();
    let types = |items: usize| {
        // as text they take little
        let request = anns("conform.main:1.2:types", &json!({ "a": vec![0; items] }));
        open.notify_one();
        answer(&executor, request, Channel::new(ChannelKind::Http))
    };
    assert_eq!(types(10).await, json!({ "r": { "got": {} } }));
    let refused = json!({ "e": "DefenseRejected", "edesc": "Too much memory" });
    assert_eq!(types(1_000).await, refused);
    assert_eq!(executor.usage().memory, 0);
}

/// Admits every user, when it is notified.
#[derive(Debug)]
struct Doorkeeper(Arc<Notify>);

impl SecurityProvider for Doorkeeper {
    fn check(&self, _: &Attempt<'_>) -> AuthOutcome {
        let open = Arc::clone(&self.0);
        AuthOutcome::wait(async move {
            open.notified().await;
            Ok(Grant::new(User::new("ann", SecurityLevel::SafeOps)))
        })
    }
}

#[actix::test]
async fn requests_whose_credentials_are_checked_have_their_places_in_the_budget() {
    let (mut jobs, builder) = Jobs::add(Executor::builder().max_requests(2));
    let open = Arc::new(Notify::new());
    let executor = builder.security(Doorkeeper(Arc::clone(&open))).build().unwrap();
    let ask = |n: i64| {
        let serving = executor.clone();
        let request = anns("test.jobs:1.0:wait", &json!({ "n": n }));
        let channel = Channel::new(ChannelKind::Http);
        actix_rt::spawn(async move { answer(&serving, request, channel).await })
    };
    let waiting = [ask(1), ask(2)];
    tokio::task::yield_now().await;
    assert_eq!((executor.in_flight_count(), executor.usage().running), (2, 2));
    let refused = json!({ "e": "DefenseRejected", "edesc": "Too many requests" });
    assert_eq!(ask(3).await.unwrap(), refused);
    let anonymous = Request::parse(br#"{"f":"test.jobs:1.0:wait","p":{}}"#).unwrap();
    assert_eq!(answer(&executor, anonymous, Channel::new(ChannelKind::Http)).await, refused);
    // closing waits for them
    let closing = executor.clone();
    let closing = actix_rt::spawn(async move { closing.close(PATIENCE).await });
    executor.closing().await;
    open.notify_waiters();
    for (n, waiting) in (1..).zip(waiting) {
        jobs.started().await.finish();
        assert_eq!(waiting.await.unwrap(), json!({ "r": { "n": n } }));
    }
    assert_eq!(closing.await.unwrap().finished, 2);
    assert_eq!((executor.in_flight_count(), executor.usage().running), (0, 0));
}

#[test]
fn a_limiter_that_is_not_defined_is_a_mistake() {
    let limits = ClientLimits::new().others("nobody");
    let error = Executor::builder()
        .client_limits(limits)
        .interface(conform::definition("conform.main:1.2"), |functions| {
            functions.others_not_implemented();
        })
        .build()
        .expect_err("there is no such limiter");
    assert!(matches!(error, ConfigError::NoSuchLimiter { name } if name == "nobody"));
}

/// Checks passwords one after the other, in its own time, and remembers whose they were.
#[derive(Debug)]
struct Slow {
    begun: mpsc::Sender<String>,
    go_on: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl SecurityProvider for Slow {
    fn check(&self, attempt: &Attempt<'_>) -> AuthOutcome {
        let peer = attempt.client().source.expect("each has one").to_string();
        let (begun, go_on) = (self.begun.clone(), Arc::clone(&self.go_on));
        AuthOutcome::compute(move || {
            begun.send(peer).expect("the test listens");
            let go_on = go_on.lock().expect("nobody panics");
            go_on.recv().expect("the test goes on");
            Err(Refusal::credentials())
        })
    }
}

#[actix::test]
async fn a_flood_of_passwords_waits_for_itself() {
    let places = available_parallelism().map_or(1, usize::from);
    let ((begun, begins), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
    let slow = Slow { begun, go_on: Arc::new(Mutex::new(goes_on)) };
    let executor = Executor::builder().security(slow).build().expect("a right configuration");
    let ask = |peer: &str| {
        let message = json!({ "f": "a.b:1.0:f", "sec": "user:wrong" }).to_string();
        let request = Request::parse(message.as_bytes()).expect("a message");
        let (executor, channel) = (executor.clone(), channel(peer));
        actix_rt::spawn(async move { executor.dispatch(Incoming::new(request, channel)).await })
    };
    let flood = 4 * places;
    let mut asked: Vec<_> = (0..flood).map(|_| ask("192.0.2.1:1")).collect();
    // in the queue behind all of them
    tokio::task::yield_now().await;
    asked.push(ask("192.0.2.2:1"));
    tokio::task::yield_now().await;
    (0..=flood).for_each(|_| go_on.send(()).expect("it waits"));
    for asked in asked {
        asked.await.expect("no panic");
    }
    let order: Vec<String> = begins.try_iter().collect();
    let other = order.iter().position(|peer| peer == "192.0.2.2").expect("it was asked");
    // those that had begun, then the turns of both, which may begin at the same time
    assert!(other < 2 * places + 2, "{other} of {}", order.len());
}
