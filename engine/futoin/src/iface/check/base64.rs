//! Byte strings as JSON has them: padded base64 (RFC 4648 §4).

/// How many bytes padded base64 encodes; `None` if `text` is not padded base64, or has bits after
/// its last byte, which decoders refuse (RFC 4648 §3.5).
pub(super) fn decoded_len(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = text.trim_end_matches('=').as_bytes();
    let padding = bytes.len() - digits.len();
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let ends_well = match padding {
        0 => true,
        1 => digits.last().is_some_and(|digit| b"AEIMQUYcgkosw048".contains(digit)),
        2 => digits.last().is_some_and(|digit| b"AQgw".contains(digit)),
        _ => false,
    };
    let is_valid = bytes.len().is_multiple_of(4) && ends_well && digits.iter().all(is_digit);
    is_valid.then(|| bytes.len() / 4 * 3 - padding)
}
