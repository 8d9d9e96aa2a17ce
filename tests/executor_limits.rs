//! The promise: a client that sends too much is told so before its request is read, and no other
//! client notices (FTN6 §1.5).

use std::net::SocketAddr;
use std::time::Duration;

use asyncsteps::sync::limiter::Options;
use asyncsteps_actors::channel::{Channel, ChannelKind};
use asyncsteps_actors::executor::{
    ClientLimits, ConfigError, Executor, ExecutorHandle, Incoming, Pass, Rejected,
};
use asyncsteps_actors::message::{Coding, Request};
use asyncsteps_actors::security::{PasswordHash, Secret, StaticUsers};
use asyncsteps_support::conform;
use asyncsteps_support::jobs::Jobs;
use expect_test::expect;
use serde_json::json;

fn channel(peer: &str) -> Channel {
    let peer: SocketAddr = peer.parse().expect("an address");
    Channel::new(ChannelKind::Http).with_peer(peer)
}

async fn admit(executor: &ExecutorHandle, peer: &str) -> Result<Pass, Rejected> {
    executor.admit(&channel(peer)).await
}

fn executor(limits: ClientLimits) -> ExecutorHandle {
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
    let rejected = admit(&executor, "192.0.2.1:2").await.unwrap_err();
    let reply = rejected.into_reply(None, Coding::Json).into_bytes().unwrap();
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
    let incoming = Incoming::new(request, channel(peer)).with_pass(pass);
    let serving = executor.clone();
    let answer = actix_rt::spawn(async move { serving.serve(incoming).await });
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
        let incoming = Incoming::new(request, channel(peer)).with_pass(pass);
        let serving = executor.clone();
        actix_rt::spawn(async move { serving.serve(incoming).await.into_bytes().unwrap() })
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

#[test]
fn a_limiter_that_is_not_defined_is_a_mistake() {
    let limits = ClientLimits::new().others("nobody");
    let error = Executor::builder()
        .client_limits(limits)
        .interface(conform::definition("conform.main:1.2"), |_| {})
        .build()
        .expect_err("there is no such limiter");
    assert!(matches!(error, ConfigError::NoSuchLimiter { name } if name == "nobody"));
}
