//! Calls over HTTP (FTN5 §2.2).

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::carried;
use asyncsteps_core::codes;
use asyncsteps_executor::IDEMPOTENCY_KEY;
use asyncsteps_executor::message::{Coding, MediaType, Message, Response};
use asyncsteps_executor::observe::TraceParent;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Semaphore;

use super::body::MessageBody;
use super::config::Config;
use super::connector::Connector;
use super::sent::{Sent, with_causes};
use crate::call_error::CallError;

/// How long a connection is kept without a call, shorter than proxies usually keep them.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// The largest head of an answer in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// The codings in the media types of messages.
const CODINGS: [&str; 3] = ["json", "msgpack", "cbor"];

/// The connections of all services.
pub(super) type HttpClient = Client<Connector, MessageBody>;

pub(super) fn client(connector: Connector, config: &Config) -> HttpClient {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(KEEP_ALIVE)
        .pool_max_idle_per_host(config.max_connections)
        .http1_max_buf_size(MAX_HEAD)
        .build(connector)
}

/// Calls one service.
#[derive(Debug)]
pub(super) struct Poster {
    client: HttpClient,
    url: Uri,
    /// One permit for each call at once.
    connections: Semaphore,
}

impl Poster {
    pub(super) fn new(client: HttpClient, url: Uri, config: &Config) -> Self {
        let connections = Semaphore::new(config.max_connections.min(Semaphore::MAX_PERMITS));
        Self { client, url, connections }
    }

    /// Sends a message and reads the answer; `None` for a function without a result.
    pub(super) async fn exchange(
        &self,
        message: Bytes,
        (trace, key): (Option<TraceParent>, Option<Arc<str>>),
        max_answer: usize,
        sent: &Sent,
    ) -> Result<Option<Response>, CallError> {
        let permit = self.connections.acquire().await;
        let _permit = permit.map_err(|_| sent.failure("the fabric is closed"))?;
        let media = MediaType::default().of_answer(Coding::detect(&message));
        let mut request = Request::post(self.url.clone()).header(CONTENT_TYPE, media);
        if let Some(trace) = trace {
            request = request.header("traceparent", trace.to_string());
            for (name, value) in carried::of(trace).iter().flat_map(|carried| carried.fields()) {
                request = request.header(name, value);
            }
        }
        if let Some(key) = key {
            request = request.header(IDEMPOTENCY_KEY, &*key);
        }
        let request = request.body(MessageBody::new(message, sent));
        // a key that is none, of a caller that does not check them
        let wrong = |error: hyper::http::Error| {
            CallError::not_made(codes::INVALID_REQUEST, error.to_string())
        };
        let request = request.map_err(wrong)?;
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| sent.failure(with_causes(&error)))?;
        let (head, body) = answer.into_parts();
        let body = read(body, max_answer, sent).await?;
        understand(head.status, &head.headers, &body)
    }
}

/// Reads a body, and no more of it than is allowed.
async fn read(body: Incoming, max: usize, sent: &Sent) -> Result<Bytes, CallError> {
    match Limited::new(body, max).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(wrong(format!("the answer has more than {max} bytes")))
        }
        Err(error) => Err(sent.failure(with_causes(&*error))),
    }
}

/// The message of an answer, whatever its status: executors answer errors with 200 and others.
fn understand(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Option<Response>, CallError> {
    if status == StatusCode::OK && body.is_empty() {
        return Ok(None);
    }
    let media = headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
    let is_message =
        media.starts_with("application/") && CODINGS.iter().any(|coding| media.contains(coding));
    match Message::parse(body) {
        Ok(Message::Response(answer)) if is_message => Ok(Some(answer)),
        _ if status == StatusCode::OK && is_message => {
            Err(wrong("the answer is no message of FutoIn".to_owned()))
        }
        _ if status == StatusCode::OK => {
            Err(wrong(format!("the answer is no message, its type is {media:?}")))
        }
        // a proxy, or the service before it knows the call
        _ if status.is_server_error() => {
            Err(CallError::lost(format!("the service answers {status} without a message")))
        }
        _ => Err(wrong(format!("the service answers {status} without a message"))),
    }
}

fn wrong(info: String) -> CallError {
    CallError::unknown(codes::INVOKER_ERROR, info)
}
