//! The requests of a connection: to the end point, or to the application's own service.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use http::header::{CONNECTION, CONTENT_TYPE, EXPECT, HOST, RETRY_AFTER, TRANSFER_ENCODING};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use pin_project_lite::pin_project;

use super::connection_state::{ConnectionState, InService};
use super::keep_alive::{self, KEEP_ALIVE};
use super::limits::ServerLimits;
use super::receiving::Receiving;
use super::request_body::RequestBody;
use super::sending::{Content, Sending};
use super::warm_connections::WarmConnections;
use crate::http::answer::{AnswerBody, BoxError, PageBody};
use crate::http::body::Body;
use crate::http::end_point::EndPoint;
use crate::http::head::{ConnectionInfo, FieldsSummary, RequestHead, copy_uri};

/// The fields of a head at most, as many as hyper takes in HTTP/1.
const MOST_FIELDS: usize = 100;

/// The service of the connections of a worker.
pub(super) struct Site {
    pub(super) end_point: EndPoint,
    /// The path of the end point, without the slash at its end.
    pub(super) path: String,
    /// The services for other paths, those with longer paths first.
    pub(super) pages: Vec<(Box<str>, Page)>,
    pub(super) limits: ServerLimits,
    /// How long connections are kept, as answers over HTTP/1.1 say it.
    pub(super) keep_alive: Option<HeaderValue>,
    pub(super) warm: WarmConnections,
    /// Whether it has probes alone, and refuses all else because all workers are blocked.
    pub(super) is_spare: bool,
}

/// A service for other paths.
pub(super) type Page = Box<dyn Fn(Request<RequestBody>) -> LocalBoxFuture<'static, PageAnswer>>;

type PageAnswer = Result<Response<PageBody>, BoxError>;

/// Clones a service, for another worker.
pub(super) type MakePage = Box<dyn Fn() -> PageOf>;

/// Makes an [`Page`] of a service, on its worker.
pub(super) type PageOf = Box<dyn FnOnce() -> Page + Send>;

/// A service with its types left out.
pub(super) fn page<S, B>(service: S) -> MakePage
where
    S: tower_service::Service<Request<RequestBody>, Response = Response<B>>
        + Clone
        + Send
        + 'static,
    S::Error: Into<BoxError>,
    S::Future: 'static,
    B: HttpBody<Data = Bytes> + 'static,
    B::Error: Into<BoxError>,
{
    Box::new(move || {
        let service = service.clone();
        Box::new(move || Box::new(move |request| call(service.clone(), request).boxed_local()))
    })
}

async fn call<S, B>(mut service: S, request: Request<RequestBody>) -> PageAnswer
where
    S: tower_service::Service<Request<RequestBody>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + 'static,
    B::Error: Into<BoxError>,
{
    poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
    let response = service.call(request).await.map_err(Into::into)?;
    Ok(response.map(|body| Box::pin(AnyError { body }) as PageBody))
}

pin_project! {
    /// A body whose error has its type left out.
    struct AnyError<B> {
        #[pin]
        body: B,
    }
}

