//! Limits of zero, which would let no flow in (FTN12 §2.3 to §2.5).

use std::fmt;

/// A limit of a mutex, throttle or limiter is zero, so that no flow could ever enter
/// (FTN12 §2.3 to §2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroLimit(&'static str);

impl ZeroLimit {
    /// `limit` names the option and the object.
    pub(super) const fn of(limit: &'static str) -> Self {
        Self(limit)
    }
}

impl fmt::Display for ZeroLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} is 0: no flow could enter", self.0)
    }
}

impl std::error::Error for ZeroLimit {}

/// Panics if limits that the program itself chose are not valid.
#[track_caller]
pub(super) fn refuse(checked: Result<(), ZeroLimit>) {
    if let Err(zero) = checked {
        panic!("{zero}");
    }
}
