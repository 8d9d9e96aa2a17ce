//! A client of NATS that sends what no library would.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::nats::server::NatsServer;

/// A connection that is written as text.
#[derive(Debug)]
pub(crate) struct RawClient {
    stream: BufReader<TcpStream>,
}

/// A message as it came.
#[derive(Debug)]
pub(crate) struct RawMessage {
    pub(crate) subject: String,
    pub(crate) reply: Option<String>,
    pub(crate) payload: String,
}

impl RawClient {
    pub(crate) async fn connect(server: &NatsServer) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).await.expect("it connects");
        let mut client = Self { stream: BufReader::new(stream) };
        let options = r#"{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}"#;
        client.send(format!("CONNECT {options}\r\n").as_bytes()).await;
        client.settle().await;
        client
    }

    pub(crate) async fn subscribe(&mut self, subject: &str) {
        self.send(format!("SUB {subject} 1\r\n").as_bytes()).await;
        self.settle().await;
    }

    /// Publishes a message; `reply` may be empty.
    pub(crate) async fn publish(&mut self, subject: &str, reply: &str, payload: &[u8]) {
        let line = format!("PUB {subject} {reply} {}\r\n", payload.len());
        self.send(&[line.as_bytes(), payload, b"\r\n"].concat()).await;
    }

    /// The same with a block of headers, as it is on the wire.
    pub(crate) async fn publish_with(
        &mut self,
        subject: &str,
        reply: &str,
        headers: &[u8],
        payload: &[u8],
    ) {
        let (head, all) = (headers.len(), headers.len() + payload.len());
        let line = format!("HPUB {subject} {reply} {head} {all}\r\n");
        self.send(&[line.as_bytes(), headers, payload, b"\r\n"].concat()).await;
    }

    /// Waits until the server has taken what was sent. No message may come meanwhile.
    pub(crate) async fn settle(&mut self) {
        self.send(b"PING\r\n").await;
        while self.line().await != "PONG" {}
    }

    /// The next message.
    pub(crate) async fn message(&mut self) -> RawMessage {
        loop {
            let line = self.line().await;
            let words: Vec<&str> = line.split(' ').collect();
            let (reply, head, all) = match words[..] {
                ["MSG", _, _, all] => (None, "0", all),
                ["MSG", _, _, reply, all] => (Some(reply), "0", all),
                ["HMSG", _, _, head, all] => (None, head, all),
                ["HMSG", _, _, reply, head, all] => (Some(reply), head, all),
                ["PING"] => {
                    self.send(b"PONG\r\n").await;
                    continue;
                }
                _ => panic!("no message: {line}"),
            };
            let (head, all): (usize, usize) = (head.parse().expect(head), all.parse().expect(all));
            let mut body = vec![0; all + 2];
            self.stream.read_exact(&mut body).await.expect("it is sent");
            let text = |part: &[u8]| String::from_utf8(part.to_vec()).expect("it is text");
            return RawMessage {
                subject: words[1].to_owned(),
                reply: reply.map(ToOwned::to_owned),
                payload: text(&body[head..all]),
            };
        }
    }

    /// Publishes a request, and waits for its answer; one more subject is subscribed to for it.
    pub(crate) async fn request(
        &mut self,
        subject: &str,
        headers: &str,
        payload: &str,
    ) -> RawMessage {
        const REPLY: &str = "_INBOX.raw";
        self.subscribe(REPLY).await;
        match headers {
            "" => self.publish(subject, REPLY, payload.as_bytes()).await,
            _ => {
                let headers = format!("NATS/1.0\r\n{headers}\r\n\r\n");
                self.publish_with(subject, REPLY, headers.as_bytes(), payload.as_bytes()).await;
            }
        }
        let answer = self.message().await;
        self.unsubscribe().await;
        answer
    }

    /// Ends the subscription.
    pub(crate) async fn unsubscribe(&mut self) {
        self.send(b"UNSUB 1\r\n").await;
        self.settle().await;
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).await.expect("the server answers");
        assert_ne!(read, 0, "the server has closed the connection");
        line.truncate(line.trim_end().len());
        line
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("it is sent");
    }
}
