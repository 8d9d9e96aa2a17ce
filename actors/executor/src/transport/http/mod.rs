//! FutoIn over HTTP (FTN5): an actix-web service that an application mounts beside its own routes.
//!
//! What it serves under its path, such as `/ftn/`:
//! - `POST /ftn/` with a message, in any coding;
//! - an upgrade to a [WebSocket](super::websocket) there;
//! - `GET` or `POST /ftn/{interface}/{version}/{function}[/{sec}]?name=value`, a function by its URL,
//!   with the raw data of an upload as the body;
//! - `GET /ftn/` with a page or a list of what is hosted, if [that is wanted](Service::publish_catalog).

mod body;
mod catalog;
mod cors;
mod origin;
mod reply;
mod server;

use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use actix_http::ConnectionType;
use actix_web::body::{BodySize, MessageBody};
use actix_web::dev::{AppService, HttpServiceFactory};
use actix_web::http::header::{
    ACCEPT, ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, TRANSFER_ENCODING, UPGRADE,
};
use actix_web::http::{Method, StatusCode, Version};
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse, Resource};
use asyncsteps::codes;
use asyncsteps_futoin::iface::{Function, FunctionName};
use asyncsteps_futoin::message::{Coding, MediaType, RefusedMessage, Request};
use asyncsteps_futoin::net::TrustedProxies;
use asyncsteps_futoin::url::FunctionUrl;

use super::headers::HttpHeaders;
use super::websocket::{self, WebSocketLimits};
use crate::channel::{Channel, ChannelKind};
use crate::executor::{Executor, Incoming, Refused, Reply, Way};
use crate::raw::RawInput;

pub use cors::Cors;
#[cfg(feature = "rustls")]
pub use server::{CertificateError, tls_from_pem};
pub use server::{NewConnection, Server, ServerLimits};

use body::{Body, BodyError, Rest};
use origin::Sites;

/// The service: `App::new().service(http::service("/ftn/", executor))`.
///
/// It answers under its path with and without the trailing slash. A [`Server`] is what to mount it
/// in. Under an `actix_web::HttpServer` of your own, set
/// - `tcp_nodelay(true)`: otherwise the second of two answers waits some 40 ms for the client's
///   acknowledgement of the first;
/// - `h1_allow_half_closed(false)`: otherwise a client that disconnects does not cancel its request;
///
/// and know that its connections have fewer limits than those of a [`Server`].
///
/// ```no_run
/// # use asyncsteps_executor::{Executor, transport::http};
/// use std::net::TcpListener;
/// use actix_web::App;
/// use asyncsteps_executor::transport::http::Server;
///
/// # #[actix_web::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let executor = Executor::builder().build()?;
/// let service = http::service("/ftn/", executor.clone());
/// Server::new(executor, move || App::new().service(service.clone()))
///     .listen(TcpListener::bind("127.0.0.1:8080")?)?
///     .run()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Service {
    path: String,
    end_point: EndPoint,
}

/// What the requests of a service share.
#[derive(Clone)]
struct EndPoint {
    executor: Executor,
    web_socket: WebSocketLimits,
    sites: Sites,
    get_calls: Option<GetCalls>,
    status_of: Option<StatusOf>,
    proxies: Arc<TrustedProxies>,
    secure: bool,
    publishes_catalog: bool,
}

/// The HTTP status of an error code.
type StatusOf = Arc<dyn Fn(&str) -> Option<u16> + Send + Sync>;

/// Which functions can be called with GET.
type GetCalls = Arc<dyn Fn(&FunctionName) -> bool + Send + Sync>;

/// Serves an executor under a path such as `/ftn/`; see [`Service`].
#[must_use]
pub fn service(path: &str, executor: Executor) -> Service {
    Service::new(path, executor)
}

