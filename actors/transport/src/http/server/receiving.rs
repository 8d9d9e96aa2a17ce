//! The body of a request, with a time limit for what its client does not send.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::connection_state::ConnectionState;
use super::limits::ServerLimits;
use super::min_rate::{MinRate, timed_out};
use super::request_body::RequestBody;
use crate::account::Share;

/// A body that fails with `TimedOut` when its client is too slow, and with `OutOfMemory` when others need
/// its memory.
pub(in crate::http) struct Receiving {
    body: RequestBody,
    progress: Rc<ConnectionState>,
    patience: MinRate,
    /// Whether it was asked for: hyper yields nothing before.
    is_wanted: bool,
}

impl Receiving {
    pub(super) fn new(
        body: RequestBody,
        progress: Rc<ConnectionState>,
        limits: &ServerLimits,
    ) -> Self {
        let patience = MinRate::new(limits);
        progress.open_body();
        Self { body, progress, patience, is_wanted: false }
    }

    /// A part of what its connection holds.
    pub(in crate::http) fn share(&self) -> Share {
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
        let Self { body, progress, patience, is_wanted } = &mut *self;
        match Pin::new(body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                patience.moved(frame.data_ref().map_or(0, Bytes::len));
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                Poll::Ready(Some(Err(if progress.holds().account().is_displaced() {
                    io::ErrorKind::OutOfMemory.into()
                } else {
                    io::Error::other(error)
                })))
            }
            Poll::Ready(None) => {
                patience.rest();
                Poll::Ready(None)
            }
            Poll::Pending if !*is_wanted => {
                *is_wanted = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => match patience.wait(progress.closing(), cx) {
                Ok(()) => Poll::Pending,
                Err(_) => Poll::Ready(Some(Err(timed_out()))),
            },
        }
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