impl<B: HttpBody<Error: Into<BoxError>>> HttpBody for AnyError<B> {
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        self.project().body.poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The requests of one connection, as hyper calls for their answers; a cheap handle.
#[derive(Clone)]
pub(super) struct Requests {
    pub(super) site: Rc<Site>,
    pub(super) progress: Rc<ConnectionState>,
    pub(super) connection: Rc<ConnectionInfo>,
}

impl Requests {
    /// Answers a request, which is in service from now on.
    pub(super) fn respond(
        &self,
        mut request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Sending>, Infallible>> + use<> {
        let in_service = self.progress.begin();
        if request.version() == Version::HTTP_2
            && let Some(uri) = copy_uri(request.uri())
        {
            // it would hold the buffer that it was read into, which in HTTP/1 the connection has anyway
            *request.uri_mut() = uri;
        }
        let fields = FieldsSummary::of(request.headers());
        let refusal = self.refusal(&request, fields, &in_service);
        let this = self.clone();
        async move {
            if let Some(status) = refusal {
                let version = request.version();
                drop(request);
                let is_blocked = this.site.is_spare && status == StatusCode::SERVICE_UNAVAILABLE;
                let refused = if is_blocked { blocked() } else { bare(status) };
                let (mut head, content) = refused.into_parts();
                if version <= Version::HTTP_11 {
                    head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
                }
                return Ok(Response::from_parts(head, Sending::new(content, in_service)));
            }
            this.progress.next_turn().await;
            let (version, is_head) = (request.version(), request.method() == Method::HEAD);
            let wants_time = keep_alive::is_asked_for(request.headers(), fields);
            let Self { site, progress, connection } = this;
            let uri = request.uri();
            let query = uri.query().unwrap_or_default();
            let route = site.end_point.route(uri.path(), query, &site.path);
            let answer = match route {
                // not in a function of its own, which would hold request and answer again
                Some(route) => {
                    let (parts, body) = request.into_parts();
                    let body = RequestBody::new(body, progress.holds().taken());
                    let body = Receiving::new(body, Rc::clone(&progress), &site.limits);
                    let head = Rc::new(RequestHead::own(parts, fields, connection));
                    let answer = site.end_point.serve(head, route, Body::Own(body)).await;
                    answer.map(|body| content_of(body, &progress))
                }
                None => site.answer_page(of_page(request, &progress, &connection)).await,
            };
            let (mut head, mut content) = answer.into_parts();
            if is_head {
                content = content.without_body(&mut head.headers);
            }
            let body = Sending::new(content, in_service);
            if version < Version::HTTP_11 && body.size_hint().exact().is_none() {
                // it has no chunks: the end of the connection is the end of the body
                head.version = version;
            }
            if version <= Version::HTTP_11 && head.status != StatusCode::SWITCHING_PROTOCOLS {
                // pooled connections of balancers end before the server does
                if progress.closing().is_some() || site.end_point.executor.is_close_announced() {
                    head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
                } else if let Some(time) = site.keep_alive.as_ref().filter(|_| wants_time) {
                    head.headers.insert(KEEP_ALIVE, time.clone());
                }
            }
            Ok(Response::from_parts(head, body))
        }
    }

    /// The status with which a request is refused before anything is done for it.
    fn refusal(
        &self,
        request: &Request<Incoming>,
        fields: FieldsSummary,
        in_service: &InService,
    ) -> Option<StatusCode> {
        let uri = request.uri();
        let size = || fields.size(uri.path(), uri.query().unwrap_or_default());
        if self.progress.refuses_this() || !is_clear(request, fields) {
            Some(StatusCode::BAD_REQUEST)
        } else if !is_expectation_known(request, fields) {
            Some(StatusCode::EXPECTATION_FAILED)
        } else if fields.count() > MOST_FIELDS {
            Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)
        } else if self.site.is_spare && self.site.page(uri.path()).is_none()
            || !in_service.held().head(size())
        {
            Some(StatusCode::SERVICE_UNAVAILABLE)
        } else {
            None
        }
    }
}

/// The request to a service of the application.
fn of_page(
    request: Request<Incoming>,
    progress: &ConnectionState,
    connection: &ConnectionInfo,
) -> Request<RequestBody> {
    if !request.body().is_end_stream() {
        progress.give_body();
    }
    let mut request = request.map(|body| RequestBody::new(body, progress.holds().taken()));
    request.extensions_mut().insert(connection.peer);
    request
}

/// The content of an answer of the end point.
fn content_of(body: AnswerBody, progress: &ConnectionState) -> Content {
    match body {
        AnswerBody::Whole(bytes) => Content::Whole(bytes),
        AnswerBody::Raw(body) => Content::Raw(body),
        #[cfg(feature = "mcp")]
        AnswerBody::Page(body) => Content::Page(body),
        AnswerBody::WebSocket(socket) => {
            progress.upgrade(socket);
            Content::Nothing
        }
    }
}

impl Site {
    /// The service for a path that is not the end point's.
    fn page(&self, path: &str) -> Option<&Page> {
        self.pages.iter().find(|(page, _)| is_below(path, page)).map(|(_, page)| page)
    }

    async fn answer_page(&self, request: Request<RequestBody>) -> Response<Content> {
        let status = match self.page(request.uri().path()) {
            None => StatusCode::NOT_FOUND,
            Some(page) => match page(request).await {
                Ok(response) => return response.map(Content::Page),
                Err(error) => {
                    tracing::error!(error = &*error as &dyn std::error::Error, "a service failed");
                    StatusCode::INTERNAL_SERVER_ERROR
                }
            },
        };
        bare(status)
    }
}

/// Whether a path is this one, without the slash at its end, or below it.
fn is_below(path: &str, page: &str) -> bool {
    let is_whole = |rest: &str| page.is_empty() || rest.is_empty() || rest.starts_with('/');
    path.strip_prefix(page).is_some_and(is_whole)
}

/// Whether any two ends understand a request in the same way: it names its host once, as it must
/// in HTTP/1.1 (RFC 9112 §3.2), and in HTTP/2 no other one (RFC 9113 §8.3.1), and its body is chunked
/// once (RFC 9112 §6.1).
fn is_clear(request: &Request<Incoming>, fields: FieldsSummary) -> bool {
    let headers = request.headers();
    let mut hosts = headers.get_all(HOST).iter();
    let has_host = match (request.version(), hosts.next(), hosts.next()) {
        (_, _, Some(_)) | (Version::HTTP_11, None, None) => false,
        (Version::HTTP_2, Some(host), None) => request.uri().authority().is_none_or(|authority| {
            authority.as_str().as_bytes().eq_ignore_ascii_case(host.as_bytes())
        }),
        (_, _, None) => true,
    };
    let is_chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    has_host
        && (!fields.may_have(TRANSFER_ENCODING.as_str())
            || headers.get_all(TRANSFER_ENCODING).iter().all(is_chunked))
}

/// Whether the client expects nothing but an interim answer before its body (RFC 9110 §10.1.1).
fn is_expectation_known(request: &Request<Incoming>, fields: FieldsSummary) -> bool {
    let is_known = |value: &HeaderValue| {
        let mut members = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        members.all(|member| member.is_empty() || member.eq_ignore_ascii_case(b"100-continue"))
    };
    !fields.may_have(EXPECT.as_str()) || request.headers().get_all(EXPECT).iter().all(is_known)
}

/// The answer to any request but a probe while steps block all workers: nothing was carried out.
fn blocked() -> Response<Content> {
    let text = br#"{"e":"DefenseRejected","edesc":"All threads are blocked (arbiter_stuck)"}"#;
    let mut response = Response::new(Content::Whole(Bytes::from_static(text)));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// An answer of the server itself.
fn bare(status: StatusCode) -> Response<Content> {
    let mut response = Response::new(Content::Nothing);
    *response.status_mut() = status;
    response
}
