//! The pages in addition to the functions: figures for Prometheus, probes, the console, and the OpenAPI
//! document with Swagger UI.

use std::convert::Infallible;
use std::sync::Arc;

use asyncsteps::Executor;
use asyncsteps::console::{Console, ConsoleBody};
use asyncsteps::health::{self, HealthService};
use asyncsteps::http::{self, OpenApi};
use asyncsteps::metrics::Metrics;
use futures_util::future::BoxFuture;
use http_body_util::{Either, Full};
use hyper::body::Bytes;
use hyper::header::HOST;
use hyper::http::uri::Authority;
use hyper::{Request, Response, StatusCode};
use tower::{Service, ServiceExt as _};

use crate::docs;

/// The services in addition to the functions. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    metrics: Metrics,
    health: HealthService,
    console: Option<Console>,
    openapi: Option<OpenApi>,
    /// The host names under which figures and documents are served; all unless set.
    hosts: Option<Arc<[String]>>,
}

type Page = Response<Either<Full<Bytes>, ConsoleBody>>;

impl Pages {
    pub(crate) fn new(executor: &Executor, metrics: Metrics, console: Option<Console>) -> Self {
        Self { metrics, health: health::service(executor), console, openapi: None, hosts: None }
    }

    /// Describes this service, and serves that and the figures for requests with these host names only, if
    /// there are some, so that no page of another site can read them under a name of its own. Probes are answered under all names, because
    /// they name a machine by its address and learn no more than that it works; the console checks its
    /// requests itself.
    pub(crate) fn beside(self, service: &http::Service, hosts: Option<Vec<String>>) -> Self {
        Self { openapi: Some(docs::openapi(service)), hosts: hosts.map(Into::into), ..self }
    }

    /// What answers probes.
    pub(crate) fn health(&self) -> HealthService {
        self.health.clone()
    }

    /// One service for all of the other paths.
    pub(crate) fn service<B: Send + 'static>(
        &self,
    ) -> impl Service<
        Request<B>,
        Response = Page,
        Error = Infallible,
        Future = BoxFuture<'static, Result<Page, Infallible>>,
    > + Clone
    + Send
    + use<B> {
        let pages = self.clone();
        tower::service_fn(move |request| {
            let answer: BoxFuture<'static, _> = Box::pin(pages.clone().answer(request));
            answer
        })
    }

    async fn answer<B>(self, request: Request<B>) -> Result<Page, Infallible> {
        let (path, is_for_host) = (request.uri().path(), self.is_for_host(&request));
        match (self.console, self.openapi) {
            (Some(console), _) if path.starts_with("/console") => {
                Ok(console.service().oneshot(request).await?.map(Either::Right))
            }
            _ if !is_for_host => Ok(foreign()),
            _ if path.starts_with("/docs") || path == "/" => {
                Ok(docs::file(request.method(), path).map(Either::Left))
            }
            (_, Some(openapi)) if path == "/openapi.json" => {
                Ok(openapi.oneshot(request).await?.map(|text| Either::Left(text.into())))
            }
            _ => Ok(self.metrics.service().oneshot(request).await?.map(Either::Left)),
        }
    }

    fn is_for_host<B>(&self, request: &Request<B>) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        authority(request)
            .is_some_and(|own| hosts.iter().any(|it| it.eq_ignore_ascii_case(own.host())))
    }
}

/// The host that a request is for: the authority of its target, else its `Host` (RFC 9112 §3.2).
fn authority<B>(request: &Request<B>) -> Option<Authority> {
    let header = || request.headers().get(HOST)?.to_str().ok()?.parse().ok();
    request.uri().authority().cloned().or_else(header)
}

/// The answer to a request with a host name that is not served, the same as for the functions.
fn foreign() -> Page {
    let mut answer = Response::new(Either::Left("Host is not allowed".into()));
    *answer.status_mut() = StatusCode::FORBIDDEN;
    answer
}
