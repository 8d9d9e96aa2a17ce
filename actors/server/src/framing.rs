//! Where requests begin and end in the bytes of an HTTP/1 connection.
//!
//! This is no second parser: hyper parses, and hides one thing. A head with both a `Content-Length`
//! and a `Transfer-Encoding` is how a request is smuggled past a proxy that goes by the other one
//! (RFC 9112 §11.2). hyper takes the second and removes the first, so such heads are found here.

/// Follows requests, in pieces of any size.
#[derive(Debug)]
pub(super) struct Framing {
    state: State,
    /// The beginning of a line of a head whose end is not there.
    line: Vec<u8>,
    heads: u64,
    has_seen_head: bool,
    /// Bytes of the head that comes now, or came last.
    head: usize,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Head(Head),
    /// This number of bytes of a body is missing.
    Body(u64),
    Chunks(Chunks),
}

/// The facts in the lines of a head.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    has_begun: bool,
    length: Option<u64>,
    is_chunked: bool,
}

/// A head with two lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ambiguous {
    /// Where it ends among the bytes that were followed last.
    pub(super) end: usize,
    /// Which head of the connection it is, from 1.
    pub(super) number: u64,
}

impl Framing {
    pub(super) fn new() -> Self {
        let state = State::Head(Head::default());
        Self { state, line: Vec::new(), heads: 0, has_seen_head: false, head: 0 }
    }

