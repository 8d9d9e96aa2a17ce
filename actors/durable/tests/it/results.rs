//! Results that a journal has to tell apart.

use asyncsteps_core::{BodyResult, Undo};
use asyncsteps_durable::Options;
use asyncsteps_executor::{Cx, Returns, Steps};
use asyncsteps_journal::limits::VALUE_BYTES;
use asyncsteps_journal::record::Ending;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::lab::{Lab, Nothing, at_each_record, result};
use crate::node::run;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Answer {
    body: Value,
    note: Option<Value>,
    tags: Vec<Value>,
}

fn answer() -> Answer {
    let body = json!({ "sku": null, "items": [[], null, {}] });
    Answer { body, note: None, tags: vec![Value::Null, json!([])] }
}

fn nulls(steps: &Steps<Lab, Nothing>) -> Returns<Value> {
    steps
        .run("null", async |_, ()| Ok(Value::Null))
        .recorded()
        .then("answer", async |_, null| {
            assert_eq!(null, Value::Null);
            Ok(answer())
        })
        .recorded()
        .then("unit", async |_, given| {
            assert_eq!(given, answer());
            Ok(Some(()))
        })
        .recorded()
        .then("last", async |_, unit| {
            assert_eq!(unit, Some(()));
            Ok(json!([null, []]))
        })
        .recorded()
        .returns()
}

#[test]
fn a_null_of_json_is_neither_a_list_nor_a_unit_after_a_crash() {
    let lab = || Lab::new(|durable, functions| _ = durable.on(functions, "nulls", nulls));
    run(at_each_record(
        lab,
        "nulls",
        async |_, _| {},
        |_, ending, crash| {
            assert_eq!(result::<Value>(ending), json!([null, []]), "{crash:?}");
        },
    ));
}

/// Pays by what it takes, which its undo needs: a text of `VALUE_BYTES` and `more` bytes.
fn pays(steps: &Steps<Lab, Nothing>, more: usize) -> Returns<i32> {
    steps
        .run("order", async |_, ()| Ok("x".to_owned()))
        .recorded()
        .undo(async |cx, _| {
            cx.count("order undone");
            Ok(())
        })
        .then("draw", async move |_, _| Ok("x".repeat(VALUE_BYTES - 3 + more)))
        .repeatable()
        .then("pay", async |cx, _| {
            cx.count("paid");
            Ok(1)
        })
        .recorded_with_input()
        .undo_taking(refund)
        .then("fail", async |_, _| Err::<i32, _>("it fails".into()))
        .recorded()
        .returns()
}

#[expect(clippy::ptr_arg, reason = "it is what the step takes")]
async fn refund(cx: &Cx<Lab, Nothing>, drawn: &String, _: Undo<&i32>) -> BodyResult<()> {
    cx.count(format!("refunded {}", drawn.len() >= VALUE_BYTES - 3));
    Ok(())
}

#[test]
fn a_step_whose_input_cannot_be_kept_for_its_undo_does_not_begin() {
    for (more, paid) in [(0, 1), (1, 0)] {
        let lab = Lab::with_programs(move |_, durable, functions| {
            _ = durable.on(functions, "pays", move |steps: &Steps<_, _>| pays(steps, more));
        });
        let journal = lab.journal();
        run(async {
            let uid = lab.submit(&journal, "pays", Options::default()).await;
            let (ending, _) = lab.ended(&journal, uid, &[]).await;
            assert!(matches!(ending, Ending::Failed(_)), "{ending:?}");
            assert_eq!((lab.counted("paid"), lab.counted("refunded true")), (paid, paid));
            assert_eq!(lab.counted("order undone"), 1);
        });
    }
}

/// Its result cannot be stored.
fn large(steps: &Steps<Lab, Nothing>) -> Returns<String> {
    steps
        .run("pay", async |cx, ()| {
            cx.count("paid");
            Ok(1)
        })
        .recorded()
        .undo(async |cx, _| {
            cx.count("refunded");
            Ok(())
        })
        .then("draw", async |_, _| Ok("x".repeat(VALUE_BYTES)))
        .repeatable()
        .returns()
}

#[test]
fn a_request_whose_result_cannot_be_stored_is_undone() {
    run(at_each_record(
        || Lab::new(|durable, functions| _ = durable.on(functions, "large", large)),
        "large",
        async |_, _| {},
        |lab, ending, crash| {
            assert!(matches!(ending, Ending::Failed(_)), "{ending:?}: {crash:?}");
            assert!((1..=2).contains(&lab.counted("paid")), "{crash:?}");
            assert!((1..=2).contains(&lab.counted("refunded")), "{crash:?}");
        },
    ));
}
