//! Where heads and bodies of requests end, as far as it is needed to read no further.
//!
//! This is no second parser: bytes are passed on as they come, and a wrong guess delays them only.

/// Finds empty lines, which end heads (RFC 9112 §2.1), in pieces of any size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    /// There is nothing but CR in the line so far.
    is_empty: bool,
}

impl Lines {
    pub(super) fn new() -> Self {
        // bytes before the first line are part of it
        Self { is_empty: true }
    }

    /// How many of these bytes come up to and with the next empty line; `None` if there is none. Only
    /// what it ends with counts as seen then.
    pub(super) fn next_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut begin = 0;
        for end in memchr::memchr_iter(b'\n', bytes) {
            let is_end = self.is_empty && is_blank(&bytes[begin..end]);
            (self.is_empty, begin) = (true, end + 1);
            if is_end {
                return Some(begin);
            }
        }
        self.is_empty &= is_blank(&bytes[begin..]);
        None
    }
}

/// How many bytes of the body may be passed on with this head: its `Content-Length`, or none where
/// that is not clear. The rest of the body comes when the dispatcher has read the head.
pub(super) fn body_length(head: &[u8]) -> usize {
    const NAME: &[u8] = b"content-length:";
    let length = |line: &[u8]| {
        let (name, value) = line.split_at_checked(NAME.len())?;
        let value = str::from_utf8(value).ok().filter(|_| name.eq_ignore_ascii_case(NAME))?;
        value.trim_ascii().parse().ok()
    };
    let mut lengths = head.split(|byte| *byte == b'\n').filter_map(length);
    match (lengths.next(), lengths.next()) {
        (Some(length), None) => length,
        _ => 0,
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| *byte == b'\r')
}

/// Follows a chunked body (RFC 9112 §7.1) to its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chunks {
    /// In the size of a chunk, so far this.
    Size(u64),
    /// Behind the size, until the line ends.
    Extension(u64),
    /// In the data of a chunk and the line end behind it; so many bytes are missing.
    Data(u64),
    /// Behind the last chunk, in the line of a trailer or in none.
    Trailers(Lines),
    /// The body is over.
    Over,
    /// The dispatcher refuses this.
    Broken,
}

impl Chunks {
    pub(super) fn new() -> Self {
        Self::Size(0)
    }

    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Over)
    }

    /// How many of these bytes belong to the body.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            match *self {
                Self::Over => break,
                Self::Broken => return bytes.len(),
                Self::Data(missing) => {
                    let here = missing.min((bytes.len() - at) as u64);
                    // no more than there are bytes
                    at += usize::try_from(here).unwrap_or(usize::MAX);
                    *self = if here < missing { Self::Data(missing - here) } else { Self::new() };
                }
                Self::Trailers(mut lines) => match lines.next_end(&bytes[at..]) {
                    Some(end) => {
                        at += end;
                        *self = Self::Over;
                    }
                    None => {
                        at = bytes.len();
                        *self = Self::Trailers(lines);
                    }
                },
                Self::Size(size) => {
                    *self = Self::in_size(size, bytes[at]);
                    at += 1;
                }
                Self::Extension(size) => {
                    *self = if bytes[at] == b'\n' { Self::data(size) } else { *self };
                    at += 1;
                }
            }
        }
        at
    }

    fn in_size(size: u64, byte: u8) -> Self {
        match char::from(byte).to_digit(16) {
            Some(digit) => size
                .checked_mul(16)
                .and_then(|size| size.checked_add(digit.into()))
                .map_or(Self::Broken, Self::Size),
            None => match byte {
                b'\n' => Self::data(size),
                b'\r' | b';' | b' ' | b'\t' => Self::Extension(size),
                _ => Self::Broken,
            },
        }
    }

    fn data(size: u64) -> Self {
        match size {
            0 => Self::Trailers(Lines::new()),
            // with its CR LF
            _ => Self::Data(size.saturating_add(2)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places of all ends, with the bytes given in pieces of `size`.
    fn ends(text: &str, size: usize) -> Vec<usize> {
        let (mut lines, mut ends) = (Lines::new(), Vec::new());
        let mut begin = 0;
        for piece in text.as_bytes().chunks(size) {
            let mut at = 0;
            while let Some(end) = lines.next_end(&piece[at..]) {
                at += end;
                ends.push(begin + at);
            }
            begin += piece.len();
        }
        ends
    }

    #[test]
    fn heads_end_with_empty_lines_however_they_come() {
        for (text, expected) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", &[27][..]),
            ("GET / HTTP/1.1\nHost: a\n\nGET", &[24]),
            ("a\r\n\r\nb\r\n\r\n", &[5, 10]),
            ("\r\n\r\nGET", &[2, 4]),
            ("a\r\nb\r\n", &[]),
            ("a\r\r\n", &[]),
        ] {
            for size in 1..=text.len() {
                assert_eq!(ends(text, size), expected, "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn a_chunked_body_ends_where_it_ends() {
        for (text, expected) in [
            ("0\r\n\r\nGET / HTTP/1.1\r\n", Some(5)),
            ("5\r\nhello\r\n0\r\n\r\nGET", Some(15)),
            ("A;name=value\r\n0123456789\r\n0\r\n\r\n", Some(31)),
            ("1\r\n\n\r\n0\r\nTrailer: a\r\n\r\nGET", Some(23)),
            ("5\r\nhello\r\n", None),
            ("{\"f\":0}\r\n\r\n", None),
            ("fffffffffffffffff\r\n", None),
            ("ffffffffffffffff\r\n\r\n\r\n0\r\n\r\n", None),
        ] {
            for size in 1..=text.len() {
                let (mut chunks, mut length) = (Chunks::new(), 0);
                for piece in text.as_bytes().chunks(size) {
                    length += chunks.follow(piece);
                }
                let found = chunks.is_over().then_some(length);
                assert_eq!(found, expected, "{text:?} in pieces of {size}");
            }
        }
    }
}
