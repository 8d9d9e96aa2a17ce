//! What serves connections on one arbiter.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::net::{SocketAddr, TcpStream};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use actix_http::{Extensions, HttpService, Protocol, Request, Response};
use actix_service::{IntoServiceFactory, Service, ServiceFactory};
use actix_web::body::MessageBody;
use actix_web::dev::AppConfig;
use asyncsteps::Time;
use futures_util::future::{FutureExt, LocalBoxFuture};
use slab::Slab;
use tokio::sync::{mpsc, oneshot};

use super::app::Watched;
use super::connections::Connected;
use super::io::Io;
use super::progress::Progress;
use super::stream::Paced;
use super::tls::Handshakes;
use super::{NewConnection, ServerLimits};
use asyncsteps_actors::clock;

/// How long a connection is read from after an answer that came before the end of its request, so
/// that what is on its way does not reset it before the answer has arrived.
const LINGER: Duration = Duration::from_secs(1);

/// What a worker is told.
pub(super) enum Order {
    Serve(Accepted),
    /// Connections end as soon as they are answered.
    Close,
    /// They end now.
    End,
}

/// A connection that was made.
pub(super) struct Accepted {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    /// The place of its listener.
    pub(super) listener: usize,
    pub(super) connected: Connected,
}

/// What all connections of a listener share.
#[derive(Clone)]
pub(super) struct Listening {
    pub(super) local: SocketAddr,
    pub(super) handshakes: Option<Handshakes>,
}

/// A worker before it runs.
pub(super) struct Worker {
    pub(super) limits: ServerLimits,
    pub(super) listening: Vec<Listening>,
    pub(super) on_connect: Option<OnConnect>,
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
    /// Told when the application is there.
    pub(super) ready: oneshot::Sender<()>,
}

/// Told of each connection; what it adds is there for its requests.
pub(super) type OnConnect = Arc<dyn Fn(&NewConnection<'_>, &mut Extensions) + Send + Sync>;

/// Serves a connection, with the type of the application left out.
type Dispatch = Rc<dyn Fn(Paced<Io>, SocketAddr) -> LocalBoxFuture<'static, ()>>;

impl Worker {
    /// Serves connections until it is told to end.
    pub(super) async fn run<F, I, S, B>(mut self, app: F)
    where
        F: Fn() -> I,
        I: IntoServiceFactory<S, Request>,
        S: ServiceFactory<Request, Config = AppConfig> + 'static,
        S::Future: 'static,
        S::Response: Into<Response<B>> + 'static,
        S::Error: Into<actix_web::Error> + 'static,
        S::InitError: fmt::Debug,
        S::Service: 'static,
        <S::Service as Service<Request>>::Future: 'static,
        B: MessageBody + 'static,
    {
        let mut dispatches = Vec::new();
        for listening in &self.listening {
            let Some(dispatch) = self.dispatch(app().into_factory(), listening).await else {
                // the server is told by the end of `ready`
                return;
            };
            dispatches.push((dispatch, listening.handshakes.clone()));
        }
        // the server may have given up
        let _ = self.ready.send(());
        let running = Rc::<Running>::default();
        while let Some(order) = self.orders.recv().await {
            match order {
                Order::Serve(accepted) => {
                    if let Some((dispatch, handshakes)) = dispatches.get(accepted.listener) {
                        let progress = Progress::new();
                        let served = accepted.serve(
                            handshakes.clone(),
                            Rc::clone(dispatch),
                            Rc::clone(&progress),
                            self.limits,
                        );
                        actix_rt::spawn(Rc::clone(&running).run(progress, served));
                    }
                }
                Order::Close => running.change(State::Closing(clock::now())),
                Order::End => break,
            }
        }
        running.change(State::Ended);
    }

    async fn dispatch<S, B>(&self, app: S, listening: &Listening) -> Option<Dispatch>
    where
        S: ServiceFactory<Request, Config = AppConfig> + 'static,
        S::Future: 'static,
        S::Response: Into<Response<B>> + 'static,
        S::Error: Into<actix_web::Error> + 'static,
        S::InitError: fmt::Debug,
        S::Service: 'static,
        <S::Service as Service<Request>>::Future: 'static,
        B: MessageBody + 'static,
    {
        let Listening { local, handshakes } = listening;
        // nothing else tells an application that its connections are secure; actix-test does the same
        let config = AppConfig::__priv_test_new(handshakes.is_some(), local.to_string(), *local);
        let on_connect = self.on_connect.clone();
        let http = HttpService::build()
            .keep_alive(self.limits.keep_alive)
            .client_request_timeout(self.limits.head_timeout)
            .client_disconnect_timeout(LINGER)
            .h1_allow_half_closed(false)
            .local_addr(*local)
            .on_connect_ext(move |stream: &Paced<Io>, data: &mut Extensions| {
                data.insert(Rc::clone(stream.progress()));
                if let Some(on_connect) = &on_connect {
                    on_connect(&NewConnection { io: stream.io() }, data);
                }
            })
            .finish(Watched::new(app, config));
        let http = http.new_service(()).await.ok()?;
        Some(Rc::new(move |stream, peer| {
            let served = http.call((stream, Protocol::Http1, Some(peer)));
            let end = move |end| {
                if let Err(error) = end {
                    tracing::debug!(%peer, %error, "a connection broke");
                }
            };
            served.map(end).boxed_local()
        }))
    }
}

impl Accepted {
    async fn serve(
        self,
        handshakes: Option<Handshakes>,
        dispatch: Dispatch,
        progress: Rc<Progress>,
        limits: ServerLimits,
    ) {
        let Self { stream, peer, connected, .. } = self;
        // an answer is written as a whole: waiting for more of it would only delay it
        let stream =
            stream.set_nodelay(true).and_then(|()| actix_rt::net::TcpStream::from_std(stream));
        let io = match (stream, handshakes) {
            (Err(error), _) => Err(error),
            (Ok(stream), None) => Ok(Io::Plain(stream)),
            (Ok(stream), Some(handshakes)) => handshakes.shake(stream, connected.client()).await,
        };
        match io {
            Ok(io) => dispatch(Paced::new(io, progress, &limits), peer).await,
            Err(error) => tracing::debug!(%peer, %error, "a connection was not made"),
        }
        drop(connected);
    }
}

/// The connections of a worker, which it can close and end.
#[derive(Default)]
struct Running {
    state: Cell<State>,
    tasks: RefCell<Slab<Option<Waker>>>,
}

#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    Serving,
    /// Since when.
    Closing(Time),
    Ended,
}

impl Running {
    fn change(&self, state: State) {
        self.state.set(state);
        let tasks: Vec<Waker> =
            self.tasks.borrow().iter().filter_map(|(_, task)| task.clone()).collect();
        tasks.into_iter().for_each(Waker::wake);
    }

    /// Serves a connection until that ends or the worker does.
    async fn run(self: Rc<Self>, progress: Rc<Progress>, served: impl Future<Output = ()>) {
        let mut served = pin!(served);
        let place = self.tasks.borrow_mut().insert(None);
        poll_fn(|cx| {
            match self.state.get() {
                State::Serving => {}
                State::Closing(since) => progress.close(since),
                State::Ended => return Poll::Ready(()),
            }
            if let Some(task) = self.tasks.borrow_mut().get_mut(place)
                && !task.as_ref().is_some_and(|task| task.will_wake(cx.waker()))
            {
                *task = Some(cx.waker().clone());
            }
            served.as_mut().poll(cx)
        })
        .await;
        self.tasks.borrow_mut().remove(place);
    }
}
