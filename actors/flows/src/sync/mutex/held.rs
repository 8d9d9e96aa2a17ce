//! The locks that a flow holds.

use std::sync::Arc;

use asyncsteps_core::{Execution, StepLocation};

use super::guard::StepGuard;

/// A mutex, or the mutex of a limiter, that a flow holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldLock {
    /// Its name; empty if it has none.
    pub name: &'static str,
    /// Its key; empty if it has none.
    pub key: Arc<str>,
    /// The branch that holds it, 0 for the root.
    pub branch: u32,
    /// The step that took it.
    pub step: StepLocation,
}

/// The locks that the steps of a flow hold, in no particular order; not the locks that async bodies
/// keep in variables.
#[must_use]
pub fn held(flow: &Execution) -> Vec<HeldLock> {
    let guards = flow.kept::<StepGuard>().filter(|(.., guard)| guard.is_inside());
    let held = guards.map(|(branch, step, guard)| HeldLock {
        name: guard.state().name(),
        key: Arc::clone(guard.state().key()),
        branch,
        step,
    });
    held.collect()
}
