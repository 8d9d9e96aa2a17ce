//! The answers of the end point, for any server to send.

use bytes::Bytes;
use futures_util::future::Either;
use futures_util::stream::LocalBoxStream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};

use asyncsteps_core::Error;
use asyncsteps_futoin::message::{Coding, MediaType, Response as Message};

use crate::websocket::WebSocket;
use asyncsteps_executor::raw::RawBody;
#[cfg(feature = "mcp")]
use asyncsteps_server::PageBody;

/// An answer: its head, and a body that the server sends in its own way.
pub(super) type Answer = http::Response<AnswerBody>;

/// Raw data, or the events of a call that is watched.
pub(super) type Chunks = Either<RawBody, LocalBoxStream<'static, Result<Bytes, Error>>>;

/// The body of an answer.
pub(super) enum AnswerBody {
    Whole(Bytes),
    /// Chunks as a function makes them; an error breaks the connection off.
    Raw(Chunks),
    /// From a service behind the end point.
    #[cfg(feature = "mcp")]
    Page(PageBody),
    /// The connection goes on as a WebSocket.
    WebSocket(Box<WebSocket>),
}

/// An answer without a body.
pub(super) fn empty(status: StatusCode) -> Answer {
    with_body(status, Bytes::new())
}

pub(super) fn with_body(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Answer::new(AnswerBody::Whole(body.into()));
    *answer.status_mut() = status;
    answer
}

/// The same with a media type.
pub(super) fn with_type(media: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = with_body(StatusCode::OK, body);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    answer
}

/// Says what the function did not say otherwise about an answer to GET, which a browser may show and a
/// cache may keep: it is of the type that it has, and of this moment.
pub(super) fn guard(answer: &mut Answer) {
    if matches!(answer.body(), AnswerBody::WebSocket(_)) {
        return;
    }
    let headers = answer.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
}

/// A refusal by the transport, as a message that also old clients can read (FTN3 §1.13).
pub(super) fn refusal(status: StatusCode, code: &str, text: &str) -> Answer {
    let mut body = Vec::new();
    Message::error(code, Some(text)).write(Coding::Json, None, &mut body);
    let mut answer = with_type(MediaType::default().of_answer(Coding::Json), body);
    *answer.status_mut() = status;
    answer
}
