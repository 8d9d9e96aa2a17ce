//! Values as they may be logged: without what would act on a reader.

/// Adds a text to a line such that it stays on the line and shows each character; one that `is_quoted` is
/// such that its quotation marks end it.
pub(super) fn escape(line: &mut String, text: &str, is_quoted: bool) {
    for char in text.chars() {
        match char {
            '"' | '\\' if is_quoted => line.extend(['\\', char]),
            _ if acts(char) => line.extend(char.escape_default()),
            _ => line.push(char),
        }
    }
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
        escape(&mut one, text, false);
        escape(&mut other, text, true);
        assert_eq!(one, escaped);
        assert_eq!(format!("\"{other}\""), quoted);
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
