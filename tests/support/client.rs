//! An HTTP/1.1 client that sends exactly the bytes it is given, so that tests can also send what
//! no library would.

use std::fmt;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};

use serde_json::{Value, json};

use crate::stream::Stream;

/// A connection; dropping it closes it.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<Stream>,
}

/// An answer of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The first line without the line end.
    pub status_line: String,
    /// Lower-case names and values, sorted; without `date`, which differs each time.
    pub headers: Vec<(String, String)>,
    /// The body, decoded if it was chunked.
    pub body: Vec<u8>,
}

/// One message as a whole HTTP request to `/ftn/`.
#[must_use]
pub fn post(message: &[u8]) -> Vec<u8> {
    post_with("/ftn/", "Content-Type: application/futoin+json\r\n", message)
}

/// The same for another path and with other headers; each header ends with CR LF.
#[must_use]
pub fn post_with(path: &str, headers: &str, message: &[u8]) -> Vec<u8> {
    let length = message.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), message].concat()
}

/// The head of a request to `/ftn/` with these headers.
#[must_use]
pub fn head(headers: &str) -> Vec<u8> {
    format!("POST /ftn/ HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n").into_bytes()
}

/// Calls a function on a connection of its own and gives the whole message that answers it.
#[must_use]
pub fn call(address: SocketAddr, function: &str, params: &Value) -> Value {
    Connection::open(address).call(function, params)
}

/// Fails unless the server answers a ping on a new connection.
pub fn ping(address: SocketAddr) {
    let answer = call(address, "futoin.anonping:1.0:ping", &json!({ "echo": 7 }));
    assert_eq!(answer, json!({ "r": { "echo": 7 } }));
}

impl Connection {
    /// Connects.
    #[must_use]
    pub fn open(address: SocketAddr) -> Self {
        Self::over(Stream::connect(address))
    }

    /// The same over a connection that is made already.
    #[must_use]
    pub fn over(stream: Stream) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    /// The bytes under it.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.stream.get_ref()
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) -> &mut Self {
        self.stream.get_mut().write_all(bytes).expect("the server takes bytes");
        self
    }

    /// Sends bytes to a server that may have closed the connection meanwhile; tells whether it took
    /// them.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.get_mut().write_all(bytes).is_ok()
    }

    /// The same with bytes that are no part of a TLS record.
    pub fn try_send_raw(&mut self, bytes: &[u8]) -> bool {
        let mut tcp = self.stream.get_ref().tcp();
        tcp.write_all(bytes).is_ok()
    }

    /// Sends one message and gives its answer.
    pub fn post(&mut self, message: &[u8]) -> Answer {
        self.send(&post(message)).receive()
    }

    /// Calls a function and gives the whole message that answers it.
    pub fn call(&mut self, function: &str, params: &Value) -> Value {
        self.post(&message(function, params)).json()
    }

    /// The next answer.
    pub fn receive(&mut self) -> Answer {
        self.try_receive().expect("the server answers")
    }

    /// The next answer; `None` if the server closed the connection instead.
    pub fn try_receive(&mut self) -> Option<Answer> {
        let mut answer = self.head()?;
        answer.body = self.body(&answer)?;
        Some(answer)
    }

    /// The next answer, to HEAD: it has no body, whatever its headers say.
    pub fn receive_head(&mut self) -> Answer {
        self.head().expect("the server answers")
    }

    fn head(&mut self) -> Option<Answer> {
        let status_line = self.line()?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(": ") else { break };
            if name != "date" {
                headers.push((name.to_ascii_lowercase(), value.to_owned()));
            }
        }
        headers.sort();
        Some(Answer { status_line, headers, body: Vec::new() })
    }

    /// Closes the sending half: nothing more will come.
    pub fn finish_sending(&mut self) -> &mut Self {
        self.stream.get_ref().tcp().shutdown(Shutdown::Write).expect("an open connection");
        self
    }

    /// Waits until the server closes the connection; fails if it says anything before.
    pub fn expect_closed(&mut self) {
        assert_eq!(String::from_utf8_lossy(&self.rest()), "");
    }

    /// Waits until the server closes the connection, whatever it says before.
    pub fn expect_end(&mut self) {
        self.rest();
    }

    fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        if let Err(error) = self.stream.read_to_end(&mut rest) {
            // bytes that the server did not read any more reset the connection
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        rest
    }

    /// The next line, without its end; `None` if the connection ended.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.stream.read_line(&mut line).ok()?;
        (length > 0).then(|| line.trim_end().to_owned())
    }

    fn body(&mut self, answer: &Answer) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        if answer.status() < 200 || answer.status() == 204 {
            return Some(body);
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = usize::from_str_radix(&self.line()?, 16).expect("a chunk size");
                let start = body.len();
                body.resize(start + size, 0);
                self.stream.read_exact(&mut body[start..]).ok()?;
                self.line()?;
                if size == 0 {
                    return Some(body);
                }
            }
        }
        match answer.header("content-length") {
            Some(length) => {
                body.resize(length.parse().expect("a length"), 0);
                self.stream.read_exact(&mut body).ok()?;
            }
            None => {
                self.stream.read_to_end(&mut body).ok()?;
            }
        }
        Some(body)
    }
}

/// The bytes of a message that calls a function.
#[must_use]
pub fn message(function: &str, params: &Value) -> Vec<u8> {
    json!({ "f": function, "p": params }).to_string().into_bytes()
}

impl Answer {
    /// The status code.
    #[must_use]
    pub fn status(&self) -> u16 {
        let code = self.status_line.split(' ').nth(1);
        code.and_then(|code| code.parse().ok()).expect("a status line")
    }

    /// The value of a header by its lower-case name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(known, _)| known == name);
        header.map(|(_, value)| value.as_str())
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> &str {
        str::from_utf8(&self.body).expect("text")
    }

    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// As it came, for inline snapshots.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.status_line)?;
        for (name, value) in &self.headers {
            writeln!(f, "{name}: {value}")?;
        }
        writeln!(f, "\n{}", String::from_utf8_lossy(&self.body))
    }
}
