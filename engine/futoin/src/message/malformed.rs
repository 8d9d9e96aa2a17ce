//! Bytes that are not a message.

/// Deepest nesting of objects and lists in a message. Real messages stay below ten; at this depth
/// the recursion of parser, checker and destructor needs a few kilobytes of stack.
pub(crate) const MAX_DEPTH: usize = 64;

/// Why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// They do not follow their coding.
    Syntax,
    /// They are not JSON, or no map; the reason, without anything of their content.
    Json(String),
    /// Lists and maps are nested too deep.
    Depth,
}

/// Whether brackets outside strings are nested deeper than [`MAX_DEPTH`]. The text need not be JSON:
/// the parser refuses other text.
pub(crate) fn is_too_deep(bytes: &[u8]) -> bool {
    // in pieces whose sum is a byte: many bytes at once
    let opening = |byte: &u8| u8::from(matches!(byte, b'{' | b'['));
    let opening = |piece: &[u8]| usize::from(piece.iter().map(opening).sum::<u8>());
    if bytes.chunks(u8::MAX.into()).map(opening).sum::<usize>() <= MAX_DEPTH {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}
