//! A term: a node between its registration and the loss of its lease.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_actors::watched::WatchedValue;
use asyncsteps_core::{Error, Interrupter};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::store::{ClusterNodeId, SESSION_PART};

/// The code of the error that ends a section whose lock was lost: the node could not renew its lease in
/// time. The steps inside of the section are cancelled, and undone with the lock taken again.
pub const LOCK_LOST: &str = "LockLost";

/// The lease of a node, as the node knows it. For the server it lasts longer.
#[derive(derive_more::Debug)]
#[debug("LeaseTerm {{ node: {node:?}, .. }}")]
pub(crate) struct LeaseTerm {
    /// The name of the node in this term.
    pub(crate) node: ClusterNodeId,
    lease: Duration,
    /// When sections end unless it is renewed, by the boot-time clock in nanoseconds.
    ends: AtomicU64,
    /// The same without a session.
    alone: AtomicU64,
    has_ended: WatchedValue<bool>,
    /// The server said that there is no such lease.
    pub(crate) refused: Notify,
    sections: Mutex<BTreeMap<u64, Interrupter>>,
    numbers: AtomicU64,
}

/// A section that is interrupted when the lease is lost, until this is dropped.
pub(crate) struct Registration {
    term: Arc<LeaseTerm>,
    number: u64,
}

impl LeaseTerm {
    /// A term of a lease that was asked for at `sent`.
    pub(crate) fn new(node: ClusterNodeId, sent: Duration, lease: Duration) -> Self {
        let term = Self {
            node,
            lease,
            ends: AtomicU64::new(0),
            alone: AtomicU64::new(0),
            has_ended: WatchedValue::default(),
            refused: Notify::new(),
            sections: Mutex::default(),
            numbers: AtomicU64::new(0),
        };
        term.renewed(sent);
        term
    }

    /// The lease was renewed, which was asked for at `sent`. A tenth of it is kept back for the
    /// difference of clocks and for the time that it takes to end sections.
    pub(crate) fn renewed(&self, sent: Duration) {
        let ends = sent + self.lease * 9 / 10;
        self.ends.store(nanos(ends), Ordering::Relaxed);
        self.alone.store(u64::MAX, Ordering::Relaxed);
    }

    /// The session of the last renewal has ended: from now on, others may shorten the lease to its [`SESSION_PART`].
    pub(crate) fn session_ended(&self) {
        self.alone.fetch_min(self.ends_alone(), Ordering::Relaxed);
    }

    /// The server does not run, so that nobody has shortened the lease yet.
    pub(crate) fn server_is_down(&self) {
        self.alone.store(self.ends_alone(), Ordering::Relaxed);
    }

    fn ends_alone(&self) -> u64 {
        nanos(clock::boottime() + self.lease / SESSION_PART * 9 / 10)
    }

    /// How long sections may still run.
    pub(crate) fn left(&self) -> Duration {
        let ends = self.ends.load(Ordering::Relaxed).min(self.alone.load(Ordering::Relaxed));
        Duration::from_nanos(ends).saturating_sub(clock::boottime())
    }

    /// Whether this node still holds the locks that it took in this term.
    pub(crate) fn is_valid(&self) -> bool {
        !self.has_ended() && !self.left().is_zero()
    }

    /// Completes when the lease has expired by this node's clock. A timer stops while the machine
    /// sleeps, so the clock is looked at each thirtieth of the lease.
    pub(crate) async fn expired(&self) {
        loop {
            let left = self.left();
            if left.is_zero() {
                return;
            }
            sleep(left.min(self.lease / 30)).await;
        }
    }

    /// Ends the term, and all sections that run in it.
    pub(crate) fn end(&self) {
        let mut sections = self.sections.lock();
        self.has_ended.change(|has_ended| *has_ended = true);
        let lost: Vec<_> = mem::take(&mut *sections).into_values().collect();
        drop(sections);
        for section in lost {
            // one that is over needs no end
            let _ = section.interrupt(self.lost());
        }
    }

    /// Completes when the term has ended.
    pub(crate) async fn ended(&self) {
        self.has_ended.wait_for(|has_ended| has_ended.then_some(())).await;
    }

    fn has_ended(&self) -> bool {
        self.has_ended.with(|has_ended| *has_ended)
    }

    /// Interrupts a section when the term ends; at once if it has ended.
    pub(crate) fn register(self: &Arc<Self>, section: Interrupter) -> Registration {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut sections = self.sections.lock();
        if self.has_ended() {
            drop(sections);
            let _ = section.interrupt(self.lost());
        } else {
            sections.insert(number, section);
        }
        Registration { term: Arc::clone(self), number }
    }

    /// The error of a section that loses its lock.
    pub(crate) fn lost(&self) -> Error {
        Error::with_info(LOCK_LOST, "this node could not renew its lease of the lock")
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.term.sections.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_session_a_term_ends_before_others_may_take_its_locks() {
        let lease = Duration::from_secs(80);
        let term = LeaseTerm::new(ClusterNodeId(1), clock::boottime(), lease);
        assert!(term.left() > lease / 2);
        term.session_ended();
        let left = term.left();
        assert!(left <= lease / 8 * 9 / 10);
        while term.left() == left {}
        term.session_ended();
        assert!(term.left() < left, "it ended before");
        term.renewed(clock::boottime());
        assert!(term.left() > lease / 2);
    }
}
