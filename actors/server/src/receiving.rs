//! The body of a request on the thread of its connection.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::account::Share;
use super::connection_state::ConnectionState;
use super::request_body::RequestBody;

/// A body that fails with [`TimedOut`](io::ErrorKind::TimedOut) when its client is too slow, and with
/// [`OutOfMemory`](io::ErrorKind::OutOfMemory) when others need its memory.
#[derive(derive_more::Debug)]
pub struct Receiving {
    body: RequestBody,
    #[debug(skip)]
    progress: Rc<ConnectionState>,
}

impl Receiving {
    pub(super) fn new(body: RequestBody, progress: Rc<ConnectionState>) -> Self {
        progress.open_body();
        Self { body, progress }
    }

    /// A part of what its connection holds.
    #[must_use]
    pub fn share(&self) -> Share {
        self.progress.holds().account().share()
    }
}

impl Body for Receiving {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Self { body, progress } = &mut *self;
        let polled = body.poll_within(progress.closing(), cx);
        if let Poll::Ready(Some(Err(error))) = &polled
            && error.kind() != io::ErrorKind::TimedOut
            && progress.holds().account().is_displaced()
        {
            return Poll::Ready(Some(Err(io::ErrorKind::OutOfMemory.into())));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.progress.close_body();
    }
}
