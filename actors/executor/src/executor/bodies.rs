//! How long the bodies run that hosts of requests record.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::handle::{Executor, RunningBodies};

impl Executor {
    /// Shows the bodies that a host of requests runs, as long as it keeps `bodies`, which must not wait.
    pub fn shows_bodies(&self, bodies: &Arc<RunningBodies>) {
        let mut all = self.shared.bodies.lock();
        all.retain(|it| it.strong_count() > 0);
        all.push(Arc::downgrade(bodies));
    }

    /// How long the oldest body of each function has run, of those that hosts of requests record and run in this process:
    /// the names are the hosts'. Functions without a running body are missing.
    #[must_use]
    pub fn oldest_bodies(&self) -> BTreeMap<Arc<str>, Duration> {
        let all = self.shared.bodies.lock().clone();
        let mut oldest = BTreeMap::new();
        for (function, time) in all.iter().filter_map(Weak::upgrade).flat_map(|bodies| bodies()) {
            let longest: &mut Duration = oldest.entry(function).or_default();
            *longest = time.max(*longest);
        }
        oldest
    }
}
