//! The promise: the calls that a request makes are made for its own user, so that no user reaches
//! functions through another one that they may not call (FTN3 §1.11); acting as the service is
//! asked for by name.

use std::sync::Arc;

use asyncsteps_actors::flow::start_flow;
use asyncsteps_core::Template;
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::iface::{Definition, Loader, Source};
use asyncsteps_executor::message::Request;
use asyncsteps_executor::security::{PasswordHash, Secret, SecurityLevel, StaticUsers, User};
use asyncsteps_executor::{CallSteps, Caller, Executor, Incoming, RequestSteps};
use asyncsteps_support::conform;
use expect_test::expect;
use serde_json::{Value, json};

/// Functions that anybody may call, and that call others.
fn front() -> Arc<Definition> {
    let call = json!({ "params": { "f": "string" }, "result": "any" });
    let file = json!({
        "iface": "test.front", "version": "1.0", "ftn3rev": "1.9",
        "funcs": { "call": call, "callTwice": call, "system": call, "launch": call },
        "requires": ["AllowAnonymous"],
    });
    let source = Source::texts([("test.front-1.0-iface.json", file.to_string())]);
    Loader::new([source]).load(&"test.front:1.0".parse().expect("a name")).expect("a definition")
}

fn executor() -> Executor {
    let give = |asi: &mut asyncsteps_core::AsyncSteps| {
        asi.add(|asi, (result,): (Value,)| asi.reply(result));
        Ok(())
    };
    let call = Template::build(move |asi| {
        asi.add(move |asi, ()| {
            let function: String = asi.param("f")?;
            asi.call::<Value>(&function, ())?;
            give(asi)
        });
    });
    let twice = Template::build(move |asi| {
        asi.add(move |asi, ()| {
            let params = asi.request_mut()?.take_params();
            asi.call::<Value>("test.front:1.0:call", params)?;
            give(asi)
        });
    });
    let system = Template::build(move |asi| {
        asi.add(move |asi, ()| {
            let function: String = asi.param("f")?;
            asi.call_as_system::<Value>(&function, ())?;
            give(asi)
        });
    });
    let launch = Template::build(move |asi| {
        asi.add(move |asi, ()| {
            let function: String = asi.param("f")?;
            let info = asi.request()?;
            let (executor, caller) = (info.executor(), info.caller());
            let launched = Template::build(move |asi| {
                let (executor, caller, function) =
                    (executor.clone(), caller.clone(), function.clone());
                asi.add(move |asi, ()| {
                    let call = executor.call_for::<Value>(caller.clone(), &function, ());
                    asi.await_(async { call.await.map(|result| (result,)) });
                    Ok(())
                });
            });
            asi.await_(start_flow::<(Value,)>(launched.flow()));
            give(asi)
        });
    });
    let whoami = conform::whoami();
    let ok = Template::build(|asi| {
        asi.add(|asi, ()| asi.reply(json!({ "ok": true })));
    });
    let hash = PasswordHash::new(&Secret::new("pass")).expect("random bytes");
    Executor::builder()
        .security(StaticUsers::new().with_password("ann", hash))
        .interface(front(), |functions| {
            functions.others_not_implemented();
            functions
                .add("call", &call)
                .add("callTwice", &twice)
                .add("system", &system)
                .add("launch", &launch);
        })
        .interface(conform::definition("conform.secret:1.0"), |functions| {
            functions.others_not_implemented();
            functions.add("whoami", &whoami).add("priv", &ok);
        })
        .build()
        .expect("a right configuration")
}

/// The answers to a function of `test.front`, anonymously and as Ann, for each function it calls.
async fn answers(function: &str) -> String {
    let executor = executor();
    let mut out = String::new();
    for sec in [json!(null), json!("ann:pass")] {
        for inner in ["whoami", "priv"] {
            let params = json!({ "f": format!("conform.secret:1.0:{inner}") });
            let message =
                json!({ "f": format!("test.front:1.0:{function}"), "p": params, "sec": sec });
            let request = Request::parse(message.to_string().as_bytes()).expect("a message");
            let reply =
                executor.dispatch(Incoming::new(request, Channel::new(ChannelKind::Http))).await;
            out += &String::from_utf8(reply.into_bytes().expect("a message")).expect("text");
            out.push('\n');
        }
    }
    out
}

#[actix::test]
async fn a_call_of_a_step_is_made_for_the_caller_of_the_request() {
    let expected = expect![[r#"
        {"e":"SecurityError","edesc":"Anonymous not allowed"}
        {"e":"SecurityError","edesc":"Anonymous not allowed"}
        {"r":{"gid":null,"lid":"ann","seclvl":"SafeOps"}}
        {"e":"PleaseReauth","edesc":"PrivilegedOps"}
    "#]];
    expected.assert_eq(&answers("call").await);
    expected.assert_eq(&answers("callTwice").await);
    expected.assert_eq(&answers("launch").await);
}

#[actix::test]
async fn the_service_itself_acts_when_it_is_asked_to_by_name() {
    expect![[r#"
        {"r":{"gid":null,"lid":"-internal","seclvl":"System"}}
        {"r":{"ok":true}}
        {"r":{"gid":null,"lid":"-internal","seclvl":"System"}}
        {"r":{"ok":true}}
    "#]]
    .assert_eq(&answers("system").await);
}

#[actix::test]
async fn the_application_names_the_caller_of_its_calls() {
    let executor = executor();
    let whoami = "conform.secret:1.0:whoami";
    let system: Value = executor.call_as_system(whoami, ()).await.unwrap();
    assert_eq!(system["seclvl"], "System");
    let bob = User::new("bob", SecurityLevel::Info);
    let bob: Value = executor.call_for(&bob, whoami, ()).await.unwrap();
    assert_eq!(bob, json!({ "lid": "bob", "gid": null, "seclvl": "Info" }));
    let refused = executor.call_for::<Value>(Caller::anonymous(), whoami, ()).await;
    assert_eq!(refused.unwrap_err().to_string(), "SecurityError: Anonymous not allowed");
}
