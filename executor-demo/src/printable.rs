//! Texts of other programs, as they are printed: a terminal would do what their control characters say.

/// A text with its control characters, line separators and marks of direction escaped, but for line breaks.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        match is_order(character) && character != '\n' {
            true => printable.extend(character.escape_default()),
            false => printable.push(character),
        }
    }
    printable
}

/// The same on one line: line breaks are escaped too.
pub(crate) fn one_line(text: &str) -> String {
    printable(text).replace('\n', "\\n")
}

/// Whether a terminal does something at a character instead of showing it.
fn is_order(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::{one_line, printable};

    #[test]
    fn terminals_get_no_orders() {
        let told = "a\tb\n\u{1b}[31mred\u{9b}2J\u{7}\r\u{e9}";
        assert_eq!(printable(told), "a\\tb\n\\u{1b}[31mred\\u{9b}2J\\u{7}\\r\u{e9}");
        assert_eq!(one_line("a\nb"), "a\\nb");
        for mark in ['\u{61c}', '\u{200f}', '\u{2028}', '\u{202e}', '\u{2066}', '\u{2069}'] {
            assert_eq!(printable(&mark.to_string()), mark.escape_default().to_string());
        }
    }
}
