//! Results that a journal has to tell apart.

use asyncsteps_executor::{Returns, Steps};
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
