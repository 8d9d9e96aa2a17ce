//! Steps that say what a crash does to them, in durable functions and in others, called in
//! the process.

use std::hint::black_box;

use asyncsteps_durable::Durable;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Functions, Returns, Steps};
use serde_json::json;

use crate::dropping::Dropping;

/// A function of `COUNT` steps that pass a text on.
fn receipt<const COUNT: u32>(steps: &Steps<(), ()>) -> Returns<String> {
    let first = steps.run("step", async |_, ()| Ok("a receipt".to_owned())).recorded().erased();
    let all = (1..COUNT).fold(first, |before, _| {
        before.then("step", async |_, text| Ok(black_box(text))).recorded().erased()
    });
    all.returns()
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
    let define = |functions: &mut Functions<()>| match durable {
        Some(durable) => {
            durable.on(functions, "ten", receipt::<10>);
            durable.on(functions, "twenty", receipt::<20>);
        }
        None => _ = functions.on("ten", receipt::<10>).on("twenty", receipt::<20>),
    };
    let function = if is_long { "acme.shop:1.0:twenty" } else { "acme.shop:1.0:ten" };
    actix_rt::System::new().block_on(async {
        let interface = Interface::new("acme.shop:1.0".parse().expect("a name"));
        let builder = Executor::builder().service(interface, (), define);
        let executor = builder.build().expect("a right configuration");
        let _node = match durable {
            Some(durable) => Some(durable.start(&executor).await.expect("a node")),
            None => None,
        };
        for _ in 0..calls {
            let answer = executor.call_as_system::<String>(function, json!({})).await;
            assert_eq!(answer.expect("it ends well"), "a receipt");
        }
    });
}
