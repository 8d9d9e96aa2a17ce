//! A parameter without a type.

use asyncsteps_core::Template;
use asyncsteps_executor::RequestSteps;
use serde_json::json;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| {
            let n = asi.param("n")?;
            asi.reply(json!({ "n": n }))
        });
    });
}
