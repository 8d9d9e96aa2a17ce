//! An actor that is started when its address is first asked for.

use actix::{Actor, Addr, Context, Running, WeakAddr};
use parking_lot::Mutex;

/// The address of the actor of an object. The actor runs as long as there are addresses of it.
#[derive(derive_more::Debug)]
#[debug("OnDemand {{ started: {:?} }}", self.0.lock().is_some())]
pub(super) struct OnDemand<A: Actor>(Mutex<Option<WeakAddr<A>>>);

impl<A: Actor<Context = Context<A>>> OnDemand<A> {
    /// The address of the actor; starts it on the current arbiter if it does not run.
    ///
    /// # Panics
    /// Outside of an actix arbiter, if it has to be started.
    pub(super) fn address(&self, actor: impl FnOnce() -> A) -> Addr<A> {
        let mut known = self.0.lock();
        known.as_ref().and_then(WeakAddr::upgrade).unwrap_or_else(|| {
            let address = actor().start();
            *known = Some(address.downgrade());
            address
        })
    }

    /// Whether the actor may stop for want of addresses: not if one was handed out just now.
    pub(super) fn stopping(&self, ctx: &Context<A>) -> Running {
        let mut known = self.0.lock();
        if ctx.connected() {
            return Running::Continue;
        }
        *known = None;
        Running::Stop
    }
}

impl<A: Actor> Default for OnDemand<A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