impl Service {
    fn new(path: &str, executor: Executor) -> Self {
        let end_point = EndPoint {
            executor,
            web_socket: WebSocketLimits::default(),
            sites: Sites::default(),
            get_calls: None,
            status_of: None,
            proxies: Arc::default(),
            secure: false,
            publishes_catalog: false,
        };
        Self { path: path.trim_end_matches('/').to_owned(), end_point }
    }

    /// How WebSocket connections are watched and bounded; [`WebSocketLimits::default`] unless set.
    #[must_use]
    pub fn web_socket(mut self, limits: WebSocketLimits) -> Self {
        self.end_point.web_socket = limits;
        self
    }

    /// Lets pages of other sites call, over HTTP and WebSocket. Unless this is set only pages of the
    /// own site may: those whose `Origin` has the host and port of the request's `Host`. Other calls
    /// by pages are refused with 403 before anything runs, because a browser adds what it has to
    /// them: the network it is in, cookies, passwords. A proxy in front must pass `Host` on. Clients
    /// that are no browsers send no `Origin`, and are not concerned.
    #[must_use]
    pub fn cors(mut self, cors: Cors) -> Self {
        self.end_point.sites.cors = Some(Arc::new(cors));
        self
    }

    /// Serves requests for these host names only, such as `api.example.com` or `[::1]`, with any
    /// port; others are refused with 403. All unless set, because only the operator knows the names.
    ///
    /// It keeps out pages whose own name resolves to this machine (DNS rebinding): set it
    /// where the network alone decides who may call, such as on a developer's machine.
    #[must_use]
    pub fn allowed_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.end_point.sites.hosts = Some(hosts.into_iter().map(Into::into).collect());
        self
    }

    /// Which functions can be called with GET; all unless set, as FTN5 §2 has it. Others are answered
    /// with 405. Links, images and reloads make GET requests, so a function that changes something
    /// is better not among them.
    ///
    /// ```
    /// # use asyncsteps_executor::{Executor, transport::http};
    /// # let executor = Executor::builder().build()?;
    /// let service = http::service("/ftn/", executor)
    ///     .get_calls(|function| matches!(function.func(), "get" | "list" | "stock"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn get_calls(
        mut self,
        allowed: impl Fn(&FunctionName) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.end_point.get_calls = Some(Arc::new(allowed));
        self
    }

    /// The HTTP status of answers with an error, by its code, 400 to 599; `None` or another leaves 200,
    /// which all have unless this is set, because FutoIn clients expect it. With it load balancers and
    /// dashboards that look at the status see errors too.
    ///
    /// ```
    /// # use asyncsteps_executor::{Executor, transport::http};
    /// # let executor = Executor::builder().build()?;
    /// let service = http::service("/ftn/", executor).error_status(|code| match code {
    ///     "InternalError" => Some(500),
    ///     "DefenseRejected" => Some(503),
    ///     _ => None,
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn error_status(
        mut self,
        status_of: impl Fn(&str) -> Option<u16> + Send + Sync + 'static,
    ) -> Self {
        self.end_point.status_of = Some(Arc::new(status_of));
        self
    }

    /// Proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` count; none unless set.
    #[must_use]
    pub fn trusted_proxies(mut self, proxies: TrustedProxies) -> Self {
        self.end_point.proxies = Arc::new(proxies);
        self
    }

    /// Takes all channels as secure: for a service that only a proxy with TLS can reach.
    #[must_use]
    pub fn behind_tls_proxy(mut self) -> Self {
        self.end_point.secure = true;
        self
    }

    /// Answers `GET` at its path with the hosted interfaces, as a page or as JSON. Without it such a
    /// request is refused, because the answer shows private interfaces to everyone.
    #[must_use]
    pub fn publish_catalog(mut self) -> Self {
        self.end_point.publishes_catalog = true;
        self
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("path", &self.path).finish_non_exhaustive()
    }
}

