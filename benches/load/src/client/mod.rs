//! Calls of a FutoIn server, over HTTP or WebSocket.

mod http;
mod websocket;

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use hyper::Uri;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use http::HttpClient;
use websocket::WebSocketClient;

/// The largest answer, in bytes.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// A client of one server.
pub(crate) struct Client {
    transport: Transport,
    patience: Duration,
    /// The id of the next message.
    next: Cell<u64>,
}

enum Transport {
    Http(HttpClient),
    WebSocket(WebSocketClient),
}

/// How messages get to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    WebSocket,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// It was carried out, with this result.
    Result(Value),
    /// The server says no, with this code.
    Error(String),
    /// There was none, for this reason; whether the call was carried out is not known.
    None(String),
}

impl Client {
    /// Connects with at most `connections` connections; an answer may take as long as `patience`.
    pub(crate) async fn connect(
        url: &str,
        connections: NonZeroUsize,
        patience: Duration,
    ) -> anyhow::Result<Self> {
        let (scheme, uri) = target(url)?;
        let connections = connections.get();
        let transport = match scheme {
            Scheme::Http => Transport::Http(HttpClient::connect(uri, connections).await?),
            Scheme::WebSocket => {
                Transport::WebSocket(WebSocketClient::connect(uri, connections).await?)
            }
        };
        Ok(Self { transport, patience, next: Cell::new(0) })
    }

    /// Calls a function.
    pub(crate) async fn call(&self, function: &str, params: &Value) -> Answer {
        self.call_timed(function, params).await.0
    }

    /// Calls a function; returns also how long the call waited for a connection: zero if it has no answer.
    pub(crate) async fn call_timed(&self, function: &str, params: &Value) -> (Answer, Duration) {
        let id = self.next.get();
        self.next.set(id + 1);
        let rid = format!("C{id}");
        let request = Request { f: function, p: params, rid: &rid, forcersp: true };
        let answer = async {
            let message = serde_json::to_vec(&request)?;
            let (answer, waited) = self.send(id, message.into()).await?;
            anyhow::Ok((read(&answer, &rid)?, waited))
        };
        let none = |reason| (Answer::None(reason), Duration::ZERO);
        match timeout(self.patience, answer).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(error)) => none(format!("{error:#}")),
            Err(_) => none(format!("none within {:?}", self.patience)),
        }
    }

    /// Answers that belong to no call: repeated ones, and junk.
    pub(crate) fn unasked(&self) -> u64 {
        match &self.transport {
            Transport::Http(_) => 0,
            Transport::WebSocket(client) => client.unasked.get(),
        }
    }

    async fn send(&self, id: u64, message: Bytes) -> anyhow::Result<(Bytes, Duration)> {
        match &self.transport {
            Transport::Http(client) => client.send(message).await,
            // messages share connections
            Transport::WebSocket(client) => Ok((client.send(id, message).await?, Duration::ZERO)),
        }
    }
}

/// How messages get to the end point at a URL, and its parts; it names a host.
fn target(url: &str) -> anyhow::Result<(Scheme, Uri)> {
    let uri: Uri = url.parse().with_context(|| format!("{url} is no URL"))?;
    let scheme = match uri.scheme_str() {
        Some("http") => Scheme::Http,
        Some("ws") => Scheme::WebSocket,
        Some(other) => bail!("{url}: {other} is not supported, only http and ws are"),
        None => bail!("{url}: begin it with http:// or ws://"),
    };
    Ok((scheme, uri))
}

/// Opens a connection.
async fn open(uri: &Uri) -> anyhow::Result<TcpStream> {
    let host = uri.host().context("a URL without a host")?;
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await;
    let stream = stream.with_context(|| format!("cannot connect to {uri}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A message to the server.
#[derive(Serialize)]
struct Request<'a> {
    f: &'a str,
    p: &'a Value,
    rid: &'a str,
    forcersp: bool,
}

/// A message of the server.
#[derive(Deserialize)]
struct Response {
    r: Option<Value>,
    e: Option<String>,
    rid: Option<String>,
}

fn read(answer: &[u8], rid: &str) -> anyhow::Result<Answer> {
    let response: Response = serde_json::from_slice(answer).context("an answer is no message")?;
    anyhow::ensure!(response.rid.as_deref() == Some(rid), "an answer to another request");
    match (response.r, response.e) {
        (Some(result), None) => Ok(Answer::Result(result)),
        (None, Some(code)) => Ok(Answer::Error(code)),
        (Some(_), Some(_)) | (None, None) => bail!("an answer without result or error"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_a_result_or_an_error_of_its_own_request() {
        let read = |text: &str| read(text.as_bytes(), "C1").map_err(|error| format!("{error:#}"));
        assert_eq!(read(r#"{"r":{"a":1},"rid":"C1"}"#), Ok(Answer::Result(json!({ "a": 1 }))));
        let error = Answer::Error("Declined".to_owned());
        assert_eq!(read(r#"{"e":"Declined","edesc":"no","rid":"C1"}"#), Ok(error));
        for wrong in [
            r#"{"r":1,"rid":"C2"}"#,
            r#"{"r":1}"#,
            r#"{"r":1,"e":"X","rid":"C1"}"#,
            r#"{"rid":"C1"}"#,
            "junk",
        ] {
            read(wrong).expect_err(wrong);
        }
    }

    #[test]
    fn a_url_says_how_and_where() {
        let (scheme, uri) = target("ws://localhost:8080/ftn/").unwrap();
        assert_eq!((scheme, uri.port_u16()), (Scheme::WebSocket, Some(8080)));
        assert_eq!((uri.host(), uri.path()), (Some("localhost"), "/ftn/"));
        for (wrong, why) in [
            ("https://a.example/ftn/", "https is not supported"),
            ("127.0.0.1:8080", "begin it with http://"),
            ("/ftn/", "begin it with http://"),
            ("http://", "is no URL"),
        ] {
            let error = format!("{:#}", target(wrong).expect_err(wrong));
            assert!(error.contains(why), "{error}");
        }
    }
}
