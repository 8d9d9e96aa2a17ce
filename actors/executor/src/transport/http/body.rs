//! Bodies of requests.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::error::PayloadError;
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use actix_web::web::{Bytes, BytesMut, Payload};
use actix_web::{Error, HttpRequest, HttpResponse};
use futures_util::{Stream, StreamExt};

use asyncsteps_actors::budget::Reservation;

/// The body of a request, as it comes.
pub(super) enum Body {
    /// With a content length.
    Counted(Payload),
    /// In chunks, of an unknown length.
    Chunked(Rc<RefCell<Payload>>),
}

impl Body {
    pub(super) fn new(http: &HttpRequest, payload: Payload) -> Self {
        if http.headers().contains_key(TRANSFER_ENCODING) {
            Self::Chunked(Rc::new(RefCell::new(payload)))
        } else {
            Self::Counted(payload)
        }
    }

    /// The part that has to be kept until the request is answered.
    pub(super) fn rest(&self) -> Option<Rest> {
        match self {
            Self::Counted(_) => None,
            Self::Chunked(payload) => Some(Rest(Rc::clone(payload))),
        }
    }
}

impl Stream for Body {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut *self {
            Self::Counted(payload) => payload.poll_next_unpin(cx),
            Self::Chunked(payload) => payload.borrow_mut().poll_next_unpin(cx),
        }
    }
}

/// The unread part of a chunked body. If it is dropped before the answer is on its way, the
/// server waits for the end of the body, however long that takes; otherwise it closes the
/// connection, as it does after a body with a content length.
pub(super) struct Rest(Rc<RefCell<Payload>>);

impl Rest {
    /// Keeps it with the response.
    pub(super) fn keep(self, response: HttpResponse) -> HttpResponse {
        response.map_body(|_, body| Kept { body, _rest: self.0 }.boxed())
    }
}

struct Kept {
    body: BoxBody,
    _rest: Rc<RefCell<Payload>>,
}

impl MessageBody for Kept {
    type Error = Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Error>>> {
        Pin::new(&mut self.body).poll_next(cx).map_err(Into::into)
    }
}

/// Why a body cannot be read to its end.
pub(super) enum BodyError {
    Status(StatusCode),
    /// The memory of the budget is used up.
    NoRoom(asyncsteps::Error),
}

/// Reads the whole body, with at most `limit` bytes of it in memory, within `time`. One that does not
/// come at once takes memory of the budget.
pub(super) async fn read(
    http: &HttpRequest,
    body: Body,
    limit: usize,
    time: Duration,
    room: &mut Reservation<'_>,
) -> Result<Bytes, BodyError> {
    let length = http.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    if length > limit {
        return Err(BodyError::Status(StatusCode::PAYLOAD_TOO_LARGE));
    }
    if length == 0 && matches!(body, Body::Counted(_)) {
        // a request that offers another protocol would have a stream without end
        return Ok(Bytes::new());
    }
    let mut body = pin!(collect(body, length, limit, room));
    // most bodies come with their heads, and need no timer
    match poll_fn(|cx| Poll::Ready(body.as_mut().poll(cx))).await {
        Poll::Ready(body) => body,
        Poll::Pending => {
            let late = Err(BodyError::Status(StatusCode::REQUEST_TIMEOUT));
            tokio::time::timeout(time, body).await.unwrap_or(late)
        }
    }
}

/// Reads a body of at most `limit` bytes and drops it, so that the connection can go on after
/// its request is refused.
pub(super) async fn skip(http: &HttpRequest, mut body: Body, limit: usize, time: Duration) {
    let length = http.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length: Option<usize> = length.and_then(|length| length.parse().ok());
    if matches!(body, Body::Counted(_))
        && length.is_some_and(|length| (1..=limit).contains(&length))
    {
        let skipped = async { while let Some(Ok(_)) = body.next().await {} };
        // a body that is not read to its end closes the connection
        let _ = tokio::time::timeout(time, skipped).await;
    }
}

async fn collect(
    mut source: Body,
    length: usize,
    limit: usize,
    room: &mut Reservation<'_>,
) -> Result<Bytes, BodyError> {
    let mut body = BytesMut::new();
    while let Some(chunk) = source.next().await {
        let chunk = chunk.map_err(|_| BodyError::Status(StatusCode::BAD_REQUEST))?;
        if body.is_empty() && chunk.len() == length {
            // nothing can follow
            return Ok(chunk);
        }
        if body.len() + chunk.len() > limit {
            return Err(BodyError::Status(StatusCode::PAYLOAD_TOO_LARGE));
        }
        room.grow(length.max(body.len() + chunk.len())).map_err(BodyError::NoRoom)?;
        if body.is_empty() {
            body.reserve(length.max(chunk.len()));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The chunks of raw data, with an error that any thread may have.
pub(super) struct Chunks(pub(super) Body);

impl Stream for Chunks {
    type Item = Result<Bytes, String>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx).map_err(|error| error.to_string())
    }
}
