//! From a reply of the executor to an HTTP response.

use actix_web::HttpResponse;
use actix_web::HttpResponseBuilder;
use actix_web::body::BodyStream;
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, SET_COOKIE};
use asyncsteps_futoin::message::{Coding, MediaType, Response};

use crate::executor::{Reply, ReplyBody};
use crate::raw::Head;

/// The media type of raw results that have none.
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// The response; `status` gives the status of an error code, `note` gets the bytes of a message.
pub(super) fn response(
    reply: Reply,
    media: MediaType,
    status: impl FnOnce(&str) -> Option<StatusCode>,
    note: impl FnOnce(&[u8]),
) -> HttpResponse {
    let (head, body) = reply.into_parts();
    let mut response = HttpResponse::Ok();
    if head.as_ref().is_some_and(|head| !head.has_body()) {
        add(&mut response, head.as_deref());
        return response.finish();
    }
    match body {
        ReplyBody::Message(message) => {
            let media = media.of_answer(message.coding());
            if let Some(status) = message.response().code().and_then(status) {
                response.status(status);
            }
            if message.is_request_too_large() {
                response.status(StatusCode::PAYLOAD_TOO_LARGE);
            }
            let bytes = message.into_bytes();
            note(&bytes);
            add(&mut response, head.as_deref());
            // set last: by its media type a client knows that it is a message
            response.insert_header((CONTENT_TYPE, HeaderValue::from_static(media)));
            response.body(bytes)
        }
        ReplyBody::Nothing => {
            add(&mut response, head.as_deref());
            response.insert_header((CONTENT_LENGTH, 0)).finish()
        }
        ReplyBody::Raw(body) => {
            response.insert_header((CONTENT_TYPE, BYTES));
            add(&mut response, head.as_deref());
            response.body(BodyStream::new(body))
        }
    }
}

/// A refusal by the transport, as a message that also old clients can read (FTN3 §1.13).
pub(super) fn refusal(status: StatusCode, code: &str, text: &str) -> HttpResponse {
    let mut body = Vec::new();
    Response::error(code, Some(text)).write(Coding::Json, None, &mut body);
    let media = MediaType::default().of_answer(Coding::Json);
    HttpResponse::build(status).insert_header((CONTENT_TYPE, media)).body(body)
}

/// Adds the status and headers that a handler set.
fn add(response: &mut HttpResponseBuilder, head: Option<&Head>) {
    let Some(head) = head else { return };
    if let Some(status) = head.status().and_then(|status| StatusCode::from_u16(status).ok()) {
        response.status(status);
    }
    let mut set = Vec::new();
    for (name, value) in head.headers() {
        let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value))
        else {
            debug_assert!(false, "{name} was checked when it was set");
            continue;
        };
        // the first one of a name replaces that of the transport
        if name == SET_COOKIE || set.contains(&name) {
            response.append_header((name, value));
        } else {
            set.push(name.clone());
            response.insert_header((name, value));
        }
    }
}
