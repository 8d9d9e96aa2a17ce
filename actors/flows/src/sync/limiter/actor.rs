//! The messages that the actor of a limiter takes.

use actix::{Actor, Context, Handler, MessageResult, Running};

use super::LimiterActor;
use crate::sync::messages::{Deferred, Inspect, Lock, Unlock};
use crate::sync::{LockGuard, LockReport};

impl Actor for LimiterActor {
    type Context = Context<Self>;

    fn stopping(&mut self, ctx: &mut Context<Self>) -> Running {
        self.0.0.actor.stopping(ctx)
    }
}

impl Handler<Lock> for LimiterActor {
    type Result = Deferred<LockGuard>;

    fn handle(&mut self, Lock { key }: Lock, _: &mut Context<Self>) -> Deferred<LockGuard> {
        let limiter = self.0.key(key.as_deref().unwrap_or_default());
        Deferred::new(async move { limiter.lock().await })
    }
}

impl Handler<Unlock> for LimiterActor {
    type Result = MessageResult<Unlock>;

    fn handle(&mut self, Unlock { ticket }: Unlock, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.0.unlock(&ticket))
    }
}

impl Handler<Inspect> for LimiterActor {
    type Result = LockReport;

    fn handle(&mut self, _: Inspect, _: &mut Context<Self>) -> LockReport {
        self.0.inspect()
    }
}
