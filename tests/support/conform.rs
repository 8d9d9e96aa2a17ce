//! The interfaces of the demo, as it hosts them.

use std::sync::Arc;

use asyncsteps_actors::executor::ExecutorHandle;
use asyncsteps_actors::iface::{Definition, Loader, Source};

/// An executor with all of them.
#[must_use]
pub fn executor() -> ExecutorHandle {
    executor_demo::conform::executor().expect("the definitions have these functions")
}

/// The definition of one of them.
#[must_use]
pub fn definition(id: &str) -> Arc<Definition> {
    let sources = [executor_demo::conform::definitions(), Source::builtin()];
    let mut loader = Loader::new(sources);
    loader.load(&id.parse().expect("a name")).expect("a definition under ifaces")
}
