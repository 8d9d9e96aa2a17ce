//! Which idle connections keep the buffers that the next request will need.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Waker};

use super::connection_state::ConnectionState;

/// Idle connections of a worker that keep their buffers, which are 16 KiB each: enough for clients
/// that send one request after the other, and a megabyte at most.
const KEPT: usize = 64;

/// The connections of a worker that became idle last.
#[derive(Default)]
pub(super) struct WarmConnections {
    /// The last [`KEPT`] of them, in the order of their turns.
    last: RefCell<VecDeque<Idle>>,
    turns: Cell<u64>,
}

struct Idle {
    progress: Rc<ConnectionState>,
    turn: u64,
    task: Waker,
}

impl WarmConnections {
    /// Whether at least [`KEPT`] other connections became idle since this one, so that its buffers
    /// are better released. Its task is woken when that changes.
    pub(super) fn is_over(&self, progress: &Rc<ConnectionState>, cx: &Context<'_>) -> bool {
        let Some(turn) = progress.idle_turn() else {
            self.enter(progress, cx);
            return false;
        };
        self.turns.get() - turn >= KEPT as u64
    }

    fn enter(&self, progress: &Rc<ConnectionState>, cx: &Context<'_>) {
        let turn = self.turns.get() + 1;
        self.turns.set(turn);
        progress.set_idle_turn(turn);
        let idle = Idle { progress: Rc::clone(progress), turn, task: cx.waker().clone() };
        let mut last = self.last.borrow_mut();
        last.push_back(idle);
        let displaced = if last.len() > KEPT { last.pop_front() } else { None };
        drop(last);
        let Some(displaced) = displaced else { return };
        if displaced.progress.idle_turn() == Some(displaced.turn) {
            displaced.task.wake();
        }
    }
}
