//! What requests have reserved of something that is limited.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use asyncsteps_journal::Timestamp;
use serde::{Deserialize, Serialize};

/// The units of something limited that requests have reserved: the state of an [entity](super::Entity), or a part of it.
///
/// Each reservation has a key, for which [`Cx::key`](asyncsteps_executor::Cx::key) of the calling step or the id of a request
/// is made: all methods may be called again with the same key, in any order, and change nothing a second time. So steps
/// that are tried again, and undos that come before what they undo, do no harm. A reservation that is neither
/// [confirmed](Self::confirm) nor [given back](Self::give_back) ends by itself. The time is that of the call,
/// [`EntityState::now`](super::EntityState::now).
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use asyncsteps_durable::entity::{NotReserved, ReservationRules, Reservations};
///
/// const RULES: ReservationRules = ReservationRules::new(Duration::from_secs(600));
///
/// let (mut hall, now, seats) = (Reservations::default(), SystemTime::now(), 10);
/// hall.take("order 1", 8, seats, &RULES, now)?;
/// hall.take("order 1", 8, seats, &RULES, now)?; // again: it has them
/// assert_eq!(hall.take("order 2", 3, seats, &RULES, now), Err(NotReserved::TooFew { free: 2 }));
/// hall.give_back("order 1", &RULES, now);
/// assert_eq!(hall.take("order 1", 8, seats, &RULES, now), Err(NotReserved::HasEnded)); // it came too late
/// hall.take("order 2", 3, seats, &RULES, now)?;
/// assert_eq!(hall.confirm("order 2", &RULES, now), Some(3)); // sold: the caller has fewer seats now
/// assert_eq!(hall.units(now), 0);
/// # Ok::<(), NotReserved>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Reservations {
    /// Units and their end.
    #[serde(default)]
    held: BTreeMap<String, (i64, Millis)>,
    /// The units that were confirmed; `None` if they were given back. And until when the key is remembered.
    #[serde(default)]
    ended: BTreeMap<String, (Option<i64>, Millis)>,
}

/// A time of day in milliseconds since 1970.
type Millis = u64;

/// How long reservations are kept, and how many. A state may have 64 KiB, and a reservation takes about 30 bytes and its
/// key.
#[derive(Clone, Copy, Debug)]
pub struct ReservationRules {
    lasts: Duration,
    most: usize,
    remembers: usize,
}

/// Why units are not reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotReserved {
    /// Fewer units are free.
    #[error("{free} units are free")]
    TooFew {
        /// How many.
        free: i64,
    },
    /// The reservation of this key was confirmed or given back.
    #[error("the reservation has ended")]
    HasEnded,
    /// There are as many reservations as there may be.
    #[error("there are {0} reservations, and may be no more")]
    TooMany(usize),
}

impl ReservationRules {
    /// A reservation ends by itself after this time: longer than what is behind it takes. There are 500 of them at the
    /// most, and the keys of the last 100 that have ended are remembered for the same time.
    #[must_use]
    pub const fn new(lasts: Duration) -> Self {
        Self { lasts, most: 500, remembers: 100 }
    }

    /// How many reservations there may be.
    #[must_use]
    pub const fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Of how many that have ended the keys are remembered, so that a late call with one does nothing.
    #[must_use]
    pub const fn remembers(self, remembers: usize) -> Self {
        Self { remembers, ..self }
    }

    fn end(&self, now: SystemTime) -> Millis {
        Timestamp::from(now).after(self.lasts).as_millis()
    }
}

impl Reservations {
    /// Reserves units under a key, if of `all` so many are free. A key that has some keeps these.
    ///
    /// # Errors
    /// If there are fewer, the key has ended, or there are too many reservations; then nothing is reserved.
    pub fn take(
        &mut self,
        key: &str,
        units: i64,
        all: i64,
        rules: &ReservationRules,
        now: SystemTime,
    ) -> Result<(), NotReserved> {
        self.forget(now);
        if self.held.contains_key(key) {
            return Ok(());
        }
        if self.ended.contains_key(key) {
            return Err(NotReserved::HasEnded);
        }
        let free = all.saturating_sub(self.units(now));
        if free < units {
            return Err(NotReserved::TooFew { free });
        }
        if self.held.len() >= rules.most {
            return Err(NotReserved::TooMany(self.held.len()));
        }
        self.held.insert(key.to_owned(), (units, rules.end(now)));
        Ok(())
    }

    /// Frees what is reserved under a key; one that comes later with this key reserves nothing. What was confirmed stays so.
    /// Returns the units that are free now.
    pub fn give_back(&mut self, key: &str, rules: &ReservationRules, now: SystemTime) -> i64 {
        self.forget(now);
        let held = self.held.remove(key).map_or(0, |(units, _)| units);
        if !self.ended.contains_key(key) {
            self.remember(key, None, rules, now);
        }
        held
    }

