//! Locks as data.

use asyncsteps_actors::sync::{HeldLock, Limits};
use asyncsteps_core::Contention;

use super::locks::{HeldLockInfo, KeyInfo, LockInfo, LockLimits, LockWait, Waiter};
use super::naming::Names;
use super::steps::ms;
use crate::locks::{BusyKey, WatchedLock};

impl LockInfo {
    pub(super) fn of(lock: &WatchedLock, names: &Names) -> Self {
        let WatchedLock { kind, report, busiest, .. } = lock;
        let (load, waits) = (report.load(), &report.waits);
        Self {
            kind: (*kind).to_owned(),
            name: report.name.to_owned(),
            limits: report.limits.map(LockLimits::from).unwrap_or_default(),
            holders: load.holders,
            queued: load.queued,
            waits: waits.waited.count(),
            wait_p50: ms(waits.waited.quantile(0.5)),
            wait_p99: ms(waits.waited.quantile(0.99)),
            given_up: waits.given_up,
            rejected: waits.rejected,
            all_keys: load.keys,
            keys: busiest.iter().map(|key| KeyInfo::of(key, names)).collect(),
        }
    }
}

impl KeyInfo {
    fn of(BusyKey { report, owners, .. }: &BusyKey, names: &Names) -> Self {
        let waiting = owners.waiting.iter().map(|waiting| Waiter {
            owner: names.owner(waiting.owner),
            waited: ms(waiting.waited),
        });
        Self {
            key: report.key.to_string(),
            holders: report.holders,
            queued: report.queued,
            entered: report.entered,
            inside: owners.inside.iter().map(|owner| names.owner(*owner)).collect(),
            waiting: waiting.collect(),
        }
    }
}

impl From<Limits> for LockLimits {
    fn from(limits: Limits) -> Self {
        match limits {
            Limits::Mutex(options) => Self {
                concurrent: Some(options.max),
                max_queue: options.max_queue,
                ..Self::default()
            },
            Limits::Throttle(options) => Self {
                rate: Some(options.max),
                period: Some(ms(options.period)),
                max_queue: options.max_queue,
                ..Self::default()
            },
            Limits::Limiter(options) => Self {
                concurrent: Some(options.concurrent),
                rate: Some(options.rate),
                period: Some(ms(options.period)),
                max_queue: options.max_queue,
            },
            _ => Self::default(),
        }
    }
}

impl LockWait {
    pub(super) fn of(lock: &Contention, names: &Names) -> Self {
        Self {
            kind: lock.kind.to_owned(),
            name: lock.name.to_owned(),
            key: lock.key.to_string(),
            ahead: lock.ahead,
            queued: lock.queued,
            holders: lock.holders.iter().map(|holder| names.flow(*holder)).collect(),
            all_holders: lock.all_holders,
        }
    }
}

impl From<&HeldLock> for HeldLockInfo {
    fn from(held: &HeldLock) -> Self {
        Self {
            name: held.name.to_owned(),
            key: held.key.to_string(),
            branch: held.branch,
            step: held.step.into(),
        }
    }
}
