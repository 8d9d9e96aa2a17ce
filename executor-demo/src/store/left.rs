//! Payments whose orders have left while the database opened them.
//!
//! An order that is cut does not wait for the database. If its payment is opened all the same, that stays open, and
//! no one knows of it but this process: it is noted here until the next round of payments that are owed.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// The steps that have opened such payments: at most as many as the database has opened in a round.
#[derive(Clone, Debug, Default)]
pub(super) struct Left(Arc<Mutex<HashSet<String>>>);

/// A payment that was opened, for the order that waits for it.
pub(super) struct OpenedPayment {
    pub(super) key: String,
    /// `None` if the payment is of a durable request, which opens it again or abandons it.
    pub(super) left: Option<UnlessTaken>,
}

/// Notes a step when it is dropped.
pub(super) struct UnlessTaken {
    left: Left,
    step: Option<String>,
}

impl Left {
    /// Notes the step unless its payment is [taken](OpenedPayment::take).
    pub(super) fn unless_taken(self, step: String) -> UnlessTaken {
        UnlessTaken { left: self, step: Some(step) }
    }

    /// The steps so far.
    pub(super) fn steps(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }

    /// The payments of these steps were abandoned.
    pub(super) fn forget(&self, steps: &[String]) {
        let mut left = self.0.lock();
        for step in steps {
            left.remove(step);
        }
    }
}

impl OpenedPayment {
    /// The order has got the payment, and looks after it from now on.
    pub(super) fn take(mut self) -> String {
        if let Some(left) = &mut self.left {
            left.step = None;
        }
        self.key
    }
}

impl Drop for UnlessTaken {
    fn drop(&mut self) {
        let step = self.step.take();
        self.left.0.lock().extend(step);
    }
}
