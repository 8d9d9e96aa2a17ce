//! The bodies of answers.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use http_body::{Body, Frame, SizeHint};

/// The body of an answer of the console: a file or JSON, or a stream of snapshots.
#[derive(derive_more::Debug)]
#[debug("{_0:?}")]
pub struct ConsoleBody(BodyKind);

/// Snapshots as they are sent.
pub(crate) type Snapshots = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

#[derive(derive_more::Debug)]
enum BodyKind {
    #[debug("Whole({})", _0.len())]
    Whole(Bytes),
    #[debug("Live")]
    Live(Snapshots),
}

impl ConsoleBody {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(BodyKind::Whole(bytes.into()))
    }

    pub(crate) fn live(snapshots: Snapshots) -> Self {
        Self(BodyKind::Live(snapshots))
    }
}

impl Body for ConsoleBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match &mut self.0 {
            BodyKind::Whole(bytes) if bytes.is_empty() => None,
            BodyKind::Whole(bytes) => Some(std::mem::take(bytes)),
            BodyKind::Live(snapshots) => ready!(snapshots.as_mut().poll_next(cx)),
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, BodyKind::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyKind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodyKind::Live(_) => SizeHint::default(),
        }
    }
}
