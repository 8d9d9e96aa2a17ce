//! Random numbers and the time of day for the logic of a function.

use std::time::SystemTime;

use asyncsteps_actors::clock;
use asyncsteps_core::sim::Random;

use super::context::{Cx, Service};
use super::steps::Steps;

impl<S: Service, P> Cx<S, P> {
    /// Random numbers that belong to the [key](Self::key): all attempts of the step get the same ones, also
    /// after a crash, and other steps, items and requests get others. Not for secrets.
    ///
    /// Each call gives the same numbers again, so one keeps what it gives:
    ///
    /// ```
    /// # use asyncsteps_executor::{Returns, Service, Steps};
    /// # struct Shop;
    /// # impl Service for Shop { type Errors = (); }
    /// # impl Shop { fn greet(&self, _: &str) {} }
    /// fn greet(asi: &mut Steps<Shop, ()>) -> Returns<()> {
    ///     asi.run("greet", async |cx, ()| {
    ///         let mut random = cx.random();
    ///         cx.greet(random.pick(&["hello", "good day"]).unwrap_or(&"hi"));
    ///         Ok(())
    ///     })
    ///     .into()
    /// }
    /// ```
    #[must_use = "each call gives the same numbers again"]
    pub fn random(&self) -> Random {
        Random::new(seed(self.key()))
    }
}

impl<S: Service, P: 'static> Steps<S, P> {
    /// Random numbers that decide which steps there are. In a [durable](crate::recorder) request they are the
    /// same whenever it goes on; an attempt or an iteration that defines its steps anew gets others. In other
    /// requests they are as random. Not for secrets.
    ///
    /// Each call gives the same numbers again, so one keeps what it gives:
    ///
    /// ```
    /// # use asyncsteps_executor::{Returns, Service, Steps};
    /// # struct Shop;
    /// # impl Service for Shop { type Errors = (); }
    /// fn order(asi: &mut Steps<Shop, ()>) -> Returns<bool> {
    ///     let mut random = asi.random();
    ///     if random.one_in(10) {
    ///         asi.run("ask for a review", async |_, ()| Ok(()));
    ///     }
    ///     let discount = random.below(5);
    ///     asi.run("charge", async move |_, ()| Ok(discount > 0)).into()
    /// }
    /// ```
    #[must_use = "each call gives the same numbers again"]
    pub fn random(&self) -> Random {
        Random::new(seed(&self.cx.key_around()))
    }

    /// The time of day. In a [durable](crate::recorder) request it is recorded when it is first asked for, and
    /// stays the same whenever the request goes on, so it may decide which steps there are, and bodies may
    /// take it along. An attempt or an iteration that defines its steps anew has a time of its own.
    ///
    /// ```
    /// # use std::time::{Duration, SystemTime};
    /// # use asyncsteps_executor::{Returns, Service, Steps};
    /// # struct Shop;
    /// # impl Service for Shop { type Errors = (); }
    /// # impl Shop { fn bill(&self, _: SystemTime) {} }
    /// fn order(asi: &mut Steps<Shop, ()>) -> Returns<()> {
    ///     let due = asi.now() + Duration::from_secs(14 * 86_400);
    ///     asi.run("bill", async move |cx, ()| {
    ///         cx.bill(due);
    ///         Ok(())
    ///     })
    ///     .into()
    /// }
    /// ```
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.cx.time_around().unwrap_or_else(clock::wall)
    }
}

/// A seed for each text (FNV-1a): the same one on every machine and in every version, because requests go on
/// with it.
pub(crate) fn seed(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_published_seed() {
        let seeds = ["", "a", "foobar"].map(seed);
        assert_eq!(seeds, [0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8]);
    }
}
