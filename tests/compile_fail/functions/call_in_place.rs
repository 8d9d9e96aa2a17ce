//! A call whose result is used as if it was there.

use asyncsteps_core::Template;
use asyncsteps_executor::{CallSteps, RequestSteps};
use serde_json::json;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| {
            let rate = asi.call("acme.rates:1.0:get", json!({}))?;
            asi.reply(rate)
        });
    });
}
