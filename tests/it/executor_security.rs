//! The promise: the caller is identified before anything else, decides which functions may be called,
//! and sees nothing of a private interface if it is anonymous (FTN6 §1.2-1.4, FTN8).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use asyncsteps_core::{Template, codes};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::{Coding, Request, Response};
use asyncsteps_executor::security::{
    Attempt, AuthOutcome, Credentials, Grant, MacAlgorithm, PasswordHash, Refusal, Secret,
    SecurityLevel, SecurityProvider, StaticUsers, User,
};
use asyncsteps_executor::{BlockingRequest, Builder, Executor, Incoming, Reply, RequestSteps};
use asyncsteps_support::log::Log;
use asyncsteps_support::{conform, definition};
use expect_test::expect;
use serde_json::{Value, json};
use tokio::time::Instant;

/// What is sent for one message over a channel.
async fn answer(executor: &Executor, channel: Channel, message: &Value) -> String {
    let request = Request::parse(message.to_string().as_bytes()).expect("a message");
    text(executor.dispatch(Incoming::new(request, channel)).await)
}

fn text(reply: Reply) -> String {
    String::from_utf8(reply.into_bytes().expect("a message")).expect("JSON is text")
}

fn http() -> Channel {
    Channel::new(ChannelKind::Http)
}

fn call(function: &str, sec: &Value) -> Value {
    json!({ "f": function, "sec": sec })
}

/// `conform.secret`, and `conform.main` with what it says of its caller.
fn executor(provider: impl SecurityProvider + 'static) -> Executor {
    security(provider).build().expect("a right configuration")
}

fn security(provider: impl SecurityProvider + 'static) -> Builder {
    let whoami = conform::whoami();
    let ok = Template::build(|asi| {
        asi.add(|asi, ()| asi.reply(json!({ "ok": true })));
    });
    let sum = |request: BlockingRequest| -> Result<Value, asyncsteps_core::Error> {
        let terms: [i64; 2] = {
            let params: Value = request.params()?;
            [params["a"].as_i64().unwrap_or(0), params["b"].as_i64().unwrap_or(0)]
        };
        let level = request.user().map_or("Anonymous", |user| user.level().name());
        Ok(json!({ "sum": terms.iter().sum::<i64>(), "seclvl": level }))
    };
    Executor::builder()
        .security(provider)
        .interface(conform::definition("conform.secret:1.0"), |functions| {
            functions.others_not_implemented();
            functions.add("whoami", &whoami).add("priv", &ok);
        })
        .interface(conform::definition("conform.main:1.2"), |functions| {
            functions.others_not_implemented();
            functions.add("priv", &ok);
        })
        .interface(conform::definition("conform.signed:1.0"), |functions| {
            functions.others_not_implemented();
            functions.add_blocking("sum", sum);
        })
}

fn users() -> StaticUsers {
    let hash = PasswordHash::new(&Secret::new("pass")).expect("random bytes");
    StaticUsers::new().with_password("user", hash).with_mac_key("hmacuser", b"MyLongTestSecretKey")
}