    /// Takes the next bytes of the connection.
    ///
    /// # Errors
    /// [`Ambiguous`] at the end of a head that has two lengths; nothing is followed behind it.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> Result<(), Ambiguous> {
        let mut at = 0;
        self.has_seen_head = false;
        while at < bytes.len() {
            match &mut self.state {
                State::Body(missing) => {
                    let here = (*missing).min((bytes.len() - at) as u64);
                    *missing -= here;
                    // no more than there are bytes
                    at += usize::try_from(here).unwrap_or(usize::MAX);
                    if *missing == 0 {
                        self.state = State::Head(Head::default());
                    }
                }
                State::Chunks(chunks) => {
                    at += chunks.follow(&bytes[at..]);
                    if matches!(chunks, Chunks::Over) {
                        self.state = State::Head(Head::default());
                    }
                }
                State::Head(head) => {
                    self.has_seen_head = true;
                    if !head.has_begun && self.line.is_empty() {
                        self.head = 0;
                    }
                    let Some(length) = memchr::memchr(b'\n', &bytes[at..]) else {
                        self.line.extend_from_slice(&bytes[at..]);
                        self.head += bytes.len() - at;
                        return Ok(());
                    };
                    self.head += length + 1;
                    let piece = &bytes[at..at + length];
                    at += length + 1;
                    let is_end = if self.line.is_empty() {
                        head.take(piece)
                    } else {
                        self.line.extend_from_slice(piece);
                        let line = std::mem::take(&mut self.line);
                        head.take(&line)
                    };
                    if is_end {
                        let head = *head;
                        self.end(head, at)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the bytes that were followed last were not of bodies alone.
    pub(super) fn has_seen_head(&self) -> bool {
        self.has_seen_head
    }

    /// Bytes of the head that comes now, or came last.
    pub(super) fn head(&self) -> usize {
        self.head
    }

    /// Whether the rest of a head is to come.
    pub(super) fn is_in_head(&self) -> bool {
        !self.line.is_empty() || matches!(self.state, State::Head(Head { has_begun: true, .. }))
    }

    /// Whether the rest of a body is to come.
    pub(super) fn is_in_body(&self) -> bool {
        !matches!(self.state, State::Head(_))
    }

    fn end(&mut self, head: Head, at: usize) -> Result<(), Ambiguous> {
        self.heads += 1;
        self.state = match head {
            Head { length: Some(_), is_chunked: true, .. } => {
                return Err(Ambiguous { end: at, number: self.heads });
            }
            Head { is_chunked: true, .. } => State::Chunks(Chunks::new()),
            Head { length: Some(length), .. } if length > 0 => State::Body(length),
            Head { .. } => State::Head(Head::default()),
        };
        Ok(())
    }
}

impl Head {
    /// Takes a line; whether it ends the head.
    fn take(&mut self, line: &[u8]) -> bool {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            // empty lines may come before a request (RFC 9112 §2.2)
            return self.has_begun;
        }
        // most lines are known to be others by a byte or two
        match line[0].to_ascii_lowercase() {
            b'c' if self.has_begun && line.get(8).is_some_and(|byte| byte | 0x20 == b'l') => {
                if let Some(length) = value(line, b"content-length:") {
                    self.length = Some(number(length).unwrap_or(0));
                }
            }
            b't' if self.has_begun => {
                self.is_chunked |= value(line, b"transfer-encoding:").is_some();
            }
            _ => {}
        }
        self.has_begun = true;
        false
    }
}

/// A number in digits.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// The value of a header, if the line has that name.
fn value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, value) = line.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

/// Follows a chunked body (RFC 9112 §7.1) to its end.
#[derive(Clone, Copy, Debug)]
enum Chunks {
    /// In the size of a chunk, so far this.
    Size(u64),
    /// Behind the size, until the line ends.
    Extension(u64),
    /// In the data of a chunk and the line end behind it; this number of bytes is missing.
    Data(u64),
    /// Behind the last chunk; whether the line is empty so far.
    Trailers(bool),
    /// The body has ended.
    Over,
    /// hyper refuses this.
    Broken,
}

impl Chunks {
    fn new() -> Self {
        Self::Size(0)
    }

    /// How many of these bytes belong to the body.
    fn follow(&mut self, bytes: &[u8]) -> usize {
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
                Self::Trailers(is_empty) => {
                    *self = match bytes[at] {
                        b'\n' if is_empty => Self::Over,
                        b'\n' => Self::Trailers(true),
                        byte => Self::Trailers(is_empty && byte == b'\r'),
                    };
                    at += 1;
                }
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
            0 => Self::Trailers(true),
            // with its CR LF
            _ => Self::Data(size.saturating_add(2)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the first ambiguous head ends, with the bytes read in pieces of `size`.
    fn ambiguous(text: &str, size: usize) -> Option<(usize, u64)> {
        let mut framing = Framing::new();
        text.as_bytes().chunks(size).enumerate().find_map(|(piece, bytes)| {
            let Ambiguous { end, number } = framing.follow(bytes).err()?;
            Some((piece * size + end, number))
        })
    }

    #[test]
    fn heads_with_two_lengths_are_found_wherever_they_are() {
        let two = "POST / HTTP/1.1\r\nContent-Length: 5\r\nTRANSFER-encoding: chunked\r\n\r\n";
        let counted = "POST / HTTP/1.1\r\ncontent-length:  4 \r\n\r\n\n\r\n\r";
        let chunked = "POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n\
            A;name=value\r\n0123456789\r\n1\r\n\n\r\n0\r\nTrailer: a\r\n\r\n";
        let hidden = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{two}", two.len());
        for before in
            [vec![], vec![counted], vec![chunked], vec![chunked, counted, &hidden, chunked]]
        {
            let text = format!("{}{two}rest", before.concat());
            let found = Some((text.len() - 4, before.len() as u64 + 1));
            for size in 1..=text.len() {
                assert_eq!(ambiguous(&text, size), found, "{text:?} in pieces of {size}");
            }
        }
        for size in 1..=hidden.len() {
            assert_eq!(ambiguous(&hidden, size), None, "{hidden:?} in pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_request_is_followed_to_its_end() {
        for text in
            ["\r\n\r\n", "{}", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n"]
        {
            assert_eq!(ambiguous(text, 1), None);
        }
        let endless =
            "POST / HTTP/1.1\r\nTransfer-Encoding: a\r\n\r\nffffffffffffffffff\r\n0\r\n\r\n";
        assert_eq!(ambiguous(endless, 3), None);
    }
}
