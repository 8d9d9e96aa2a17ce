//! Steps that say what a crash does to them, in durable functions and in others, called in
//! the process.

use std::hint::black_box;

use asyncsteps_durable::Durable;
use asyncsteps_executor::plan::Emits;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Functions, Returns, Steps};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::dropping::Dropping;

/// A function of `COUNT` steps that pass a text on.
fn receipt<const COUNT: u32>(steps: &Steps<(), ()>) -> Returns<String> {
    let first = steps.run("step", async |_, ()| Ok("a receipt".to_owned())).recorded().erased();
    let all = (1..COUNT).fold(first, |before, _| {
        before.then("step", async |_, text| Ok(black_box(text))).recorded().erased()
    });
    all.returns()
}

/// A function of ten steps that emit an event each, or none.
fn progress(steps: &Steps<(), Progress>) -> Returns<String> {
    let step = async |cx: &Cx<(), Progress>, ()| {
        if cx.params.emits {
            cx.emit(&"packed".to_owned()).await?;
        }
        Ok(())
    };
    let first = steps.run("step", step).recorded().erased();
    let all = (1..10).fold(first, |before, _| before.then("step", step).recorded().erased());
    all.then("end", async |_, ()| Ok("a receipt".to_owned())).repeatable().returns()
}

#[derive(Deserialize, JsonSchema)]
struct Progress {
    emits: bool,
}

impl Emits for Progress {
    type Event = String;
}

/// Calls of a durable function whose ten steps emit an event each, or none.
pub(crate) fn emitting(calls: u32, emits: bool) {
    let function = ("acme.shop:1.0:progress", json!({ "emits": emits }));
    call(calls, function, Some(&Durable::new(Dropping::default())));
}

/// Calls of a function with ten steps, or with twenty.
pub(crate) fn in_memory(calls: u32, is_long: bool) {
    run(calls, is_long, None);
}

/// The same of one that is durable, with a journal that drops what the steps record.
pub(crate) fn durable(calls: u32, is_long: bool) {
    run(calls, is_long, Some(&Durable::new(Dropping::default())));
}

fn run(calls: u32, is_long: bool, durable: Option<&Durable>) {
    let function = if is_long { "acme.shop:1.0:twenty" } else { "acme.shop:1.0:ten" };
    call(calls, (function, json!({})), durable);
}

fn call(calls: u32, (function, params): (&str, Value), durable: Option<&Durable>) {
    let define = |functions: &mut Functions<()>| match durable {
        Some(durable) => {
            durable.on(functions, "ten", receipt::<10>);
            durable.on(functions, "twenty", receipt::<20>);
            durable.on(functions, "progress", progress);
        }
        None => _ = functions.on("ten", receipt::<10>).on("twenty", receipt::<20>),
    };
    actix_rt::System::new().block_on(async {
        let interface = Interface::new("acme.shop:1.0".parse().expect("a name"));
        let builder = Executor::builder().service(interface, (), define);
        let executor = builder.build().expect("a right configuration");
        let _node = match durable {
            Some(durable) => Some(durable.start(&executor).await.expect("a node")),
            None => None,
        };
        for _ in 0..calls {
            let answer = executor.call_as_system::<String>(function, params.clone()).await;
            assert_eq!(answer.expect("it ends well"), "a receipt");
        }
    });
}
