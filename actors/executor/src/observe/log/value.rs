//! Values as they may be logged: of a bounded length, and without what would act on a reader.

use std::fmt::{self, Write};

/// Default of [`Log::longest_value`](super::Log::longest_value), in bytes: the stack of a deep flow fits, and a line stays within
/// some kilobytes whatever a client sends.
pub(super) const LONGEST_VALUE: usize = 2048;

/// Collects a text up to a number of bytes, and counts all of them.
pub(super) struct Cut {
    text: String,
    limit: usize,
    /// How many bytes the whole text has.
    length: usize,
}

impl Cut {
    /// The text of `value`, at most `limit` bytes of it; a longer one ends with `…` and its length.
    pub(super) fn text(value: impl fmt::Display, limit: usize) -> String {
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

/// Writes a text such that it stays on its line and shows what it is.
pub(super) fn escape(into: &mut impl Write, text: &str) -> fmt::Result {
    for char in text.chars() {
        if acts(char) {
            write!(into, "{}", char.escape_default())?;
        } else {
            into.write_char(char)?;
        }
    }
    Ok(())
}

/// The same in quotation marks, so that its end is known.
pub(super) fn quote(into: &mut impl Write, text: &str) -> fmt::Result {
    into.write_char('"')?;
    for part in text.split_inclusive(['"', '\\']) {
        let plain = part.trim_end_matches(['"', '\\']);
        escape(into, plain)?;
        if let Some(mark) = part[plain.len()..].chars().next() {
            write!(into, "\\{mark}")?;
        }
    }
    into.write_char('"')
}

/// Whether a text is one word, which needs no quotation marks.
pub(super) fn is_word(text: &str) -> bool {
    let breaks = |char: char| char.is_whitespace() || acts(char) || matches!(char, '"' | '=');
    !text.is_empty() && !text.contains(breaks)
}

/// Whether a terminal or a viewer does something with it instead of showing it: control
/// characters, ends of lines and paragraphs, directions of writing, what is invisible.
pub(super) fn acts(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, escaped: &str, quoted: &str) {
        let (mut one, mut other) = (String::new(), String::new());
        escape(&mut one, text).and_then(|()| quote(&mut other, text)).expect("it is a string");
        assert_eq!(one, escaped);
        assert_eq!(other, quoted);
    }

    #[test]
    fn what_acts_on_a_reader_is_escaped_and_nothing_else() {
        check("Zoë 'n' ジョー", "Zoë 'n' ジョー", r#""Zoë 'n' ジョー""#);
        check("a\r\nb\tc", r"a\r\nb\tc", r#""a\r\nb\tc""#);
        check("\u{1b}[31m\u{9b}\0", r"\u{1b}[31m\u{9b}\u{0}", r#""\u{1b}[31m\u{9b}\u{0}""#);
        check(
            "\u{202e}txt\u{2066}\u{2028}",
            r"\u{202e}txt\u{2066}\u{2028}",
            r#""\u{202e}txt\u{2066}\u{2028}""#,
        );
        check(r#"say "\" twice"#, r#"say "\" twice"#, r#""say \"\\\" twice""#);
        check(r#""""#, r#""""#, r#""\"\"""#);
    }

    #[test]
    fn words_stand_alone() {
        assert!(is_word("demo.shop:1.0:order"));
        for text in ["", "two words", "a=b", "\"", "a\u{a0}b", "a\u{1b}"] {
            assert!(!is_word(text), "{text:?}");
        }
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        assert_eq!(Cut::text("four", 4), "four");
        assert_eq!(Cut::text("fives", 4), "five… (5 bytes)");
        assert_eq!(Cut::text("éé", 3), "é… (4 bytes)");
        assert_eq!(Cut::text(format_args!("{}{}", "abc", "déf"), 5), "abcd… (7 bytes)");
    }
}