impl HttpServiceFactory for Service {
    fn register(self, config: &mut AppService) {
        let Self { path, end_point } = self;
        // other threads can send calls to this arbiter from now on
        let _ = end_point.executor.address();
        // one resource each: two in one would be matched as patterns, which costs more than to serve
        for path in [path.clone(), format!("{path}/")] {
            let shared = end_point.clone();
            Resource::new(path)
                .to(move |http: HttpRequest, payload: Payload| {
                    let end_point = shared.clone();
                    async move { end_point.serve(&http, payload).await }
                })
                .register(config);
        }
        // an incomplete name is answered as one, if the application cannot have meant another path
        let iface = format!("{path}/{{iface:[a-z][a-z0-9]*(\\.[a-z][a-z0-9]*)+}}");
        let with_version = format!("{iface}/{{version}}");
        let function = format!("{path}/{{iface}}/{{version}}/{{function}}");
        let with_sec = format!("{function}/{{sec}}");
        let paths = [function, with_sec, iface, with_version];
        Resource::new(paths.map(|path| [path.clone(), format!("{path}/")]).concat())
            .to(move |http: HttpRequest, payload: Payload| {
                let end_point = end_point.clone();
                async move { end_point.serve_function(&http, payload).await }
            })
            .register(config);
    }
}

impl EndPoint {
    /// A request to the path itself.
    async fn serve(&self, http: &HttpRequest, payload: Payload) -> HttpResponse {
        let checked = self.sites.check(http);
        let is_upgrade = *http.method() == Method::GET && http.headers().contains_key(UPGRADE);
        if is_upgrade && checked.is_ok() {
            let channel = self.channel(http, ChannelKind::WebSocket);
            let (executor, limits) = (self.executor.clone(), self.web_socket);
            return websocket::upgrade(http, payload, executor, channel, limits);
        }
        let body = Body::new(http, payload);
        let rest = body.rest();
        let response = match (checked, http.method()) {
            (Err(why), _) => forbidden(why),
            (Ok(()), &Method::POST) => self.message(http, body).await,
            (Ok(()), &Method::GET) if self.publishes_catalog => {
                catalog::answer(&self.executor, header(http, &ACCEPT).unwrap_or_default())
            }
            (Ok(()), &Method::OPTIONS) if self.sites.cors.is_some() => {
                HttpResponse::NoContent().finish()
            }
            (Ok(()), _) => {
                method_not_allowed(if self.publishes_catalog { "GET, POST" } else { "POST" })
            }
        };
        self.finished(http, response, rest)
    }

    /// A request to a path below it.
    async fn serve_function(&self, http: &HttpRequest, payload: Payload) -> HttpResponse {
        let body = Body::new(http, payload);
        let rest = body.rest();
        let response = match (self.sites.check(http), http.method()) {
            (Err(why), _) => forbidden(why),
            (Ok(()), &Method::GET | &Method::POST) => self.function(http, body).await,
            (Ok(()), &Method::OPTIONS) if self.sites.cors.is_some() => {
                HttpResponse::NoContent().finish()
            }
            (Ok(()), _) => method_not_allowed("GET, POST"),
        };
        self.finished(http, response, rest)
    }

