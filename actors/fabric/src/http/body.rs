//! The body of a request, which knows when it was taken.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::sent::Sent;

/// A message as the body of a request. The connection takes it together with the head, before it sends
/// either.
#[derive(Debug)]
pub(super) struct MessageBody {
    message: Option<Bytes>,
    sent: Sent,
}

impl MessageBody {
    pub(super) fn new(message: Bytes, sent: &Sent) -> Self {
        Self { message: Some(message), sent: sent.clone() }
    }
}

impl Body for MessageBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.sent.set();
        Poll::Ready(self.message.take().map(|message| Ok(Frame::data(message))))
    }

    fn is_end_stream(&self) -> bool {
        self.message.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.message.as_ref().map_or(0, |message| message.len() as u64))
    }
}
