//! A server for actix-web applications that keeps its limits whatever its clients do.

mod accept;
mod app;
#[cfg(feature = "rustls")]
mod certificate;
mod connections;
mod framing;
mod io;
mod limits;
mod new_connection;
mod patience;
mod progress;
mod stream;
#[cfg(feature = "rustls")]
mod tls;
#[cfg(not(feature = "rustls"))]
#[path = "no_tls.rs"]
mod tls;
mod worker;

use std::fmt;
use std::io::{Error, Result};
use std::net::TcpListener;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use actix_http::{Extensions, Request, Response};
use actix_service::{IntoServiceFactory, Service, ServiceFactory};
use actix_web::body::MessageBody;
use actix_web::dev::AppConfig;
use asyncsteps_actors::pool::ArbiterPool;
use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::executor::{Closed, Executor};

#[cfg(feature = "rustls")]
pub use certificate::{CertificateError, tls_from_pem};
pub use limits::ServerLimits;
pub use new_connection::NewConnection;

use accept::{Acceptor, Listener};
use connections::Connections;
use tls::Handshakes;
use worker::{Listening, OnConnect, Order, Worker};

/// How long requests in flight may take when the server stops, unless it is set: as long as a
/// container is given to stop.
const GRACE: Duration = Duration::from_secs(10);

/// How long answers may take to be sent after the last request ended.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Serves an actix-web application, with [`Service`](super::Service) and routes of its own, over HTTP/1.
///
/// Use it in place of `actix_web::HttpServer`, whose connections may read without limit what clients
/// send ahead of their answers, and stay for ever when clients stop in the middle of a request or do
/// not read. Here:
/// - connections are limited, in all and of each client ([`ServerLimits`]);
/// - a connection reads no further than the request that is answered, and each head, body and answer
///   has a time limit;
/// - `TCP_NODELAY` is set: otherwise the second of two answers waits some 40 ms for the client's
///   acknowledgement of the first;
/// - a client that disconnects cancels its request;
/// - when it stops, it takes what has arrived, refuses new connections, and closes each connection
///   with its last answer.
///
/// ```no_run
/// use std::net::TcpListener;
/// use actix_web::{App, HttpResponse, web};
/// use asyncsteps_executor::Executor;
/// use asyncsteps_executor::transport::http::{self, Server};
///
/// # #[actix_web::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let executor = Executor::builder().build()?;
/// let service = http::service("/ftn/", executor.clone());
/// let app = move || {
///     App::new()
///         .service(service.clone())
///         .route("/health", web::get().to(HttpResponse::Ok))
/// };
/// Server::new(executor, app).listen(TcpListener::bind("127.0.0.1:8080")?)?.run().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a server does nothing before it runs"]
pub struct Server {
    executor: Executor,
    start: Box<dyn Fn(Worker) -> Box<dyn FnOnce() + Send> + Send>,
    listeners: Vec<(TcpListener, Option<Handshakes>)>,
    workers: NonZeroUsize,
    limits: ServerLimits,
    grace: Duration,
    on_connect: Option<OnConnect>,
}

impl Server {
    /// Serves an application; each worker makes it with `app`. The executor is the one that the
    /// application mounts: it [closes](Executor::close) when the server stops.
    pub fn new<F, I, S, B>(executor: Executor, app: F) -> Self
    where
        F: Fn() -> I + Send + Clone + 'static,
        I: IntoServiceFactory<S, Request> + 'static,
        S: ServiceFactory<Request, Config = AppConfig> + 'static,
        S::Future: 'static,
        S::Response: Into<Response<B>> + 'static,
        S::Error: Into<actix_web::Error> + 'static,
        S::InitError: fmt::Debug,
        S::Service: 'static,
        <S::Service as Service<Request>>::Future: 'static,
        B: MessageBody + 'static,
    {
        Self {
            executor,
            start: Box::new(move |worker| {
                let app = app.clone();
                Box::new(move || drop(actix_rt::spawn(worker.run(app))))
            }),
            listeners: Vec::new(),
            workers: available_parallelism().unwrap_or(NonZeroUsize::MIN),
            limits: ServerLimits::default(),
            grace: GRACE,
            on_connect: None,
        }
    }

    /// Takes connections from a listener.
    ///
    /// # Errors
    /// If the listener cannot be used without blocking.
    pub fn listen(self, listener: TcpListener) -> Result<Self> {
        self.listen_with(listener, None)
    }

