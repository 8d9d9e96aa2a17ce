//! The share of a node in a rate: entries in periods of its own.

use std::time::Duration;

use crate::shares::Units;

/// The units that a node has, and what it has used of them. Times are of the boot-time clock.
#[derive(Debug, Default)]
pub(super) struct ThrottleShare {
    units: u32,
    /// More units, from this time on.
    grows: Option<(u32, Duration)>,
    /// When the current period ends, and how many entries it has.
    period: Option<(Duration, u32)>,
}

impl ThrottleShare {
    /// Enters; else returns the time at which there may be room, if that is known.
    pub(super) fn enter(
        &mut self,
        now: Duration,
        length: Duration,
    ) -> Result<(), Option<Duration>> {
        self.grow(now);
        let (end, used) = self.period.filter(|(end, _)| now < *end).unwrap_or((now + length, 0));
        if used < self.units {
            self.period = Some((end, used + 1));
            return Ok(());
        }
        let grows = self.grows.map(|(_, at)| at);
        let ends = (self.units > 0).then_some(end);
        Err(grows.into_iter().chain(ends).min())
    }

    fn grow(&mut self, now: Duration) {
        if let Some((units, _)) = self.grows.take_if(|(_, at)| *at <= now) {
            self.units = units;
        }
    }
}

impl Units for ThrottleShare {
    fn units(&self) -> u32 {
        self.grows.map_or(self.units, |(units, _)| units.max(self.units))
    }

    fn grant(&mut self, units: u32, now: Duration, clean: Duration) {
        self.grow(now);
        if units > self.units && clean > now {
            self.grows = Some((units, clean));
        } else {
            self.units = units;
            self.grows = None;
        }
    }

    fn lose(&mut self) {
        *self = Self::default();
    }

    /// An entry has ended when it is counted.
    fn is_used(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// How many entries there are at this time.
    fn enter_all(share: &mut ThrottleShare, now: Duration) -> (u32, Option<Duration>) {
        for count in 0.. {
            if let Err(next) = share.enter(now, ms(1000)) {
                return (count, next);
            }
        }
        unreachable!("a share has an end")
    }

    #[test]
    fn each_period_has_the_units_once() {
        let mut share = ThrottleShare::default();
        assert_eq!(enter_all(&mut share, ms(5)), (0, None));
        share.grant(3, ms(10), ms(10));
        assert_eq!(enter_all(&mut share, ms(20)), (3, Some(ms(1020))));
        assert_eq!(enter_all(&mut share, ms(1019)), (0, Some(ms(1020))));
        assert_eq!(enter_all(&mut share, ms(1020)), (3, Some(ms(2020))));
    }

    #[test]
    fn less_counts_at_once_and_more_when_others_have_used_theirs() {
        let mut share = ThrottleShare::default();
        share.grant(4, ms(0), ms(0));
        assert_eq!(enter_all(&mut share, ms(0)).0, 4);
        share.grant(2, ms(100), ms(0));
        assert_eq!(enter_all(&mut share, ms(1000)).0, 2);
        share.grant(5, ms(1100), ms(1500));
        assert_eq!(enter_all(&mut share, ms(1400)), (0, Some(ms(1500))));
        assert_eq!(enter_all(&mut share, ms(1500)).0, 3);
    }

    #[test]
    fn a_share_that_shrinks_before_it_grew_does_not_grow() {
        let mut share = ThrottleShare::default();
        share.grant(5, ms(0), ms(500));
        share.grant(0, ms(100), ms(0));
        assert_eq!(enter_all(&mut share, ms(900)), (0, None));
    }
}
