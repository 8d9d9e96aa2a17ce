//! Bodies of requests.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::http::header::CONTENT_LENGTH;
use actix_web::web::{Bytes, BytesMut, Payload};
use futures_util::{Stream, StreamExt};

/// The whole body, never more than `limit` bytes of it in memory, within `time`.
pub(super) async fn read(
    http: &HttpRequest,
    payload: Payload,
    limit: usize,
    time: Duration,
) -> Result<Bytes, StatusCode> {
    let length = http.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    if length > limit {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let mut body = pin!(collect(payload, length, limit));
    // most bodies come with their heads, and need no timer
    match poll_fn(|cx| Poll::Ready(body.as_mut().poll(cx))).await {
        Poll::Ready(body) => body,
        Poll::Pending => {
            tokio::time::timeout(time, body).await.unwrap_or(Err(StatusCode::REQUEST_TIMEOUT))
        }
    }
}

async fn collect(mut payload: Payload, length: usize, limit: usize) -> Result<Bytes, StatusCode> {
    let mut body = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|_| StatusCode::BAD_REQUEST)?;
        if body.is_empty() && chunk.len() == length {
            // nothing can follow
            return Ok(chunk);
        }
        if body.len() + chunk.len() > limit {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        if body.is_empty() {
            body.reserve(length.max(chunk.len()));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The chunks of raw data, with an error that any thread may have.
pub(super) struct Chunks(pub(super) Payload);

impl Stream for Chunks {
    type Item = Result<Bytes, String>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx).map_err(|error| error.to_string())
    }
}
