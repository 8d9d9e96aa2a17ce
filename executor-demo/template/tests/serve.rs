//! The service as its callers meet it: the program, on a free port.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// The program while it serves.
struct Served {
    child: Child,
    /// Where it listens.
    address: String,
}

impl Served {
    fn start() -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seats"));
        let mut child = command.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("its output is read here")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().strip_prefix("http://").and_then(|it| it.strip_suffix("/ftn/"));
        let address = address.ok_or(line.as_str())?.to_owned();
        Ok(Self { child, address })
    }

    /// Posts a message, and returns the body of the answer.
    fn post(&self, message: &str) -> Result<String, Box<dyn Error>> {
        let Self { address, .. } = self;
        let mut stream = TcpStream::connect(address)?;
        write!(
            stream,
            "POST /ftn/ HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{message}",
            message.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("an answer has a head")?;
        Ok(body.to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn seats_are_reserved_over_http() -> Result<(), Box<dyn Error>> {
    let seats = Served::start()?;
    let reserved =
        seats.post(r#"{"f":"acme.seats:1.0:reserve","p":{"event":"opera","seats":2}}"#)?;
    assert!(reserved.contains(r#""left":98"#), "{reserved}");
    let left = seats.post(r#"{"f":"acme.seats:1.0:left","p":{"event":"opera"}}"#)?;
    assert_eq!(left, r#"{"r":98}"#);
    let refused =
        seats.post(r#"{"f":"acme.seats:1.0:reserve","p":{"event":"opera","seats":11}}"#)?;
    assert!(refused.contains(r#""e":"InvalidRequest""#), "{refused}");
    Ok(())
}
