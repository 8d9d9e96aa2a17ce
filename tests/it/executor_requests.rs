//! The promise: whatever a request does, its caller gets one answer, no other request is disturbed,
//! and a request whose caller is gone is really cancelled (FTN6 §1.2).

use std::time::Duration;

use asyncsteps_core::{Error, ErrorExt, StepResult, Template, codes};
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::message::Request;
use asyncsteps_executor::{Builder, ConfigError, Executor, Incoming, RequestSteps};
use asyncsteps_support::client::{Connection, message, post};
use asyncsteps_support::conform;
use asyncsteps_support::jobs::{self, Jobs};
use asyncsteps_support::server::TestServer;
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The answer to one message given to an executor of this arbiter.
async fn dispatch(executor: Executor, message: String) -> String {
    let channel = Channel::local();
    let reply = match Request::parse(message.as_bytes()) {
        Ok(request) => executor.dispatch(Incoming::new(request, channel)).await,
        Err(refusal) => refusal.into(),
    };
    let bytes = reply.into_bytes().expect("all functions here have results");
    String::from_utf8(bytes).expect("JSON is text")
}

fn spawn(executor: &Executor, function: &str, n: i64) -> JoinHandle<String> {
    let message = json!({ "f": format!("test.jobs:1.0:{function}"), "p": { "n": n } });
    actix_rt::spawn(dispatch(executor.clone(), message.to_string()))
}

fn jobs(builder: Builder) -> (Jobs, Executor) {
    let (jobs, builder) = Jobs::add(builder);
    (jobs, builder.build().expect("a right configuration"))
}

fn wait(n: i64) -> Vec<u8> {
    post(&message("test.jobs:1.0:wait", &json!({ "n": n })))
}

/// What a caller of `conform.main` gets if `function` has this business logic.
#[track_caller]
fn check(function: &str, params: Value, template: &Template, expected: Expect) {
    let template = template.clone();
    let answer = actix_rt::System::new().block_on(async {
        let executor = Executor::builder()
            .interface(conform::definition("conform.main:1.2"), |functions| {
                functions.others_not_implemented();
                functions.add(function, &template);
            })
            .build()
            .expect("a right configuration");
        let message = json!({ "f": format!("conform.main:1.2:{function}"), "p": params });
        let answer = dispatch(executor.clone(), message.to_string()).await;
        assert_eq!(executor.in_flight_count(), 0, "the request is over");
        answer
    });
    expected.assert_eq(&answer);
}

#[test]
fn a_panic_ends_one_request_and_nothing_else() {
    let (mut jobs, builder) = Jobs::add(Executor::builder());
    let crash = Template::build(|asi| {
        asi.add(|_, ()| -> StepResult { panic!("a secret of the handler") });
    });
    let builder = builder.interface(conform::definition("conform.main:1.2"), |functions| {
        functions.others_not_implemented();
        functions.add("crash", &crash);
    });
    let executor = builder.build().unwrap();
    // one worker: all requests run on one arbiter
    let host = TestServer::start(1, || executor);
    let mut before = Connection::open(host.address);
    before.send(&wait(1));
    let job = jobs.wait_for_start();

    let mut client = Connection::open(host.address);
    for _ in 0..10 {
        let crashed = client.call("conform.main:1.2:crash", &json!({}));
        assert_eq!(crashed, json!({ "e": "InternalError", "edesc": "Not expected error" }));
    }

    assert!(job.is_waiting(), "the other flow goes on");
    job.finish();
    assert_eq!(before.receive().json(), json!({ "r": { "n": 1 } }));
    client.send(&wait(2));
    jobs.wait_for_start().finish();
    assert_eq!(client.receive().json(), json!({ "r": { "n": 2 } }));
}

