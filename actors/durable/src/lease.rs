//! The lease of a node: how long it owns its flows without asking.

use std::cell::Cell;
use std::future::pending;
use std::time::Duration;

use asyncsteps::Time;
use asyncsteps_actors::clock;

/// The lease of a node, as far as the node knows it.
#[derive(Debug)]
pub(crate) struct Lease {
    until: Cell<Time>,
}

impl Lease {
    /// A lease that was asked for at `asked`.
    pub(crate) fn new(asked: Time, lease: Duration) -> Self {
        Self { until: Cell::new(asked + lease) }
    }

    /// It was renewed, which was asked for at `asked`.
    pub(crate) fn renew(&self, asked: Time, lease: Duration) {
        self.until.set(asked + lease);
    }

    pub(crate) fn until(&self) -> Time {
        self.until.get()
    }

    /// Completes if the lease is valid; else never: the node drops its flows.
    pub(crate) async fn valid(&self) {
        if clock::now() >= self.until.get() {
            pending::<()>().await;
        }
    }
}
