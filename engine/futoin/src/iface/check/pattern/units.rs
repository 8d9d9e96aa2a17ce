//! Texts as UTF-16 units.
//!
//! A pattern without the flag `u` matches UTF-16 units, but Rust's text has no halves of surrogate
//! pairs. So a private-use character replaces each half, in patterns and texts alike. A text that
//! has such a character itself has it as a surrogate pair, so the two are never confused.

use std::borrow::Cow;

/// A text with one character per UTF-16 unit.
pub(crate) fn units(text: &str) -> Cow<'_, str> {
    let is_astral = |byte: u8| byte >= 0xf0;
    if text.bytes().any(is_astral) {
        text.encode_utf16().map(unit).collect()
    } else {
        Cow::Borrowed(text)
    }
}

/// The character that represents a UTF-16 unit.
pub(crate) fn unit(unit: u16) -> char {
    let code = u32::from(unit);
    let stand_in = || char::from_u32(0x0010_0000 + code);
    char::from_u32(code).or_else(stand_in).unwrap_or(char::REPLACEMENT_CHARACTER)
}