#[test]
fn a_panic_in_an_error_handler_is_answered_too() {
    let template = Template::build(|asi| {
        asi.add(|asi, ()| asi.error("MyError", ()))
            .on_error(|_, _| -> StepResult { panic!("a secret of the handler") });
    });
    check(
        "crash",
        json!({}),
        &template,
        expect![[r#"{"e":"InternalError","edesc":"Not expected error"}"#]],
    );
}

#[test]
fn an_error_that_is_not_declared_tells_its_caller_nothing() {
    let template = Template::build(|asi| {
        asi.add(|asi, ()| asi.error("SqlError", "password=secret"));
    });
    check(
        "fail",
        json!({ "code": "x" }),
        &template,
        expect![[r#"{"e":"InternalError","edesc":"Not expected error"}"#]],
    );
}

#[test]
fn a_failed_conversion_tells_its_caller_nothing() {
    let template = Template::build(|asi| {
        asi.add(|_, ()| {
            "secret".parse::<u16>()?;
            Ok(())
        });
    });
    check(
        "crash",
        json!({}),
        &template,
        expect![[r#"{"e":"InternalError","edesc":"Not expected error"}"#]],
    );
}

#[test]
fn a_declared_error_passes() {
    let template = Template::build(|asi| {
        asi.add(|asi, ()| asi.error("MyError", "for the caller"));
    });
    check(
        "fail",
        json!({ "code": "x" }),
        &template,
        expect![[r#"{"e":"MyError","edesc":"for the caller"}"#]],
    );
}

#[test]
fn a_standard_error_passes() {
    let template = Template::build(|asi| {
        asi.add(|asi, ()| asi.error(codes::UNAUTHORIZED, ()));
    });
    check("answer", json!({}), &template, expect![[r#"{"e":"Unauthorized"}"#]]);
}

#[test]
fn an_error_of_the_calling_side_does_not_pass() {
    let sides = [codes::TIMEOUT, codes::CONNECT_ERROR, codes::COMM_ERROR, codes::INVOKER_ERROR];
    for code in sides {
        let template = Template::build(|asi| {
            asi.add(move |asi, ()| asi.error(code, "of what the function called itself"));
        });
        let expected = expect![[r#"{"e":"InternalError","edesc":"Not expected error"}"#]];
        check("answer", json!({}), &template, expected);
    }
}

#[test]
fn the_text_of_a_foreign_error_stays_inside() {
    let refused = || std::io::Error::other("postgres://svc:secret@db refused");
    let by_code = Template::build(|asi| {
        asi.add(move |_, ()| Err::<(), _>(refused()).code("MyError"));
    });
    check("fail", json!({ "code": "x" }), &by_code, expect![[r#"{"e":"MyError"}"#]]);
    let by_cause = Template::build(|asi| {
        asi.add(move |_, ()| -> StepResult { Err(Error::caused_by("MyError", refused()))? });
    });
    check("fail", json!({ "code": "x" }), &by_cause, expect![[r#"{"e":"MyError"}"#]]);
    let with_text = Template::build(|asi| {
        asi.add(move |_, ()| -> StepResult {
            Err(Error::with_info("MyError", "try again").with_cause(refused()))?
        });
    });
    let expected = expect![[r#"{"e":"MyError","edesc":"try again"}"#]];
    check("fail", json!({ "code": "x" }), &with_text, expected);
}

#[test]
fn an_error_of_another_function_does_not_pass() {
    // `fail` declares it, `answer` does not
    let template = Template::build(|asi| {
        asi.add(|asi, ()| asi.error("MyError", "secret"));
    });
    check(
        "answer",
        json!({}),
        &template,
        expect![[r#"{"e":"InternalError","edesc":"Not expected error"}"#]],
    );
}

#[test]
fn a_result_is_checked_before_it_is_sent() {
    let replies = |result: Value| {
        Template::build(|asi| {
            asi.add(move |asi, ()| asi.reply(&result));
        })
    };
    let kind = json!({ "kind": "type" });
    check(
        "badResult",
        kind.clone(),
        &replies(json!({})),
        expect![[r#"{"e":"InternalError","edesc":"Missing result variable: badResult(a)"}"#]],
    );
    check(
        "badResult",
        kind.clone(),
        &replies(json!({ "a": 1, "b": 2 })),
        expect![[r#"{"e":"InternalError","edesc":"Unknown result variable: badResult(b)"}"#]],
    );
    check(
        "badResult",
        kind,
        &replies(json!({ "a": "text" })),
        expect![[
            r#"{"e":"InternalError","edesc":"Type mismatch for result variable: badResult(a) = \"text\""}"#
        ]],
    );
    let nothing = Template::build(|asi| {
        asi.add(|_, ()| {});
    });
    check(
        "answer",
        json!({}),
        &nothing,
        expect![[r#"{"e":"InternalError","edesc":"Result type mismatch: answer() = \"{}\""}"#]],
    );
}

#[test]
fn a_function_without_a_template_is_not_implemented() {
    let (_jobs, executor) =
        jobs(Executor::builder().interface(conform::definition("conform.main:1.2"), |functions| {
            functions.others_not_implemented();
        }));
    let answer = actix_rt::System::new()
        .block_on(dispatch(executor, r#"{"f":"conform.main:1.2:answer","rid":"C1"}"#.to_owned()));
    expect![[r#"{"e":"NotImplemented","edesc":"Missing function implementation","rid":"C1"}"#]]
        .assert_eq(&answer);
}

#[actix::test]
async fn a_request_that_takes_too_long_is_answered_and_cancelled() {
    tokio::time::pause();
    let limit = Duration::from_millis(1500);
    let (mut jobs, executor) = jobs(Executor::builder().request_timeout(limit));
    let begin = Instant::now();
    let answer = spawn(&executor, "wait", 1);
    let job = jobs.started().await;
    assert_eq!(answer.await.unwrap(), r#"{"e":"InternalError"}"#);
    assert!(Instant::now() - begin >= limit);
    assert_eq!(jobs.cancelled().await, 1);
    assert!(!job.is_waiting());
    assert_eq!(executor.in_flight_count(), 0);
}

#[actix::test]
async fn a_heavy_function_has_more_time() {
    tokio::time::pause();
    let (mut jobs, executor) = jobs(
        Executor::builder()
            .request_timeout(Duration::from_secs(5))
            .heavy_timeout(Duration::from_secs(50)),
    );
    let begin = Instant::now();
    let (light, heavy) = (spawn(&executor, "wait", 1), spawn(&executor, "waitHeavy", 2));
    let (_first, second) = (jobs.started().await, jobs.started().await);
    assert_eq!(light.await.unwrap(), r#"{"e":"InternalError"}"#);
    assert_eq!(jobs.cancelled().await, 1);
    assert!(second.is_waiting());
    assert_eq!(heavy.await.unwrap(), r#"{"e":"InternalError"}"#);
    assert_eq!(jobs.cancelled().await, 2);
    assert!(begin.elapsed() >= Duration::from_secs(50));
}

#[actix::test]
async fn a_request_that_ends_just_in_time_is_not_cancelled() {
    tokio::time::pause();
    let (mut jobs, executor) = jobs(Executor::builder().request_timeout(Duration::from_secs(5)));
    let answer = spawn(&executor, "wait", 1);
    let job = jobs.started().await;
    tokio::time::advance(Duration::from_millis(4999)).await;
    job.finish();
    assert_eq!(answer.await.unwrap(), r#"{"r":{"n":1}}"#);
    assert!(jobs.is_quiet(), "no cancel handler ran");
}

#[actix::test]
async fn dropping_the_answer_cancels_the_request() {
    tokio::time::pause();
    let begin = Instant::now();
    let (mut jobs, executor) = jobs(Executor::builder());
    let answer = spawn(&executor, "wait", 1);
    let _job = jobs.started().await;
    answer.abort();
    assert_eq!(jobs.cancelled().await, 1);
    assert_eq!(begin.elapsed(), Duration::ZERO, "it was not its timeout");
}

#[test]
fn a_client_that_disconnects_cancels_its_request() {
    let (mut jobs, executor) = jobs(Executor::builder());
    let host = TestServer::start(1, || executor);
    let mut staying = Connection::open(host.address);
    staying.send(&wait(1));
    let staying_job = jobs.wait_for_start();

    let mut leaving = Connection::open(host.address);
    leaving.send(&wait(2));
    let job = jobs.wait_for_start();
    drop(leaving);
    assert_eq!(jobs.wait_for_cancel(), 2);
    assert!(!job.is_waiting());

    let mut silent = Connection::open(host.address);
    silent.send(&wait(3));
    let _job = jobs.wait_for_start();
    silent.finish_sending();
    assert_eq!(jobs.wait_for_cancel(), 3);

    staying_job.finish();
    assert_eq!(staying.receive().json(), json!({ "r": { "n": 1 } }));
}

#[test]
fn requests_over_the_limit_are_refused_until_there_is_room() {
    let (mut jobs, executor) = jobs(Executor::builder().max_requests(2));
    // the limit counts over all arbiters
    let host = TestServer::start(2, || executor);
    let mut clients = [(); 3].map(|()| Connection::open(host.address));
    clients[0].send(&wait(0));
    let first = jobs.wait_for_start();
    clients[1].send(&wait(1));
    let _second = jobs.wait_for_start();
    assert_eq!(host.executor.in_flight_count(), 2);

    let refused = json!({ "e": "DefenseRejected", "edesc": "Too many requests" });
    for _ in 0..3 {
        assert_eq!(clients[2].send(&wait(2)).receive().json(), refused);
    }

    // an answer makes room
    first.finish();
    assert_eq!(clients[0].receive().json(), json!({ "r": { "n": 0 } }));
    clients[0].send(&wait(3));
    let _third = jobs.wait_for_start();
    assert_eq!(clients[2].send(&wait(2)).receive().json(), refused);

    // so does a client that went away
    let [_, gone, mut last] = clients;
    drop(gone);
    assert_eq!(jobs.wait_for_cancel(), 1);
    host.wait_for_in_flight(1);
    last.send(&wait(4));
    jobs.wait_for_start().finish();
    assert_eq!(last.receive().json(), json!({ "r": { "n": 4 } }));
}

#[test]
fn a_wrong_registration_is_an_error_that_names_it() {
    let define = |names: &'static [&'static str]| {
        Executor::builder().interface(jobs::definition(), |functions| {
            functions.not_implemented("waitHeavy");
            for name in names {
                functions.add(name, &Template::build(|_| {}));
            }
        })
    };
    let error = |builder: Builder| builder.build().expect_err("a wrong registration");
    let unknown = error(define(&["wait", "missing"]));
    assert!(matches!(unknown, ConfigError::NoSuchFunction { .. }));
    expect!["test.jobs:1.0 has no function missing"].assert_eq(&unknown.to_string());
    let twice = error(define(&["wait", "wait"]));
    assert!(matches!(twice, ConfigError::Twice { .. }));
    expect!["test.jobs:1.0 got two handlers or templates for wait"].assert_eq(&twice.to_string());
    let missing = error(define(&[]));
    assert!(matches!(missing, ConfigError::Missing { .. }));
    expect!["test.jobs:1.0 got no handler or template for wait"].assert_eq(&missing.to_string());
    let again = error(define(&["wait"]).interface(jobs::definition(), |functions| {
        functions.others_not_implemented();
    }));
    assert!(matches!(again, ConfigError::Registered { .. }));
    expect!["test.jobs:1.0 is registered already"].assert_eq(&again.to_string());
}

#[actix::test]
async fn an_interface_can_be_registered_while_requests_are_served() {
    let (_jobs, executor) = jobs(Executor::builder());
    let message = r#"{"f":"conform.main:1.2:answer"}"#;
    let before = dispatch(executor.clone(), message.to_owned()).await;
    expect![[r#"{"e":"UnknownInterface","edesc":"Unknown interface: conform.main"}"#]]
        .assert_eq(&before);
    let answer = Template::build(|asi| {
        asi.add(|asi, ()| asi.reply(42));
    });
    executor
        .register(conform::definition("conform.main:1.2"), |functions| {
            functions.others_not_implemented();
            functions.add("answer", &answer);
        })
        .unwrap();
    assert_eq!(dispatch(executor.clone(), message.to_owned()).await, r#"{"r":42}"#);
    assert!(executor.register(jobs::definition(), |_| {}).is_err());
}
