//! Bytes that are no message: raw uploads and raw results (FTN3 §1.1 `rawupload`, `rawresult`).
//!
//! Both are streams with back-pressure. A transport reads no more of an upload than its handler
//! takes, and a handler writes no more of a result than its client takes.

mod cookie;

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use asyncsteps::{Arg, Error, codes};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc;

pub use cookie::Cookie;

/// How many chunks of a raw result may wait for the client: one that it takes, one that is made
/// meanwhile.
const CHUNKS: usize = 2;

/// How long a client may take nothing of a raw result. A network takes megabytes at once and then
/// seems to take nothing while a slow client reads them, so this is no time of the handler.
const STALL: Duration = Duration::from_secs(60);

/// Most headers that a handler may set.
const MAX_HEADERS: usize = 64;

/// A raw upload: chunks of bytes, none empty, as they come.
pub struct RawInput {
    chunks: Chunks,
    /// Who must know that the transfer goes on.
    flow: Option<Rc<dyn RawFlow>>,
    content_type: Option<String>,
    length: Option<u64>,
}

type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, Error>>>>;

impl RawInput {
    /// An upload that a transport reads from `chunks`, whose errors become CommError.
    #[must_use]
    pub fn new<E>(chunks: impl Stream<Item = Result<Bytes, E>> + 'static) -> Self
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let failed = |error: E| Error::caused_by(codes::COMM_ERROR, error);
        let chunks = chunks.map(move |chunk| chunk.map_err(failed));
        Self { chunks: Box::pin(chunks), flow: None, content_type: None, length: None }
    }

    /// The same with its media type.
    #[must_use]
    pub fn with_content_type(self, content_type: impl Into<Option<String>>) -> Self {
        Self { content_type: content_type.into(), ..self }
    }

    /// The same with its length in bytes, if the client told it.
    #[must_use]
    pub fn with_length(self, length: impl Into<Option<u64>>) -> Self {
        Self { length: length.into(), ..self }
    }

    pub(crate) fn with_flow(self, flow: Rc<dyn RawFlow>) -> Self {
        Self { flow: Some(flow), ..self }
    }

    /// The media type, if the client told it.
    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.content_type.as_deref()
    }

    /// How many bytes there are in all, if the client told it.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// The next chunk; `None` at the end.
    ///
    /// # Errors
    /// CommError if the client breaks off.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn read(&mut self) -> Result<Option<Bytes>, Error> {
        self.next().await.transpose()
    }
}

impl Arg for RawInput {}

impl Stream for RawInput {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
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
            return Poll::Ready(chunk);
        }
    }
}

impl fmt::Debug for RawInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawInput")
            .field("content_type", &self.content_type)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// What an answer says beside its body, in the words of HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    status: Option<u16>,
    headers: Vec<(Cow<'static, str>, String)>,
}

impl Head {
    /// Nothing but what the transport itself says.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with_status(status: u16) -> Self {
        Self { status: Some(status), headers: Vec::new() }
    }

    /// Sets the status, 200 to 599. With 204 and 304 no message is sent, and raw data is refused:
    /// such an answer has no body (RFC 9110 §6.4.1).
    ///
    /// # Errors
    /// InternalError for any other.
    pub fn set_status(&mut self, status: u16) -> Result<&mut Self, Error> {
        if !(200..=599).contains(&status) {
            return Err(wrong(format!("{status} is no status of an answer")));
        }
        self.status = Some(status);
        Ok(self)
    }

    /// Sets a header, in place of others of the same name; `set-cookie` is added to others.
    ///
    /// # Errors
    /// InternalError if the name is no token or the value has control characters (RFC 9110 §5), if
    /// it is one that only the transport can know, or if there are too many.
    pub fn set_header(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
    ) -> Result<&mut Self, Error> {
        let (name, value) = (name.into(), value.into());
        check_header(&name, &value)?;
        if !name.eq_ignore_ascii_case(SET_COOKIE) {
            self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
        }
        self.push_header(name, value)
    }

    /// The same beside others of the same name (FTN5 §3.6, `override=false`).
    ///
    /// # Errors
    /// As for [`set_header`](Self::set_header).
    pub fn add_header(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
    ) -> Result<&mut Self, Error> {
        let (name, value) = (name.into(), value.into());
        check_header(&name, &value)?;
        self.push_header(name, value)
    }

    /// Adds a header that was checked.
    fn push_header(&mut self, name: Cow<'static, str>, value: String) -> Result<&mut Self, Error> {
        if self.headers.len() == MAX_HEADERS {
            return Err(wrong(format!("more than {MAX_HEADERS} headers")));
        }
        self.headers.push((name, value));
        Ok(self)
    }

    /// Adds a cookie.
    ///
    /// # Errors
    /// InternalError if name, value or an attribute cannot be those of a cookie, or there are too many
    /// headers.
    pub fn set_cookie(&mut self, cookie: Cookie) -> Result<&mut Self, Error> {
        self.add_header(SET_COOKIE, cookie.into_header()?)
    }

    /// The status, if it was set.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Whether an answer with this status has a body.
    pub(crate) fn has_body(&self) -> bool {
        !matches!(self.status, Some(204 | 304))
    }

    /// The headers that were set, names and values; each can be one of HTTP.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_ref(), value.as_str()))
    }
}

const SET_COOKIE: &str = "set-cookie";

/// Headers that say where a body ends or what becomes of the connection.
const FRAMING: [&str; 5] =
    ["content-length", "transfer-encoding", "connection", "upgrade", "trailer"];

fn check_header(name: &str, value: &str) -> Result<(), Error> {
    if !is_token(name) || value.chars().any(char::is_control) {
        return Err(wrong(format!("{name:?} cannot be a header")));
    }
    if FRAMING.iter().any(|framing| framing.eq_ignore_ascii_case(name)) {
        return Err(wrong(format!("{name} belongs to the transport")));
    }
    Ok(())
}

/// RFC 9110 §5.6.2.
fn is_token(text: &str) -> bool {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(is_token)
}

fn wrong(info: String) -> Error {
    Error::with_info(codes::INTERNAL_ERROR, info)
}

/// Where a handler writes its raw result. It ends when this is dropped and the flow succeeds.
pub struct RawOutput {
    chunks: mpsc::Sender<Bytes>,
    flow: Rc<dyn RawFlow>,
}

impl RawOutput {
    /// Writes a chunk, as soon as the client took what was written before, for which it has a
    /// minute.
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

impl fmt::Debug for RawOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawOutput(..)")
    }
}

/// The body of a raw result: a transport sends its chunks.
///
/// It ends with an error if the flow failed after it had begun to write: the connection must then
/// be broken off, so that the client does not take a part for the whole. Dropping it, because the
/// client is gone, cancels the flow.
pub struct RawBody {
    chunks: mpsc::Receiver<Bytes>,
    flow: Rc<dyn RawFlow>,
    failed: bool,
}

/// The flow at one end of raw data.
pub(crate) trait RawFlow {
    /// Data moved, so the flow is not stuck.
    fn progress(&self);

    /// It waits for the client to send data, which must keep to a least rate.
    fn wait_for_data(&self);

    /// So many bytes came.
    fn received(&self, bytes: usize);

    /// It is for the client that data does not move: the flow has this much time, if not more.
    fn wait_for_client(&self, at_least: Duration);

    /// Whether the flow succeeded, once it is over.
    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<bool>;

    /// Nobody wants the result any more.
    fn give_up(&self);
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

impl fmt::Debug for RawBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawBody(..)")
    }
}
