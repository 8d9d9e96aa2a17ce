//! What is served beside the functions: figures for Prometheus, probes, and the console.

use std::convert::Infallible;

use asyncsteps_console::{Console, ConsoleBody};
use asyncsteps_executor::Executor;
use asyncsteps_executor::health::{self, HealthService};
use asyncsteps_executor::metrics::Metrics;
use futures_util::future::BoxFuture;
use http_body_util::{Either, Full};
use hyper::body::Bytes;
use hyper::{Request, Response};
use tower::{Service, ServiceExt as _};

/// The services beside the functions. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    metrics: Metrics,
    health: HealthService,
    console: Option<Console>,
}

type Page = Response<Either<Full<Bytes>, ConsoleBody>>;

impl Pages {
    /// The paths, as actix-web writes them.
    pub(crate) const PATHS: [&str; 5] =
        ["/metrics", "/health", "/ready", "/console", "/console/{path:.*}"];

    pub(crate) fn new(executor: &Executor, metrics: Metrics, console: Option<Console>) -> Self {
        Self { metrics, health: health::service(executor), console }
    }

    /// One service for all of the paths.
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
        let path = request.uri().path();
        match self.console {
            Some(console) if path.starts_with("/console") => {
                Ok(console.service().oneshot(request).await?.map(Either::Right))
            }
            _ if HealthService::PATHS.contains(&path) => {
                Ok(self.health.oneshot(request).await?.map(|text| Either::Left(text.into())))
            }
            _ => Ok(self.metrics.service().oneshot(request).await?.map(Either::Left)),
        }
    }
}
