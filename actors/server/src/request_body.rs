//! The body of a request, as hyper reads it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::limits::ServerLimits;
use super::min_rate::{MinRate, timed_out};

/// The body of a request to a service of tower; see [`Server::page`](super::Server::page). It can be read on another
/// thread, and on after the answer. It fails with [`TimedOut`](io::ErrorKind::TimedOut) when its client sends nothing of
/// it for too long.
#[derive(Debug)]
pub struct RequestBody {
    body: Incoming,
    /// Bytes of bodies that its connection has read so far and that were taken, in HTTP/2.
    taken: Arc<AtomicUsize>,
    patience: MinRate,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, taken: &Arc<AtomicUsize>, limits: &ServerLimits) -> Self {
        Self { body, taken: Arc::clone(taken), patience: MinRate::new(limits) }
    }

    /// The same as [`Body::poll_frame`], with less time if the server closes, since `closing`.
    pub(super) fn poll_within(
        &mut self,
        closing: Option<Instant>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.body.is_end_stream() {
            // after an answer, hyper says so only with the next request
            self.patience.rest();
            return Poll::Ready(None);
        }
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.taken.fetch_add(bytes, Ordering::Relaxed);
                self.patience.moved(bytes);
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(io::Error::other(error)))),
            Poll::Ready(None) => {
                self.patience.rest();
                Poll::Ready(None)
            }
            Poll::Pending if self.patience.is_first() => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => match self.patience.wait(closing, cx) {
                Ok(()) => Poll::Pending,
                Err(_) => Poll::Ready(Some(Err(timed_out()))),
            },
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.poll_within(None, cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
