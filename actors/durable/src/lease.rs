//! The lease of a node: how long it owns its flows without asking.

use std::cell::Cell;
use std::future::pending;
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_core::Time;
use asyncsteps_journal::{Incarnation, Reading};

use crate::left::JournalClock;

/// The lease of a node, as far as the node knows it.
#[derive(Debug)]
pub(crate) struct Lease {
    /// The name of the node in this term.
    pub(crate) node: Incarnation,
    until: Cell<Time>,
    /// The clock of the journal, which each renewal reads.
    pub(crate) clock: JournalClock,
}

impl Lease {
    /// A lease that was asked for at `asked`.
    pub(crate) fn new(node: Incarnation, asked: Time, lease: Duration, time: Reading) -> Self {
        Self { node, until: Cell::new(asked + lease), clock: JournalClock::new(asked, time) }
    }

    /// It was renewed, which was asked for at `asked`.
    pub(crate) fn renew(&self, asked: Time, lease: Duration, time: Reading) {
        self.until.set(asked + lease);
        self.clock.read(asked, time);
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
