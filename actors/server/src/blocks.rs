//! Where heads begin and end in the bytes of an HTTP/2 connection.
//!
//! This is no second parser: h2 parses, and says nothing of a head before its end. The memory of a head until then is
//! estimated here, by the lengths of its frames (RFC 9113 §4.1).
//!
//! Nor does h2 say what the table of fields holds that a client fills (RFC 7541 §2.3.2). An entry of a few
//! bytes can hold the whole buffer that it was read into, and there can be more than a hundred. So the
//! server asks for a table of no size; until its client has said that it has none, all that was read can be
//! held.

/// Bytes of the head of a frame.
const FRAME_HEAD: usize = 9;

/// How a client begins, before its first frame.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;

/// The flag of the frame that ends a head.
const END_HEADERS: u8 = 4;

/// The flag of settings that acknowledge the settings of the other end.
const ACK: u8 = 1;

/// Flags of heads behind whose first bytes the fields begin (RFC 9113 §6.2), and how many bytes these are.
const BEFORE_FIELDS: [(u8, usize); 2] = [(0x8, 1), (0x20, 5)];

/// How a head begins whose table has no size from then on (RFC 7541 §6.3).
const NO_TABLE: u8 = 0x20;

/// The most bytes that the table holds: a buffer of 16 KiB for each of its entries, which have 33 bytes
/// of its 4,096 at least.
const MOST_TABLED: usize = (4096 / 33) * (16 << 10);

/// The most bytes that a received byte takes while the table holds it: a new buffer can come before the last one is
/// full.
const OF_TABLED_BYTE: usize = 2;

/// The table that the client fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    /// Of the first size (RFC 7541 §4.2).
    Open,
    /// The client knows that it has to have no size.
    Closing,
    Closed,
}

/// The part of the input that was followed at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Followed {
    /// Bytes that were taken.
    pub(super) length: usize,
    /// Frames that ended in them.
    pub(super) frames: usize,
    /// Frames among them by which the client cancels a request.
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
    table: Table,
    /// Bytes of which the table may hold some.
    tabled: usize,
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
            table: Table::Open,
            tabled: 0,
        }
    }

    /// Takes the next bytes of the connection, at most `frames` frames.
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
            self.follow_table(&bytes[at..at + here]);
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
        if self.table != Table::Closed {
            self.tabled += at;
        }
        Followed { length: at, ..followed }
    }

    /// Follows the table in the next bytes of a payload.
    fn follow_table(&mut self, payload: &[u8]) {
        let [.., kind, flags, _, _, _, _] = self.head;
        match (self.table, kind) {
            (Table::Open, SETTINGS) if flags & ACK != 0 => self.table = Table::Closing,
            (Table::Closing, HEADERS) => {
                let before = BEFORE_FIELDS.iter().filter(|(flag, _)| flags & flag != 0);
                let before: usize = before.map(|(_, bytes)| bytes).sum();
                let first = before.checked_sub(self.length - self.missing);
                if first.and_then(|at| payload.get(at)) == Some(&NO_TABLE) {
                    (self.table, self.tabled) = (Table::Closed, 0);
                }
            }
            _ => {}
        }
    }

    /// Bytes that the table may hold.
    pub(super) fn tabled(&self) -> usize {
        self.tabled.saturating_mul(OF_TABLED_BYTE).min(MOST_TABLED)
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
    use std::slice::from_ref;

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
    fn the_table_may_hold_what_is_read_until_its_client_has_said_that_it_has_none() {
        let filler = frame(6, 0, 100);
        let [ack, settings] = [frame(SETTINGS, ACK, 0), frame(SETTINGS, 0, 0)];
        // no padding, and the first byte is no size
        let plain = frame(HEADERS, END_HEADERS, 10);
        let empty = |flags, before: usize| {
            let mut empty = frame(HEADERS, flags | END_HEADERS, before + 1);
            empty[FRAME_HEAD + before] = NO_TABLE;
            empty
        };
        let held = |frames: &[Vec<u8>]| {
            let mut blocks = Blocks::new();
            blocks.follow(PREFACE, 1);
            let all = [frames.concat(), filler.clone()].concat();
            for bytes in all.chunks(3) {
                blocks.follow(bytes, usize::MAX);
            }
            let bytes = PREFACE.len() + all.len();
            (blocks.tabled() > 0).then(|| assert_eq!(blocks.tabled(), OF_TABLED_BYTE * bytes))
        };
        for open in [
            &[][..],
            from_ref(&ack),
            &[ack.clone(), plain.clone()],
            &[empty(0, 0), ack.clone()],
            &[settings, empty(0, 0)],
            &[ack.clone(), empty(0, 5)],
        ] {
            assert!(held(open).is_some(), "{open:?}");
        }
        for (flags, before) in [(0, 0), (0x8, 1), (0x20, 5), (0x28, 6)] {
            assert!(held(&[ack.clone(), plain.clone(), empty(flags, before)]).is_none());
        }
        let mut blocks = Blocks::new();
        for _ in 0..MOST_TABLED / 100 {
            blocks.follow(&filler, 2);
        }
        assert_eq!(blocks.tabled(), MOST_TABLED);
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
