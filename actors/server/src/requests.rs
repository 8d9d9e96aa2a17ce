//! The requests of a connection: to the service, or to one of tower beside it.

use std::convert::Infallible;
use std::rc::Rc;

use http::header::{CONNECTION, EXPECT, HOST, RETRY_AFTER, TRANSFER_ENCODING};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;

use super::connection_state::{ConnectionState, InService};
use super::fields::{FieldsSummary, copy_uri};
use super::keep_alive::{self, KEEP_ALIVE};
use super::limits::ServerLimits;
use super::pages::Page;
use super::receiving::Receiving;
use super::request_body::RequestBody;
use super::sending::{Content, Sending};
use super::service::{Arrived, ConnectionInfo, LocalService};
use super::warm_connections::WarmConnections;

/// The fields of a head at most, as many as hyper takes in HTTP/1.
const MOST_FIELDS: usize = 100;

/// The service of the connections of a worker.
pub(super) struct Site<S: LocalService> {
    pub(super) service: S,
    pub(super) traffic: S::Traffic,
    /// The services for other paths, those with longer paths first.
    pub(super) pages: Vec<(Box<str>, Page)>,
    pub(super) limits: ServerLimits,
    /// How long connections are kept, as answers over HTTP/1.1 say it.
    pub(super) keep_alive: Option<HeaderValue>,
    pub(super) warm: WarmConnections,
    /// Whether it has probes alone, and refuses all else because all workers are blocked.
    pub(super) is_spare: bool,
}

/// The requests of one connection, as hyper calls for their answers; a cheap handle.
#[derive(Clone)]
pub(super) struct Requests<S: LocalService> {
    pub(super) site: Rc<Site<S>>,
    pub(super) progress: Rc<ConnectionState>,
    pub(super) connection: Rc<ConnectionInfo>,
}

impl<S: LocalService> Requests<S> {
    /// Answers a request, which is in service from now on.
    pub(super) fn respond(
        &self,
        mut request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Sending<S::Chunks>>, Infallible>> + use<S> {
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
                let blocked = || this.site.service.blocked().map(Content::Whole);
                let refused = if is_blocked { blocked() } else { bare(status) };
                let (mut head, content) = refused.into_parts();
                if is_blocked {
                    head.status = status;
                    head.headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
                }
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
            let route = site.service.route(uri.path(), uri.query().unwrap_or_default());
            let answer = match route {
                // not in a function of its own, which would hold request and answer again
                Some(route) => {
                    let (head, body) = request.into_parts();
                    let body = RequestBody::new(body, progress.holds().taken(), &site.limits);
                    let body = Receiving::new(body, Rc::clone(&progress));
                    let arrived = Arrived { head, fields, body, connection };
                    site.service.call(arrived, route, &progress).await
                }
                None => {
                    let request = of_page(request, &progress, &connection, &site.limits);
                    site.answer_page(request).await
                }
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
                if progress.closing().is_some() || site.service.is_close_announced() {
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
    limits: &ServerLimits,
) -> Request<RequestBody> {
    if !request.body().is_end_stream() {
        progress.give_body();
    }
    let taken = progress.holds().taken();
    let mut request = request.map(|body| RequestBody::new(body, taken, limits));
    request.extensions_mut().insert(connection.peer);
    request
}

impl<S: LocalService> Site<S> {
    /// The service of tower for a path.
    fn page(&self, path: &str) -> Option<&Page> {
        self.pages.iter().find(|(page, _)| is_below(path, page)).map(|(_, page)| page)
    }

    async fn answer_page(&self, request: Request<RequestBody>) -> Response<Content<S::Chunks>> {
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

/// An answer of the server itself.
fn bare<C>(status: StatusCode) -> Response<Content<C>> {
    let mut response = Response::new(Content::Nothing);
    *response.status_mut() = status;
    response
}
