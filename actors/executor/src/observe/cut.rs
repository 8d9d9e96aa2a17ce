//! Texts of callers, of a bounded length.

use std::fmt::{self, Write};

/// The longest value that is logged or kept, in bytes: the stack of a deep flow fits, and a line or a record
/// stays within some kilobytes whatever a client sends.
pub const LONGEST_VALUE: usize = 2_048;

/// Collects a text up to a number of bytes, and counts all of them.
#[derive(Debug)]
pub struct Cut {
    text: String,
    limit: usize,
    /// How many bytes the whole text has.
    length: usize,
}

impl Cut {
    /// The text of `value`, at most `limit` bytes of it; a longer one ends with `…` and its length.
    #[must_use]
    pub fn text(value: impl fmt::Display, limit: usize) -> String {
        let mut cut = Self { text: String::new(), limit, length: 0 };
        if write!(cut, "{value}").is_err() {
            cut.text.push_str("(it cannot be shown)");
        }
        let Self { mut text, limit, length } = cut;
        if length > limit {
            text.push_str(&format!("… ({length} bytes)"));
        }
        text
    }
}

impl Write for Cut {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.length < self.limit {
            let room = self.limit - self.length;
            let fits = |(at, char): &(usize, char)| at + char.len_utf8() <= room;
            self.text.extend(part.char_indices().take_while(fits).map(|(_, char)| char));
        }
        self.length += part.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_between_characters() {
        assert_eq!(Cut::text("four", 4), "four");
        assert_eq!(Cut::text("fives", 4), "five… (5 bytes)");
        assert_eq!(Cut::text("éé", 3), "é… (4 bytes)");
        assert_eq!(Cut::text(format_args!("{}{}", "abc", "déf"), 5), "abcd… (7 bytes)");
    }
}
