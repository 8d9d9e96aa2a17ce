//! The body of a request, as hyper reads it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// The body of a request to the service beside the executor; see
/// [`Server::fallback`](super::Server::fallback). It can be read on another thread, and on after the
/// answer.
#[derive(Debug)]
pub struct RequestBody(Incoming);

impl RequestBody {
    pub(super) fn new(body: Incoming) -> Self {
        Self(body)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.0.is_end_stream() {
            // after an answer, hyper says so only with the next request
            return Poll::Ready(None);
        }
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
