//! How many flows an arbiter has: a pool needs it to place flows and to wait for their end.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::drain::Drain;

thread_local! {
    static HERE: OnceCell<Here> = const { OnceCell::new() };
}

/// The flows of one arbiter, as other threads see them: waiting flows, and submitted flows that
/// have not ended.
#[derive(Debug, Default)]
pub(crate) struct ArbiterLoad {
    pub(crate) flows: Arc<Drain>,
    /// The flows among them that are parts of others.
    pub(crate) parts: Arc<Drain>,
    /// The thread of the arbiter has ended.
    gone: AtomicBool,
}

/// The purpose of a flow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlowKind {
    Logic,
    /// It is a part of another flow: an undo, or the body of a shielded step.
    Part,
}

/// Lives as long as the thread of the arbiter.
struct Here(Arc<ArbiterLoad>);

impl Drop for Here {
    fn drop(&mut self) {
        self.0.gone.store(true, Ordering::SeqCst);
    }
}

impl ArbiterLoad {
    /// Counts the flows of the current thread from now on; the first one stays.
    pub(crate) fn attach(self: Arc<Self>) {
        HERE.with(|here| {
            here.get_or_init(|| Here(self));
        });
    }

    /// How many flows there are; `None` if the arbiter is gone.
    pub(crate) fn count(&self) -> Option<usize> {
        (!self.gone.load(Ordering::SeqCst)).then(|| self.flows.count())
    }
}

/// Counts a flow in on the current thread, if that belongs to a pool.
#[inline]
pub(crate) fn enter_here(kind: FlowKind) {
    HERE.with(|here| {
        if let Some(Here(load)) = here.get() {
            load.flows.enter();
            if kind == FlowKind::Part {
                load.parts.enter();
            }
        }
    });
}

/// Counts a flow of the current thread out; `is_done` if it ended by itself.
#[inline]
pub(crate) fn leave_here(kind: FlowKind, is_done: bool) {
    // when the thread ends there may be no pool any more
    let _ = HERE.try_with(|here| {
        if let Some(Here(load)) = here.get() {
            load.flows.leave(is_done);
            if kind == FlowKind::Part {
                load.parts.leave(is_done);
            }
        }
    });
}