    /// Ends a reservation because its units are used: the caller counts them as used from now on. Returns how many these
    /// are, and the same when it is called again; `None` if the reservation has ended otherwise, or is not known.
    pub fn confirm(&mut self, key: &str, rules: &ReservationRules, now: SystemTime) -> Option<i64> {
        self.forget(now);
        match self.held.remove(key) {
            Some((units, _)) => {
                self.remember(key, Some(units), rules, now);
                Some(units)
            }
            None => self.ended.get(key).and_then(|(units, _)| *units),
        }
    }

    /// How many units are reserved.
    #[must_use]
    pub fn units(&self, now: SystemTime) -> i64 {
        self.all(now).map(|(_, units)| units).sum()
    }

    /// Whether units are reserved under a key.
    #[must_use]
    pub fn has(&self, key: &str, now: SystemTime) -> bool {
        self.held.get(key).is_some_and(|(_, end)| *end > Timestamp::from(now).as_millis())
    }

    /// The reservations: keys and units.
    pub fn all(&self, now: SystemTime) -> impl Iterator<Item = (&str, i64)> {
        let now = Timestamp::from(now).as_millis();
        let held = self.held.iter().filter(move |(_, (_, end))| *end > now);
        held.map(|(key, (units, _))| (key.as_str(), *units))
    }

    /// Forgets what has ended by itself, and old keys.
    fn forget(&mut self, now: SystemTime) {
        let now = Timestamp::from(now).as_millis();
        self.held.retain(|_, (_, end)| *end > now);
        self.ended.retain(|_, (_, end)| *end > now);
    }

    fn remember(
        &mut self,
        key: &str,
        confirmed: Option<i64>,
        rules: &ReservationRules,
        now: SystemTime,
    ) {
        self.ended.insert(key.to_owned(), (confirmed, rules.end(now)));
        while self.ended.len() > rules.remembers {
            let oldest = self.ended.iter().min_by_key(|(_, (_, end))| *end);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            self.ended.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: ReservationRules =
        ReservationRules::new(Duration::from_secs(60)).at_most(2).remembers(2);

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn each_call_has_its_effect_once_in_whichever_order_they_come() {
        let mut shelf = Reservations::default();
        for _ in 0..2 {
            assert_eq!(shelf.take("a", 4, 5, &RULES, at(0)), Ok(()));
        }
        assert_eq!(shelf.take("b", 2, 5, &RULES, at(0)), Err(NotReserved::TooFew { free: 1 }));
        assert_eq!([0, 1].map(|_| shelf.confirm("a", &RULES, at(1))), [Some(4); 2]);
        assert_eq!(shelf.give_back("a", &RULES, at(1)), 0);
        assert_eq!(shelf.confirm("a", &RULES, at(1)), Some(4), "it stays confirmed");
        assert_eq!(shelf.take("a", 4, 5, &RULES, at(1)), Err(NotReserved::HasEnded));
        // an undo comes before the call that it undoes
        assert_eq!(shelf.give_back("b", &RULES, at(1)), 0);
        assert_eq!(shelf.take("b", 1, 5, &RULES, at(1)), Err(NotReserved::HasEnded));
        assert_eq!((shelf.confirm("b", &RULES, at(1)), shelf.units(at(1))), (None, 0));
        assert_eq!(shelf.confirm("c", &RULES, at(1)), None, "it was never taken");
    }

    #[test]
    fn what_is_kept_is_bounded_in_number_and_time() {
        let mut shelf = Reservations::default();
        for key in ["a", "b"] {
            assert_eq!(shelf.take(key, 1, 9, &RULES, at(0)), Ok(()));
        }
        assert_eq!(shelf.take("c", 1, 9, &RULES, at(0)), Err(NotReserved::TooMany(2)));
        assert_eq!(shelf.all(at(59)).collect::<Vec<_>>(), [("a", 1), ("b", 1)]);
        assert_eq!(shelf.units(at(60)), 0, "they have ended by themselves");
        assert_eq!(shelf.take("c", 9, 9, &RULES, at(60)), Ok(()));
        assert_eq!(shelf.give_back("c", &RULES, at(60)), 9);
        for (second, key) in [(61, "d"), (62, "e")] {
            shelf.give_back(key, &RULES, at(second));
        }
        assert_eq!(shelf.take("c", 1, 9, &RULES, at(63)), Ok(()), "the oldest key is forgotten");
        assert_eq!(shelf.take("e", 1, 9, &RULES, at(121)), Err(NotReserved::HasEnded));
        assert_eq!(shelf.take("e", 1, 9, &RULES, at(122)), Ok(()), "so is one after its time");
    }

    #[test]
    fn an_empty_state_of_another_form_is_one_without_reservations() {
        let empty: Reservations = serde_json::from_str(r#"{"new":{},"ends":true}"#).expect("read");
        assert_eq!(empty.units(at(0)), 0);
    }
}
