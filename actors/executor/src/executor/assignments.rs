//! Limiters that clients are given while the executor runs, each for a while (FTN6 §1.5).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use super::Executor;
use asyncsteps_actors::clock::Clock;
use asyncsteps_futoin::net::{Cidr, RangeMap};

/// Why a limiter cannot be given to a client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssignError {
    /// The executor has no [`ClientLimits`](super::ClientLimits), or none of this name.
    #[error("there is no limiter {name}")]
    NoSuchLimiter {
        /// The name.
        name: String,
    },
    /// As many are given as [`ClientLimits::assignments`](super::ClientLimits::assignments) allows.
    #[error("{limit} clients have limiters of their own already")]
    Full {
        /// How many that are.
        limit: usize,
    },
}

impl Executor {
    /// Gives the clients in a range of addresses the limiter of this name for `time`. Until then it
    /// counts before the ranges of the configuration, and the narrowest of several ranges counts; after
    /// it the configuration counts again. A second call for the same range replaces the first; a time
    /// of zero ends it.
    ///
    /// FTN6 §1.5 suggests it for a client whose first request succeeded, for 60 to 3,600 seconds:
    ///
    /// ```
    /// # use asyncsteps::{AsyncSteps, StepResult};
    /// # use asyncsteps_executor::RequestSteps;
    /// # use asyncsteps_executor::net::Cidr;
    /// use std::time::Duration;
    ///
    /// fn logged_in(asi: &mut AsyncSteps, (): ()) -> StepResult {
    ///     let request = asi.request()?;
    ///     if let Some(peer) = request.channel().peer() {
    ///         let client = Cidr::around(peer.ip(), 128);
    ///         request.executor().limit_addresses(client, "customer", Duration::from_secs(600))?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`AssignError`] if there is no such limiter, or too many are given.
    pub fn limit_addresses(
        &self,
        range: Cidr,
        limiter: &str,
        time: Duration,
    ) -> Result<(), AssignError> {
        let (gate, limit) = self.limiter(limiter)?;
        gate.assignments().to_range(range, limit, time)
    }

    /// The same for a user, by the local id: with their next request, in place of the limiter that
    /// [`ClientLimits::users`](super::ClientLimits::users) gives all users, if any.
    ///
    /// # Errors
    /// [`AssignError`] if there is no such limiter, or too many are given.
    pub fn limit_user(&self, user: &str, limiter: &str, time: Duration) -> Result<(), AssignError> {
        let (gate, limit) = self.limiter(limiter)?;
        gate.assignments().to_user(user, limit, time)
    }

    fn limiter(&self, name: &str) -> Result<(&super::Gate, usize), AssignError> {
        let gate = self.shared.config.gate.as_deref();
        gate.and_then(|gate| Some((gate, gate.named(name)?)))
            .ok_or_else(|| AssignError::NoSuchLimiter { name: name.to_owned() })
    }
}

/// Which clients have limiters of their own, and until when.
pub(super) struct Assignments {
    clock: Clock,
    /// How many there may be; those that are over count until room is needed.
    limit: usize,
    /// Read for each request, written rarely.
    tables: RwLock<Tables>,
}

#[derive(Default)]
struct Tables {
    ranges: RangeMap<Assigned>,
    users: HashMap<Box<str>, Assigned>,
}

/// A limiter, by its number in the gate, until a time on the clock of the assignments.
#[derive(Clone, Copy)]
struct Assigned {
    limiter: usize,
    until: Duration,
}

impl Assignments {
    pub(super) fn new(limit: usize) -> Self {
        Self { clock: Clock::start(), limit, tables: RwLock::default() }
    }

    /// The limiter given to the narrowest range that `address` is in.
    pub(super) fn of_address(&self, address: IpAddr) -> Option<usize> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let mut ranges = tables.ranges.around(address);
        ranges.find_map(|assigned| assigned.at(self.clock.elapsed()))
    }

    /// The limiter given to a user.
    pub(super) fn of_user(&self, user: &str) -> Option<usize> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.users.get(user)?.at(self.clock.elapsed())
    }

    fn to_range(&self, range: Cidr, limiter: usize, time: Duration) -> Result<(), AssignError> {
        self.change(limiter, time, |tables, assigned| match assigned {
            Some(assigned) => tables.ranges.insert(range, assigned),
            None => tables.ranges.remove(range),
        })
    }

    fn to_user(&self, user: &str, limiter: usize, time: Duration) -> Result<(), AssignError> {
        self.change(limiter, time, |tables, assigned| match assigned {
            Some(assigned) => tables.users.insert(user.into(), assigned),
            None => tables.users.remove(user),
        })
    }

    /// Sets or removes one; `set` gives what was there before.
    fn change(
        &self,
        limiter: usize,
        time: Duration,
        set: impl Fn(&mut Tables, Option<Assigned>) -> Option<Assigned>,
    ) -> Result<(), AssignError> {
        let now = self.clock.elapsed();
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
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
