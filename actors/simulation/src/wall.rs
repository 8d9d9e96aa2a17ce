//! Times of day.

use std::time::{Duration, SystemTime};

/// The time of day at which a cluster begins, since 1970: 2027.
pub(crate) const BEGIN: Duration = Duration::from_secs(1_798_761_600);

/// A time `by` milliseconds later, or earlier.
pub(crate) fn moved(time: SystemTime, by: i64) -> SystemTime {
    let off = Duration::from_millis(by.unsigned_abs());
    if by >= 0 { time + off } else { time - off }
}
