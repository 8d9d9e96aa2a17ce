//! Connections that an executor depends on.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

/// The state of a connection that an executor [depends on](crate::Executor::depends_on).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what connects makes it")]
pub struct ConnectionState {
    /// What it leads to, in a word, such as `nats`.
    pub name: &'static str,
    /// What is wrong with it, as a sentence; `None` while it is there.
    pub fault: Option<String>,
    /// How often it was lost.
    pub losses: u64,
    /// Since when its other end was not heard; zero if that is not known.
    pub silence: Duration,
}

impl From<bool> for ConnectionState {
    fn from(is_there: bool) -> Self {
        let fault = (!is_there).then(|| "a connection is lost".to_owned());
        Self { name: "other", fault, ..Self::default() }
    }
}

/// Looks at a connection.
type Look = dyn Fn() -> ConnectionState + Send + Sync;

/// A connection that an executor depends on, until this is dropped; returned by
/// [`Executor::depends_on`](crate::Executor::depends_on).
#[derive(derive_more::Debug)]
#[debug("Dependency")]
#[must_use = "dropping it ends the dependency"]
pub struct Dependency(#[expect(dead_code, reason = "the executor has a weak reference")] Arc<Look>);

/// The connections that an executor depends on.
#[derive(Default)]
pub(crate) struct Dependencies(Mutex<Vec<Weak<Look>>>);

impl Dependencies {
    pub(super) fn add(&self, dependency: Arc<Look>) -> Dependency {
        let mut all = self.0.lock();
        all.retain(|it| it.strong_count() > 0);
        all.push(Arc::downgrade(&dependency));
        Dependency(dependency)
    }

    pub(super) fn states(&self) -> Vec<ConnectionState> {
        let all = self.0.lock().clone();
        all.iter().filter_map(Weak::upgrade).map(|look| look()).collect()
    }
}
