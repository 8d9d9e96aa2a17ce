//! Services of tower by their paths, with their types left out.

use std::convert::Infallible;
use std::future::{poll_fn, ready};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{io, thread};

use asyncsteps_budget::{Budget, Client, Holding};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::Empty;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::connection_state::ConnectionState;
use super::request_body::RequestBody;
use super::sending::{BoxError, Content, PageBody};
use super::service::{Arrived, LocalService, Threads};

/// A service for a path.
pub(super) type Page = Box<dyn Fn(Request<RequestBody>) -> LocalBoxFuture<'static, PageAnswer>>;

type PageAnswer = Result<Response<PageBody>, BoxError>;

/// Clones a service, for another worker.
pub(super) type MakePage = Box<dyn Fn() -> PageOf>;

/// Makes an [`Page`] of a service, on its worker.
pub(super) type PageOf = Box<dyn FnOnce() -> Page + Send>;

/// A service of [tower](https://docs.rs/tower), such as a router of axum: any that takes a request with a
/// [`RequestBody`] and answers with a body of [`Bytes`]. Each worker has a clone of it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be served",
    label = "no service of tower for requests with a `RequestBody`",
    note = "it is `tower::Service<http::Request<RequestBody>, Response = http::Response<B>> + Clone + Send + 'static`"
)]
pub trait PageService {
    #[doc(hidden)]
    fn make_page(self) -> MakePage;
}

impl<S, B> PageService for S
where
    S: tower_service::Service<Request<RequestBody>, Response = Response<B>>
        + Clone
        + Send
        + 'static,
    S::Error: Into<BoxError>,
    S::Future: 'static,
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<BoxError>,
{
    fn make_page(self) -> MakePage {
        Box::new(move || {
            let service = self.clone();
            Box::new(move || Box::new(move |request| call(service.clone(), request).boxed_local()))
        })
    }
}

async fn call<S, B>(mut service: S, request: Request<RequestBody>) -> PageAnswer
where
    S: tower_service::Service<Request<RequestBody>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<BoxError>,
{
    poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
    let response = service.call(request).await.map_err(Into::into)?;
    Ok(response.map(|body| Box::pin(AnyError { body }) as PageBody))
}

pin_project! {
    /// A body whose error has its type left out.
    struct AnyError<B> {
        #[pin]
        body: B,
    }
}

impl<B: Body<Error: Into<BoxError>>> Body for AnyError<B> {
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        self.project().body.poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What a server of tower's services serves beside them: nothing. It bounds their connections.
#[derive(Clone, Debug)]
pub struct Pages {
    pub(super) budget: Budget,
    is_close_announced: Arc<AtomicBool>,
}

impl Pages {
    pub(super) fn new(budget: Budget) -> Self {
        Self { budget, is_close_announced: Arc::default() }
    }
}

impl LocalService for Pages {
    type Route = Infallible;
    type Chunks = Empty<Result<Bytes, Infallible>>;
    type Traffic = ();
    type Threads = OwnThreads;
    type Closed = ();

    fn threads(&self, workers: NonZeroUsize) -> io::Result<OwnThreads> {
        (0..=workers.get()).map(|_| start()).collect::<io::Result<_>>().map(OwnThreads)
    }

    fn traffic(&self) {}

    fn hold(&self, client: &Client) -> Holding {
        self.budget.hold(client)
    }

    fn route(&self, _: &str, _: &str) -> Option<Infallible> {
        None
    }

    async fn call(
        &self,
        _: Arrived,
        route: Infallible,
        _: &ConnectionState,
    ) -> Response<Content<Self::Chunks>> {
        match route {}
    }

    fn announce_close(&self) {
        self.is_close_announced.store(true, Ordering::Relaxed);
    }

    fn is_close_announced(&self) -> bool {
        self.is_close_announced.load(Ordering::Relaxed)
    }

    fn close(&self, _: Duration) -> impl Future<Output = ()> {
        ready(())
    }

    fn end(&self, _: OwnThreads, _: Duration) -> impl Future<Output = ()> {
        ready(())
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// Threads of a server alone.
#[derive(Debug)]
pub struct OwnThreads(Vec<mpsc::UnboundedSender<Work>>);

impl Threads for OwnThreads {
    fn run(&self, thread: usize, work: Work) {
        // one that is gone does nothing
        let _ = self.0[thread].send(work);
    }
}

/// Starts a thread, which ends with its sender.
fn start() -> io::Result<mpsc::UnboundedSender<Work>> {
    let (sender, mut works) = mpsc::unbounded_channel::<Work>();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("server".to_owned()).spawn(move || {
        let run = async move {
            while let Some(work) = works.recv().await {
                work();
            }
        };
        LocalSet::new().block_on(&runtime, run);
    })?;
    Ok(sender)
}
