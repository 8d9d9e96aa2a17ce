//! The interfaces `conform.*`, served as `asyncsteps-conform` serves them.

use std::sync::Arc;

use asyncsteps_core::Template;
use asyncsteps_executor::iface::{Definition, Loader, Source};
use asyncsteps_executor::{Executor, RequestSteps};
use serde_json::json;

/// An executor with all of them.
#[must_use]
pub fn executor() -> Executor {
    asyncsteps_conform::executor().expect("the definitions have these functions")
}

/// The definition of one of them.
#[must_use]
pub fn definition(id: &str) -> Arc<Definition> {
    let sources = [asyncsteps_conform::definitions(), Source::builtin()];
    let mut loader = Loader::new(sources);
    loader.load(&id.parse().expect("a name")).expect("a definition under ifaces")
}

/// The business logic of `conform.secret:1.0:whoami`: who calls, and how well the caller is known.
#[must_use]
pub fn whoami() -> Template {
    Template::build(|asi| {
        asi.add(|asi, ()| {
            let info = asi.request()?;
            let (lid, level) = (info.user().map(|user| user.local_id().to_owned()), info.level());
            asi.reply(json!({ "lid": lid, "gid": null, "seclvl": level.name() }))
        });
    })
}
