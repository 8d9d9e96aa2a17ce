//! Bodies of requests that an actix-web application takes.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::web::Payload;
use actix_web::{Error, HttpResponse};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};

use crate::http::head::RequestHead;

/// The body of a request, as it comes.
pub(in crate::http) struct Upload {
    payload: Source,
    length: Option<u64>,
}

enum Source {
    Counted(Payload),
    /// In chunks, or with bytes of another protocol after the request.
    Open(Rc<RefCell<Payload>>),
}

impl Upload {
    pub(super) fn new(head: &RequestHead, payload: Payload) -> Self {
        let is_chunked = head.has(&TRANSFER_ENCODING);
        let length = head.get(&CONTENT_LENGTH).and_then(|length| length.parse().ok()).unwrap_or(0);
        let payload = if is_chunked || head.has(&UPGRADE) {
            Source::Open(Rc::new(RefCell::new(payload)))
        } else {
            Source::Counted(payload)
        };
        Self { payload, length: (!is_chunked).then_some(length) }
    }

    /// Its length in bytes, if the client sent it or there is no body.
    pub(in crate::http) fn length(&self) -> Option<u64> {
        self.length
    }

    /// The part that has to be kept until the request is answered.
    pub(super) fn rest(&self) -> Option<Rest> {
        match &self.payload {
            Source::Counted(_) => None,
            Source::Open(payload) => Some(Rest(Rc::clone(payload))),
        }
    }
}

impl Stream for Upload {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = match &mut self.payload {
            Source::Counted(payload) => payload.poll_next_unpin(cx),
            Source::Open(payload) => payload.borrow_mut().poll_next_unpin(cx),
        };
        // errors of payloads may not leave their thread
        polled.map_err(|error| io::Error::other(error.to_string()))
    }
}

/// The unread part of such a body. If it is dropped before the answer is on its way, the
/// server waits for the end of the body, however long that takes; otherwise it closes the
/// connection, as it does after a body with a content length.
pub(super) struct Rest(Rc<RefCell<Payload>>);

impl Rest {
    /// The payload itself, if nothing reads it any more.
    pub(super) fn into_payload(self) -> Option<Payload> {
        Rc::into_inner(self.0).map(RefCell::into_inner)
    }

    /// Keeps it with the response.
    pub(super) fn keep(self, response: HttpResponse) -> HttpResponse {
        response.map_body(|_, body| Kept { body, _rest: self.0 }.boxed())
    }
}

struct Kept {
    body: BoxBody,
    _rest: Rc<RefCell<Payload>>,
}

impl MessageBody for Kept {
    type Error = Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Error>>> {
        Pin::new(&mut self.body).poll_next(cx).map_err(Into::into)
    }
}
