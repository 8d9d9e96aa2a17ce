//! Where heads begin and end in the bytes of an HTTP/2 connection.
//!
//! This is no second parser: h2 parses, and says nothing of a head before its end. What a head takes until
//! then is found here, by the lengths of its frames (RFC 9113 §4.1).

/// Bytes of the head of a frame.
const FRAME_HEAD: usize = 9;

/// How a client begins, before its first frame.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;

/// The flag of the frame that ends a head.
const END_HEADERS: u8 = 4;

/// What was followed at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Followed {
    /// Bytes that were taken.
    pub(super) length: usize,
    /// Frames that ended in them.
    pub(super) frames: usize,
    /// Those of them with which the client gives a request up.
    pub(super) resets: u32,
}

/// Follows frames, in pieces of any size.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Bytes of the preface that are missing.
    preface: usize,
    /// The head of the frame, as far as it is there.
    head: [u8; FRAME_HEAD],
    read: usize,
    /// Bytes of its payload, and how many of them are missing.
    length: usize,
    missing: usize,
    /// Bytes so far of a head that has begun.
    block: Option<usize>,
    /// Bytes of bodies so far.
    data: usize,
}

impl Blocks {
    pub(super) fn new() -> Self {
        let preface = PREFACE.len();
        Self {
            preface,
            head: [0; FRAME_HEAD],
            read: 0,
            length: 0,
            missing: 0,
            block: None,
            data: 0,
        }
    }

    /// Takes the next bytes of the connection, those of `frames` frames at most.
    pub(super) fn follow(&mut self, bytes: &[u8], frames: usize) -> Followed {
        let mut at = self.preface.min(bytes.len());
        self.preface -= at;
        let mut followed = Followed::default();
        while at < bytes.len() && followed.frames < frames {
            if self.read < FRAME_HEAD {
                let here = (bytes.len() - at).min(FRAME_HEAD - self.read);
                self.head[self.read..self.read + here].copy_from_slice(&bytes[at..at + here]);
                self.read += here;
                at += here;
                if self.read < FRAME_HEAD {
                    break;
                }
                let [a, b, c, ..] = self.head;
                self.length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                self.missing = self.length;
                if self.is_of_head() {
                    self.block.get_or_insert(0);
                }
            }
            let here = self.missing.min(bytes.len() - at);
            at += here;
            self.missing -= here;
            match (&mut self.block, self.head[3]) {
                (_, DATA) => self.data += here,
                (Some(block), _) => *block += here,
                (None, _) => {}
            }
            if self.missing == 0 {
                self.read = 0;
                followed.frames += 1;
                followed.resets += u32::from(self.head[3] == RST_STREAM);
                if self.is_of_head() && self.head[4] & END_HEADERS != 0 {
                    self.block = None;
                }
            }
        }
        Followed { length: at, ..followed }
    }

    /// Bytes so far of a head that has begun and not ended.
    pub(super) fn begun(&self) -> Option<usize> {
        self.block
    }

    /// Bytes so far of a frame that has not ended.
    pub(super) fn partial(&self) -> usize {
        if self.read < FRAME_HEAD { 0 } else { self.length - self.missing }
    }

    /// Bytes of bodies since this was asked last.
    pub(super) fn take_data(&mut self) -> usize {
        std::mem::take(&mut self.data)
    }

    fn is_of_head(&self) -> bool {
        matches!(self.head[3], HEADERS | PUSH_PROMISE | CONTINUATION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let [.., a, b] = payload.to_be_bytes();
        [&[0, a, b, kind, flags, 0, 0, 0, 1][..], &vec![1; payload]].concat()
    }

    #[test]
    fn heads_are_found_wherever_they_begin() {
        let whole = [frame(HEADERS, END_HEADERS, 300), frame(DATA, 1, 70), frame(4, 0, 0)].concat();
        let begun = [frame(HEADERS, 0, 20), frame(CONTINUATION, 0, 0), frame(CONTINUATION, 0, 30)];
        let all = [PREFACE, &whole, &frame(HEADERS, END_HEADERS, 0), &begun.concat()].concat();
        for size in 1..=all.len() {
            let mut blocks = Blocks::new();
            let frames = all.chunks(size).map(|bytes| blocks.follow(bytes, usize::MAX).frames);
            assert_eq!(frames.sum::<usize>(), 7, "in pieces of {size}");
            assert_eq!((blocks.begun(), blocks.take_data()), (Some(50), 70), "in pieces of {size}");
            blocks.follow(&frame(CONTINUATION, END_HEADERS, 0), 1);
            assert_eq!((blocks.begun(), blocks.partial()), (None, 0));
            blocks.follow(&frame(HEADERS, END_HEADERS, 9)[..12], 1);
            assert_eq!((blocks.begun(), blocks.partial()), (Some(3), 3), "the frame has not ended");
        }
    }

    #[test]
    fn no_more_frames_are_taken_than_are_asked_for() {
        let reset = frame(RST_STREAM, 0, 4);
        let all = [PREFACE, &reset.repeat(5)].concat();
        let mut blocks = Blocks::new();
        let two = Followed { length: PREFACE.len() + 2 * reset.len(), frames: 2, resets: 2 };
        assert_eq!(blocks.follow(&all, 2), two);
        let rest = &all[two.length..];
        assert_eq!(blocks.follow(rest, 0), Followed::default());
        let part = reset.len() + 3;
        let one = Followed { length: part, frames: 1, resets: 1 };
        assert_eq!(blocks.follow(&rest[..part], 2), one);
        assert_eq!(blocks.follow(&rest[part..], 1), Followed { length: reset.len() - 3, ..one });
    }
}
