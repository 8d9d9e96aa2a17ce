//! The service inside of an actix-web application.

mod page;
pub(super) mod upload;

use std::rc::Rc;

use actix_http::ConnectionType;
use actix_web::body::{BodyStream, BoxBody};
use actix_web::dev::{AppService, HttpServiceFactory};
use actix_web::http::header::{CONNECTION, HeaderName, HeaderValue};
use actix_web::http::{StatusCode, Version};
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse, Resource};

use super::Service;
use super::answer::AnswerBody;
use super::body::Body;
use super::end_point::{EndPoint, Route};
use super::head::RequestHead;
use asyncsteps_executor::observe::{Protocol, Traffic};

pub use page::page;

use upload::{Rest, Upload};

impl HttpServiceFactory for Service {
    fn register(self, config: &mut AppService) {
        let Self { path, end_point } = self;
        // other threads can send calls to this arbiter from now on
        let _ = end_point.executor.address();
        let traffic = end_point.executor.traffic();
        // one resource each: two in one would be matched as patterns, which costs more than to serve
        for path in [path.clone(), format!("{path}/")] {
            let (shared, traffic) = (end_point.clone(), traffic.clone());
            Resource::new(path)
                .to(move |http: HttpRequest, payload: Payload| {
                    let (end_point, traffic) = (shared.clone(), traffic.clone());
                    async move {
                        let route = Some(Route::Root);
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
    let upload = Upload::new(http, payload);
    let rest = upload.rest();
    let head = Rc::new(RequestHead::mounted(http));
    let answer = end_point.serve(head, route, Body::Mounted(upload)).await;
    let (head, body) = answer.into_parts();
    let mut response = HttpResponse::new(status(head.status));
    for (name, value) in &head.headers {
        let name = HeaderName::from_bytes(name.as_ref());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
            response.headers_mut().append(name, value);
        }
    }
    let ends_connection = response.headers_mut().remove(CONNECTION).any(|value| value == "close");
    if ends_connection {
        response.head_mut().set_connection_type(ConnectionType::Close);
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
        AnswerBody::WebSocket(socket) => {
            let Some(payload) = rest.and_then(Rest::into_payload) else {
                return HttpResponse::InternalServerError().finish();
            };
            response.head_mut().set_connection_type(ConnectionType::Upgrade);
            let open = traffic.open(Protocol::WebSocket);
            let body = socket.serve_payload(payload.into_inner(), open);
            return response.set_body(BoxBody::new(BodyStream::new(body)));
        }
    };
    match rest {
        Some(rest) => rest.keep(response),
        None => response,
    }
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
