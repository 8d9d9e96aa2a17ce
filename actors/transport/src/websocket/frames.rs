//! Frames of RFC 6455: from the bytes of a connection to whole messages, and back.

use actix_http::ws::{OpCode, Parser, ProtocolError};
use bytes::{Bytes, BytesMut};

use super::close_code::NORMAL;
use super::link::Input;
use crate::account::Share;

/// A message or a control frame of the other end.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A whole message in frames of a kind: its coding is recognised by its bytes.
    Message(Bytes, FrameKind),
    /// To be answered with the same bytes.
    Ping(Bytes),
    /// The answer to a ping.
    Pong,
    /// The closing handshake, to be answered with this code.
    Close(u16),
}

/// The kind of the frames of a message. A page in a browser gets a string from text, and a `Blob` from
/// anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    Text,
    Binary,
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

/// The reading half of a connection. It holds at most one message and one read of the socket.
pub(super) struct Frames {
    input: Input,
    buffer: BytesMut,
    /// The frames so far of a message in several frames, and the opcode of the first one.
    fragments: Option<(OpCode, BytesMut)>,
    /// Largest message, in bytes; at least [`CONTROL`].
    limit: usize,
    /// The memory of a message that has begun, and the number of its bytes.
    begun: Share,
    held: usize,
}

impl Frames {
    /// Reads from `input`, of which `read` was read already.
    pub(super) fn new(input: Input, read: BytesMut, limit: usize, begun: Share) -> Self {
        let limit = limit.max(CONTROL);
        Self { input, buffer: read, fragments: None, limit, begun, held: 0 }
    }

    /// Whether a part of a message or of a frame has come, and its rest has not.
    pub(super) fn has_begun(&self) -> bool {
        self.is_fragmented() || !self.buffer.is_empty()
    }

    /// Whether a message has begun that comes in several frames.
    pub(super) fn is_fragmented(&self) -> bool {
        self.fragments.is_some()
    }

    /// Counts the begun message, before more is read.
    fn hold(&mut self) -> Result<(), Broken> {
        let fragments = self.fragments.as_ref().map_or(0, |(_, whole)| whole.capacity());
        let buffer = if self.buffer.is_empty() { 0 } else { self.buffer.capacity() };
        let bytes = fragments + buffer;
        if bytes != self.held {
            self.begun.set(bytes, bytes > 0).map_err(|_| Broken::NoRoom)?;
            self.held = bytes;
        }
        Ok(())
    }

    /// Reads the next message or control frame.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Incoming, Broken> {
        loop {
            while let Some((last, opcode, payload)) = self.frame()? {
                if let Some(incoming) = self.take(last, opcode, payload)? {
                    return Ok(incoming);
                }
            }
            self.hold()?;
            if !self.input.read(&mut self.buffer).await {
                return Err(Broken::Ended);
            }
        }
    }

    fn frame(&mut self) -> Result<Option<(bool, OpCode, BytesMut)>, Broken> {
        // the parser refuses a frame that is too large only when all of it is there
        if self.announced().is_some_and(|length| length > self.limit as u64) {
            return Err(Broken::TooLarge);
        }
        if self.buffer.first().is_some_and(|first| first & RESERVED != 0) {
            return Err(Broken::Protocol);
        }
        match Parser::parse(&mut self.buffer, true, self.limit) {
            Ok(frame) => {
                Ok(frame.map(|(last, opcode, payload)| (last, opcode, payload.unwrap_or_default())))
            }
            Err(ProtocolError::Overflow) => Err(Broken::TooLarge),
            Err(_) => Err(Broken::Protocol),
        }
    }

    /// The length in the head of the next frame, as far as that is there.
    fn announced(&self) -> Option<u64> {
        match self.buffer.get(1)? & LENGTH {
            126 => Some(u16::from_be_bytes(*self.buffer.get(2..)?.first_chunk()?).into()),
            127 => Some(u64::from_be_bytes(*self.buffer.get(2..)?.first_chunk()?)),
            length => Some(length.into()),
        }
    }

    fn take(
        &mut self,
        last: bool,
        opcode: OpCode,
        payload: BytesMut,
    ) -> Result<Option<Incoming>, Broken> {
        Ok(match (opcode, last) {
            (OpCode::Ping, true) => Some(Incoming::Ping(payload.freeze())),
            (OpCode::Pong, true) => Some(Incoming::Pong),
            (OpCode::Close, true) => Some(Incoming::Close(farewell(&payload)?)),
            (OpCode::Text | OpCode::Binary, _) if self.fragments.is_some() => {
                return Err(Broken::Protocol);
            }
            (OpCode::Text | OpCode::Binary, true) => Some(message(opcode, payload)?),
            (OpCode::Text | OpCode::Binary, false) => {
                self.fragments = Some((opcode, payload));
                None
            }
            (OpCode::Continue, _) => {
                let (first, mut whole) = self.fragments.take().ok_or(Broken::Protocol)?;
                if whole.len() + payload.len() > self.limit {
                    return Err(Broken::TooLarge);
                }
                whole.extend_from_slice(&payload);
                if last {
                    Some(message(first, whole)?)
                } else {
                    self.fragments = Some((first, whole));
                    None
                }
            }
            (OpCode::Ping | OpCode::Pong | OpCode::Close | OpCode::Bad, _) => {
                return Err(Broken::Protocol);
            }
        })
    }
}

/// A whole message; text has to be UTF-8 (RFC 6455 §8.1).
fn message(opcode: OpCode, payload: BytesMut) -> Result<Incoming, Broken> {
    let kind = if opcode == OpCode::Text { FrameKind::Text } else { FrameKind::Binary };
    if kind == FrameKind::Text && str::from_utf8(&payload).is_err() {
        return Err(Broken::Text);
    }
    Ok(Incoming::Message(payload.freeze(), kind))
}

/// The code that a closing frame is answered with: its own (RFC 6455 §5.5.1).
fn farewell(payload: &[u8]) -> Result<u16, Broken> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return if payload.is_empty() { Ok(NORMAL) } else { Err(Broken::Protocol) };
    };
    let code = u16::from_be_bytes(*code);
    // the others are reserved, or never on the wire (RFC 6455 §7.4)
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(Broken::Protocol);
    }
    str::from_utf8(reason).map(|_| code).map_err(|_| Broken::Text)
}

/// The largest control frame, in bytes (RFC 6455 §5.5).
const CONTROL: usize = 125;

/// Bits of a head that only extensions use, which are not supported.
const RESERVED: u8 = 0x70;

/// The bits of a head with the length, or with where it is.
const LENGTH: u8 = 0x7f;

/// Appends a frame, as servers send it, to `out`.
pub(super) fn write(out: &mut BytesMut, opcode: OpCode, payload: &[u8]) {
    Parser::write_message(out, payload, opcode, true, false);
}

/// Appends a message to `out`; one that is no text is binary.
pub(super) fn write_message(out: &mut BytesMut, kind: FrameKind, message: &[u8]) {
    let is_text = kind == FrameKind::Text && str::from_utf8(message).is_ok();
    write(out, if is_text { OpCode::Text } else { OpCode::Binary }, message);
}

/// Appends the closing handshake with a code of RFC 6455 §7.4.
pub(super) fn write_close(out: &mut BytesMut, code: u16) {
    write(out, OpCode::Close, &code.to_be_bytes());
}
