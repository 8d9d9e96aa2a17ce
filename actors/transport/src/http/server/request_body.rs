//! The body of a request, as hyper reads it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// The body of a request to the service beside the executor; see
/// [`Server::page`](super::Server::page). It can be read on another thread, and on after the
/// answer.
#[derive(Debug)]
pub struct RequestBody {
    body: Incoming,
    /// Bytes of bodies that its connection has read so far and that were taken, in HTTP/2.
    taken: Arc<AtomicUsize>,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, taken: &Arc<AtomicUsize>) -> Self {
        Self { body, taken: Arc::clone(taken) }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.body.is_end_stream() {
            // after an answer, hyper says so only with the next request
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            self.taken.fetch_add(frame.data_ref().map_or(0, Bytes::len), Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
