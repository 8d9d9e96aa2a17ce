//! The promise: a result that its caller cannot get undoes what the function has done, and its value
//! stays with the service.

use std::sync::{Arc, Mutex};

use asyncsteps_core::{AsyncSteps, Template};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::iface::{Definition, Loader, Source};
use asyncsteps_executor::message::Request;
use asyncsteps_executor::{Executor, Incoming, RequestSteps};
use expect_test::expect;
use serde_json::json;

const DEFINITION: &str = r#"{
    "iface": "test.bank", "version": "1.0", "ftn3rev": "1.9",
    "funcs": {
        "amount": { "params": { "what": "string" }, "result": { "amount": "number" } },
        "text": { "params": { "what": "string" }, "result": "string", "maxrspsize": "1K" }
    },
    "requires": [ "AllowAnonymous" ]
}"#;

fn definition() -> Arc<Definition> {
    let source = Source::texts([("test.bank-1.0-iface.json", DEFINITION)]);
    Loader::new([source]).load(&"test.bank:1.0".parse().expect("a name")).expect("a definition")
}

/// Gives what the caller asks for, in the last step.
fn give(asi: &mut AsyncSteps) -> asyncsteps_core::StepResult {
    match asi.param::<String>("what")?.as_str() {
        "infinite" => asi.reply(json!({ "amount": f64::INFINITY })),
        "secret" => asi.reply(json!({ "amount": "a secret" })),
        "unwritable" => asi.success((std::time::Duration::ZERO,)),
        "missing" => Ok(()),
        "right" => asi.reply(json!({ "amount": 7.5 })),
        "whole secret" => asi.reply(["a secret"]),
        "large" => asi.reply("x".repeat(1100)),
        "largest" => asi.reply("x".repeat(1024 - r#"{"r":""}"#.len())),
        "escaped" => asi.reply("\u{1}".repeat(300)),
        what => asi.reply(what),
    }
}

#[actix::test]
async fn a_result_that_the_caller_cannot_get_undoes_the_function() {
    let refunds = Arc::new(Mutex::new(0));
    let undoes = Arc::clone(&refunds);
    let charge = Template::build(move |asi| {
        let undoes = Arc::clone(&undoes);
        asi.run(async |()| Ok(())).named("charge").undo(async move |_| {
            tokio::task::yield_now().await;
            *undoes.lock().expect("nothing panics") += 1;
            Ok(())
        });
        asi.add(|asi, ()| give(asi));
    });
    let builder = Executor::builder().interface(definition(), |functions| {
        functions.add("amount", &charge).add("text", &charge);
    });
    let executor = builder.build().expect("a right configuration");
    let mut out = String::new();
    for (function, whats) in [
        ("amount", &["right", "infinite", "secret", "unwritable", "missing"][..]),
        ("text", &["fine", "whole secret", "large", "largest", "escaped"][..]),
    ] {
        for what in whats {
            let message =
                json!({ "f": format!("test.bank:1.0:{function}"), "p": { "what": what } });
            let request = Request::parse(message.to_string().as_bytes()).expect("a message");
            let incoming = Incoming::new(request, Channel::new(ChannelKind::Http));
            let reply = executor.dispatch(incoming).await.into_bytes().expect("a message");
            let mut reply = String::from_utf8(reply).expect("text");
            if reply.len() > 500 {
                reply = format!("{} bytes", reply.len());
            }
            let refunds = std::mem::take(&mut *refunds.lock().expect("nothing panics"));
            out += &format!("{function} {what}: {refunds} undone, {reply}\n");
        }
    }
    expect![[r#"
        amount right: 0 undone, {"r":{"amount":7.5}}
        amount infinite: 1 undone, {"e":"InternalError","edesc":"Type mismatch for result variable: amount(amount) = \"null\""}
        amount secret: 1 undone, {"e":"InternalError","edesc":"Type mismatch for result variable: amount(amount) = \"a secret\""}
        amount unwritable: 1 undone, {"e":"InternalError","edesc":"Invalid message: r"}
        amount missing: 1 undone, {"e":"InternalError","edesc":"Missing result variable: amount(amount)"}
        text fine: 0 undone, {"r":"fine"}
        text whole secret: 1 undone, {"e":"InternalError","edesc":"Result type mismatch: text() = \"[\"a secret\"]\""}
        text large: 1 undone, {"e":"InternalError","edesc":"Response size has exceeded the limit"}
        text largest: 0 undone, 1024 bytes
        text escaped: 1 undone, {"e":"InternalError","edesc":"Response size has exceeded the limit"}
    "#]].assert_eq(&out);
}
