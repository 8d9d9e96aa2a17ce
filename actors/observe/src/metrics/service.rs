//! The figures over HTTP.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use tower_service::Service;

use super::Metrics;

/// The path of the figures.
const PATH: &str = "/metrics";

/// The media type of OpenMetrics.
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// The media type of the older format.
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Answers `GET /metrics`; see [`Metrics::service`].
#[derive(Clone, Debug)]
pub struct MetricsService(pub(super) Metrics);

impl<B> Service<Request<B>> for MetricsService {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let metrics = self.0.clone();
        let is_plain = !takes_open_metrics(request.headers());
        let status = match (request.uri().path(), request.method()) {
            (PATH, &Method::GET | &Method::HEAD) => StatusCode::OK,
            (PATH, _) => StatusCode::METHOD_NOT_ALLOWED,
            _ => StatusCode::NOT_FOUND,
        };
        Box::pin(async move {
            let mut response = Response::new(Full::default());
            *response.status_mut() = status;
            match status {
                StatusCode::OK => {
                    *response.body_mut() = metrics.scrape(is_plain).await.into();
                    let kind = if is_plain { PLAIN } else { OPEN_METRICS };
                    response.headers_mut().insert(CONTENT_TYPE, kind);
                    response.headers_mut().insert(VARY, ACCEPT.into());
                }
                StatusCode::METHOD_NOT_ALLOWED => {
                    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
                }
                _ => {}
            }
            Ok(response)
        })
    }
}

/// Whether the client names OpenMetrics among what it accepts.
fn takes_open_metrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| {
        let mut parts = kind.split(';').map(str::trim);
        let is_named = parts.next() == Some("application/openmetrics-text");
        let is_refused = |part: &str| {
            part.strip_prefix("q=").is_some_and(|q| q.parse().is_ok_and(|q: f32| q <= 0.0))
        };
        is_named && !parts.any(is_refused)
    })
}
