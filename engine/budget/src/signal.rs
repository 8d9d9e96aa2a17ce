//! How the owner of a holding is notified.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use futures_util::task::AtomicWaker;

/// Notifies the owner of a holding.
#[derive(Debug, Default)]
pub(super) struct HoldingSignal {
    is_displaced: AtomicBool,
    waker: AtomicWaker,
}

impl HoldingSignal {
    /// The holding is not counted any more; called while the budget is locked.
    pub(super) fn displace(&self) {
        self.is_displaced.store(true, Ordering::SeqCst);
    }

    pub(super) fn notify(&self) {
        self.waker.wake();
    }

    /// Has this task woken when the holding is displaced.
    pub(super) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    pub(super) fn is_displaced(&self) -> bool {
        self.is_displaced.load(Ordering::SeqCst)
    }
}
