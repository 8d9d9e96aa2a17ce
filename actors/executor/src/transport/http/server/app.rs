//! The application as the dispatcher calls it: the connection learns when a request begins and when
//! it is answered.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use actix_http::{Request, Response};
use actix_service::{Service, ServiceFactory};
use actix_web::HttpResponse;
use actix_web::body::{BodySize, MessageBody};
use actix_web::dev::AppConfig;
use actix_web::web::Bytes;
use futures_util::future::{FutureExt, LocalBoxFuture};
use pin_project_lite::pin_project;

use super::progress::{InService, Progress};

/// An application whose requests are watched.
pub(super) struct Watched<S, B> {
    app: S,
    config: AppConfig,
    body: PhantomData<B>,
}

impl<S, B> Watched<S, B> {
    pub(super) fn new(app: S, config: AppConfig) -> Self {
        Self { app, config, body: PhantomData }
    }
}

impl<S, B> ServiceFactory<Request> for Watched<S, B>
where
    S: ServiceFactory<Request, Config = AppConfig>,
    S::Future: 'static,
    S::Response: Into<Response<B>>,
    S::Error: Into<actix_web::Error>,
    S::InitError: fmt::Debug,
    S::Service: 'static,
    B: MessageBody + 'static,
{
    type Response = Response<WatchedBody<B>>;
    type Error = HttpResponse;
    type Config = ();
    type Service = WatchedService<S::Service, B>;
    type InitError = S::InitError;
    type Future = LocalBoxFuture<'static, Result<Self::Service, S::InitError>>;

    fn new_service(&self, (): ()) -> Self::Future {
        let made = self.app.new_service(self.config.clone());
        made.map(|made| made.map(|app| WatchedService { app, body: PhantomData })).boxed_local()
    }
}

/// The same at work.
pub(super) struct WatchedService<S, B> {
    app: S,
    body: PhantomData<B>,
}

impl<S, B> Service<Request> for WatchedService<S, B>
where
    S: Service<Request>,
    S::Response: Into<Response<B>>,
    S::Error: Into<actix_web::Error>,
    B: MessageBody,
{
    type Response = Response<WatchedBody<B>>;
    type Error = HttpResponse;
    type Future = WatchedCall<S::Future, B>;

    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.app.poll_ready(cx).map_err(refused)
    }

    fn call(&self, mut request: Request) -> Self::Future {
        let progress = request.conn_data::<Rc<Progress>>().map(Rc::clone);
        let in_service = progress.map(|progress| progress.begin(&mut request));
        WatchedCall { call: self.app.call(request), in_service, body: PhantomData }
    }
}

pin_project! {
    /// A request in service.
    pub(super) struct WatchedCall<F, B> {
        #[pin]
        call: F,
        in_service: Option<InService>,
        body: PhantomData<B>,
    }
}

impl<F, B, R, E> Future for WatchedCall<F, B>
where
    F: Future<Output = Result<R, E>>,
    R: Into<Response<B>>,
    E: Into<actix_web::Error>,
{
    type Output = Result<Response<WatchedBody<B>>, HttpResponse>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let called = ready!(this.call.poll(cx));
        let in_service = this.in_service.take();
        Poll::Ready(match called {
            Ok(response) => Ok(response
                .into()
                .map_body(|_, body| WatchedBody { body, _in_service: in_service })),
            Err(error) => Err(refused(error)),
        })
    }
}

fn refused(error: impl Into<actix_web::Error>) -> HttpResponse {
    error.into().error_response()
}

pin_project! {
    /// The body of an answer; the request is in service until it is sent.
    pub(super) struct WatchedBody<B> {
        #[pin]
        body: B,
        _in_service: Option<InService>,
    }
}

impl<B: MessageBody> MessageBody for WatchedBody<B> {
    type Error = B::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, B::Error>>> {
        self.project().body.poll_next(cx)
    }
}
