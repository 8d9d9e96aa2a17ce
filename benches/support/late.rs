//! How late the slowest are.

use std::time::Duration;

/// One in a hundred takes longer.
pub(crate) fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100]
}
