//! Limits of values: ranges of numbers and lengths, members of enums and sets.

/// FTN3 §2.1: most members of one enum or set.
pub(crate) const MAX_MEMBERS: usize = 1000;

/// Inclusive limits of a number (`min`, `max`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct NumberRange {
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Default for NumberRange {
    /// Every number.
    fn default() -> Self {
        Self { min: f64::NEG_INFINITY, max: f64::INFINITY }
    }
}

impl NumberRange {
    pub(crate) fn holds(self, number: f64) -> bool {
        self.min <= number && number <= self.max
    }
}

/// Inclusive limits of a length (`minlen`, `maxlen`): UTF-16 units, items or bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LengthRange {
    pub(crate) min: usize,
    pub(crate) max: usize,
}

impl Default for LengthRange {
    /// Every length.
    fn default() -> Self {
        Self { min: 0, max: usize::MAX }
    }
}

impl LengthRange {
    pub(crate) fn holds(self, length: usize) -> bool {
        self.min <= length && length <= self.max
    }

    /// Counts as ECMAScript does. A text has at most as many units as bytes and at least a third
    /// of them, so most are not counted at all.
    pub(crate) fn holds_units(self, text: &str) -> bool {
        if self.min <= text.len() / 3 && text.len() <= self.max {
            return true;
        }
        self.holds(text.chars().map(char::len_utf16).sum())
    }
}

/// The members of an enum or set, each kind sorted. A number never equals a string.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) numbers: Box<[i32]>,
    pub(crate) texts: Box<[Box<str>]>,
}
