//! The promise: a call within the process is a request like any other, with the caller's time and
//! without bytes; a burst is many of them (FTN6 §1.4, FTN10).

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use asyncsteps_core::{Error, Template, codes};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_executor::message::Request;
use asyncsteps_executor::{BlockingRequest, CallSteps, Executor, Incoming, RequestSteps, builtin};
use asyncsteps_support::conform;
use asyncsteps_support::jobs::Jobs;
use expect_test::expect;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

#[derive(Debug, PartialEq, Deserialize)]
struct Echo {
    msg: String,
    n: i64,
}

/// `conform.main` with `echo` and `answer`, which calls `echo`; `futoin.burst`; and jobs.
fn executor() -> (Jobs, Executor) {
    let echo = Template::build(|asi| {
        asi.add(|asi, ()| {
            let params = asi.request_mut()?.take_params();
            asi.reply(params)
        });
    });
    let answer = Template::build(|asi| {
        asi.add(|asi, ()| {
            asi.call::<Echo>("conform.main:1.2:echo", json!({ "msg": "hi", "n": 42 }))?;
            asi.add(|asi, (echo,): (Echo,)| asi.reply(echo.n));
            Ok(())
        });
    });
    let wait = Template::build(|asi| {
        asi.add(|asi, ()| {
            asi.call::<Value>("test.jobs:1.0:waitHeavy", json!({}))?;
            Ok(())
        });
    });
    let mut loader = Loader::new([Source::builtin()]);
    let burst = loader.load(&"futoin.burst:0.1".parse().expect("a name")).expect("it is built in");
    let (jobs, builder) = Jobs::add(Executor::builder());
    let executor = builder
        .interface(conform::definition("conform.main:1.2"), |functions| {
            functions.others_not_implemented();
            functions.add("echo", &echo).add("answer", &answer).add("zero", &wait);
        })
        .interface(burst, builtin::burst)
        .build()
        .expect("a right configuration");
    (jobs, executor)
}

