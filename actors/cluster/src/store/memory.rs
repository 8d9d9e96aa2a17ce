//! Locks in the memory of a process, for tests and simulations.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use asyncsteps_actors::clock;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::{Answer, ClusterNodeId, Freed, LockId, LockStore, Quota, QuotaShare, Taken};

/// How many notices are kept for a node that does not run.
const NOTICES: usize = 64;

/// Locks in memory, by the rules of those in a database: for tests and simulations. Clones share them.
///
/// It starts nothing and has no time but its clock, so it is as deterministic as the clock.
#[derive(Clone, derive_more::Debug)]
#[debug("Memory {{ .. }}")]
pub struct Memory {
    tables: Arc<Mutex<LockTables>>,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    freed: broadcast::Sender<LockId>,
}

/// The state that the nodes share. Times are since 1970.
#[derive(Default)]
struct LockTables {
    /// The last time: no later one is before it, although the clocks of several machines differ.
    now: Duration,
    /// The last number of a holder, of any lock.
    epoch: u64,
    last: i64,
    /// When the lease of each node ends.
    leases: BTreeMap<ClusterNodeId, Duration>,
    /// The locks that have a holder.
    held: BTreeMap<LockId, LockRow>,
    quotas: BTreeMap<(String, Arc<str>), Shares>,
    counters: BTreeMap<LockId, Counter>,
}

struct LockRow {
    holder: ClusterNodeId,
    epoch: u64,
    is_wanted: bool,
}

#[derive(Default)]
struct Shares {
    /// Until when units that no node has may have been used.
    clean: Duration,
    units: BTreeMap<ClusterNodeId, u32>,
}

#[derive(Default)]
struct Counter {
    ends: Duration,
    used: u32,
}

impl Default for Memory {
    /// No locks, by the clock of the machine.
    fn default() -> Self {
        let (freed, _) = broadcast::channel(NOTICES);
        Self { tables: Arc::default(), clock: Arc::new(clock::wall), freed }
    }
}

impl Memory {
    /// The same locks with this clock, as another machine reaches them.
    #[must_use]
    pub fn clock(self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    fn answer<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut LockTables, Duration) -> T + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let now = (self.clock)().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let mut tables = self.tables.lock();
            let now = now.max(tables.now);
            tables.now = now;
            Ok(work(&mut tables, now))
        })
    }
}

impl LockStore for Memory {
    fn register(&self, lease: Duration) -> Answer<'_, ClusterNodeId> {
        self.answer(move |tables, now| {
            tables.last += 1;
            let node = ClusterNodeId(tables.last);
            tables.leases.insert(node, now + lease);
            node
        })
    }

    fn renew(&self, node: ClusterNodeId, lease: Duration) -> Answer<'_, bool> {
        self.answer(move |tables, now| {
            let is_alive = tables.is_alive(node, now);
            if is_alive {
                tables.leases.insert(node, now + lease);
            }
            is_alive
        })
    }

    fn leave(&self, node: ClusterNodeId) -> Answer<'_, ()> {
        self.answer(move |tables, _| _ = tables.leases.remove(&node))
    }

    fn take<'a>(&'a self, lock: &'a LockId, node: ClusterNodeId) -> Answer<'a, Taken> {
        self.answer(move |tables, now| tables.take(lock, node, now))
    }

    fn give_back<'a>(&'a self, lock: &'a LockId, epoch: u64) -> Answer<'a, ()> {
        self.answer(move |tables, _| {
            if tables.held.get(lock).is_some_and(|held| held.epoch == epoch)
                && let Some(held) = tables.held.remove(lock)
                && held.is_wanted
            {
                // without a receiver no node listens
                let _ = self.freed.send(lock.clone());
            }
        })
    }

    fn share<'a>(
        &'a self,
        quota: &'a Quota,
        node: ClusterNodeId,
        has: u32,
    ) -> Answer<'a, Option<QuotaShare>> {
        self.answer(move |tables, now| {
            tables.is_alive(node, now).then(|| tables.share(quota, (node, has), now))
        })
    }

    fn return_share<'a>(&'a self, quota: &'a Quota, node: ClusterNodeId) -> Answer<'a, ()> {
        self.answer(move |tables, now| {
            if let Some(shares) = tables.quotas.get_mut(&quota.id()) {
                shares.units.remove(&node);
                shares.clean = now + quota.period;
            }
        })
    }

    fn count<'a>(
        &'a self,
        lock: &'a LockId,
        max: u32,
        period: Duration,
    ) -> Answer<'a, Option<Duration>> {
        self.answer(move |tables, now| {
            let counter = tables.counters.entry(lock.clone()).or_default();
            if now >= counter.ends || counter.ends > now + period {
                *counter = Counter { ends: now + period, used: 0 };
            }
            let is_full = counter.used >= max;
            counter.used += u32::from(!is_full);
            is_full.then(|| counter.ends - now)
        })
    }

    fn trim(&self) -> Answer<'_, ()> {
        self.answer(|tables, now| {
            tables.leases.retain(|_, ends| *ends > now);
            tables.counters.retain(|_, counter| counter.ends > now);
            tables.quotas.retain(|_, shares| shares.clean > now || !shares.units.is_empty());
        })
    }

    fn listen<'a>(&'a self, freed: &'a Freed<'a>) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        let mut news = self.freed.subscribe();
        Box::pin(async move {
            loop {
                match news.recv().await {
                    Ok(lock) => freed(Some((lock.name, &*lock.key))),
                    Err(RecvError::Lagged(_)) => freed(None),
                    // the sender is in `self`
                    Err(RecvError::Closed) => return,
                }
            }
        })
    }
}