    /// A message call (FTN5 §2, use case 1).
    async fn message(&self, http: &HttpRequest, body: Body) -> HttpResponse {
        let Some(media) = MediaType::parse(header(http, &CONTENT_TYPE)) else {
            let text = "Unsupported media type";
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return reply::refusal(status, codes::INVALID_REQUEST, text);
        };
        let media = media.accepting(header(http, &ACCEPT));
        let channel = self.channel(http, ChannelKind::Http);
        let (limit, time) = (self.executor.max_request_size(), self.executor.request_timeout());
        let permit = match self.executor.admit(&channel).await {
            Ok(permit) => permit,
            Err(refused) => {
                body::skip(http, body, limit, time).await;
                return self.reply(Reply::refused(&refused, None, Coding::Json), media, &channel);
            }
        };
        let mut reservation = self.executor.reserve();
        let whole = body::read(http, body, limit, time, &mut reservation);
        let body = match whole.await {
            Ok(body) => body,
            Err(BodyError::Status(status)) => return refuse(status),
            Err(BodyError::NoRoom(error)) => {
                let refused = Refused::over_limit(&error);
                return self.reply(Reply::refused(&refused, None, Coding::Json), media, &channel);
            }
        };
        self.executor.trace_message(&body, Way::In, &channel);
        let size = body.len();
        let parsed = Request::parse(&body);
        // a request may wait for long, and what it says is in its parameters
        drop((body, reservation));
        let reply = match parsed {
            Ok(request) => {
                let incoming = incoming(http, request, channel.clone());
                self.executor.dispatch(incoming.with_size(size).with_client_permit(permit)).await
            }
            Err(refusal) => refusal.into(),
        };
        self.reply(reply, media, &channel)
    }

    /// A function by its URL (FTN5 §2, use cases 2 and 3).
    async fn function(&self, http: &HttpRequest, body: Body) -> HttpResponse {
        let Some(url) = FunctionUrl::parse(below(http), http.query_string()) else {
            return HttpResponse::NotFound().finish();
        };
        if let (&Method::GET, Some(allowed), Ok(url)) = (http.method(), &self.get_calls, &url)
            && !allowed(url.function())
        {
            return method_not_allowed("POST");
        }
        let media = MediaType::default().accepting(header(http, &ACCEPT));
        let channel = self.channel(http, ChannelKind::Http);
        let permit = match self.executor.admit(&channel).await {
            Ok(permit) => permit,
            Err(refused) => {
                return self.reply(Reply::refused(&refused, None, Coding::Json), media, &channel);
            }
        };
        let reply = match url {
            Ok(url) => {
                let (request, takes_raw) = self.request(url);
                let size = http.uri().path_and_query().map_or(0, |url| url.as_str().len());
                let input = (takes_raw || has_raw(http)).then(|| input(http, body));
                let incoming = incoming(http, request, channel.clone()).with_size(size);
                self.executor.dispatch(incoming.with_input(input).with_client_permit(permit)).await
            }
            Err(refusal) => RefusedMessage::from(refusal).into(),
        };
        self.reply(reply, media, &channel)
    }

    /// The request in a URL, and whether its function takes raw data.
    fn request(&self, url: FunctionUrl) -> (Request, bool) {
        let definition = self.executor.definition(url.function());
        let name = url.function().func().to_owned();
        let function = definition.as_ref().and_then(|definition| definition.function(&name));
        let takes_raw = function.is_some_and(Function::rawupload);
        (url.into_request(function), takes_raw)
    }

    fn reply(&self, reply: Reply, media: MediaType, channel: &Channel) -> HttpResponse {
        let status = |code: &str| {
            let status = StatusCode::from_u16(self.status_of.as_ref()?(code)?).ok()?;
            (status.is_client_error() || status.is_server_error()).then_some(status)
        };
        reply::response(reply, media, status, |message| {
            self.executor.trace_message(message, Way::Out, channel);
        })
    }