#[actix::test]
async fn credentials_decide_which_functions_a_caller_may_call() {
    let executor = executor(users());
    let mut out = String::new();
    for (function, sec) in [
        ("conform.secret:1.0:whoami", json!(null)),
        ("conform.secret:1.0:whoami", json!("user:pass")),
        ("conform.secret:1.0:whoami", json!({ "user": "user", "secret": "pass" })),
        ("conform.secret:1.0:whoami", json!("user:wrong")),
        ("conform.secret:1.0:whoami", json!("nobody:pass")),
        ("conform.secret:1.0:whoami", json!("-internal")),
        ("conform.secret:1.0:priv", json!("user:pass")),
        ("conform.main:1.2:priv", json!(null)),
        ("conform.signed:1.0:sum", json!("user:pass")),
        ("conform.secret:2.0:whoami", json!(null)),
        ("conform.secret:2.0:whoami", json!("user:pass")),
        ("conform.main:2.0:echo", json!(null)),
    ] {
        out += &answer(&executor, http(), &call(function, &sec)).await;
        out.push('\n');
    }
    expect![[r#"
        {"e":"SecurityError","edesc":"Anonymous not allowed"}
        {"r":{"gid":null,"lid":"user","seclvl":"SafeOps"}}
        {"r":{"gid":null,"lid":"user","seclvl":"SafeOps"}}
        {"e":"SecurityError","edesc":"Basic Auth Verification Failed"}
        {"e":"SecurityError","edesc":"Basic Auth Verification Failed"}
        {"e":"SecurityError","edesc":"Not internal channel"}
        {"e":"PleaseReauth","edesc":"PrivilegedOps"}
        {"e":"PleaseReauth","edesc":"PrivilegedOps"}
        {"e":"SecurityError","edesc":"Message Signature is required"}
        {"e":"SecurityError","edesc":"Anonymous not allowed"}
        {"e":"NotSupportedVersion","edesc":"Different major version: conform.secret:2"}
        {"e":"NotSupportedVersion","edesc":"Different major version: conform.main:2"}
    "#]]
    .assert_eq(&out);
}

#[actix::test]
async fn the_answer_to_a_signed_request_is_signed() {
    let executor = executor(users());
    // echo -n 'f:conform.signed:1.0:sum;p:a:1;b:2;;' | openssl dgst -md5 -hmac MyLongTestSecretKey
    let sec = json!("-hmac:hmacuser:MD5:OQ+kT3xPtDnyF0ZDymaA4w==");
    let message =
        |b: i64| json!({ "f": "conform.signed:1.0:sum", "p": { "a": 1, "b": b }, "sec": sec });
    // echo -n 'r:seclvl:PrivilegedOps;sum:3;;' | openssl dgst -md5 -hmac MyLongTestSecretKey
    expect![[r#"{"r":{"seclvl":"PrivilegedOps","sum":3},"sec":"nxJtpCKFt9C8TZNevFV15g=="}"#]]
        .assert_eq(&answer(&executor, http(), &message(2)).await);
    // the signature is that of another message
    expect![[r#"{"e":"SecurityError","edesc":"Basic Auth Verification Failed"}"#]]
        .assert_eq(&answer(&executor, http(), &message(3)).await);
}

#[actix::test]
async fn signatures_with_sha3_are_known_and_only_accepted_algorithms_are_checked() {
    let signed =
        |sec: &str| json!({ "f": "conform.signed:1.0:sum", "p": { "a": 1, "b": 2 }, "sec": sec });
    // echo -n 'f:conform.signed:1.0:sum;p:a:1;b:2;;' | openssl dgst -ALGO -hmac MyLongTestSecretKey
    let sha3 = signed("-hmac:hmacuser:SHA3-256:eUb9gIHMN0ntLyS/oEu6Jz4v4Bdvf925Et7qmYzc/AQ=");
    let sha256 = signed("-smac:hmacuser:HS256:KhjBlv2YZrA4u6gs6VuNymCLgphfk8USAPZzA4LWiYw=");
    let md5 = signed("-hmac:hmacuser:MD5:OQ+kT3xPtDnyF0ZDymaA4w==");
    let all = executor(users());
    let some = security(users()).mac_algorithms([MacAlgorithm::Sha256, MacAlgorithm::Sha3_256]);
    let some = some.build().expect("a right configuration");
    let none = security(users()).mac_algorithms([]).build().expect("a right configuration");
    let mut out = String::new();
    for (executor, messages) in
        [(all, vec![&sha3, &sha256, &md5]), (some, vec![&sha3, &sha256, &md5]), (none, vec![&sha3])]
    {
        for message in messages {
            out += &answer(&executor, http(), message).await;
            out.push('\n');
        }
    }
    expect![[r#"
        {"r":{"seclvl":"PrivilegedOps","sum":3},"sec":"Cw7ofBsls3LAXYt6AtNTqm4ekyuYdtH7VyiFVcd0wGA="}
        {"r":{"seclvl":"PrivilegedOps","sum":3},"sec":"SDkgyPq+n0K2PHj/RnuRGmKrqNDYLYA3yforuke06Ik="}
        {"r":{"seclvl":"PrivilegedOps","sum":3},"sec":"nxJtpCKFt9C8TZNevFV15g=="}
        {"r":{"seclvl":"PrivilegedOps","sum":3},"sec":"Cw7ofBsls3LAXYt6AtNTqm4ekyuYdtH7VyiFVcd0wGA="}
        {"r":{"seclvl":"PrivilegedOps","sum":3},"sec":"SDkgyPq+n0K2PHj/RnuRGmKrqNDYLYA3yforuke06Ik="}
        {"e":"SecurityError","edesc":"MAC algorithm is not accepted: MD5"}
        {"e":"SecurityError","edesc":"MAC algorithm is not accepted: SHA3-256"}
    "#]].assert_eq(&out);
}

#[actix::test]
async fn credentials_of_a_header_count_unless_the_message_has_its_own() {
    let executor = executor(users());
    let header = || Credentials::from_header("Basic dXNlcjpwYXNz");
    let message = |message: Value| Request::parse(message.to_string().as_bytes()).unwrap();
    let with_header = Incoming::new(message(json!({ "f": "conform.secret:1.0:whoami" })), http());
    let reply = executor.dispatch(with_header.with_credentials(header())).await;
    expect![[r#"{"r":{"gid":null,"lid":"user","seclvl":"SafeOps"}}"#]].assert_eq(&text(reply));
    let both = message(call("conform.secret:1.0:whoami", &json!("user:wrong")));
    let reply = executor.dispatch(Incoming::new(both, http()).with_credentials(header())).await;
    expect![[r#"{"e":"SecurityError","edesc":"Basic Auth Verification Failed"}"#]]
        .assert_eq(&text(reply));
}

#[actix::test]
async fn only_the_service_itself_acts_for_others() {
    let executor = executor(users());
    let f = "conform.secret:1.0:whoami";
    let obf = json!({ "lid": "ann", "gid": "ann@example.org", "slvl": "Info" });
    let inside = json!({ "f": f, "sec": "-internal", "obf": obf });
    expect![[r#"{"r":{"gid":null,"lid":"ann","seclvl":"Info"}}"#]]
        .assert_eq(&answer(&executor, Channel::local(), &inside).await);
    let outside = json!({ "f": f, "sec": "user:pass", "obf": obf });
    expect![[r#"{"e":"SecurityError","edesc":"On-behalf-of is not allowed"}"#]]
        .assert_eq(&answer(&executor, http(), &outside).await);
    for obf in [
        json!({ "slvl": "Info" }),
        json!({ "lid": "ann", "slvl": "Unknown" }),
        json!({ "lid": "ann", "gid": 5 }),
        json!({ "lid": "ann", "more": "x" }),
        json!("ann"),
    ] {
        let malformed = json!({ "f": f, "sec": "-internal", "obf": obf });
        expect![[r#"{"e":"InvalidRequest","edesc":"Invalid message: obf"}"#]]
            .assert_eq(&answer(&executor, Channel::local(), &malformed).await);
    }

    let whoami: Value = executor.call_as_system(f, ()).await.unwrap();
    assert_eq!(whoami, json!({ "lid": "-internal", "gid": null, "seclvl": "System" }));
    let ann = User::new("ann", SecurityLevel::SafeOps);
    let denied = executor.call_for::<Value>(&ann, "conform.secret:1.0:priv", ()).await;
    assert_eq!(denied.unwrap_err().code(), codes::PLEASE_REAUTH);
}

/// What a message is in JSON.
fn json_of(request: &Request) -> Value {
    let mut bytes = Vec::new();
    request.clone().write(Coding::Json, None, &mut bytes);
    serde_json::from_slice(&bytes).expect("JSON")
}

#[actix::test]
async fn a_function_sees_the_request_and_the_response_as_messages() {
    const ECHO: &str = r#"{ "iface": "test.raw", "version": "1.0", "ftn3rev": "1.9", "funcs": { "echo": {
        "params": { "a": "integer", "b": { "type": "integer", "default": 2 } }, "result": "any" } } }"#;
    let seen: Arc<Mutex<Option<(Request, Response)>>> = Arc::default();
    let sees = Arc::clone(&seen);
    let echo = Template::build(|asi| {
        asi.add(move |asi, ()| {
            asi.request_mut()?.result_mut().insert("x".to_owned(), json!(1));
            asi.reply(json!({ "y": 2 }))?;
            let info = asi.request()?;
            *sees.lock().unwrap() = Some((info.raw_request(), info.raw_response()));
            Ok(())
        });
    });
    let executor = Executor::builder().security(users());
    let executor = executor.interface(definition("test.raw:1.0", ECHO), |functions| {
        functions.add("echo", &echo);
    });
    let executor = executor.build().expect("a right configuration");
    let message = json!({ "f": "test.raw:1.0:echo", "p": { "a": 1 }, "rid": "C7", "forcersp": true,
        "sec": "user:pass" });
    let answered = answer(&executor, http(), &message).await;
    assert_eq!(answered, r#"{"r":{"x":1,"y":2},"rid":"C7"}"#);
    let (request, response) = seen.lock().unwrap().take().expect("it was seen");
    let mut expected = message;
    expected["p"]["b"] = json!(2);
    assert_eq!(json_of(&request), expected, "with the defaults of its parameters");
    assert!(!format!("{request:?}").contains("pass"), "its password is not for logs");
    assert_eq!(response.result(), Some(&json!({ "x": 1, "y": 2 })));
    assert_eq!(response.rid().map(ToString::to_string), Some("C7".to_owned()));
}

#[actix::test]
async fn the_span_of_a_request_says_how_long_it_waited_to_be_admitted() {
    tokio::time::pause();
    let log = Log::default();
    let open = log.open_with_spans();
    let slow = executor(Slow(Some(Duration::from_secs(3))));
    for user in ["ann", "evil"] {
        let message = call("conform.secret:1.0:whoami", &json!(format!("{user}:x")));
        answer(&slow, http(), &message).await;
    }
    drop(open);
    let text = log.take();
    let lines: Vec<_> = text.lines().filter(|line| line.contains("whoami")).collect();
    let [admitted, refused] = lines[..] else { panic!("{text}") };
    // timers may be late by a millisecond
    assert!(admitted.contains("waited=3s") || admitted.contains("waited=3.001s"), "{text}");
    assert!(refused.contains("waited=3s") || refused.contains("waited=3.001s"), "{text}");
    assert!(refused.contains("outcome=\"SecurityError\""), "{text}");
}

/// Admits every user after a time, or never.
#[derive(Debug)]
struct Slow(Option<Duration>);

impl SecurityProvider for Slow {
    fn check(&self, attempt: &Attempt<'_>) -> AuthOutcome {
        let user = attempt.credentials().user().unwrap_or_default().to_owned();
        let Some(time) = self.0 else { return AuthOutcome::wait(std::future::pending()) };
        AuthOutcome::wait(async move {
            tokio::time::sleep(time).await;
            if user == "evil" { Err(Refusal::credentials()) } else { Ok(grant(user)) }
        })
    }
}

fn grant(user: String) -> Grant {
    Grant::new(User::new(user, SecurityLevel::Info))
}

#[actix::test]
async fn a_slow_provider_is_waited_for_within_the_time_of_the_request() {
    tokio::time::pause();
    let message = call("conform.secret:1.0:whoami", &json!("ann:x"));
    let slow = executor(Slow(Some(Duration::from_secs(3))));
    expect![[r#"{"r":{"gid":null,"lid":"ann","seclvl":"Info"}}"#]]
        .assert_eq(&answer(&slow, http(), &message).await);
    let begin = Instant::now();
    expect![[r#"{"e":"InternalError"}"#]]
        .assert_eq(&answer(&executor(Slow(None)), http(), &message).await);
    assert!(begin.elapsed() >= Duration::from_secs(5));
}

/// Knows where its users work.
#[derive(Debug)]
struct Directory;

impl SecurityProvider for Directory {
    fn check(&self, attempt: &Attempt<'_>) -> AuthOutcome {
        let name = attempt.credentials().user().unwrap_or_default();
        let user = User::new(name, SecurityLevel::SafeOps).with_detail("tenant", "acme");
        AuthOutcome::Known(Ok(Grant::new(user.with_detail("roles", json!(["buyer"])))))
    }
}

#[actix::test]
async fn a_function_sees_where_its_request_came_from_and_the_details_of_its_user() {
    let describe = Template::build(|asi| {
        asi.add(|asi, ()| {
            let info = asi.request()?;
            let source = info.source_address().map(|source| source.to_string());
            let details = info.user().map(|user| json!(user.details()));
            asi.reply(json!({ "msg": format!("{source:?} {details:?}"), "n": 0, "opt": null }))
        });
    });
    let main = conform::definition("conform.main:1.2");
    let executor = Executor::builder()
        .security(Directory)
        .interface(main, |functions| {
            functions.others_not_implemented();
            functions.add("echo", &describe);
        })
        .build()
        .expect("a right configuration");
    let peer: SocketAddr = "[::ffff:192.0.2.1]:80".parse().expect("an address");
    let mut out = String::new();
    for (channel, sec) in [
        (http(), json!(null)),
        (http().with_peer(peer), json!("ann:pass")),
        (Channel::local(), json!("-internal")),
    ] {
        let message = json!({ "f": "conform.main:1.2:echo", "p": { "msg": "" }, "sec": sec });
        let answer: Value = answer(&executor, channel, &message).await.parse().expect("JSON");
        out += answer["r"]["msg"].as_str().expect("it is answered");
        out.push('\n');
    }
    expect![[r#"
        None None
        Some("IPv4:192.0.2.1:80") Some(Object {"roles": Array [String("buyer")], "tenant": String("acme")})
        Some("LOCAL:internal") Some(Object {})
    "#]].assert_eq(&out);
}

#[test]
fn details_of_a_user_are_not_logged() {
    let user = User::new("ann", SecurityLevel::Info).with_detail("mail", "ann@example.com");
    assert!(!format!("{user:?}").contains("example"));
}
