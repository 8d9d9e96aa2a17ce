//! The promise: the key of a step stays the same until what was asked for under it is undone, and no
//! other step has it.

#![expect(clippy::unused_async, reason = "bodies are async functions")]

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use asyncsteps_core::{BodyResult, Code, Retry};
use asyncsteps_executor::iface::{Definition, Loader, Source};
use asyncsteps_executor::{Cx, Executor, Returns, Service, Steps};
use serde_json::{Value, json};

const BANK: &str = r#"{
    "iface": "test.bank", "version": "1.0", "ftn3rev": "1.9",
    "funcs": {
        "undone": { "result": "integer", "throws": [ "Busy" ] },
        "kept": { "result": "integer", "throws": [ "Busy" ] },
        "twins": { "result": "integer" }
    },
    "requires": [ "AllowAnonymous" ]
}"#;

fn definition() -> Arc<Definition> {
    let source = Source::texts([("test.bank-1.0-iface.json", BANK)]);
    let id = "test.bank:1.0".parse().expect("a name");
    Loader::new([source]).load(&id).expect("a right definition")
}

#[derive(Debug, Code, thiserror::Error)]
#[error("busy")]
#[code("Busy")]
struct Busy;

/// A bank that carries out each key once, until it is undone, and that is busy once.
#[derive(Clone, Default)]
struct Bank(Arc<Mutex<Vec<String>>>);

impl Service for Bank {
    type Errors = (Busy,);
}

impl Bank {
    /// Notes what a step does, without the random part of its key.
    fn note<P>(&self, what: &str, cx: &Cx<Self, P>) {
        let key = cx.key().split_once('-').map(|(_, step)| step).unwrap_or_default();
        self.0.lock().expect("nothing panics").push(format!("{what} {key}"));
    }

    /// A capture that can be undone or not, and a step that is busy at the first attempt.
    fn capture(steps: &Steps<Self, ()>, is_undone: bool) -> Returns<i32> {
        let pay = move |steps: &Steps<Self, ()>| {
            let captured = steps.run("capture", async |cx, ()| {
                cx.note("capture", cx);
                Ok(())
            });
            let captured = match is_undone {
                true => captured.undo(async |cx, _| {
                    cx.note("refund", cx);
                    Ok(())
                }),
                false => captured,
            };
            captured
                .then("record", async |cx, ()| {
                    let attempts = cx.state(|_| Cell::new(0));
                    attempts.set(attempts.get() + 1);
                    if attempts.get() == 1 { Err(Busy.into()) } else { Ok(7) }
                })
                .returns()
        };
        steps
            .nested("order", |steps| {
                steps
                    .run("prepare", async |cx, ()| {
                        cx.note("prepare", cx);
                        Ok(())
                    })
                    .then_nested("pay", pay)
                    .retry(Retry::attempts(2).on(|_: &Busy| true))
                    .returns()
            })
            .returns()
    }

    fn undone(steps: &Steps<Self, ()>) -> Returns<i32> {
        Self::capture(steps, true)
    }

    fn kept(steps: &Steps<Self, ()>) -> Returns<i32> {
        Self::capture(steps, false)
    }

    async fn twin(cx: &Cx<Self, ()>, (): ()) -> BodyResult<()> {
        cx.note("twin", cx);
        Ok(())
    }

    fn twins(steps: &Steps<Self, ()>) -> Returns<i32> {
        steps
            .run("twin", Self::twin)
            .then("twin", Self::twin)
            .then_nested("twin", |steps| steps.run("twin", Self::twin).returns())
            .then("last", async |_, ()| Ok(7))
            .returns()
    }
}

async fn notes(function: &str) -> Vec<String> {
    let bank = Bank::default();
    let executor = Executor::builder()
        .service(definition(), bank.clone(), |functions| {
            functions.on("undone", Bank::undone).on("kept", Bank::kept).on("twins", Bank::twins);
        })
        .build()
        .expect("a right configuration");
    let function = format!("test.bank:1.0:{function}");
    let result = executor.call_as_system::<Value>(&function, json!({})).await;
    assert_eq!(result.expect("the second attempt succeeds"), json!(7));
    bank.0.lock().expect("nothing panics").clone()
}

#[actix::test]
async fn what_was_undone_is_asked_for_under_another_key() {
    let expected = [
        "prepare undone-order/prepare",
        "capture undone-order/pay/capture",
        "refund undone-order/pay/capture",
        "capture undone-order/pay.2/capture",
    ];
    assert_eq!(notes("undone").await, expected);
}

#[actix::test]
async fn what_is_kept_is_asked_for_under_the_same_key() {
    let expected = [
        "prepare kept-order/prepare",
        "capture kept-order/pay/capture",
        "capture kept-order/pay/capture",
    ];
    assert_eq!(notes("kept").await, expected);
}

#[actix::test]
async fn steps_of_one_name_have_their_own_keys() {
    let expected = ["twin twins-twin", "twin twins-twin~2", "twin twins-twin~3/twin"];
    assert_eq!(notes("twins").await, expected);
}
