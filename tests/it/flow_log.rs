//! What the log tells: errors that no caller sees, where a flow was when its deadline passed, and
//! requests that were refused.

use std::io;
use std::time::Duration;

use asyncsteps_actors::flow::{FlowHandle, IntoFlow, start_flow};
use asyncsteps_actors::tool::ArbiterTool;
use asyncsteps_core::{Error, ErrorExt, Flow, StepResult, Template, codes};
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::message::Request;
use asyncsteps_executor::{CallSteps, Executor, Incoming, RequestSteps};
use asyncsteps_support::conform;
use asyncsteps_support::log::Log;
use serde_json::{Value, json};

#[actix::test]
async fn an_error_of_a_cancel_handler_is_logged_with_its_step() {
    let log = Log::default();
    let _open = log.open();
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.set_cancel(|_| {
            Err::<(), _>(io::Error::other("the bank is closed")).code("NotRefunded")
        });
    })
    .named("pay");
    flow.add(|asi, ()| asi.wait_only());
    let handle: FlowHandle = start_flow(flow);
    handle.cancel();
    assert!(handle.await.is_err());
    let text = log.take();
    let parts = ["ERROR", "a cancel handler failed", "NotRefunded", "the bank is closed", "`pay`"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

#[actix::test]
async fn the_error_of_a_flow_that_nobody_asks_is_logged_with_its_step() {
    let log = Log::default();
    let _open = log.open();
    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.error("Declined", "no money")).named("pay");
    flow.execute_on(&ArbiterTool::current());
    tokio::task::yield_now().await;
    let text = log.take();
    let parts = ["ERROR", "a flow failed", "Declined", "no money", "`pay`"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

#[actix::test]
async fn a_panic_of_a_cancel_handler_is_logged_with_its_step() {
    let log = Log::default();
    let _open = log.open();
    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.set_cancel(|_| -> () { panic!("a bug") })).named("pay");
    let handle: FlowHandle = start_flow(flow);
    handle.cancel();
    assert!(handle.await.is_err());
    let text = log.take();
    let parts = ["ERROR", "a step panicked", "a bug", "`pay`"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

#[actix::test]
async fn a_deadline_that_passes_tells_where_the_flow_waited() {
    tokio::time::pause();
    let log = Log::default();
    let _open = log.open();
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.add(|asi, ()| asi.wait_only()).named("bank");
    })
    .named("pay");
    let handle: FlowHandle = start_flow(flow.within(Duration::from_secs(1)));
    assert_eq!(handle.await.expect_err("it takes too long").code(), codes::TIMEOUT);
    let text = log.take();
    let parts = ["WARN", "`pay`", "`bank`", "waits for a time limit or a cancel"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

/// An executor with this business logic for two functions of `conform.main`.
fn executor(fail: &Template, answer: &Template) -> Executor {
    let builder =
        Executor::builder().interface(conform::definition("conform.main:1.2"), |functions| {
            functions.others_not_implemented().add("fail", fail).add("answer", answer);
        });
    builder.build().expect("a right configuration")
}

async fn call(executor: &Executor, f: &str, params: Value) -> String {
    let message = json!({ "f": f, "p": params, "rid": "C7" }).to_string();
    let request = Request::parse(message.as_bytes()).expect("a message");
    let reply = executor.dispatch(Incoming::new(request, Channel::local())).await;
    String::from_utf8(reply.into_bytes().expect("a message")).expect("text")
}

fn nothing() -> Template {
    Template::build(|_| {})
}

#[actix::test]
async fn a_request_that_is_refused_has_a_line() {
    let log = Log::default();
    let _open = log.open();
    let executor = executor(&nothing(), &nothing());
    for (f, params, parts) in [
        ("no.such:1.0:f", json!({}), ["no.such:1.0:f", "UnknownInterface"]),
        ("conform.main:1.2:fail", json!({}), ["conform.main:1.2:fail", "Missing parameter"]),
        ("conform.main:1.2:echo", json!({ "msg": "", "n": 1 }), ["NotImplemented", "C7"]),
    ] {
        call(&executor, f, params).await;
        let text = log.take();
        assert!(text.contains("request refused"), "{text}");
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

/// The reply to bytes that are no request.
fn refuse(executor: &Executor, bytes: &[u8]) -> String {
    let refusal = Request::parse(bytes).expect_err("no request");
    let reply = executor.refuse(refusal, &Channel::local());
    String::from_utf8_lossy(&reply.into_bytes().expect("a message")).into_owned()
}

#[test]
fn a_message_that_is_no_request_has_a_line_with_what_is_wrong() {
    for (bytes, defect) in [
        (&br#"{"f":"a.b:1.0:c",}"#[..], "not JSON: trailing comma at line 1 column 18"),
        (b"", "not JSON: EOF while parsing a value at line 1 column 0"),
        (br#""secret""#, "JSON, but not an object"),
        (b"{\xff", "not UTF-8 from byte 1"),
        (b"MPCK\xc1", "not MsgPack"),
    ] {
        let log = Log::default();
        let _open = log.open();
        let executor = executor(&nothing(), &nothing());
        let answer = refuse(&executor, bytes);
        assert!(answer.contains("Missing req"), "{answer}"); // MessagePack is no text
        let text = log.take();
        let parts = ["WARN", "messages that are no requests", "Missing req.f", "count=1", defect];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        assert!(!text.contains("secret"), "{text}");
        for _ in 0..1000 {
            refuse(&executor, bytes);
        }
        assert_eq!(log.take(), "", "a flood of them adds no lines");
    }
}

#[actix::test]
async fn a_code_that_is_not_declared_is_logged_with_what_to_do() {
    let log = Log::default();
    let _open = log.open();
    let fail = Template::build(|asi| {
        asi.add(|_, ()| -> StepResult { Err(Error::new("OutOfStokc"))? }).named("reserve");
    });
    let executor = executor(&fail, &nothing());
    let answer = call(&executor, "conform.main:1.2:fail", json!({ "code": "x" })).await;
    assert_eq!(answer, r#"{"e":"InternalError","edesc":"Not expected error","rid":"C7"}"#);
    let text = log.take();
    let hint = "conform.main:1.2:fail does not declare OutOfStokc: to have callers see it, add it";
    assert!(
        ["not expected error", "`reserve`", hint].iter().all(|part| text.contains(part)),
        "{text}"
    );
}

#[actix::test]
async fn the_cause_of_a_declared_error_is_logged_and_not_sent() {
    let log = Log::default();
    let _open = log.open();
    let fail = Template::build(|asi| {
        asi.add(|_, ()| -> StepResult {
            let cause = io::Error::other("the bank says no");
            Err(Error::with_info("MyError", "declined").with_cause(cause))?
        })
        .named("pay");
    });
    let executor = executor(&fail, &nothing());
    let answer = call(&executor, "conform.main:1.2:fail", json!({ "code": "x" })).await;
    assert_eq!(answer, r#"{"e":"MyError","edesc":"declined","rid":"C7"}"#);
    let text = log.take();
    let parts = ["the function failed", "the bank says no", "`pay`"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

#[actix::test]
async fn a_wrong_call_of_a_function_is_not_blamed_on_its_caller() {
    let log = Log::default();
    let _open = log.open();
    let calls = Template::build(|asi| {
        asi.add(|asi, ()| {
            asi.call::<Value>("conform.main:1.2:fail", json!({ "typo": "secret" }))?.named("inner");
            Ok(())
        });
    });
    let executor = executor(&nothing(), &calls);
    let answer = call(&executor, "conform.main:1.2:answer", json!({})).await;
    assert_eq!(answer, r#"{"e":"InternalError","edesc":"Not expected error","rid":"C7"}"#);
    let text = log.take();
    let parts =
        ["ERROR", "not expected error", "the call of conform.main:1.2:fail failed", "`inner`"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

#[actix::test]
async fn a_parameter_that_is_not_declared_is_a_mistake_of_the_function() {
    let log = Log::default();
    let _open = log.open();
    let typo = Template::build(|asi| {
        asi.add(|asi, ()| {
            let _: String = asi.param("evnt")?;
            Ok(())
        })
        .named("reads");
    });
    let executor = executor(&nothing(), &typo);
    let answer = call(&executor, "conform.main:1.2:answer", json!({})).await;
    assert_eq!(answer, r#"{"e":"InternalError","edesc":"Not expected error","rid":"C7"}"#);
    let text = log.take();
    let parts = ["ERROR", "no parameter evnt is declared", "`reads`"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

#[actix::test]
async fn an_undo_that_fails_is_logged_with_all_that_it_takes_to_do_it_by_hand() {
    let log = Log::default();
    let _open = log.open();
    let mut flow = Flow::new();
    flow.run(async |()| Ok(7))
        .named("charge")
        .undo(async |_| Err(io::Error::other("the bank is closed")).code("NotRefunded"));
    flow.error_step(Error::new("LedgerDown"));
    let error = start_flow::<()>(flow).await.expect_err("it fails");
    assert_eq!(error.code(), "LedgerDown");
    let text = log.take();
    let parts = [
        "ERROR",
        "an undo failed",
        "NotRefunded",
        "the bank is closed",
        "`charge`",
        "outcome=\"done\"",
    ];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

#[actix::test]
async fn an_undo_that_succeeds_is_logged_with_its_step_and_what_caused_it() {
    tokio::time::pause();
    for cancels in [false, true] {
        let log = Log::default();
        let _open = log.open();
        let mut flow = Flow::new();
        flow.run(async |()| Ok(7)).named("charge").undo(async |_| {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok(())
        });
        flow.add(move |asi, _: i32| match cancels {
            true => asi.wait_only(),
            false => drop(asi.error("LedgerDown", ())),
        });
        let handle: FlowHandle = start_flow(flow);
        if cancels {
            handle.cancel();
        }
        assert!(handle.await.is_err());
        tokio::time::sleep(Duration::from_millis(100)).await;
        let text = log.take();
        let why = if cancels { "cancelled" } else { "LedgerDown" };
        let parts = ["INFO", "a step was undone", "`charge`", "done", why, "time="];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn an_undo_that_is_lost_with_its_system_is_logged() {
    let log = Log::default();
    let _open = log.open();
    let system = actix::System::new();
    system.block_on(async {
        let mut flow = Flow::new();
        flow.run(async |()| Ok(7)).named("charge").undo(async |_| Ok(()));
        flow.add(|asi, _: i32| asi.wait_only());
        start_flow::<()>(flow).detach();
        tokio::task::yield_now().await;
    });
    drop(system);
    let text = log.take();
    let parts = ["ERROR", "an undo failed", "the undo was cancelled", "`charge`"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}
