//! The memory of this process.

use std::fs;

/// The resident memory in bytes; not a number where there is no `/proc`.
pub(crate) fn resident_bytes() -> f64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
    pages.map_or(f64::NAN, |pages| pages * 4096.0)
}
