//! Raw uploads.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use asyncsteps_core::{Arg, Error, codes};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use super::flow::RawFlow;

/// A raw upload: chunks of bytes, none empty, as they come.
#[derive(derive_more::Debug)]
pub struct RawInput {
    #[debug(skip)]
    chunks: Chunks,
    /// The flow whose time limit depends on the transfer.
    #[debug(skip)]
    flow: Option<Rc<dyn RawFlow>>,
    content_type: Option<String>,
    length: Option<u64>,
    /// How many bytes it may have, and how many of them are left.
    most: (u64, u64),
}

type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, Error>>>>;

impl RawInput {
    /// An upload that a transport reads from `chunks`, whose errors become CommError.
    #[must_use]
    pub fn new<E>(chunks: impl Stream<Item = Result<Bytes, E>> + 'static) -> Self
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let failed = |error: E| Error::caused_by(codes::COMM_ERROR, BrokenOff(error.into()));
        let chunks = chunks.map(move |chunk| chunk.map_err(failed));
        Self {
            chunks: Box::pin(chunks),
            flow: None,
            content_type: None,
            length: None,
            most: (u64::MAX, u64::MAX),
        }
    }

    /// The same with its media type.
    #[must_use]
    pub fn with_content_type(self, content_type: impl Into<Option<String>>) -> Self {
        Self { content_type: content_type.into(), ..self }
    }

    /// The same with its length in bytes, if the client sent it.
    #[must_use]
    pub fn with_length(self, length: impl Into<Option<u64>>) -> Self {
        Self { length: length.into(), ..self }
    }

    /// The same as a request takes it, which may have at most so many bytes.
    pub(crate) fn of_request(self, flow: Rc<dyn RawFlow>, most: u64) -> Self {
        Self { flow: Some(flow), most: (most, most), ..self }
    }

    /// The media type, if the client sent it.
    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.content_type.as_deref()
    }

    /// The length in bytes, if the client sent it.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// The next chunk; `None` at the end.
    ///
    /// # Errors
    /// CommError if the client breaks off; InvalidRequest if it is longer than an upload may be.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn read(&mut self) -> Result<Option<Bytes>, Error> {
        self.next().await.transpose()
    }
}

impl Arg for RawInput {}

/// The client left, or sent nothing for too long, before the end of its upload.
#[derive(Debug, thiserror::Error)]
#[error("the upload was broken off")]
pub(crate) struct BrokenOff(#[source] Box<dyn std::error::Error + Send + Sync>);

impl Stream for RawInput {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let (most, left) = self.most;
        let too_long = move || {
            let info = format!("the upload has more than {most} bytes");
            Poll::Ready(Some(Err(Error::with_info(codes::INVALID_REQUEST, info))))
        };
        if self.length.is_some_and(|length| length > most) {
            return too_long();
        }
        loop {
            let Poll::Ready(chunk) = self.chunks.as_mut().poll_next(cx) else {
                if let Some(flow) = &self.flow {
                    flow.wait_for_data();
                }
                return Poll::Pending;
            };
            let length = match &chunk {
                Some(Ok(chunk)) if chunk.is_empty() => continue,
                Some(Ok(chunk)) => chunk.len(),
                Some(Err(_)) | None => 0,
            };
            if let Some(flow) = &self.flow {
                flow.received(length);
            }
            let left = left.checked_sub(length as u64);
            self.most.1 = left.unwrap_or_default();
            if left.is_none() {
                return too_long();
            }
            return Poll::Ready(chunk);
        }
    }
}
