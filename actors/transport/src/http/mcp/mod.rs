//! Functions as tools of language models, by the Model Context Protocol (MCP) over HTTP.
//!
//! Messages and versions of the protocol are those of the crate `rmcp`. Its server keeps no sessions here: it answers
//! each request by itself, so that nothing is left of a client that goes away.

mod call;
mod handler;
mod tools;

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_actors::random;
use asyncsteps_executor::channel::ChannelKind;
use asyncsteps_futoin::message::{ErrorResult, Headers as _, MediaType, Request};
use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use http::header::{ACCESS_CONTROL_EXPOSE_HEADERS, HOST};
use http::{HeaderName, HeaderValue, StatusCode};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use rmcp::model::{ErrorData, Implementation, JsonRpcError};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::answer::{self, Answer, AnswerBody};
use super::body::{Body, BodyError};
use super::end_point::{Behind, EndPoint, unread};
use super::head::RequestHead;

use call::Caller;
use handler::ToolServer;
use tools::Listed;

/// The random name that a client got for its calls.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// What serves tools.
struct Mcp {
    server: Implementation,
    listed: Mutex<Listed>,
    /// The calls that can be cancelled, by session and id.
    in_flight: Mutex<HashMap<String, CancellationToken>>,
}

/// A call that can be cancelled, until this is dropped.
struct InFlight {
    mcp: Arc<Mcp>,
    key: String,
    cancelled: CancellationToken,
}

/// Serves tools at a path, under the name and version of a server.
pub(super) fn behind(path: &str, name: &str, version: &str) -> Behind {
    let (listed, in_flight) = (Mutex::default(), Mutex::default());
    let mcp = Arc::new(Mcp { server: Implementation::new(name, version), listed, in_flight });
    let serve = move |end_point, head, body| {
        Box::pin(Arc::clone(&mcp).answer(end_point, head, body)) as LocalBoxFuture<'static, Answer>
    };
    Behind { path: path.into(), serve: Box::new(serve) }
}

impl Mcp {
    /// Cancels the call that a message names, or remembers the one that it is.
    fn cancel_or_begin(self: &Arc<Self>, session: &str, sent: &Value) -> Option<InFlight> {
        let is_call = sent["method"] == "tools/call";
        let id = if is_call { &sent["id"] } else { &sent["params"]["requestId"] };
        let key = format!("{session} {id}");
        let mut in_flight = self.in_flight.lock();
        if sent["method"] == "notifications/cancelled"
            && let Some(call) = in_flight.get(&key)
        {
            call.cancel();
        }
        is_call.then(|| {
            let cancelled = CancellationToken::new();
            in_flight.insert(key.clone(), cancelled.clone());
            InFlight { mcp: Arc::clone(self), key, cancelled }
        })
    }

    /// Has the protocol's server answer one message. The call in it, if there is one, is made on this arbiter.
    async fn serve(&self, caller: Caller, body: Bytes) -> Answer {
        let request = request(&caller.head, body);
        let (calls, called) = mpsc::channel(1);
        let tools = self.tools(&caller.end_point);
        actix_rt::spawn(caller.make(called));
        let server = ToolServer { tools, about: self.server.clone(), calls };
        // who may call is checked already, and the size
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(usize::MAX)
            .disable_allowed_hosts();
        let sessions = Arc::<NeverSessionManager>::default();
        let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
        let answer = service.handle(request).await;
        answer.map(|body| AnswerBody::Page(Box::pin(body.map_err(|never| match never {}))))
    }

    /// Answers a request.
    async fn answer(
        self: Arc<Self>,
        end_point: EndPoint,
        head: Rc<RequestHead>,
        body: Body,
    ) -> Answer {
        let channel = end_point.channel(&head, ChannelKind::Http);
        let (body, room, permit) = match end_point.receive(body, &channel).await {
            Ok(received) => received,
            Err(BodyError::Status(status)) => return unread(status, None),
            Err(BodyError::Refused(reply)) => {
                let mut answer = end_point.reply(reply, MediaType::default(), &channel);
                *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                return answer;
            }
        };
        if head.method() == "POST"
            && let Err(refused) = Request::parse(&body)
        {
            // no JSON, or what that of FutoIn may not have either: a key twice, a number that no value holds
            let text = refused.refusal().to_string();
            let error = ErrorData::parse_error(refused.defect().map_or(text, str::to_owned), None);
            let error = serde_json::to_vec(&JsonRpcError::new(None, error)).unwrap_or_default();
            let mut answer = answer::with_type("application/json", error);
            *answer.status_mut() = StatusCode::BAD_REQUEST;
            return answer;
        }
        let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
        // without a session, other clients have the same ids
        let in_flight = head.get(&SESSION).and_then(|name| self.cancel_or_begin(name, &sent));
        let (size, denied) = (body.len(), Rc::<Cell<Option<ErrorResult>>>::default());
        let (own, denies) = (end_point.clone(), Rc::clone(&denied));
        let caller =
            Caller { end_point: own, head, channel, permit, size, in_flight, denied: denies };
        // a call may wait for long, and its arguments have all of the body
        drop(room);
        let mut answer = self.serve(caller, body).await;
        if let Some(error) = denied.take() {
            return end_point.unauthorized(&error);
        }
        if sent["method"] == "initialize" && answer.status() == StatusCode::OK {
            let session = HeaderValue::try_from(random::id()).ok();
            answer.headers_mut().extend(session.map(|name| (SESSION, name)));
            let shown = HeaderValue::from_static("mcp-session-id");
            answer.headers_mut().insert(ACCESS_CONTROL_EXPOSE_HEADERS, shown);
        }
        answer
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.mcp.in_flight.lock().remove(&self.key);
    }
}

/// The request as the protocol's server reads it, for a host that is checked already.
fn request(head: &RequestHead, body: Bytes) -> http::Request<Full<Bytes>> {
    let mut request = http::Request::new(Full::new(body));
    *request.method_mut() = head.method().parse().unwrap_or_default();
    for (name, value) in head.headers() {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            request.headers_mut().append(name, value);
        }
    }
    request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
    request
}
