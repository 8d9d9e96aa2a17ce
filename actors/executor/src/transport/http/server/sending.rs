//! The body of an answer.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use http_body::{Body, Frame, SizeHint};

use super::progress::InService;
use crate::raw::RawBody;

/// How much of an answer is given at once: what is given counts as sent, so the request of a slow
/// client would seem to be over while most of its answer waits.
const PIECE: usize = 16 << 10;

/// Any error, as tower has it.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// A body whose request is in service until it is sent.
pub(super) struct Sending {
    content: Content,
    in_service: InService,
}

/// What is sent.
pub(super) enum Content {
    Nothing,
    Whole(Bytes),
    Raw(RawBody),
    /// From a service of the application.
    Other(Pin<Box<dyn Body<Data = Bytes, Error = BoxError>>>),
}

impl Sending {
    pub(super) fn new(content: Content, mut in_service: InService) -> Self {
        in_service.sent();
        Self { content, in_service }
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { content, in_service } = &mut *self;
        in_service.taken();
        let frame = match content {
            Content::Nothing => None,
            Content::Whole(rest) if rest.is_empty() => None,
            Content::Whole(rest) => Some(Ok(Frame::data(rest.split_to(rest.len().min(PIECE))))),
            Content::Raw(body) => {
                let chunk = ready!(Pin::new(body).poll_next(cx));
                chunk.map(|chunk| chunk.map(Frame::data).map_err(Into::into))
            }
            Content::Other(body) => ready!(body.as_mut().poll_frame(cx)),
        };
        in_service.sent();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Nothing => true,
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Raw(_) => false,
            Content::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Nothing => SizeHint::with_exact(0),
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Raw(_) => SizeHint::default(),
            Content::Other(body) => body.size_hint(),
        }
    }
}
