//! The console over HTTP.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use asyncsteps_executor::InFlightFilter;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use serde::Serialize;
use tower_service::Service;

use crate::Console;
use crate::access::Denied;
use crate::body::ConsoleBody;
use crate::durable::{self, OperatorAction};
use crate::entities;
use crate::page;
use crate::search::RecentFilter;

/// The path of the page, and the beginning of all others.
const PATH: &str = "/console";

const JSON: &str = "application/json";

/// The paths without parts that are read.
const READ: [&str; 8] =
    ["/live", "/history", "/flows", "/recent", "/plan", "/nodes", "/durable", "/entities"];

const NOT_DURABLE: &str = "There are no durable requests";

/// The page loads its own files and asks its own server, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Answers requests below `/console`; see [`Console::service`].
#[derive(Clone, Debug)]
pub struct ConsoleService(pub(crate) Console);

impl<B> Service<Request<B>> for ConsoleService {
    type Response = Response<ConsoleBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ConsoleBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let console = self.0.clone();
        let (request, _) = request.into_parts();
        Box::pin(async move { Ok(with_headers(console.answer(&request).await)) })
    }
}

impl Console {
    async fn answer(&self, request: &Parts) -> Response<ConsoleBody> {
        let path = request.uri.path().strip_prefix(PATH);
        let Some(path) = path.filter(|path| path.is_empty() || path.starts_with('/')) else {
            return text(StatusCode::NOT_FOUND, "There is nothing here");
        };
        if let Some(file) = page::file(path) {
            return match self.access.to_page(request) {
                Err(denied) => refuse(denied),
                Ok(()) if !is_read(request) => wrong_method("GET, HEAD"),
                Ok(()) => typed(file.media_type, file.text),
            };
        }
        if let Err(denied) = self.access.to_data(request) {
            return refuse(denied);
        }
        match path.strip_prefix('/').and_then(|path| path.split_once('/')) {
            None if path == "/live" && is_read(request) => self.live(request),
            Some(("steps", number)) if is_read(request) => self.steps(number).await,
            Some(("cancel", number)) if request.method == Method::POST => {
                self.cancel(number, request).await
            }
            None if path == "/flows" && is_read(request) => self.flows(request).await,
            None if path == "/recent" && is_read(request) => self.recent(request).await,
            None if path == "/plan" && is_read(request) => self.plan(request).await,
            None if path == "/history" && is_read(request) => {
                with_type(JSON, ConsoleBody::whole(self.live.history.json()))
            }
            None if path == "/entities" && is_read(request) => match &self.live.others.durable {
                Some(durable) => json(&entities::list(durable)),
                None => text(StatusCode::NOT_FOUND, NOT_DURABLE),
            },
            None if path == "/nodes" && is_read(request) => self.nodes_of_fabric().await,
            None if path == "/durable" && is_read(request) => self.durable_requests(request).await,
            Some(("durable", rest)) => self.durable_request(rest, request).await,
            None if READ.contains(&path) => wrong_method("GET, HEAD"),
            Some(("steps", _)) => wrong_method("GET, HEAD"),
            Some(("cancel", _)) => wrong_method("POST"),
            _ => text(StatusCode::NOT_FOUND, "There is nothing here"),
        }
    }

    fn live(&self, request: &Parts) -> Response<ConsoleBody> {
        const EVENTS: &str = "text/event-stream";
        if request.method == Method::HEAD {
            return typed(EVENTS, "");
        }
        with_type(EVENTS, ConsoleBody::live(self.live.watch()))
    }

