//! Calls over HTTP/1.1: each takes a kept connection for itself.

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::MAX_ANSWER;
use super::target::Target;

type Connection = SendRequest<Full<Bytes>>;

/// A client with at most this number of connections.
pub(super) struct HttpClient {
    target: Target,
    idle: RefCell<Vec<Connection>>,
    permits: Semaphore,
}

impl HttpClient {
    pub(super) async fn connect(
        target: &Target,
        connections: NonZeroUsize,
    ) -> anyhow::Result<Self> {
        let first = open(target).await?;
        Ok(Self {
            target: target.clone(),
            idle: RefCell::new(vec![first]),
            permits: Semaphore::new(connections.get()),
        })
    }

    /// The answer to a message, and how long it waited for a connection.
    pub(super) async fn send(&self, message: Bytes) -> anyhow::Result<(Bytes, Duration)> {
        let due = Instant::now();
        let _permit = self.permits.acquire().await?;
        let waited = due.elapsed();
        let mut request = Request::post(&self.target.path)
            .header(HOST, self.target.authority.as_str())
            .header(CONTENT_TYPE, "application/futoin+json")
            .body(Full::new(message))?;
        loop {
            let (mut connection, is_new) = match self.take_idle() {
                Some(kept) => (kept, false),
                None => (open(&self.target).await?, true),
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
        while let Some(connection) = idle.pop() {
            if !connection.is_closed() {
                return Some(connection);
            }
        }
        None
    }
}

async fn open(target: &Target) -> anyhow::Result<Connection> {
    let (mut connection, driver) = handshake(TokioIo::new(target.open().await?)).await?;
    // its end is seen by the requests on it
    tokio::task::spawn_local(driver);
    connection.ready().await?;
    Ok(connection)
}
