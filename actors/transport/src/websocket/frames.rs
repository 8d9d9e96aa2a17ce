//! Frames of RFC 6455: from the bytes of a connection to whole messages, and back.

use std::future::{pending, poll_fn};
use std::task::Poll;

use bytes::{Bytes, BytesMut};

use super::close_code::NORMAL;
use super::link::{Input, READ};
use super::wire::{self, Broken, CONTROL, Frame, OpCode};
use asyncsteps_server::Share;

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
    /// A part of a message, the rest of which has not come.
    Part,
}

/// The kind of the frames of a message. A page in a browser gets a string from text, and a `Blob` from
/// anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    Text,
    Binary,
}

/// The reading half of a connection. It holds at most one message and one read of the socket.
///
/// A frame that has begun has a buffer of its own, of its size, and so have the frames of the message before it: both
/// count before they are made.
pub(super) struct Frames {
    input: Input,
    buffer: BytesMut,
    /// The size of the buffer while it is made for the frame that has begun, else 0.
    room: usize,
    /// The frames so far of a message in several frames, and the opcode of the first one.
    fragments: Option<(OpCode, Vec<u8>)>,
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
        Self { input, buffer: read, room: 0, fragments: None, limit, begun, held: 0 }
    }

    /// Whether a part of a message or of a frame has come, and its rest has not.
    pub(super) fn has_begun(&self) -> bool {
        self.is_fragmented() || !self.buffer.is_empty()
    }

    /// Whether a message has begun that comes in several frames.
    pub(super) fn is_fragmented(&self) -> bool {
        self.fragments.is_some()
    }

    /// Counts the memory of the frames so far of a message and of the frame that has begun.
    fn hold(&mut self, fragments: usize) -> Result<(), Broken> {
        let bytes = fragments + self.room;
        if bytes != self.held {
            self.begun.set(bytes, bytes > 0).map_err(|_| Broken::NoRoom)?;
            self.held = bytes;
        }
        Ok(())
    }

    /// Makes room for the rest of the frame that has begun, and behind a small one for others, which come with the same
    /// read; for at most so many bytes.
    fn make_room(&mut self, most: usize) -> Result<(), Broken> {
        let fragments = self.fragments.as_ref().map_or(0, |(_, whole)| whole.capacity());
        if self.buffer.is_empty() {
            (self.buffer, self.room) = (BytesMut::new(), 0);
            return self.hold(fragments);
        }
        let size = wire::size_of_begun(&self.buffer).min(most);
        if self.room >= size {
            return Ok(());
        }
        self.room = size.max(READ);
        self.hold(fragments)?;
        let mut buffer = BytesMut::with_capacity(self.room);
        buffer.extend_from_slice(&self.buffer);
        self.buffer = buffer;
        Ok(())
    }

    /// Reads the next message or control frame, or a part of it: the caller has to look at the clock and let others
    /// have their turn, however small the parts are that a client sends. While none `may_be_taken`, it waits for the end
    /// of the connection.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(super) async fn next(&mut self, may_be_taken: bool) -> Result<Incoming, Broken> {
        if !may_be_taken {
            return Err(self.end().await);
        }
        if let Some(incoming) = self.taken()? {
            return Ok(incoming);
        }
        self.read(usize::MAX).await?;
        if let Some(incoming) = self.taken()? {
            return Ok(incoming);
        }
        self.make_room(usize::MAX)?;
        Ok(Incoming::Part)
    }

    /// Reads ahead as far as there is room, and completes when nothing more can come: so it shows that the other end is
    /// gone while none of its messages may be taken.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    async fn end(&mut self) -> Broken {
        while self.buffer.len() < READ {
            if let Err(broken) = self.read(READ).await {
                return broken;
            }
        }
        pending().await
    }

    /// Reads the available bytes, at least one, into room for at most so many.
    async fn read(&mut self, most: usize) -> Result<(), Broken> {
        self.make_room(most)?;
        let Self { input, buffer, begun, .. } = self;
        let read = poll_fn(|cx| {
            if begun.is_crowded() {
                // the tasks that release memory come first
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            input.poll_read(cx, buffer)
        });
        if read.await { Ok(()) } else { Err(Broken::Ended) }
    }

    /// What was read already.
    fn taken(&mut self) -> Result<Option<Incoming>, Broken> {
        while let Some(frame) = wire::take(&mut self.buffer, self.limit)? {
            self.room = 0;
            if frame.payload.len() >= READ {
                // the rest must not keep the buffer of the whole frame
                self.buffer = BytesMut::from(&self.buffer[..]);
            }
            if let Some(incoming) = self.take(frame)? {
                return Ok(Some(incoming));
            }
        }
        Ok(None)
    }

    fn take(&mut self, frame: Frame) -> Result<Option<Incoming>, Broken> {
        let Frame { is_last, opcode, payload } = frame;
        Ok(match (opcode, is_last) {
            (OpCode::Ping, _) => Some(Incoming::Ping(payload.freeze())),
            (OpCode::Pong, _) => Some(Incoming::Pong),
            (OpCode::Close, _) => Some(Incoming::Close(farewell(&payload)?)),
            (OpCode::Text | OpCode::Binary, _) if self.fragments.is_some() => {
                return Err(Broken::Protocol);
            }
            (OpCode::Text | OpCode::Binary, true) => Some(message(opcode, payload.freeze())?),
            (OpCode::Text | OpCode::Binary, false) => {
                self.fragments = Some((opcode, self.append(Vec::new(), &payload)?));
                None
            }
            (OpCode::Continue, _) => {
                let (first, whole) = self.fragments.take().ok_or(Broken::Protocol)?;
                let whole = self.append(whole, &payload)?;
                if is_last {
                    Some(message(first, whole.into())?)
                } else {
                    self.fragments = Some((first, whole));
                    None
                }
            }
        })
    }

    /// Appends a frame to those before it.
    fn append(&mut self, mut whole: Vec<u8>, payload: &[u8]) -> Result<Vec<u8>, Broken> {
        let length = whole.len() + payload.len();
        if length > self.limit {
            return Err(Broken::TooLarge);
        }
        if length > whole.capacity() {
            let capacity = length.max((2 * whole.capacity()).min(self.limit));
            self.hold(capacity)?;
            whole.reserve_exact(capacity - whole.len());
        }
        whole.extend_from_slice(payload);
        Ok(whole)
    }
}

/// A whole message; text has to be UTF-8 (RFC 6455 §8.1).
fn message(opcode: OpCode, payload: Bytes) -> Result<Incoming, Broken> {
    let kind = if opcode == OpCode::Text { FrameKind::Text } else { FrameKind::Binary };
    if kind == FrameKind::Text && str::from_utf8(&payload).is_err() {
        return Err(Broken::Text);
    }
    Ok(Incoming::Message(payload, kind))
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

/// Appends a message to `out`; one that is no text is binary.
pub(super) fn write_message(out: &mut BytesMut, kind: FrameKind, message: &[u8]) {
    let is_text = kind == FrameKind::Text && str::from_utf8(message).is_ok();
    wire::write(out, if is_text { OpCode::Text } else { OpCode::Binary }, message);
}

/// Appends the closing handshake with a code of RFC 6455 §7.4.
pub(super) fn write_close(out: &mut BytesMut, code: u16) {
    wire::write(out, OpCode::Close, &code.to_be_bytes());
}
