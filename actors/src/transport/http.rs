//! FutoIn messages over HTTP (FTN5): an actix-web service that an application mounts beside its
//! own routes.

use std::fmt;

use actix_web::dev::{AppService, HttpServiceFactory};
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use actix_web::web::{self, Bytes, BytesMut};
use actix_web::{HttpRequest, HttpResponse, Resource};
use futures_util::StreamExt;

use crate::channel::{Channel, ChannelKind};
use crate::executor::ExecutorHandle;
use crate::message::Request;

/// The media type of messages in JSON.
const FUTOIN_JSON: &str = "application/futoin+json";

/// The same with a vendor prefix; answered in kind.
const VENDOR_JSON: &str = "application/vnd.futoin+json";

/// Media types whose bodies are taken as JSON messages: ours, plain JSON, and what `curl -d` sends
/// when it is not told otherwise.
const ACCEPTED: [&str; 4] =
    [FUTOIN_JSON, VENDOR_JSON, "application/json", "application/x-www-form-urlencoded"];

/// The service: `App::new().service(FutoIn::new("/ftn/", executor))`.
///
/// It answers under its path with and without the trailing slash. For a client that disconnects
/// to cancel its request, build the server with `HttpServer::h1_allow_half_closed(false)`.
///
/// ```no_run
/// # use asyncsteps_actors::{executor::Executor, transport::http::FutoIn};
/// use actix_web::{App, HttpServer};
///
/// # #[actix_web::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let executor = Executor::builder().build()?;
/// HttpServer::new(move || App::new().service(FutoIn::new("/ftn/", executor.clone())))
///     .h1_allow_half_closed(false)
///     .bind("127.0.0.1:8080")?
///     .run()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FutoIn {
    path: String,
    executor: ExecutorHandle,
}

impl FutoIn {
    /// Serves an executor under a path such as `/ftn/`.
    #[must_use]
    pub fn new(path: &str, executor: ExecutorHandle) -> Self {
        Self { path: path.trim_end_matches('/').to_owned(), executor }
    }
}

impl fmt::Debug for FutoIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FutoIn").field("path", &self.path).finish_non_exhaustive()
    }
}

impl HttpServiceFactory for FutoIn {
    fn register(self, config: &mut AppService) {
        let executor = web::Data::new(self.executor);
        let resource = Resource::new([self.path.clone(), format!("{}/", self.path)])
            .app_data(executor)
            .route(web::post().to(message))
            .default_service(web::to(HttpResponse::MethodNotAllowed));
        resource.register(config);
    }
}

/// One message call.
async fn message(
    http: HttpRequest,
    payload: web::Payload,
    executor: web::Data<ExecutorHandle>,
) -> HttpResponse {
    let Some(answer_type) = answer_type(&http) else {
        return HttpResponse::UnsupportedMediaType().finish();
    };
    let body = read_body(&http, payload, executor.max_request_size());
    // the time of the flow begins later, so a slow sender has its own
    let body = match tokio::time::timeout(executor.request_timeout(), body).await {
        Ok(Ok(body)) => body,
        Ok(Err(status)) => return refuse(status),
        Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT),
    };
    let reply = match Request::parse(&body) {
        Ok(request) => executor.dispatch(request, channel(&http)).await,
        Err(refusal) => refusal.into(),
    };
    match reply.into_bytes() {
        Some(bytes) => HttpResponse::Ok().content_type(answer_type).body(bytes),
        None => HttpResponse::Ok().insert_header((CONTENT_LENGTH, 0)).finish(),
    }
}

/// The media type to answer with; `None` if the request's is a foreign one.
fn answer_type(http: &HttpRequest) -> Option<HeaderValue> {
    let Some(header) = http.headers().get(CONTENT_TYPE) else {
        return Some(HeaderValue::from_static(FUTOIN_JSON));
    };
    let full = header.to_str().ok()?;
    let media = full.split(';').next()?.trim();
    let accepted = ACCEPTED.iter().find(|accepted| media.eq_ignore_ascii_case(accepted))?;
    let own = if *accepted == VENDOR_JSON { VENDOR_JSON } else { FUTOIN_JSON };
    Some(HeaderValue::from_static(own))
}

/// The whole body, never more than `limit` bytes of it in memory.
async fn read_body(
    http: &HttpRequest,
    mut payload: web::Payload,
    limit: usize,
) -> Result<Bytes, StatusCode> {
    let length = http.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    if length > limit {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let mut body = BytesMut::with_capacity(length);
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|_| StatusCode::BAD_REQUEST)?;
        if body.len() + chunk.len() > limit {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// An answer that also ends the connection, because the rest of the body is not read.
fn refuse(status: StatusCode) -> HttpResponse {
    HttpResponse::build(status).force_close().finish()
}

fn channel(http: &HttpRequest) -> Channel {
    let secure = http.app_config().secure();
    Channel::new(ChannelKind::Http).with_secure(secure).with_peer(http.peer_addr())
}
