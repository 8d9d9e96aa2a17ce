//! The body of an answer.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::TryStream;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::{Body, Frame, SizeHint};

use super::connection_state::InService;

/// How much of an answer is passed to hyper at once: that counts as sent, so the request of a slow
/// client would seem to have ended while most of its answer waits.
const PIECE: usize = 16 << 10;

/// Any error, as tower has it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer of a service of tower.
pub type PageBody = Pin<Box<dyn Body<Data = Bytes, Error = BoxError>>>;

/// A body whose request is in service until it is sent.
pub(super) struct Sending<C> {
    content: Content<C>,
    in_service: Rc<InService>,
}

/// A part of an answer, which counts as held until it is on its way.
pub(super) struct Piece {
    rest: Bytes,
    /// Its bytes, if they have memory of their own.
    length: usize,
    in_service: Rc<InService>,
}

/// The content of an answer.
#[derive(derive_more::Debug)]
#[expect(clippy::exhaustive_enums, reason = "a service makes it")]
pub enum Content<C> {
    /// No body.
    Nothing,
    /// A body that is there.
    Whole(Bytes),
    /// One that is made while it is sent.
    #[debug("Chunks(..)")]
    Chunks(C),
    /// That of a service of tower.
    #[debug("Page(..)")]
    Page(PageBody),
}

impl<C> Content<C> {
    /// What is left of it in the answer to HEAD: the header with its length, if that is known. hyper would send all of
    /// it over HTTP/2.
    pub(super) fn without_body(self, headers: &mut HeaderMap) -> Self {
        let length = match &self {
            Self::Whole(bytes) => Some(bytes.len() as u64),
            Self::Page(body) => body.size_hint().exact(),
            Self::Nothing | Self::Chunks(_) => None,
        };
        if let Some(length) = length {
            headers.entry(CONTENT_LENGTH).or_insert(length.into());
        }
        Self::Nothing
    }
}

impl<C> Sending<C> {
    pub(super) fn new(content: Content<C>, in_service: InService) -> Self {
        in_service.sent();
        let made = match &content {
            Content::Whole(bytes) => bytes.len(),
            Content::Nothing | Content::Chunks(_) | Content::Page(_) => 0,
        };
        in_service.held().answer(made, 0);
        Self { content, in_service: Rc::new(in_service) }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.rest.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.rest.chunk()
    }

    fn advance(&mut self, bytes: usize) {
        self.in_service.moved(bytes);
        self.rest.advance(bytes);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.in_service.held().answer(0, self.length);
    }
}

impl<C: TryStream<Ok = Bytes, Error: Into<BoxError>> + Unpin> Body for Sending<C> {
    type Data = Piece;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, BoxError>>> {
        let Self { content, in_service } = &mut *self;
        in_service.taken();
        let is_whole = matches!(content, Content::Whole(_));
        let frame = match content {
            Content::Nothing => None,
            Content::Whole(rest) if rest.is_empty() => None,
            Content::Whole(rest) => Some(Ok(Frame::data(rest.split_to(rest.len().min(PIECE))))),
            Content::Chunks(body) => {
                let chunk = ready!(Pin::new(body).try_poll_next(cx));
                chunk.map(|chunk| chunk.map(Frame::data).map_err(Into::into))
            }
            Content::Page(body) => ready!(body.as_mut().poll_frame(cx)),
        };
        in_service.sent();
        let piece = |rest: Bytes| {
            let length = if is_whole { 0 } else { rest.len() };
            in_service.held().answer(length, 0);
            Piece { rest, length, in_service: Rc::clone(in_service) }
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame: Frame<Bytes>| frame.map_data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Nothing => true,
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Chunks(_) => false,
            Content::Page(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Nothing => SizeHint::with_exact(0),
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Chunks(_) => SizeHint::default(),
            Content::Page(body) => body.size_hint(),
        }
    }
}
