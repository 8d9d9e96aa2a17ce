//! The share of this node in a limit: a lease that is renewed while it is used.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_actors::watched::WatchedValue;
use tokio::sync::futures::Notified;
use tokio::time::sleep;

use super::line::EntryQueue;
use crate::error::Error;
use crate::lease_term::LeaseTerm;
use crate::node::ClusterNode;
use crate::store::{Quota, QuotaShare};

/// The units of a limit that a node has.
pub(crate) trait Units: Default + Send + 'static {
    /// The most units that are used now or later.
    fn units(&self) -> u32;

    /// The server grants this number of units; new ones count from `clean` on, by the boot-time
    /// clock.
    fn grant(&mut self, units: u32, now: Duration, clean: Duration);

    /// The server grants none any more.
    fn lose(&mut self);

    /// Whether something is inside that uses a unit.
    fn is_used(&self) -> bool;
}

/// The share of this node in a limit.
pub(crate) struct Keeper<U> {
    node: Arc<ClusterNode>,
    quota: Quota,
    line: EntryQueue,
    shared: WatchedValue<KeeperState<U>>,
}

#[derive(Default)]
struct KeeperState<U> {
    share: U,
    /// The term in which the share was granted.
    term: Option<Arc<LeaseTerm>>,
    keeping: Keeping,
    /// The first answer of the database has come, or there is none.
    is_known: bool,
}

/// Whether a task keeps the share.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Keeping {
    #[default]
    None,
    /// There was no entry since the share was renewed.
    Idle,
    Used,
}

/// How the share is, for an entry.
pub(crate) enum Standing {
    /// It lasts.
    Valid,
    /// The lease in which it was granted has expired.
    Lost,
    /// The database has not granted one.
    None,
}

/// The share is less than before, which has to be reported to the server.
struct IsLess(bool);

impl<U: Units> Keeper<U> {
    pub(crate) fn new(node: Arc<ClusterNode>, quota: Quota, line: EntryQueue) -> Self {
        Self { node, quota, line, shared: WatchedValue::default() }
    }

    pub(crate) fn node(&self) -> &Arc<ClusterNode> {
        &self.node
    }

    pub(crate) fn line(&self) -> &EntryQueue {
        &self.line
    }

    /// Looks at the share, or changes how much of it is used.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut U, Standing) -> T) -> T {
        self.shared.with(|shared| {
            let standing = match &shared.term {
                None => Standing::None,
                Some(term) if term.is_valid() => Standing::Valid,
                Some(_) => Standing::Lost,
            };
            look(&mut shared.share, standing)
        })
    }

    /// Changes how much of the share is used, so that there may be room.
    pub(crate) fn change(&self, change: impl FnOnce(&mut U)) {
        self.shared.change(|shared| change(&mut shared.share));
    }

    /// Completes with the next change of the share.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.shared.changed()
    }

    /// Waits for the first answer of the database; the share is kept from now on.
    pub(crate) async fn know(self: &Arc<Self>) {
        let is_known = |shared: &mut KeeperState<U>| {
            if shared.keeping == Keeping::None {
                self.node.spawn(Arc::clone(self).keep());
            }
            shared.keeping = Keeping::Used;
            shared.is_known.then_some(())
        };
        self.shared.wait_for(is_known).await;
    }

    /// Renews the share until it is not used for a third of a lease.
    async fn keep(self: Arc<Self>) {
        loop {
            let Ok(term) = self.node.current() else {
                return self.shared.change(|shared| {
                    shared.share.lose();
                    (shared.term, shared.is_known) = (None, true);
                });
            };
            let pause = match &term {
                Some(term) => self.renew_with(term).await,
                None => self.node.config().poll,
            };
            // if the first try brought no answer, entries do not wait for one
            self.shared.change(|shared| shared.is_known = true);
            sleep(pause).await;
            if let Some(term) = term.filter(|_| self.is_idle())
                && self.give_back(&term).await
                && self.ends()
            {
                return;
            }
        }
    }

    /// Renews the share; returns the pause until the next renewal.
    async fn renew_with(&self, term: &Arc<LeaseTerm>) -> Duration {
        loop {
            match self.renew(term).await {
                Ok(IsLess(true)) => {}
                Ok(IsLess(false)) if self.line.is_empty() => {
                    return self.node.config().lease / 3;
                }
                Ok(IsLess(false)) => return self.node.config().poll,
                Err(error) => {
                    tracing::warn!(%error, "a share cannot be renewed");
                    return self.node.config().poll;
                }
            }
        }
    }

    /// Asks for the share; returns whether it is less than before, so that this has to be reported
    /// to the server.
    async fn renew(&self, term: &Arc<LeaseTerm>) -> Result<IsLess, Error> {
        let has = {
            let is_of = |shared: &KeeperState<U>| {
                shared.term.as_ref().is_some_and(|of| Arc::ptr_eq(of, term))
            };
            // the one of another term is lost
            self.shared.with(|shared| if is_of(shared) { shared.share.units() } else { 0 })
        };
        let answer = self.node.store().share(&self.quota, term.node, has).await?;
        let Some(QuotaShare { units, counts_in }) = answer else {
            term.refused.notify_one();
            return Ok(IsLess(false));
        };
        let now = clock::boottime();
        self.shared.change(|shared| {
            if has == 0 {
                shared.share.lose();
            }
            shared.share.grant(units, now, now + counts_in);
            shared.term = Some(Arc::clone(term));
            shared.is_known = true;
        });
        Ok(IsLess(units < has))
    }

    /// Whether there was no entry for a while; then there is none before the share is known again.
    fn is_idle(&self) -> bool {
        self.shared.with(|shared| {
            let is_idle = shared.keeping == Keeping::Idle && !shared.share.is_used();
            shared.keeping = Keeping::Idle;
            if is_idle {
                shared.share.lose();
                shared.is_known = false;
            }
            is_idle
        })
    }

    /// Returns the share, which is not used any more; says whether the others may have it. If not, it is kept for another
    /// while.
    async fn give_back(&self, term: &LeaseTerm) -> bool {
        let returned = self.node.store().return_share(&self.quota, term.node).await;
        if let Err(error) = &returned {
            tracing::warn!(%error, "a share cannot be returned");
        }
        returned.is_ok()
    }

    /// Whether the share is not needed: the next entry asks for a new one.
    fn ends(&self) -> bool {
        self.shared.with(|shared| {
            let ends = shared.keeping == Keeping::Idle;
            if ends {
                shared.keeping = Keeping::None;
            }
            ends
        })
    }
}
