//! Calls over HTTP/1.1: each takes a kept connection for itself.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::http::uri::Authority;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{MAX_ANSWER, open};

type Connection = SendRequest<Full<Bytes>>;

/// A client with at most this number of connections.
pub(super) struct HttpClient {
    uri: Uri,
    idle: RefCell<Vec<Connection>>,
    permits: Semaphore,
}

impl HttpClient {
    pub(super) async fn connect(uri: Uri, connections: usize) -> anyhow::Result<Self> {
        let idle = RefCell::new(vec![connect(&uri).await?]);
        Ok(Self { uri, idle, permits: Semaphore::new(connections) })
    }

    /// The answer to a message, and how long it waited for a connection.
    pub(super) async fn send(&self, message: Bytes) -> anyhow::Result<(Bytes, Duration)> {
        let due = Instant::now();
        let _permit = self.permits.acquire().await?;
        let waited = due.elapsed();
        let mut request = Request::post(self.uri.path())
            .header(HOST, self.uri.authority().map_or("", Authority::as_str))
            .header(CONTENT_TYPE, "application/futoin+json")
            .body(Full::new(message))?;
        loop {
            let (mut connection, is_new) = match self.take_idle() {
                Some(kept) => (kept, false),
                None => (connect(&self.uri).await?, true),
            };
            let response = match connection.try_send_request(request).await {
                Ok(response) => response,
                Err(mut failed) => match failed.take_message() {
                    // the server closed a connection that was kept, before it saw the request
                    Some(unsent) if !is_new => {
                        request = unsent;
                        continue;
                    }
                    _ => return Err(failed.into_error().into()),
                },
            };
            let status = response.status();
            ensure!(status.is_success(), "status {status}");
            let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(|error| anyhow::anyhow!(error)).context("half an answer")?;
            self.idle.borrow_mut().push(connection);
            return Ok((body.to_bytes(), waited));
        }
    }

    /// A connection that was not closed, the one that was used last.
    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        idle.retain(|connection| !connection.is_closed());
        idle.pop()
    }
}

async fn connect(uri: &Uri) -> anyhow::Result<Connection> {
    let (mut connection, driver) = handshake(TokioIo::new(open(uri).await?)).await?;
    // its end is seen by the requests on it
    tokio::task::spawn_local(driver);
    connection.ready().await?;
    Ok(connection)
}