impl LockTables {
    fn is_alive(&self, node: ClusterNodeId, now: Duration) -> bool {
        self.leases.get(&node).is_some_and(|ends| *ends > now)
    }

    fn take(&mut self, lock: &LockId, node: ClusterNodeId, now: Duration) -> Taken {
        if !self.is_alive(node, now) {
            return Taken::NoLease;
        }
        let is_wanted = self.held.get(lock).is_some_and(|held| held.is_wanted);
        if let Some(held) = self.held.get_mut(lock)
            && held.holder != node
            && let Some(ends) = self.leases.get(&held.holder).filter(|ends| **ends > now)
        {
            held.is_wanted = true;
            return Taken::Held(*ends - now);
        }
        self.epoch += 1;
        let epoch = self.epoch;
        self.held.insert(lock.clone(), LockRow { holder: node, epoch, is_wanted });
        Taken::Epoch(epoch)
    }

    /// The units of a node are not granted to others before it asks again without them. Units that others had, or may
    /// have used, are granted only after a period.
    fn share(
        &mut self,
        quota: &Quota,
        (node, has): (ClusterNodeId, u32),
        now: Duration,
    ) -> QuotaShare {
        let shares = self.quotas.entry(quota.id()).or_default();
        let known = shares.units.len();
        shares.units.retain(|node, _| self.leases.get(node).is_some_and(|ends| *ends > now));
        if shares.units.len() < known {
            shares.clean = now + quota.period;
        }
        let mine = *shares.units.entry(node).or_default();
        let others: u32 = shares.units.values().sum::<u32>() - mine;
        let granted = shares.fair(node, quota.total).min(quota.total.saturating_sub(others));
        let has = has.min(mine).max(granted);
        if has < mine {
            shares.clean = now + quota.period;
        }
        shares.units.insert(node, has);
        QuotaShare { units: granted, counts_in: shares.clean.saturating_sub(now) }
    }
}

impl Shares {
    /// An equal part for each node; the remainder goes to the oldest ones.
    fn fair(&self, node: ClusterNodeId, total: u32) -> u32 {
        let nodes = u32::try_from(self.units.len()).unwrap_or(u32::MAX);
        let older = self.units.range(..node).count();
        let rest = usize::try_from(total % nodes).unwrap_or(usize::MAX);
        total / nodes + u32::from(older < rest)
    }
}

impl Quota {
    fn id(&self) -> (String, Arc<str>) {
        (self.name.clone(), Arc::clone(&self.key))
    }
}
