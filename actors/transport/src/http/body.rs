//! Bodies of requests.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use asyncsteps_actors::budget::{BudgetRefusal, Client, Holding};
use asyncsteps_futoin::message::Coding;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::StatusCode;
use http_body::Body as _;

use super::mount::Upload;
use asyncsteps_executor::{Executor, Refused, Reply};
use asyncsteps_server::{Receiving, Share};

/// The body of a request, as it comes.
pub(super) enum Body {
    /// To a [`Server`](super::Server).
    Own(Receiving),
    /// To an application that mounts the [`Service`](super::Service).
    Mounted(Upload),
}

impl Body {
    /// Room for the received part of the body; the memory of an application's own server cannot be
    /// displaced.
    pub(super) fn room(&self, executor: &Executor, client: &Client) -> Room {
        match self {
            Self::Own(body) => Room::Own(body.share()),
            Self::Mounted(_) => {
                let (executor, client) = (executor.clone(), client.clone());
                Room::Mounted { executor, client, held: None }
            }
        }
    }

    /// Its length in bytes, if the client sent it or there is no body.
    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Self::Own(body) => body.size_hint().exact(),
            Self::Mounted(body) => body.length(),
        }
    }
}

impl From<Upload> for Body {
    fn from(upload: Upload) -> Self {
        Self::Mounted(upload)
    }
}

impl Stream for Body {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut *self {
            Self::Own(body) => loop {
                match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                    // trailers say nothing about the data
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) => return Poll::Ready(Some(Ok(data))),
                        Err(_trailers) => {}
                    },
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => return Poll::Ready(None),
                }
            },
            Self::Mounted(body) => body.poll_next_unpin(cx),
        }
    }
}

/// Memory for a body while it comes.
pub(super) enum Room {
    /// Of a connection; it can be displaced while the client sends nothing.
    Own(Share),
    /// It cannot be displaced. Most bodies come whole and need none.
    Mounted { executor: Executor, client: Client, held: Option<Holding> },
}

impl Room {
    /// Makes it so many bytes.
    fn set(&mut self, bytes: usize) -> Result<(), BudgetRefusal> {
        match self {
            Self::Own(share) => share.set(bytes, true),
            Self::Mounted { executor, client, held } => {
                held.get_or_insert_with(|| executor.hold(client)).set(bytes, false)
            }
        }
    }
}

/// Why a body cannot be read to its end.
pub(super) enum BodyError {
    Status(StatusCode),
    /// The reply, such as where the memory of the budget is used up.
    Refused(Reply),
}

/// Reads the whole body, with at most `limit` bytes of it in memory, within `time`. One that does not
/// come at once takes memory of the budget.
pub(super) async fn read(
    body: Body,
    limit: usize,
    time: Duration,
    room: &mut Room,
) -> Result<Bytes, BodyError> {
    let length = body.length();
    if length.is_some_and(|length| length > limit as u64) {
        return Err(BodyError::Status(StatusCode::PAYLOAD_TOO_LARGE));
    }
    if length == Some(0) {
        // a request that offers another protocol would have a stream without end
        return Ok(Bytes::new());
    }
    // it is not over the limit
    let length = length.and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let mut body = pin!(collect(body, length, limit, room));
    // most bodies arrive with their heads, and need no timer; hyper yields them once they were asked
    // for
    let mut was_asked = false;
    let at_once = poll_fn(|cx| {
        let polled = body.as_mut().poll(cx);
        if polled.is_pending() && !mem::replace(&mut was_asked, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(polled)
    });
    match at_once.await {
        Poll::Ready(body) => body,
        Poll::Pending => {
            let late = Err(BodyError::Status(StatusCode::REQUEST_TIMEOUT));
            tokio::time::timeout(time, body).await.unwrap_or(late)
        }
    }
}

/// Reads a body of at most `limit` bytes and drops it, so that the connection can go on after
/// its request is refused.
pub(super) async fn skip(mut body: Body, limit: usize, time: Duration) {
    if body.length().is_some_and(|length| (1..=limit as u64).contains(&length)) {
        let skipped = async { while let Some(Ok(_)) = body.next().await {} };
        // a body that is not read to its end closes the connection
        let _ = tokio::time::timeout(time, skipped).await;
    }
}

async fn collect(
    mut source: Body,
    length: usize,
    limit: usize,
    room: &mut Room,
) -> Result<Bytes, BodyError> {
    let mut body = Vec::new();
    while let Some(chunk) = source.next().await {
        let chunk = chunk.map_err(|error| {
            let kind = error.kind();
            BodyError::Status(if kind == io::ErrorKind::TimedOut {
                StatusCode::REQUEST_TIMEOUT
            } else if kind == io::ErrorKind::OutOfMemory {
                StatusCode::SERVICE_UNAVAILABLE
            } else {
                StatusCode::BAD_REQUEST
            })
        })?;
        if body.is_empty() && chunk.len() == length {
            // nothing can follow
            return Ok(chunk);
        }
        if body.len() + chunk.len() > limit {
            return Err(BodyError::Status(StatusCode::PAYLOAD_TOO_LARGE));
        }
        let needed = length.max(body.len() + chunk.len());
        if needed > body.capacity() {
            let capacity = needed.max((2 * body.capacity()).min(limit));
            room.set(capacity).map_err(|refusal| {
                let refused = Refused::over_budget(refusal);
                BodyError::Refused(Reply::refused(&refused, None, Coding::Json))
            })?;
            body.reserve_exact(capacity - body.len());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.into())
}
