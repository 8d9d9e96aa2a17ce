//! An executor on the arbiter of this thread.

use std::cell::RefCell;
use std::rc::{Rc, Weak as LocalWeak};
use std::sync::{Arc, Weak};

use actix::{Actor, Addr};
use actix_rt::Arbiter;

use super::handle::{Executor, ExecutorActor, Shared};
use super::in_flight::LocalRequests;

/// An executor on this arbiter: the address of its actor, and the actor's state.
struct Local {
    executor: Weak<Shared>,
    actor: Addr<ExecutorActor>,
    requests: LocalWeak<LocalRequests>,
}

thread_local! {
    static LOCAL: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
}

impl Executor {
    /// An actor of this executor, for threads and arbiters where it cannot be used directly: the
    /// actor of this arbiter, which this starts, or elsewhere the actor of any arbiter where one was
    /// started.
    #[must_use]
    pub fn address(&self) -> Option<Addr<ExecutorActor>> {
        if is_arbiter() {
            return Some(self.local(|local| local.actor.clone()));
        }
        self.shared.actors().iter().find(|actor| actor.connected()).cloned()
    }

    /// Starts the actor of this executor on this arbiter, unless it runs: it is there from the first
    /// request on, and owns those in flight. Requests call it directly, by its `local_requests`.
    #[inline]
    pub(super) fn start_here(&self) {
        if is_arbiter() {
            self.local(|_| ());
        }
    }

    /// The requests in flight of the actor of this executor on this arbiter.
    pub(super) fn local_requests(&self) -> LocalWeak<LocalRequests> {
        self.local(|local| LocalWeak::clone(&local.requests))
    }

    /// Calls `look` with this executor's state on this arbiter; its actor is started if there is
    /// none.
    fn local<R>(&self, look: impl FnOnce(&Local) -> R) -> R {
        LOCAL.with_borrow_mut(|locals| {
            let here = Arc::as_ptr(&self.shared);
            let is_here = |local: &Local| {
                std::ptr::eq(local.executor.as_ptr(), here) && local.actor.connected()
            };
            if let Some(local) = locals.iter().find(|local| is_here(local)) {
                return look(local);
            }
            locals.retain(|local| local.executor.strong_count() > 0 && local.actor.connected());
            let local = self.start_actor();
            let looked = look(&local);
            locals.push(local);
            looked
        })
    }

    fn start_actor(&self) -> Local {
        let executor = Arc::downgrade(&self.shared);
        let actor = ExecutorActor { executor: Weak::clone(&executor), requests: Rc::default() };
        let requests = Rc::downgrade(&actor.requests);
        let actor = actor.start();
        let mut actors = self.shared.actors();
        actors.retain(Addr::connected);
        actors.push(actor.clone());
        Local { executor, actor, requests }
    }
}

/// Whether this thread is an arbiter, where the executor can be used directly.
pub(super) fn is_arbiter() -> bool {
    Arbiter::try_current().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_actor_owns_the_requests_of_its_arbiter() {
        let requests = actix::System::new().block_on(async {
            let executor = Executor::builder().build().expect("it needs nothing");
            executor.start_here();
            let requests = executor.local_requests();
            assert_eq!(requests.strong_count(), 1, "its actor");
            requests
        });
        assert_eq!(requests.strong_count(), 0, "the arbiter has ended, and its actor with it");
    }
}
