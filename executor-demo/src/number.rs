//! Whole numbers beyond 32 bits, for which FTN3 has no type of their own.

/// A number of an interface as an integer, if it is whole, not negative, and a float can represent it
/// exactly.
pub(crate) fn whole(number: f64) -> Option<i64> {
    /// Up to this number each whole number has a float of its own.
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
    (number.fract() == 0.0 && (0.0..=LARGEST).contains(&number)).then_some(number as i64)
}
