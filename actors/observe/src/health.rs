//! Liveness and readiness over HTTP, beside the functions: as pages of the server, or as routes of a router.
//!
//! What is answered is in [`asyncsteps_executor::health`].

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tower_service::Service;

use asyncsteps_executor::Executor;
use asyncsteps_executor::health::NotReady;

/// Answers `GET /health` and `GET /ready` about an executor, and anything else with 404.
#[must_use]
pub fn service(executor: &Executor) -> HealthService {
    HealthService(executor.clone())
}

/// Answers `GET /health` and `GET /ready`; see [`service`].
#[derive(Clone, Debug)]
pub struct HealthService(Executor);

/// The question of a probe.
#[derive(Clone, Copy)]
enum Probe {
    Liveness,
    Readiness,
}

impl HealthService {
    /// The paths that it answers.
    pub const PATHS: [&str; 2] = ["/health", "/ready"];

    async fn answer(self, probe: Probe) -> (bool, Value) {
        match probe {
            Probe::Liveness => {
                let is_alive = self.0.is_alive().await;
                let body = match is_alive {
                    true => json!({ "alive": true }),
                    false => {
                        json!({ "alive": false, "reasons": [NotReady::ArbiterStuck.as_str()] })
                    }
                };
                (is_alive, body)
            }
            Probe::Readiness => {
                let readiness = self.0.readiness().await;
                let reasons: Vec<&str> =
                    readiness.reasons.iter().map(|reason| reason.as_str()).collect();
                let mut body = json!({ "ready": readiness.is_ready, "reasons": reasons });
                if !readiness.faults.is_empty() {
                    body["faults"] = readiness.faults.into();
                }
                (readiness.is_ready, body)
            }
        }
    }
}

impl<B> Service<Request<B>> for HealthService {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<String>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let this = self.clone();
        let [health, ready] = Self::PATHS;
        let probe = match request.uri().path() {
            path if path == health => Some(Probe::Liveness),
            path if path == ready => Some(Probe::Readiness),
            _ => None,
        };
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        Box::pin(async move {
            let mut response = Response::new(String::new());
            let headers = response.headers_mut();
            *response.status_mut() = match probe {
                None => StatusCode::NOT_FOUND,
                Some(_) if !is_read => {
                    headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
                    StatusCode::METHOD_NOT_ALLOWED
                }
                Some(probe) => {
                    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                    let (is_well, body) = this.answer(probe).await;
                    *response.body_mut() = body.to_string();
                    if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
                }
            };
            Ok(response)
        })
    }
}
