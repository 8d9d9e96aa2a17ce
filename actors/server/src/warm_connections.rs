//! Which idle connections keep the buffers that the next request will need.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use super::connection_state::ConnectionState;

/// Idle connections of a worker that keep their buffers, which are 16 KiB each: enough for clients
/// that send one request after the other, and a megabyte at most.
const KEPT: usize = 64;

/// The idle connections of a worker that keep their buffers.
///
/// One that becomes idle again keeps its place, and only notes that it did: what is idle for longest is looked for when
/// a connection comes that has no place, so up to [`KEPT`] busy connections cost nothing here.
#[derive(Default)]
pub(super) struct WarmConnections {
    /// With the number of the time that it became idle, of all those of the worker.
    kept: RefCell<VecDeque<(Rc<ConnectionState>, u64)>>,
    idled: Cell<u64>,
}

impl WarmConnections {
    /// Whether at least [`KEPT`] other connections became idle since this one, so that its buffers
    /// are better released. Its task is woken when that changes.
    pub(super) fn is_over(&self, progress: &Rc<ConnectionState>) -> bool {
        if progress.idled().is_none() {
            let turn = self.idled.get() + 1;
            self.idled.set(turn);
            if !progress.idle(turn) {
                self.enter(progress, turn);
            }
        }
        !progress.is_warm()
    }

    fn enter(&self, progress: &Rc<ConnectionState>, turn: u64) {
        progress.set_warm(true);
        let mut kept = self.kept.borrow_mut();
        kept.push_back((Rc::clone(progress), turn));
        while kept.len() > KEPT
            && let Some((first, turn)) = kept.pop_front()
        {
            match first.idled() {
                Some(later) if later > turn => kept.push_back((first, later)),
                // also if it has a request: it comes again when it is idle
                Some(_) | None => first.set_warm(false),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use asyncsteps_budget::{Budget, Client, Limits};

    use super::super::account::Account;
    use super::super::connections::Connections;
    use super::super::keep_alive::KeepAlive;
    use super::super::limits::ServerLimits;
    use super::*;

    fn connection() -> Rc<ConnectionState> {
        let (budget, client) = (Budget::new(Limits::default()), Client::Unknown);
        let keep_alive = KeepAlive::new(Duration::ZERO, &Connections::new(1, 1), &client);
        let account = Account::new(budget.hold(&client));
        ConnectionState::new(ServerLimits::default(), keep_alive, account)
    }

    #[test]
    fn the_connections_that_became_idle_last_are_warm() {
        let warm = WarmConnections::default();
        let all: Vec<_> = (0..=KEPT).map(|_| connection()).collect();
        assert!(all[..KEPT].iter().all(|connection| !warm.is_over(connection)));
        drop(all[0].begin());
        assert!(!warm.is_over(&all[0]), "it is idle again");
        assert!(!warm.is_over(&all[KEPT]), "it has just become idle");
        assert!(!warm.is_over(&all[0]) && warm.is_over(&all[1]));
        let request = all[2].begin();
        assert!(!warm.is_over(&connection()));
        assert!(!warm.is_over(&all[3]), "the one with a request was in its place");
        drop(request);
        assert!(!warm.is_over(&all[2]) && warm.is_over(&all[3]));
    }
}
