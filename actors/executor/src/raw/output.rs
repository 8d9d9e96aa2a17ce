//! Raw results: one end for the handler, one for the transport.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use asyncsteps_core::{Arg, Error, codes};
use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::mpsc;

use super::flow::RawFlow;

/// Chunks of a raw result that may wait for the client: one that it takes, one that is made
/// meanwhile.
const CHUNKS: usize = 2;

/// How long a client may take nothing of a raw result. A network takes megabytes at once and then
/// seems to take nothing while a slow client reads them, so this is no time of the handler.
const STALL: Duration = Duration::from_secs(60);

/// Where a handler writes its raw result. It ends when this is dropped and the flow succeeds.
#[derive(derive_more::Debug)]
#[debug("RawOutput(..)")]
pub struct RawOutput {
    chunks: mpsc::Sender<Bytes>,
    flow: Rc<dyn RawFlow>,
}

impl RawOutput {
    /// Writes a chunk, as soon as the client took the chunks before, for which it has a minute.
    ///
    /// # Errors
    /// CommError if the client is gone.
    ///
    /// # Cancel safety
    /// Dropping the future before it is ready writes nothing.
    pub async fn write(&mut self, chunk: impl Into<Bytes>) -> Result<(), Error> {
        let chunk = chunk.into();
        if chunk.is_empty() {
            return Ok(());
        }
        let gone = |_| Error::with_info(codes::COMM_ERROR, "the client is gone");
        let place = match self.chunks.try_reserve() {
            Ok(place) => place,
            Err(_) => {
                self.flow.wait_for_client(STALL);
                self.chunks.reserve().await.map_err(gone)?
            }
        };
        place.send(chunk);
        self.flow.progress();
        Ok(())
    }
}

impl Arg for RawOutput {}

/// The body of a raw result: a transport sends its chunks.
///
/// It ends with an error if the flow failed after it had begun to write: the connection must then
/// be broken off, so that the client does not take a part for the whole. Dropping it, because the
/// client is gone, cancels the flow.
#[derive(derive_more::Debug)]
#[debug("RawBody(..)")]
pub struct RawBody {
    chunks: mpsc::Receiver<Bytes>,
    flow: Rc<dyn RawFlow>,
    failed: bool,
}

/// Makes the two ends of a raw result.
pub(crate) fn raw_result(flow: Rc<dyn RawFlow>) -> (RawOutput, RawBody) {
    let (sender, chunks) = mpsc::channel(CHUNKS);
    (RawOutput { chunks: sender, flow: Rc::clone(&flow) }, RawBody { chunks, flow, failed: false })
}

impl Stream for RawBody {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(chunk) = ready!(self.chunks.poll_recv(cx)) {
            return Poll::Ready(Some(Ok(chunk)));
        }
        Poll::Ready(if self.failed || ready!(self.flow.poll_end(cx)) {
            None
        } else {
            self.failed = true;
            let info = "the flow failed after it had begun to answer";
            Some(Err(Error::with_info(codes::INTERNAL_ERROR, info)))
        })
    }
}

impl Drop for RawBody {
    fn drop(&mut self) {
        self.flow.give_up();
    }
}
