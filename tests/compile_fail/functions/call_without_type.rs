//! A call whose result has no type.

use asyncsteps_core::Template;
use asyncsteps_executor::{CallSteps, RequestSteps};
use serde_json::json;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| {
            asi.call("acme.rates:1.0:get", json!({}))?;
            asi.add(|asi, rate: i64| asi.reply(rate));
            Ok(())
        });
    });
}
