//! Connections that an executor depends on.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Whether a connection is there.
type IsThere = dyn Fn() -> bool + Send + Sync;

/// A connection that an executor depends on, until this is dropped; returned by
/// [`Executor::depends_on`](crate::Executor::depends_on).
#[derive(derive_more::Debug)]
#[debug("Dependency")]
#[must_use = "dropping it ends the dependency"]
pub struct Dependency(
    #[expect(dead_code, reason = "the executor has a weak reference")] Arc<IsThere>,
);

/// The connections that an executor depends on.
#[derive(Default)]
pub(crate) struct Dependencies(Mutex<Vec<Weak<IsThere>>>);

impl Dependencies {
    pub(super) fn add(&self, dependency: Arc<IsThere>) -> Dependency {
        let mut all = self.0.lock();
        all.retain(|it| it.strong_count() > 0);
        all.push(Arc::downgrade(&dependency));
        Dependency(dependency)
    }

    /// Whether all of them are there.
    pub(super) fn are_there(&self) -> bool {
        let all = self.0.lock().clone();
        all.iter().filter_map(Weak::upgrade).all(|is_there| is_there())
    }
}
