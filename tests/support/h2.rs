//! An HTTP/2 client that sends exactly the frames it is given (RFC 9113), so that tests can also
//! send what no library would.
//!
//! It acknowledges settings and pings, follows the windows of what it sends, and lets the server send
//! as much as it likes, unless a test says otherwise.

use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::client::message;
use crate::stream::Stream;

/// How a client begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The length of a frame's payload at most, unless settings change it.
const MAX_PAYLOAD: usize = 16 << 10;

/// The window of a stream and of a connection at first.
const FIRST_WINDOW: i64 = 65_535;

/// The largest window.
const MAX_WINDOW: u32 = (1 << 31) - 1;

/// Types of frames (RFC 9113 §6).
pub mod kind {
    /// Bytes of a body.
    pub const DATA: u8 = 0;
    /// The head of a request or an answer.
    pub const HEADERS: u8 = 1;
    /// The end of a stream before its time.
    pub const RST_STREAM: u8 = 3;
    /// Settings of an end.
    pub const SETTINGS: u8 = 4;
    /// A question whether the other end is there.
    pub const PING: u8 = 6;
    /// The end of the connection.
    pub const GOAWAY: u8 = 7;
    /// Room for more bytes.
    pub const WINDOW_UPDATE: u8 = 8;
    /// More of a head.
    pub const CONTINUATION: u8 = 9;
}

/// Flags of frames.
pub mod flag {
    /// Nothing follows on the stream.
    pub const END_STREAM: u8 = 1;
    /// Settings or a ping are answered.
    pub const ACK: u8 = 1;
    /// The head is complete.
    pub const END_HEADERS: u8 = 4;
}

/// The setting of the window that streams have at first.
const INITIAL_WINDOW_SIZE: u16 = 4;

/// A frame that the server sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "frames are these")]
pub struct Frame {
    /// Its type, one of [`kind`].
    pub kind: u8,
    /// Its [`flag`]s.
    pub flags: u8,
    /// Its stream; 0 for the connection.
    pub stream: u32,
    /// What it carries.
    pub payload: Vec<u8>,
}

/// How a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a stream ends so")]
pub enum Answer {
    /// With 200 and this body.
    Ok(Vec<u8>),
    /// With another status.
    Refused,
    /// The server reset it with this error.
    Reset(u32),
    /// The connection ended before.
    End,
}

/// A connection; dropping it closes it.
#[derive(Debug)]
pub struct Http2 {
    stream: BufReader<Stream>,
    /// What may be sent on the connection.
    window: i64,
    /// What may be sent on streams, beyond what each had at first.
    windows: HashMap<u32, i64>,
    first_window: i64,
    /// The last stream of the server's GOAWAY.
    goaway: Option<u32>,
}

impl Http2 {
    /// Connects to a server that is known to speak it; the server may send what it likes.
    #[must_use]
    pub fn open(address: SocketAddr) -> Self {
        Self::over(Stream::connect(address))
    }

    /// The same over a connection that is made already.
    #[must_use]
    pub fn over(stream: Stream) -> Self {
        let mut client = Self::with_window(stream, MAX_WINDOW);
        let more = MAX_WINDOW - u32::try_from(FIRST_WINDOW).expect("a window");
        client.send(kind::WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
        client
    }

    /// The same; the server may send so much on each stream at first, and 65,535 bytes in all.
    #[must_use]
    pub fn with_window(stream: Stream, window: u32) -> Self {
        let mut client = Self {
            stream: BufReader::new(stream),
            window: FIRST_WINDOW,
            windows: HashMap::new(),
            first_window: FIRST_WINDOW,
            goaway: None,
        };
        let setting = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &window.to_be_bytes()].concat();
        client.send_bytes(PREFACE).send(kind::SETTINGS, 0, 0, &setting);
        client
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> &mut Self {
        assert!(self.try_send(bytes), "the server takes bytes");
        self
    }

    /// The same to a server that may have closed the connection meanwhile; tells whether it took
    /// them.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.get_mut().write_all(bytes).is_ok()
    }

    /// Sends a frame.
    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> &mut Self {
        self.send_bytes(&frame(kind, flags, stream, payload))
    }

    /// Sends a message to `/ftn/`, in as many frames as it needs.
    pub fn post(&mut self, stream: u32, message: &[u8]) -> &mut Self {
        self.send(kind::HEADERS, flag::END_HEADERS, stream, &head("POST", "/ftn/", &[]));
        self.send_body(stream, message)
    }

    /// Calls a function; the answer comes on the stream.
    pub fn request(&mut self, stream: u32, function: &str, params: &Value) -> &mut Self {
        self.post(stream, &message(function, params))
    }

    /// Calls a function and gives the whole message that answers it.
    pub fn call(&mut self, stream: u32, function: &str, params: &Value) -> Value {
        let answer = self.request(stream, function, params).answer(stream);
        let Answer::Ok(body) = answer else { panic!("an answer was expected: {answer:?}") };
        serde_json::from_slice(&body).expect("JSON")
    }

