//! Frames as bytes (RFC 6455 §5.2).

use bytes::{Buf as _, BufMut as _, BytesMut};

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpCode {
    /// The next part of a message.
    Continue = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

/// A frame of a client, without its mask.
#[derive(Debug)]
pub(super) struct Frame {
    /// Whether it is the last one of its message.
    pub(super) is_last: bool,
    pub(super) opcode: OpCode,
    pub(super) payload: BytesMut,
}

/// Why nothing more can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// A message is larger than the limit.
    TooLarge,
    /// The other end does not follow RFC 6455.
    Protocol,
    /// A text is not UTF-8.
    Text,
    /// The budget has no room for the received part of a message.
    NoRoom,
    /// The connection ended.
    Ended,
}

/// The largest payload of a control frame, in bytes (§5.5).
pub(super) const CONTROL: usize = 125;

/// The bytes of the head of a frame at most.
const HEAD: usize = 14;

/// The bit of the last frame of a message.
const LAST: u8 = 0x80;

/// Bits of a head that only extensions use, which are not supported.
const RESERVED: u8 = 0x70;

/// The bit of a payload that is masked, as those of clients are.
const MASKED: u8 = 0x80;

impl OpCode {
    fn of(first: u8) -> Option<Self> {
        Some(match first & 0x0f {
            0 => Self::Continue,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// Takes the first frame out of `buffer`; `None` if a part of it has not come.
///
/// # Errors
/// - `TooLarge` for a payload of more than `limit` bytes, as soon as the head says so;
/// - `Protocol` for reserved bits, an unknown opcode, a payload without a mask, and a control frame that is not whole
///   or has more than [`CONTROL`] bytes.
pub(super) fn take(buffer: &mut BytesMut, limit: usize) -> Result<Option<Frame>, Broken> {
    let Some(&first) = buffer.first() else { return Ok(None) };
    if first & RESERVED != 0 {
        return Err(Broken::Protocol);
    }
    let opcode = OpCode::of(first).ok_or(Broken::Protocol)?;
    let is_last = first & LAST != 0;
    let Some(&second) = buffer.get(1) else { return Ok(None) };
    let Some((length, mask_at)) = length(buffer, second & !MASKED) else { return Ok(None) };
    let length = usize::try_from(length).ok().filter(|length| *length <= limit);
    let length = length.ok_or(Broken::TooLarge)?;
    if second & MASKED == 0 || (opcode.is_control() && (!is_last || length > CONTROL)) {
        return Err(Broken::Protocol);
    }
    let payload_at = mask_at + 4;
    if buffer.len() < payload_at.saturating_add(length) {
        return Ok(None);
    }
    let Some(&mask) = buffer[mask_at..].first_chunk() else { return Ok(None) };
    buffer.advance(payload_at);
    let mut payload = buffer.split_to(length);
    unmask(&mut payload, mask);
    Ok(Some(Frame { is_last, opcode, payload }))
}

/// The bytes of a frame that has begun, for which [`take`] waits: those of the largest head as long as its own is not
/// whole.
pub(super) fn size_of_begun(begun: &[u8]) -> usize {
    let length = begun.get(1).and_then(|second| length(begun, second & !MASKED));
    // no more than the limit of `take`
    let size =
        length.and_then(|(payload, mask_at)| Some(usize::try_from(payload).ok()? + mask_at + 4));
    size.unwrap_or(HEAD)
}

/// The length of the payload and where its mask begins, if the head says so already; `short` is the length in its
/// second byte.
fn length(head: &[u8], short: u8) -> Option<(u64, usize)> {
    match short {
        126 => Some((u16::from_be_bytes(*head.get(2..)?.first_chunk()?).into(), 4)),
        127 => Some((u64::from_be_bytes(*head.get(2..)?.first_chunk()?), 10)),
        length => Some((length.into(), 2)),
    }
}

fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let narrow = u64::from(u32::from_ne_bytes(mask));
    let wide = narrow << 32 | narrow;
    let (words, rest) = payload.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

/// Appends a whole message or control frame, as servers send it, to `out`.
pub(super) fn write(out: &mut BytesMut, opcode: OpCode, payload: &[u8]) {
    out.reserve(10 + payload.len());
    let first = LAST | opcode as u8;
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ ..=125), _) => out.put_slice(&[first, length]),
        (_, Ok(length)) => {
            out.put_slice(&[first, 126]);
            out.put_u16(length);
        }
        (_, Err(_)) => {
            out.put_slice(&[first, 127]);
            out.put_u64(payload.len() as u64);
        }
    }
    out.put_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as clients send it.
    fn masked(first: u8, payload: &[u8]) -> BytesMut {
        const MASK: [u8; 4] = [0x12, 0x34, 0x56, 0x78];
        let mut frame = BytesMut::new();
        write(&mut frame, OpCode::Text, payload);
        frame[0] = first;
        frame[1] |= MASKED;
        let at = frame.len() - payload.len();
        let mut frame = frame[..at].to_vec();
        frame.extend(MASK);
        frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        BytesMut::from(&frame[..])
    }

    #[test]
    fn a_frame_of_any_length_is_taken_once_all_of_it_is_there() {
        for length in [0, 1, 7, 8, 9, 15, 125, 126, 127, 65_535, 65_536, 70_001] {
            let payload: Vec<u8> = (0..=u8::MAX).cycle().take(length).collect();
            let whole = masked(0x82, &payload);
            for cut in [1, 2, 3, 5, 9, whole.len() - 1] {
                let mut part = BytesMut::from(&whole[..cut.min(whole.len() - 1)]);
                assert!(matches!(take(&mut part, length), Ok(None)), "{length}, {cut}");
                let size = size_of_begun(&part);
                assert!(size == whole.len() || (cut < 14 && size == HEAD), "{length}, {cut}");
            }
            let mut buffer = whole;
            buffer.extend_from_slice(b"\x89\x80\0\0\0\0");
            let frame = take(&mut buffer, length.max(CONTROL)).expect("it is right");
            let frame = frame.expect("it is whole");
            assert!((frame.is_last, frame.opcode) == (true, OpCode::Binary));
            assert!(frame.payload == payload, "{length}");
            let ping = take(&mut buffer, CONTROL).expect("it is right").expect("it is whole");
            assert_eq!((ping.opcode, ping.payload.len(), buffer.len()), (OpCode::Ping, 0, 0));
        }
    }

    #[test]
    fn a_head_that_is_wrong_is_refused_before_its_payload_comes() {
        for (head, why) in [
            // more than the limit: 126 to 65,535 bytes, then more than any memory
            (&b"\x82\xfe\x03\xe9"[..], Broken::TooLarge),
            (b"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff", Broken::TooLarge),
            // reserved bits and opcodes
            (b"\xc1", Broken::Protocol),
            (b"\x83", Broken::Protocol),
            (b"\x8b\x80", Broken::Protocol),
            // no mask
            (b"\x81\x05", Broken::Protocol),
            // a control frame in parts, and a large one
            (b"\x09\x80", Broken::Protocol),
            (b"\x88\xfe\0\x7e", Broken::Protocol),
        ] {
            let taken = take(&mut BytesMut::from(head), 1000);
            assert_eq!(taken.expect_err("it is wrong"), why, "{head:x?}");
        }
    }
}
