//! What lock actors have in common: a flow's side of the protocol, and its messages.
//!
//! A flow sends one [`Lock`] and, whatever comes of it, one [`Unlock`]: the guard that does so is a
//! value of the step around the section.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use actix::{Actor, Addr, AsyncContext, Handler, Message};
use asyncsteps::sync::Section;
use asyncsteps::{AsyncSteps, Completion, Identity, StepResult, codes};

/// The address of a lock actor and one of the keys it serves; cheap to clone.
pub(super) struct Locker<A: Actor<Context: AsyncContext<A>>> {
    actor: Addr<A>,
    key: Arc<str>,
}

impl<A> Locker<A>
where
    A: Handler<Lock> + Handler<Unlock>,
    A::Context:
        AsyncContext<A> + actix::dev::ToEnvelope<A, Lock> + actix::dev::ToEnvelope<A, Unlock>,
{
    pub(super) fn new(actor: Addr<A>) -> Self {
        Self { actor, key: Arc::from("") }
    }

    /// The same actor under another key.
    pub(super) fn with_key(&self, key: Arc<str>) -> Self {
        Self { actor: self.actor.clone(), key }
    }

    pub(super) fn actor(&self) -> &Addr<A> {
        &self.actor
    }

    /// Runs the section once the actor lets it (FTN12 §1.11.3).
    pub(super) fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        let lock = LockId::next();
        asi.stack(Guard { locker: self.clone(), lock });
        let locker = self.clone();
        asi.add(move |asi, ()| {
            let identity = asi.identity();
            let grant = Grant(asi.wait_external());
            locker.lock(Lock { key: Arc::clone(&locker.key), lock, identity, grant });
        });
        section.add(asi);
        Ok(())
    }

    /// Lock messages are as many as admitted flows; a lost one would be a lost lock, so the
    /// mailbox bound does not apply to them.
    #[expect(clippy::disallowed_methods, reason = "see above; a dead actor drops the grant")]
    fn lock(&self, lock: Lock) {
        self.actor.do_send(lock);
    }

    #[expect(clippy::disallowed_methods, reason = "as `lock`; a dead actor holds no locks")]
    fn unlock(&self, lock: LockId) {
        self.actor.do_send(Unlock { key: Arc::clone(&self.key), lock });
    }
}

impl<A: Actor<Context: AsyncContext<A>>> Clone for Locker<A> {
    fn clone(&self) -> Self {
        Self { actor: self.actor.clone(), key: Arc::clone(&self.key) }
    }
}

impl<A: Actor<Context: AsyncContext<A>>> fmt::Debug for Locker<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locker").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Ends what one `sync` began.
struct Guard<A>
where
    A: Handler<Lock> + Handler<Unlock>,
    A::Context:
        AsyncContext<A> + actix::dev::ToEnvelope<A, Lock> + actix::dev::ToEnvelope<A, Unlock>,
{
    locker: Locker<A>,
    lock: LockId,
}

impl<A> Drop for Guard<A>
where
    A: Handler<Lock> + Handler<Unlock>,
    A::Context:
        AsyncContext<A> + actix::dev::ToEnvelope<A, Lock> + actix::dev::ToEnvelope<A, Unlock>,
{
    fn drop(&mut self) {
        self.locker.unlock(self.lock);
    }
}

/// Names one `sync` of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LockId(u64);

impl LockId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Asks to enter; the grant is given when it is the owner's turn.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct Lock {
    pub(super) key: Arc<str>,
    pub(super) lock: LockId,
    pub(super) identity: Identity,
    pub(super) grant: Grant,
}

/// Leaves the section or the queue; follows every [`Lock`].
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct Unlock {
    pub(super) key: Arc<str>,
    pub(super) lock: LockId,
}

/// Lets a waiting step go on. Dropped without an answer, because the actor died, it fails the step;
/// for a step that is over, all of this does nothing.
#[derive(Debug)]
pub(super) struct Grant(Completion);

impl Grant {
    /// If the step is over, its [`Unlock`] is on the way and passes the turn on.
    pub(super) fn enter(self) {
        let _ = self.0.success(());
    }

    /// The queue is full (FTN12 §1.11.6).
    pub(super) fn reject(self, why: &'static str) {
        let _ = self.0.error(codes::DEFENSE_REJECTED, why);
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let _ = self.0.error(codes::INTERNAL_ERROR, "the actor of the lock is gone");
    }
}