    /// The oldest flows in flight that the query is for: a snapshot has the oldest of all.
    async fn flows(&self, request: &Parts) -> Response<ConsoleBody> {
        let query = request.uri.query().unwrap_or_default();
        let mut filter = InFlightFilter::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            filter = match &*name {
                _ if value.is_empty() => filter,
                "function" => filter.function(&value),
                "cause" => filter.waits_for(&value),
                _ => filter,
            };
        }
        match self.live.search(filter).await {
            Some(flows) => json(&flows),
            None => text(StatusCode::SERVICE_UNAVAILABLE, "Too many searches wait"),
        }
    }

    /// The newest requests that are kept and that the query is for: a snapshot has the newest of all.
    async fn recent(&self, request: &Parts) -> Response<ConsoleBody> {
        let filter = RecentFilter::of_query(request.uri.query().unwrap_or_default());
        match self.live.search_recent(&filter).await {
            Some(requests) => json(&requests),
            None => text(StatusCode::SERVICE_UNAVAILABLE, "Too many searches wait"),
        }
    }

    /// The plan of a function that the query names in full.
    async fn plan(&self, request: &Parts) -> Response<ConsoleBody> {
        let query = request.uri.query().unwrap_or_default();
        let named = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "function");
        let Some((_, function)) = named else {
            return text(StatusCode::NOT_FOUND, "There is no such function");
        };
        match self.live.plan(&function).await {
            Some(Some(plan)) => json(&plan),
            Some(None) => text(StatusCode::NOT_FOUND, "There is no such function"),
            None => text(StatusCode::SERVICE_UNAVAILABLE, "Too many searches wait"),
        }
    }

    async fn nodes_of_fabric(&self) -> Response<ConsoleBody> {
        match &self.live.others.nodes {
            Some(nodes) => with_type(JSON, ConsoleBody::whole(nodes.ask().await)),
            None => text(StatusCode::NOT_FOUND, "There is no fabric"),
        }
    }

    async fn steps(&self, number: &str) -> Response<ConsoleBody> {
        let steps = match number.parse() {
            Ok(number) => self.live.inspector.steps(number).await,
            Err(_) => None,
        };
        match steps {
            Some(steps) => json(&steps),
            None => text(StatusCode::NOT_FOUND, "The request is neither in flight nor kept"),
        }
    }

    /// Durable requests, the oldest that the query is for.
    async fn durable_requests(&self, request: &Parts) -> Response<ConsoleBody> {
        match &self.live.others.durable {
            Some(durable) => {
                json(&durable::list(durable, request.uri.query().unwrap_or_default()).await)
            }
            None => text(StatusCode::NOT_FOUND, NOT_DURABLE),
        }
    }

    /// One of them, or an order for it: `UID`, `UID/cancel`, `UID/continue`, ...
    async fn durable_request(&self, rest: &str, request: &Parts) -> Response<ConsoleBody> {
        let Some(durable) = &self.live.others.durable else {
            return text(StatusCode::NOT_FOUND, NOT_DURABLE);
        };
        let (uid, order) = match rest.split_once('/') {
            Some((uid, order)) => (uid, Some(OperatorAction::named(order))),
            None => (rest, None),
        };
        let (Ok(uid), order) = (uid.parse(), order) else {
            return text(StatusCode::NOT_FOUND, "There is no such request");
        };
        match order {
            None if !is_read(request) => wrong_method("GET, HEAD"),
            None => match durable::find(durable, uid).await {
                Ok(Some(found)) => json(&found),
                Ok(None) => text(StatusCode::NOT_FOUND, "There is no such request"),
                Err(error) => {
                    tracing::warn!(%error, "the journal cannot be asked");
                    text(StatusCode::SERVICE_UNAVAILABLE, "The journal cannot be asked")
                }
            },
            Some(None) => text(StatusCode::NOT_FOUND, "There is nothing here"),
            Some(Some(_)) if request.method != Method::POST => wrong_method("POST"),
            Some(Some(_)) if !is_json(request) => not_json(),
            Some(Some(order)) => json(&durable::order(durable, uid, order).await),
        }
    }

    async fn cancel(&self, number: &str, request: &Parts) -> Response<ConsoleBody> {
        if !is_json(request) {
            return not_json();
        }
        let cancelled = match number.parse() {
            Ok(number) => self.live.inspector.cancel(number).await,
            Err(_) => false,
        };
        json(&serde_json::json!({ "cancelled": cancelled }))
    }
}

fn is_read(request: &Parts) -> bool {
    request.method == Method::GET || request.method == Method::HEAD
}

/// Whether a page may have sent it that is not of another site: such a page cannot send this type without
/// asking first, and is not allowed to.
fn is_json(request: &Parts) -> bool {
    request.headers.get(CONTENT_TYPE).is_some_and(|value| value == JSON)
}

fn not_json() -> Response<ConsoleBody> {
    text(StatusCode::UNSUPPORTED_MEDIA_TYPE, "The content type is application/json")
}

fn refuse(denied: Denied) -> Response<ConsoleBody> {
    match denied {
        Denied::NotLoopback => {
            text(StatusCode::FORBIDDEN, "The console is for this machine, unless it has a token")
        }
        Denied::OtherSite => {
            text(StatusCode::FORBIDDEN, "The console is not for pages of other sites")
        }
        Denied::NoToken => {
            let mut response = text(StatusCode::UNAUTHORIZED, "The console wants its token");
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            response
        }
    }
}

fn wrong_method(allowed: &'static str) -> Response<ConsoleBody> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "The method is not allowed here");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

fn json(value: &impl Serialize) -> Response<ConsoleBody> {
    match serde_json::to_vec(value) {
        Ok(bytes) => with_type(JSON, ConsoleBody::whole(bytes)),
        Err(error) => {
            tracing::error!(%error, "an answer of the console cannot be written");
            text(StatusCode::INTERNAL_SERVER_ERROR, "The answer cannot be written")
        }
    }
}

fn text(status: StatusCode, text: &'static str) -> Response<ConsoleBody> {
    let mut response = typed("text/plain; charset=utf-8", text);
    *response.status_mut() = status;
    response
}

fn typed(media_type: &'static str, text: &'static str) -> Response<ConsoleBody> {
    with_type(media_type, ConsoleBody::whole(text))
}

fn with_type(media_type: &'static str, body: ConsoleBody) -> Response<ConsoleBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Adds the headers that all answers have.
fn with_headers(mut response: Response<ConsoleBody>) -> Response<ConsoleBody> {
    let same_origin = HeaderName::from_static("cross-origin-resource-policy");
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (same_origin, "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
