//! The places of a node in a limiter.

use std::time::Duration;

use crate::shares::Units;

/// The places that a node has, and how many of them are taken.
#[derive(Debug, Default)]
pub(super) struct Places {
    units: u32,
    inside: u32,
}

impl Places {
    /// Takes a place; says whether there was one.
    pub(super) fn enter(&mut self) -> bool {
        let has_room = self.inside < self.units;
        self.inside += u32::from(has_room);
        has_room
    }

    /// Releases a place.
    pub(super) fn leave(&mut self) {
        self.inside = self.inside.saturating_sub(1);
    }

    /// How many are inside.
    pub(super) fn inside(&self) -> u32 {
        self.inside
    }
}

impl Units for Places {
    /// A place is returned to the server when it is free.
    fn units(&self) -> u32 {
        self.units.max(self.inside)
    }

    /// No place is in use on two nodes, so new places count at once.
    fn grant(&mut self, units: u32, _: Duration, _: Duration) {
        self.units = units;
    }

    fn lose(&mut self) {
        self.units = 0;
    }

    fn is_used(&self) -> bool {
        self.inside > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_taken_is_not_given_to_others() {
        let mut places = Places::default();
        assert!(!places.enter());
        places.grant(2, Duration::ZERO, Duration::ZERO);
        assert!(places.enter() && places.enter() && !places.enter());
        places.grant(1, Duration::ZERO, Duration::ZERO);
        assert_eq!((places.units(), places.inside()), (2, 2));
        places.leave();
        assert_eq!((places.units(), places.enter()), (1, false));
        places.leave();
        assert!(places.enter() && places.is_used());
    }
}