#[actix::test]
async fn a_call_gives_a_typed_result() {
    let (_jobs, executor) = executor();
    let echo: Echo =
        executor.call_as_system("conform.main:1.2:echo", json!({ "msg": "hi" })).await.unwrap();
    assert_eq!(echo, Echo { msg: "hi".into(), n: 1 });
    let mut out = String::new();
    for (function, params) in [
        ("conform.main:1.2:echo", json!({})),
        ("conform.main:1.2:echo", json!({ "msg": 5 })),
        ("conform.main:1.2:echo", json!("hi")),
        ("conform.main:1.2:missingImpl", json!({})),
        ("no.such:1.0:f", json!({})),
    ] {
        let error = executor.call_as_system::<Echo>(function, params).await.unwrap_err();
        out += &format!("{error}\n");
    }
    expect![[r#"
        InvalidRequest: Missing parameter: conform.main:1.2:echo(msg)
        InvalidRequest: Type mismatch for parameter: conform.main:1.2:echo(msg) = "5"
        InvokerError: the parameters are no map
        NotImplemented: Missing function implementation
        UnknownInterface: Unknown interface: no.such
    "#]]
    .assert_eq(&out);
    let wrong =
        executor.call_as_system::<u8>("conform.main:1.2:echo", json!({ "msg": "hi" })).await;
    assert_eq!(wrong.unwrap_err().code(), codes::INVOKER_ERROR);
}

#[actix::test]
async fn a_step_calls_another_function() {
    let (_jobs, executor) = executor();
    assert_eq!(executor.call_as_system::<i64>("conform.main:1.2:answer", ()).await.unwrap(), 42);
}

#[actix::test]
async fn a_call_ends_no_later_than_its_caller() {
    tokio::time::pause();
    let (mut jobs, executor) = executor();
    let begin = Instant::now();
    // the inner function may take a minute, the outer one five seconds
    let calling = actix_rt::spawn(executor.call_as_system::<i64>("conform.main:1.2:zero", ()));
    let job = jobs.started().await;
    let error: Error = calling.await.unwrap().unwrap_err();
    assert_eq!(error.code(), codes::INTERNAL_ERROR);
    assert_eq!(jobs.cancelled().await, 0);
    assert!(!job.is_waiting());
    assert!(begin.elapsed() < Duration::from_secs(60));
    assert_eq!(executor.in_flight_count(), 0);
}

#[actix::test]
async fn a_burst_answers_each_call_in_its_order() {
    let (_jobs, executor) = executor();
    let requests = json!([
        { "f": "conform.main:1.2:echo", "p": { "msg": "one" }, "rid": "1" },
        { "f": "conform.main:1.2:echo", "p": {}, "rid": "2" },
        { "f": "conform.main:1.2:notify", "p": { "v": 1 }, "rid": "3" },
        5,
        { "f": "futoin.burst:0.1:resultBurst", "p": { "requests": [] } },
        { "f": "conform.main:1.2:answer", "sec": "user:pass" },
    ]);
    let message = json!({ "f": "futoin.burst:0.1:resultBurst", "p": { "requests": requests } });
    let request = Request::parse(message.to_string().as_bytes()).unwrap();
    let reply = executor.dispatch(Incoming::new(request, Channel::new(ChannelKind::Http))).await;
    let bytes = reply.into_bytes().expect("a message");
    let answer: Value = serde_json::from_slice(&bytes).expect("JSON");
    let lines: Vec<String> =
        answer["r"]["responses"].as_array().expect("a list").iter().map(Value::to_string).collect();
    expect![[r#"
        {"r":{"msg":"one","n":1,"opt":null},"rid":"1"}
        {"e":"InvalidRequest","edesc":"Missing parameter: conform.main:1.2:echo(msg)","rid":"2"}
        {"e":"NotImplemented","edesc":"Missing function implementation","rid":"3"}
        {"e":"InvalidRequest","edesc":"Missing req.f"}
        {"e":"InvalidRequest","edesc":"A burst in a burst"}
        {"e":"SecurityError","edesc":"Basic Auth Verification Failed"}"#]]
    .assert_eq(&lines.join("\n"));
}

#[actix::test]
async fn a_handler_that_blocks_runs_on_another_thread() {
    let thread = Arc::new(Mutex::new(None::<ThreadId>));
    let seen = Arc::clone(&thread);
    let executor = Executor::builder()
        .interface(conform::definition("conform.main:1.2"), |functions| {
            functions.others_not_implemented();
            functions
                .add_blocking("answer", move |_: BlockingRequest| -> Result<i64, Error> {
                    *seen.lock().unwrap() = Some(std::thread::current().id());
                    Ok(42)
                })
                .add_blocking("fail", |request: BlockingRequest| -> Result<(), Error> {
                    let params: Value = request.params()?;
                    Err(Error::with_info(params["code"].as_str().unwrap().to_owned(), "blocked"))
                })
                .add_blocking("crash", |_: BlockingRequest| -> Result<(), Error> {
                    panic!("a secret of the handler")
                });
        })
        .build()
        .unwrap();
    assert_eq!(executor.call_as_system::<i64>("conform.main:1.2:answer", ()).await.unwrap(), 42);
    let thread = thread.lock().unwrap().expect("it ran");
    assert_ne!(thread, std::thread::current().id());
    let fail = |code: &str| {
        executor.call_as_system::<Value>("conform.main:1.2:fail", json!({ "code": code }))
    };
    assert_eq!(fail("MyError").await.unwrap_err().to_string(), "MyError: blocked");
    assert_eq!(fail("Secret").await.unwrap_err().to_string(), "InternalError: Not expected error");
    let crash = executor.call_as_system::<Value>("conform.main:1.2:crash", ()).await.unwrap_err();
    assert_eq!(crash.to_string(), "InternalError: Not expected error");
}
