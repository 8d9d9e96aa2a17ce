//! Limiters that are assigned to clients while the executor runs, each for a time (FTN6 §1.5).

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use asyncsteps_actors::clock::Clock;
use asyncsteps_futoin::net::Cidr;
use parking_lot::RwLock;

use super::range_map::RangeMap;

/// Why a limiter cannot be assigned to a client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssignError {
    /// The executor has no [`ClientLimits`](super::ClientLimits), or none of this name.
    #[error("there is no limiter {name}")]
    NoSuchLimiter {
        /// The name.
        name: String,
    },
    /// There are as many as [`ClientLimits::assignments`](super::ClientLimits::assignments) allows.
    #[error("{limit} clients have limiters of their own already")]
    Full {
        /// The number.
        limit: usize,
    },
}

/// The clients with an assigned limiter, each for a time.
pub(super) struct DynamicLimits {
    clock: Clock,
    /// Most entries; expired ones count until room is needed.
    limit: usize,
    /// Read for each request, written rarely.
    tables: RwLock<Tables>,
}

#[derive(Default)]
struct Tables {
    ranges: RangeMap<Assigned>,
    users: HashMap<Box<str>, Assigned>,
}

/// A limiter, by its index among the limiters of clients, until a time on the clock of the limits.
#[derive(Clone, Copy)]
struct Assigned {
    limiter: usize,
    until: Duration,
}

impl DynamicLimits {
    pub(super) fn new(limit: usize) -> Self {
        Self { clock: Clock::start(), limit, tables: RwLock::default() }
    }

    /// The limiter that is assigned to the narrowest range with `address`.
    pub(super) fn of_address(&self, address: IpAddr) -> Option<usize> {
        let tables = self.tables.read();
        let mut ranges = tables.ranges.around(address);
        ranges.find_map(|assigned| assigned.at(self.clock.elapsed()))
    }

    /// The limiter that is assigned to a user.
    pub(super) fn of_user(&self, user: &str) -> Option<usize> {
        let tables = self.tables.read();
        tables.users.get(user)?.at(self.clock.elapsed())
    }

    pub(super) fn to_range(
        &self,
        range: Cidr,
        limiter: usize,
        time: Duration,
    ) -> Result<(), AssignError> {
        self.change(limiter, time, |tables, assigned| match assigned {
            Some(assigned) => tables.ranges.insert(range, assigned),
            None => tables.ranges.remove(range),
        })
    }

    pub(super) fn to_user(
        &self,
        user: &str,
        limiter: usize,
        time: Duration,
    ) -> Result<(), AssignError> {
        self.change(limiter, time, |tables, assigned| match assigned {
            Some(assigned) => tables.users.insert(user.into(), assigned),
            None => tables.users.remove(user),
        })
    }

    /// Sets or removes an entry; `set` returns what was there before.
    fn change(
        &self,
        limiter: usize,
        time: Duration,
        set: impl Fn(&mut Tables, Option<Assigned>) -> Option<Assigned>,
    ) -> Result<(), AssignError> {
        let now = self.clock.elapsed();
        let mut tables = self.tables.write();
        set(&mut tables, None);
        if time.is_zero() {
            return Ok(());
        }
        if tables.len() >= self.limit {
            tables.forget_before(now);
        }
        if tables.len() >= self.limit {
            return Err(AssignError::Full { limit: self.limit });
        }
        set(&mut tables, Some(Assigned { limiter, until: now.saturating_add(time) }));
        Ok(())
    }
}

impl Assigned {
    fn at(self, now: Duration) -> Option<usize> {
        (now < self.until).then_some(self.limiter)
    }
}

impl Tables {
    fn len(&self) -> usize {
        self.ranges.len() + self.users.len()
    }

    fn forget_before(&mut self, now: Duration) {
        self.ranges.retain(|assigned| assigned.until > now);
        self.users.retain(|_, assigned| assigned.until > now);
    }
}
