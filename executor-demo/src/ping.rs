//! `futoin.ping` and `futoin.anonping` (FTN4).

use asyncsteps::Template;
use asyncsteps_actors::executor::RequestSteps;
use serde_json::json;

/// Gives the number back.
#[must_use]
pub fn template() -> Template {
    Template::build(|asi| {
        asi.add(|asi, ()| {
            let echo: i64 = asi.param("echo")?;
            asi.reply(json!({ "echo": echo }))
        })
        .named("ping");
    })
}