    /// The way this request came.
    fn channel(&self, http: &HttpRequest, kind: ChannelKind) -> Channel {
        let secure = self.secure || http.app_config().secure();
        let channel = match secure {
            true => Channel::new(kind).secured(),
            false => Channel::new(kind),
        };
        let Some(peer) = http.peer_addr() else { return channel };
        if !self.proxies.trusts(peer.ip()) {
            return channel.with_peer(peer);
        }
        let values = |name: &'static str| {
            let values = http.headers().get_all(HeaderName::from_static(name));
            values.filter_map(|value| value.to_str().ok()).collect::<Vec<_>>()
        };
        let client = self.proxies.client(peer.ip(), values("x-forwarded-for"));
        let client = if client == peer.ip() { peer } else { SocketAddr::new(client, 0) };
        // the nearest proxy wrote the last one
        let scheme = values("x-forwarded-proto");
        let scheme = scheme.last().and_then(|schemes| schemes.rsplit(',').next());
        let forwarded = scheme.is_some_and(|scheme| scheme.trim().eq_ignore_ascii_case("https"));
        let channel = if forwarded { channel.secured() } else { channel };
        channel.with_peer(client)
    }

    /// The same response with what any response has.
    fn finished(
        &self,
        http: &HttpRequest,
        mut response: HttpResponse,
        rest: Option<Rest>,
    ) -> HttpResponse {
        if let Some(cors) = &self.sites.cors {
            cors.mark(http, &mut response);
        }
        // HTTP/1.0 has no chunks: the end of the connection is the end of the body
        let ends_it =
            http.version() < Version::HTTP_11 && matches!(response.body().size(), BodySize::Stream);
        response.head_mut().no_chunking(ends_it);
        // while the executor closes, the next request belongs to another server; and a client whose
        // offer of another protocol is not taken must not believe that it was
        if ends_it || self.executor.is_closing() || http.head().upgrade() {
            response.head_mut().set_connection_type(ConnectionType::Close);
        }
        match rest {
            Some(rest) => rest.keep(response),
            None => response,
        }
    }
}

/// A request with what its HTTP request says beside it.
fn incoming(http: &HttpRequest, request: Request, channel: Channel) -> Incoming {
    let headers = http.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
    let held = headers.sum::<usize>() + http.uri().path().len() + http.query_string().len();
    let headers = HttpHeaders::new(http);
    let credentials = headers.credentials();
    Incoming::new(request, channel)
        .with_credentials(credentials)
        .with_headers(Rc::new(headers))
        .with_transport_memory(held)
}

fn header<'a>(http: &'a HttpRequest, name: &HeaderName) -> Option<&'a str> {
    http.headers().get(name).and_then(|value| value.to_str().ok())
}

/// The part of the path that names a function, as the client sent it: its last parts, as many as
/// were matched.
fn below(http: &HttpRequest) -> &str {
    let path = http.uri().path();
    let is_matched = |name: &&str| http.match_info().get(name).is_some();
    let parts =
        ["iface", "version", "function", "sec"].iter().filter(|name| is_matched(name)).count();
    let trimmed = path.strip_suffix('/').unwrap_or(path);
    let slashes = trimmed.rmatch_indices('/');
    slashes.take(parts).last().map_or(path, |(at, _)| &path[at..])
}

/// Whether a request has raw data, be it empty.
fn has_raw(http: &HttpRequest) -> bool {
    let is_raw = |media: &str| media.starts_with("application/octet-stream");
    http.headers().contains_key(TRANSFER_ENCODING)
        || length(http).is_some_and(|length| length > 0)
        || header(http, &CONTENT_TYPE).is_some_and(is_raw)
}

/// The raw data of a request.
fn input(http: &HttpRequest, body: Body) -> RawInput {
    RawInput::new(body::Chunks(body))
        .with_content_type(header(http, &CONTENT_TYPE).map(str::to_owned))
        .with_length(length(http))
}

fn length(http: &HttpRequest) -> Option<u64> {
    header(http, &CONTENT_LENGTH).and_then(|length| length.parse().ok())
}

/// The answer to a call that the page it comes from may not make.
fn forbidden(why: &str) -> HttpResponse {
    tracing::debug!(why, "a request is refused");
    reply::refusal(StatusCode::FORBIDDEN, codes::SECURITY_ERROR, why)
}

fn method_not_allowed(allowed: &'static str) -> HttpResponse {
    HttpResponse::MethodNotAllowed().insert_header((ALLOW, allowed)).finish()
}

/// An answer that also ends the connection, because its body is not read to the end.
fn refuse(status: StatusCode) -> HttpResponse {
    HttpResponse::build(status).force_close().finish()
}
