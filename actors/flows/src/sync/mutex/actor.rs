//! The messages that the actor of a mutex takes.

use actix::{Actor, Context, Handler, MessageResult, Running};

use super::guard::{KeyGuard, LockGuard, Locking};
use super::state::{MutexActor, MutexFamily};
use crate::sync::LockReport;
use crate::sync::messages::{Deferred, Inspect, Lock, Unlock};
use crate::sync::waiter::Holder;

impl Actor for MutexActor {
    type Context = Context<Self>;

    fn stopping(&mut self, ctx: &mut Context<Self>) -> Running {
        self.0.actor.stopping(ctx)
    }
}

impl Handler<Lock> for MutexActor {
    type Result = Deferred<LockGuard>;

    fn handle(&mut self, Lock { key }: Lock, _: &mut Context<Self>) -> Deferred<LockGuard> {
        let state = MutexFamily::key(&self.0, key.as_deref().unwrap_or_default());
        Deferred::new(Locking::new(KeyGuard::new(&state, Holder::call())))
    }
}

impl Handler<Unlock> for MutexActor {
    type Result = MessageResult<Unlock>;

    fn handle(&mut self, Unlock { ticket }: Unlock, _: &mut Context<Self>) -> Self::Result {
        MessageResult(ticket.unlock(&self.0))
    }
}

impl Handler<Inspect> for MutexActor {
    type Result = LockReport;

    fn handle(&mut self, _: Inspect, _: &mut Context<Self>) -> LockReport {
        self.0.report()
    }
}
