//! The service inside of an actix-web application.

mod head;
mod page;
mod upload;

use std::convert::Infallible;
use std::io;
use std::rc::Rc;

use actix_web::body::{BodyStream, BoxBody};
use actix_web::dev::{AppService, HttpServiceFactory};
use actix_web::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use actix_web::http::{ConnectionType, StatusCode, Version};
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse, Resource};
use futures_util::{StreamExt as _, TryStreamExt as _};
#[cfg(feature = "mcp")]
use http_body_util::BodyDataStream;

use super::answer::AnswerBody;
use super::end_point::{EndPoint, Route};
use super::head::RequestHead;
use super::{MESSAGE, Service};
use asyncsteps_executor::observe::{Protocol, Traffic};

pub(super) use head::MountedHead;
pub use page::page;
pub(super) use upload::Upload;

use upload::Rest;

/// Mounts it in an actix-web application, whose `HttpServer` serves it then. Set there
/// - `tcp_nodelay(true)`: otherwise the second of two answers waits some 40 ms for the client's
///   acknowledgement of the first;
/// - `h1_allow_half_closed(false)`: otherwise a client that disconnects does not cancel its request;
///
/// and know what it does not limit:
/// - how slowly a body comes or an answer is taken, and the heads after the first one;
/// - the connections of one client;
/// - requests that are sent ahead of answers: the requests that it has read take many times their
///   size in memory;
/// - requests that HTTP/2 clients cancel.
///
/// [Close the executor](asyncsteps_executor::Executor::close) before that server stops: WebSockets are notified
/// then (1001).
///
/// ```no_run
/// use actix_web::{App, HttpServer};
/// use asyncsteps_executor::Executor;
/// use asyncsteps_transport::http;
///
/// # #[actix_web::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let executor = Executor::builder().build()?;
/// let service = http::service("/ftn/", executor);
/// HttpServer::new(move || App::new().service(service.clone()))
///     .tcp_nodelay(true)
///     .h1_allow_half_closed(false)
///     .bind("127.0.0.1:8080")?
///     .run()
///     .await?;
/// # Ok(())
/// # }
/// ```
impl HttpServiceFactory for Service {
    fn register(self, config: &mut AppService) {
        let Self { path, end_point, .. } = self;
        // other threads can send calls to this arbiter from now on
        let _ = end_point.executor.address();
        let traffic = end_point.executor.traffic();
        // one resource each: two in one would be matched as patterns, which costs more than to serve
        let root: fn() -> Route = || Route::Root;
        let paths = [path.clone(), format!("{path}/")].map(|path| (path, root)).into_iter();
        #[cfg(feature = "mcp")]
        let paths = {
            let tools: fn() -> Route = || Route::Mcp;
            paths.chain(end_point.mcp.iter().map(move |mcp| (mcp.path.to_string(), tools)))
        };
        for (path, route) in paths {
            let (shared, traffic) = (end_point.clone(), traffic.clone());
            Resource::new(path)
                .to(move |http: HttpRequest, payload: Payload| {
                    let (end_point, traffic) = (shared.clone(), traffic.clone());
                    async move {
                        let route = Some(route());
                        serve(&end_point, &traffic, &http, payload, route).await
                    }
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
                let (end_point, traffic) = (end_point.clone(), traffic.clone());
                async move {
                    let route = Route::of(below(&http), http.query_string(), "");
                    serve(&end_point, &traffic, &http, payload, route).await
                }
            })
            .register(config);
    }
}

async fn serve(
    end_point: &EndPoint,
    traffic: &Traffic,
    http: &HttpRequest,
    payload: Payload,
    route: Option<Route>,
) -> HttpResponse {
    let Some(route) = route else { return HttpResponse::NotFound().finish() };
    let head = Rc::new(RequestHead::from(MountedHead::new(http)));
    let upload = Upload::new(&head, payload);
    let rest = upload.rest();
    let answer = end_point.serve(head, route, upload.into()).await;
    let (head, body) = answer.into_parts();
    let mut response = HttpResponse::new(status(head.status));
    for (name, value) in &head.headers {
        if name == http::header::CONNECTION {
            if value == "close" {
                response.head_mut().set_connection_type(ConnectionType::Close);
            }
        } else if let Some((name, value)) = field(name, value) {
            response.headers_mut().append(name, value);
        }
    }
    let response = match body {
        AnswerBody::Whole(bytes) => response.set_body(BoxBody::new(bytes)),
        AnswerBody::Raw(body) => {
            // HTTP/1.0 has no chunks: the end of the connection is the end of the body
            let ends_it = http.version() < Version::HTTP_11;
            response.head_mut().no_chunking(ends_it);
            if ends_it {
                response.head_mut().set_connection_type(ConnectionType::Close);
            }
            response.set_body(BoxBody::new(BodyStream::new(body)))
        }
        #[cfg(feature = "mcp")]
        AnswerBody::Page(body) => {
            let chunks = BodyDataStream::new(body).map_err(io::Error::other);
            response.set_body(BoxBody::new(BodyStream::new(chunks)))
        }
        AnswerBody::WebSocket(socket) => {
            let Some(payload) = rest.and_then(Rest::into_payload) else {
                return HttpResponse::InternalServerError().finish();
            };
            response.head_mut().set_connection_type(ConnectionType::Upgrade);
            let open = traffic.open(Protocol::WebSocket);
            // errors of payloads may not leave their thread
            let input = payload.map_err(|error| io::Error::other(error.to_string()));
            let body = socket.serve_chunks(input, open).map(Ok::<_, Infallible>);
            return response.set_body(BoxBody::new(BodyStream::new(body)));
        }
    };
    match rest {
        Some(rest) => rest.keep(response),
        None => response,
    }
}

/// The same field in the types of actix-web. Most answers have one, which is known.
fn field(name: &http::HeaderName, value: &http::HeaderValue) -> Option<(HeaderName, HeaderValue)> {
    if name == http::header::CONTENT_TYPE && value == MESSAGE {
        const MEDIA: HeaderValue = HeaderValue::from_static(MESSAGE);
        return Some((CONTENT_TYPE, MEDIA));
    }
    let name = HeaderName::from_bytes(name.as_ref()).ok()?;
    Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
}

/// The same status in the type of actix-web.
fn status(status: http::StatusCode) -> StatusCode {
    StatusCode::from_u16(status.as_u16()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
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