    /// Fails unless a ping of `futoin.anonping` is answered.
    pub fn ping(&mut self, stream: u32) {
        let answer = self.call(stream, "futoin.anonping:1.0:ping", &json!({ "echo": 7 }));
        assert_eq!(answer, json!({ "r": { "echo": 7 } }));
    }

    fn send_body(&mut self, stream: u32, mut body: &[u8]) -> &mut Self {
        loop {
            let first = self.first_window;
            let room = self.window.min(first + self.windows.get(&stream).unwrap_or(&0));
            let room = usize::try_from(room).unwrap_or(0).min(MAX_PAYLOAD);
            if room == 0 && !body.is_empty() {
                self.frame().expect("the server gives room");
                continue;
            }
            let (now, rest) = body.split_at(room.min(body.len()));
            let length = i64::try_from(now.len()).expect("a window");
            self.window -= length;
            *self.windows.entry(stream).or_default() -= length;
            self.send(kind::DATA, if rest.is_empty() { flag::END_STREAM } else { 0 }, stream, now);
            body = rest;
            if body.is_empty() {
                return self;
            }
        }
    }

    /// The answer on a stream; what comes on others is dropped.
    pub fn answer(&mut self, stream: u32) -> Answer {
        let mut body = Vec::new();
        let mut is_ok = false;
        while let Some(frame) = self.frame() {
            if frame.stream != stream {
                continue;
            }
            match frame.kind {
                // the static table has it at 8 (RFC 7541 A)
                kind::HEADERS if frame.payload.first() == Some(&0x88) => is_ok = true,
                kind::HEADERS => {}
                kind::DATA => body.extend(frame.payload),
                kind::RST_STREAM => return Answer::Reset(number(&frame.payload)),
                _ => continue,
            }
            if frame.flags & flag::END_STREAM != 0 {
                return if is_ok { Answer::Ok(body) } else { Answer::Refused };
            }
        }
        Answer::End
    }

    /// The next frame; `None` at the end of the connection.
    pub fn frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let [a, b, c, kind, flags, rest @ ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]);
        let mut payload = vec![0; usize::try_from(length).expect("a length that fits")];
        self.stream.read_exact(&mut payload).ok()?;
        let frame = Frame { kind, flags, stream: u32::from_be_bytes(rest), payload };
        self.follow(&frame);
        Some(frame)
    }

    /// Waits for the end of the connection; gives the last stream that the server has said to answer.
    pub fn expect_end(&mut self) -> Option<u32> {
        while self.frame().is_some() {}
        self.goaway
    }

    fn follow(&mut self, frame: &Frame) {
        let is_asked = frame.flags & flag::ACK == 0;
        match frame.kind {
            kind::SETTINGS if is_asked => {
                for setting in frame.payload.chunks(6) {
                    if setting[..2] == INITIAL_WINDOW_SIZE.to_be_bytes() {
                        self.first_window = number(&setting[2..]).into();
                    }
                }
                // the server may have closed the connection behind it
                self.try_send(&frame_of(kind::SETTINGS, &[]));
            }
            kind::PING if is_asked => {
                self.try_send(&frame_of(kind::PING, &frame.payload));
            }
            kind::WINDOW_UPDATE => {
                let more = i64::from(number(&frame.payload));
                match frame.stream {
                    0 => self.window += more,
                    stream => *self.windows.entry(stream).or_default() += more,
                }
            }
            kind::GOAWAY => self.goaway = Some(number(&frame.payload)),
            _ => {}
        }
    }
}

/// One that answers another of the same type.
fn frame_of(kind: u8, payload: &[u8]) -> Vec<u8> {
    frame(kind, flag::ACK, 0, payload)
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(*bytes.first_chunk().expect("four bytes"))
}

/// The bytes of a frame.
#[must_use]
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The head of a request, with these headers beside.
#[must_use]
pub fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let pseudo =
        [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)];
    pseudo.iter().chain(headers).flat_map(|(name, value)| field(name, value)).collect()
}

/// A field that no table keeps (RFC 7541 §6.2.2), with its name and value as they are.
#[must_use]
pub fn field(name: &str, value: &str) -> Vec<u8> {
    [&[0], &*text(name), &*text(value)].concat()
}

/// A string that is not compressed (RFC 7541 §5.1, §5.2).
fn text(text: &str) -> Vec<u8> {
    const PREFIX: usize = 0x7f;
    let mut out = Vec::with_capacity(text.len() + 4);
    match text.len().checked_sub(PREFIX) {
        None => out.push(low(text.len())),
        Some(mut rest) => {
            out.push(low(PREFIX));
            while rest >= 0x80 {
                out.push(low(rest & PREFIX) | 0x80);
                rest >>= 7;
            }
            out.push(low(rest));
        }
    }
    out.extend(text.as_bytes());
    out
}

fn low(number: usize) -> u8 {
    u8::try_from(number).expect("seven bits")
}
