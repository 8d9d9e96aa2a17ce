//! A WebSocket client (RFC 6455) that sends exactly the frames it is given, so that tests can also
//! send what no library would.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::stream::Stream;

/// The handshake of RFC 6455 §1.3, so the server's answer to the key is known.
const HANDSHAKE: &str = "Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// What the server has to answer to that key.
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Any key does; what is on the wire must differ from the text.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A connection; dropping it closes it without the closing handshake.
#[derive(Debug)]
pub struct Socket {
    stream: BufReader<Stream>,
}

/// What the server sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Frame {
    /// A text frame.
    Text(Vec<u8>),
    /// A binary frame.
    Binary(Vec<u8>),
    /// A ping.
    Ping(Vec<u8>),
    /// A pong.
    Pong(Vec<u8>),
    /// The closing handshake, with its code if there is one.
    Close(Option<u16>),
    /// The connection ended without a closing handshake.
    End,
}

/// Opcodes of RFC 6455 §5.2, with FIN.
pub mod opcode {
    /// A text message.
    pub const TEXT: u8 = 0x81;
    /// A binary message.
    pub const BINARY: u8 = 0x82;
    /// A closing frame.
    pub const CLOSE: u8 = 0x88;
    /// A ping.
    pub const PING: u8 = 0x89;
    /// A pong.
    pub const PONG: u8 = 0x8a;
    /// The first frame of a text message, without FIN.
    pub const FIRST_TEXT: u8 = 0x01;
    /// The first frame of a binary message, without FIN.
    pub const FIRST_BINARY: u8 = 0x02;
    /// A frame in the middle of a message, without FIN.
    pub const CONTINUE: u8 = 0x00;
    /// The last frame of a message.
    pub const LAST: u8 = 0x80;
}

/// One masked frame, as clients send it.
#[must_use]
pub fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = frame_head(opcode, payload.len() as u64);
    out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

/// The head of a masked frame of `length` bytes: also of one whose bytes never come.
#[must_use]
pub fn frame_head(opcode: u8, length: u64) -> Vec<u8> {
    let mut out = vec![opcode];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ 0..126), _) => out.push(0x80 | short),
        (_, Ok(middle)) => {
            out.push(0x80 | 126);
            out.extend(middle.to_be_bytes());
        }
        (_, Err(_)) => {
            out.push(0x80 | 127);
            out.extend(length.to_be_bytes());
        }
    }
    out.extend(MASK);
    out
}

impl Socket {
    /// Connects and upgrades at `/ftn/`.
    #[must_use]
    pub fn open(address: SocketAddr) -> Self {
        Self::open_with(address, "/ftn/", "")
    }

    /// The same for another path and with more headers; each header ends with CR LF.
    #[must_use]
    pub fn open_with(address: SocketAddr, path: &str, headers: &str) -> Self {
        Self::over(Stream::connect(address), path, headers)
    }

    /// The same over a connection that is made already.
    #[must_use]
    pub fn over(stream: Stream, path: &str, headers: &str) -> Self {
        let mut socket = Self { stream: BufReader::new(stream) };
        socket.send_bytes(format!("GET {path} HTTP/1.1\r\n{headers}{HANDSHAKE}").as_bytes());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let length = socket.stream.read_line(&mut head).expect("the server answers");
            assert_ne!(length, 0, "the connection ended after {head:?}");
        }
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains(ACCEPT), "{head}");
        let head = head.to_ascii_lowercase();
        let is_bearer = head.contains("sec-websocket-protocol: bearer\r\n");
        assert_eq!(is_bearer, headers.contains("bearer, "), "{head}");
        assert_eq!(is_bearer, head.contains("sec-websocket-protocol"), "{head}");
        assert!(!head.contains("sec-websocket-extensions"), "{head}");
        socket
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

    /// Sends as much of the bytes as the server takes until its buffers are full, without waiting
    /// for it; gives how much.
    pub fn send_what_fits(&mut self, bytes: &[u8]) -> usize {
        self.stream.get_ref().tcp().set_nonblocking(true).expect("a socket option");
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.get_mut().write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        self.stream.get_ref().tcp().set_nonblocking(false).expect("a socket option");
        sent
    }

    /// Sends a binary message.
    pub fn send(&mut self, payload: impl AsRef<[u8]>) -> &mut Self {
        self.send_bytes(&frame(opcode::BINARY, payload.as_ref()))
    }

    /// Sends a request with an id.
    pub fn request(&mut self, function: &str, params: &Value, rid: &str) -> &mut Self {
        self.send(json!({ "f": function, "p": params, "rid": rid }).to_string())
    }

    /// Calls a function and gives the next message, which has to answer it.
    pub fn call(&mut self, function: &str, params: &Value) -> Value {
        let mut answer = self.request(function, params, "C1").receive();
        assert_eq!(answer["rid"], "C1", "{answer}");
        answer.as_object_mut().expect("an object").remove("rid");
        answer
    }

    /// The next message, which has to be binary JSON.
    pub fn receive(&mut self) -> Value {
        serde_json::from_slice(&self.receive_bytes()).expect("JSON")
    }

    /// The next message, which has to be binary. The server may have asked before whether this client is there.
    pub fn receive_bytes(&mut self) -> Vec<u8> {
        let mut frame = self.frame();
        while let Frame::Ping(_) = frame {
            frame = self.frame();
        }
        let Frame::Binary(payload) = frame else {
            panic!("a binary message was expected: {frame:?}")
        };
        payload
    }

    /// The next message, which has to be text, and JSON.
    pub fn receive_text(&mut self) -> Value {
        let frame = self.frame();
        let Frame::Text(payload) = frame else { panic!("a text was expected: {frame:?}") };
        serde_json::from_slice(&payload).expect("JSON")
    }

    /// The next frame.
    pub fn frame(&mut self) -> Frame {
        self.try_frame().unwrap_or(Frame::End)
    }

    fn try_frame(&mut self) -> Option<Frame> {
        let [first, second] = self.bytes()?;
        assert_eq!(second & 0x80, 0, "servers do not mask");
        let length = match second {
            126 => u16::from_be_bytes(self.bytes()?).into(),
            127 => u64::from_be_bytes(self.bytes()?),
            short => short.into(),
        };
        let mut payload = vec![0; usize::try_from(length).expect("a length that fits")];
        self.stream.read_exact(&mut payload).ok()?;
        Some(match first {
            opcode::TEXT => Frame::Text(payload),
            opcode::BINARY => Frame::Binary(payload),
            opcode::PING => Frame::Ping(payload),
            opcode::PONG => Frame::Pong(payload),
            opcode::CLOSE => {
                Frame::Close(payload.first_chunk().map(|code| u16::from_be_bytes(*code)))
            }
            other => panic!("an unexpected frame {other:#x}"),
        })
    }

    /// So many bytes; `None` at the end of the connection.
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }
}
