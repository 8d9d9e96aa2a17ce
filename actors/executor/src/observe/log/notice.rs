//! Notices of the log itself.

use std::fmt::Display;

/// A line that does not come through `tracing`: of a panic, or of lines that were dropped.
pub(super) struct Notice<'a> {
    pub(super) level: &'a str,
    pub(super) target: &'a str,
    pub(super) message: &'a str,
    pub(super) fields: &'a [(&'a str, &'a dyn Display)],
}
