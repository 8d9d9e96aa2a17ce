//! The actor of a throttle: it ends periods, and takes messages.

use actix::{Actor, AsyncContext, Context, Handler};

use super::entering::Entering;
use super::schedule::PeriodOpened;
use super::state::{ThrottleActor, ThrottleFamily, gone};
use crate::sync::LockReport;
use crate::sync::messages::{Deferred, Enter, Inspect};

impl ThrottleActor {
    /// Ends the periods that have expired and sets the timer to the next end.
    fn end_periods(&mut self, ctx: &mut Context<Self>) {
        let Some(family) = self.family.upgrade() else { return };
        let now = family.clock.now();
        family.end_periods(now);
        let end = family.schedule.lock().next_end();
        if let Some(end) = end {
            ctx.run_later(end.saturating_since(now), Self::end_periods);
        }
    }
}

impl Actor for ThrottleActor {
    type Context = Context<Self>;
}

impl Drop for ThrottleActor {
    fn drop(&mut self) {
        if let Some(family) = self.family.upgrade() {
            family.close();
        }
    }
}

impl Handler<PeriodOpened> for ThrottleActor {
    type Result = ();

    fn handle(&mut self, _: PeriodOpened, ctx: &mut Context<Self>) {
        self.end_periods(ctx);
    }
}

impl Handler<Enter> for ThrottleActor {
    type Result = Deferred<()>;

    fn handle(&mut self, Enter { key }: Enter, _: &mut Context<Self>) -> Deferred<()> {
        let key = key.as_deref().unwrap_or_default();
        let entering =
            self.family.upgrade().map(|family| Entering::new(&ThrottleFamily::key(&family, key)));
        Deferred::new(async move { entering.ok_or_else(gone)?.await })
    }
}

impl Handler<Inspect> for ThrottleActor {
    type Result = LockReport;

    fn handle(&mut self, _: Inspect, _: &mut Context<Self>) -> LockReport {
        self.family.upgrade().map(|family| family.report()).unwrap_or_default()
    }
}
