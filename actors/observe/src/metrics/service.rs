//! The figures over HTTP.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use tower_service::Service;

use super::Metrics;

/// The path of the figures.
const PATH: &str = "/metrics";

/// The media type of OpenMetrics.
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

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
                    *response.body_mut() = metrics.scrape().await.into();
                    response.headers_mut().insert(CONTENT_TYPE, OPEN_METRICS);
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
