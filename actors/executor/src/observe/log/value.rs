//! Values as they may be logged: without what would act on a reader.

use std::fmt::{self, Write};

/// Writes a text such that it stays on its line and shows each character.
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

/// Whether a terminal or a viewer does something with it instead of showing it: control characters,
/// ends of lines and paragraphs, directions of writing, invisible characters.
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
}