    /// The same over TLS, after [`limits`](Self::limits) are set: the channels of its requests are
    /// secure. The protocol `http/1.1` is added to those of the configuration.
    ///
    /// # Errors
    /// If the listener cannot be used without blocking.
    #[cfg(feature = "rustls")]
    pub fn listen_rustls(
        self,
        listener: TcpListener,
        config: rustls::ServerConfig,
    ) -> Result<Self> {
        let handshakes = Handshakes::new(config, self.limits);
        self.listen_with(listener, Some(handshakes))
    }

    fn listen_with(mut self, listener: TcpListener, tls: Option<Handshakes>) -> Result<Self> {
        listener.set_nonblocking(true)?;
        self.listeners.push((listener, tls));
        Ok(self)
    }

    /// Threads that serve connections; as many as there are processors unless set.
    pub fn workers(mut self, workers: NonZeroUsize) -> Self {
        self.workers = workers;
        self
    }

    /// Limits of connections; [`ServerLimits::default`] unless set.
    pub fn limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// How long requests in flight may take when the server stops; 10 s unless set, which is what
    /// containers are given to stop.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Has `told` called with each connection before its first request. What it adds is there for
    /// the connection's requests (`HttpRequest::conn_data`), and dropped with the connection.
    pub fn on_connect(
        mut self,
        told: impl Fn(&NewConnection<'_>, &mut Extensions) + Send + Sync + 'static,
    ) -> Self {
        self.on_connect = Some(Arc::new(told));
        self
    }

    /// Serves until SIGINT or SIGTERM asks the process to stop; see [`run_until`](Self::run_until).
    ///
    /// # Errors
    /// If signals cannot be watched, or as for [`run_until`](Self::run_until).
    ///
    /// # Panics
    /// Outside of an actix system.
    #[cfg(unix)]
    pub async fn run(self) -> Result<Closed> {
        use actix_rt::signal::unix::{SignalKind, signal};

        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        self.run_until(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        })
        .await
    }

    /// Serves until `stop` is ready, then closes; gives what became of the requests in flight.
    ///
    /// Connections that were made before are served, later ones are refused. The executor closes:
    /// new requests on open connections are answered with DefenseRejected. A connection ends with the
    /// answer to its last request; one whose client takes nothing is not waited for.
    ///
    /// # Errors
    /// If a listener fails, or the application cannot be made.
    ///
    /// # Cancel safety
    /// Dropping the future ends the server at once.
    ///
    /// # Panics
    /// Outside of an actix system.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<Closed> {
        let Self { executor, start, listeners, workers, limits, grace, on_connect } = self;
        let listening = listeners
            .iter()
            .map(|(listener, handshakes)| {
                let handshakes = handshakes.clone();
                Ok(Listening { local: listener.local_addr()?, handshakes })
            })
            .collect::<Result<Vec<_>>>()?;
        let pool = ArbiterPool::new(workers);
        let (mut orders, mut all_ready) = (Vec::new(), Vec::new());
        for arbiter in pool.arbiters() {
            let (order, ordered) = mpsc::unbounded_channel();
            let (ready, is_ready) = oneshot::channel();
            let (listening, on_connect) = (listening.clone(), on_connect.clone());
            let worker = Worker { limits, listening, on_connect, orders: ordered, ready };
            arbiter.spawn_fn(start(worker));
            orders.push(order);
            all_ready.push(is_ready);
        }
        for is_ready in all_ready {
            is_ready.await.map_err(|_| Error::other("the application cannot be made"))?;
        }
        let connections = Connections::new(limits.connections, limits.connections_of_client);
        let listeners = listeners.into_iter().enumerate();
        let listeners = listeners
            .map(|(place, (listener, _))| Listener::new(place, listener))
            .collect::<Result<Vec<_>>>()?;
        let acceptor = Acceptor::new(connections.clone(), orders);
        tokio::select! {
            _ = join_all(listeners.iter().map(|listener| listener.accept(&acceptor))) => {}
            () = stop => {}
        }
        let end = Instant::now() + grace;
        for listener in listeners {
            listener.close(&acceptor)?;
        }
        acceptor.tell(|| Order::Close);
        let closed = executor.close(grace).await;
        let end = end.max(Instant::now() + LAST_ANSWERS);
        // those that are left get no more time
        let _ = tokio::time::timeout_at(end, connections.none_left()).await;
        acceptor.tell(|| Order::End);
        // what requests have launched has the rest of the grace
        let rest = end.saturating_duration_since(Instant::now());
        let left = pool.shutdown(rest).await;
        if left.cancelled > 0 {
            tracing::warn!(flows = left.cancelled, "flows were cancelled at the end of the grace");
        }
        Ok(closed)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("workers", &self.workers)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
