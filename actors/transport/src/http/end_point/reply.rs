//! From a reply of the executor to an HTTP answer.

use futures_util::StreamExt as _;
use http::header::{
    CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, SET_COOKIE,
};
use http::{HeaderMap, StatusCode};

use asyncsteps_core::codes;
use asyncsteps_futoin::message::MediaType;

use super::super::MESSAGE;
use super::super::answer::{self, Answer, AnswerBody};
use super::problem::{self, Problems};
use asyncsteps_executor::raw::Head;
use asyncsteps_executor::{RefusalReason, Reply, ReplyBody};

/// The media type of raw results that have none.
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// When a request that was not carried out may be made again: a node that starts, or takes over, is there then.
const A_SECOND: HeaderValue = HeaderValue::from_static("1");

/// The answer; errors are `problems`, if there are some, and `note` receives the bytes of a message. `too_large` is the
/// status of a message that refuses a request for its size.
pub(super) fn answer(
    reply: Reply,
    media: MediaType,
    too_large: StatusCode,
    problems: Option<&Problems<'_>>,
    note: impl FnOnce(&[u8]),
) -> Answer {
    let (head, body) = reply.into_parts();
    let head = head.as_deref();
    if head.is_some_and(|head| !head.has_body()) {
        let mut answer = answer::empty(StatusCode::OK);
        add_head(&mut answer, head);
        return answer;
    }
    match body {
        ReplyBody::Message(message) => {
            let problem = problems.and_then(|problems| problems.of_message(&message, too_large));
            let was_not_carried_out = message.response().code() == Some(codes::CONNECT_ERROR);
            let (status, media, bytes) = match problem {
                Some((status, bytes)) => (status, problem::MEDIA, bytes),
                None => {
                    let media = media.of_answer(message.coding());
                    let status = match message.refusal_reason() {
                        Some(RefusalReason::TooLarge) => too_large,
                        Some(_) | None => StatusCode::OK,
                    };
                    (status, media, message.into_bytes())
                }
            };
            note(&bytes);
            let mut answer = answer::with_body(status, bytes);
            if was_not_carried_out && status == StatusCode::SERVICE_UNAVAILABLE {
                answer.headers_mut().insert(RETRY_AFTER, A_SECOND);
            }
            if let (StatusCode::UNAUTHORIZED, Some(problems)) = (status, problems) {
                problems.challenge(answer.headers_mut());
            }
            add_head(&mut answer, head);
            // set last: by its media type a client knows that it is a message
            answer.headers_mut().insert(CONTENT_TYPE, value_of(media));
            answer
        }
        ReplyBody::Nothing => {
            let mut answer = answer::empty(StatusCode::OK);
            add_head(&mut answer, head);
            answer.headers_mut().insert(CONTENT_LENGTH, 0.into());
            answer
        }
        ReplyBody::Raw(body) => {
            let mut answer = Answer::new(AnswerBody::Raw(body.left_stream()));
            answer.headers_mut().insert(CONTENT_TYPE, BYTES);
            add_head(&mut answer, head);
            answer
        }
    }
}

/// A media type as a header.
fn value_of(media: &'static str) -> HeaderValue {
    // most answers have this one, which need not be checked each time
    const MOST: HeaderValue = HeaderValue::from_static(MESSAGE);
    if media == MESSAGE { MOST } else { HeaderValue::from_static(media) }
}

/// Adds the status and headers that a handler set.
fn add_head(answer: &mut Answer, head: Option<&Head>) {
    let Some(head) = head else { return };
    if let Some(status) = head.status().and_then(|status| StatusCode::from_u16(status).ok()) {
        *answer.status_mut() = status;
    }
    let mut set = HeaderMap::new();
    for (name, value) in head.headers() {
        let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value))
        else {
            debug_assert!(false, "{name} was checked when it was set");
            continue;
        };
        // the first header of a name replaces the transport's
        if name != SET_COOKIE && !set.contains_key(&name) {
            answer.headers_mut().remove(&name);
        }
        set.append(name, value);
    }
    answer.headers_mut().extend(set);
}
