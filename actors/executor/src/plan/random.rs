//! Random numbers for the bodies of a plan.

use asyncsteps_core::sim::Random;

use super::cx::Cx;
use super::service::Service;

impl<S: Service, P> Cx<S, P> {
    /// Random numbers that belong to the [key](Self::key): all attempts of the step get the same ones, also
    /// after a crash, and other steps, items and requests get others. Not for secrets.
    ///
    /// Each call returns the same numbers again, so keep what it returns:
    ///
    /// ```
    /// # use asyncsteps_executor::{Returns, Service, Steps};
    /// # struct Shop;
    /// # impl Service for Shop { type Errors = (); }
    /// # impl Shop { fn greet(&self, _: &str) {} }
    /// fn greet(steps: &Steps<Shop, ()>) -> Returns<()> {
    ///     steps
    ///         .run("greet", async |cx, ()| {
    ///             let mut random = cx.random();
    ///             cx.greet(random.pick(&["hello", "good day"]).unwrap_or(&"hi"));
    ///             Ok(())
    ///         })
    ///         .returns()
    /// }
    /// ```
    #[must_use = "each call returns the same numbers again"]
    pub fn random(&self) -> Random {
        Random::new(seed(self.key()))
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
