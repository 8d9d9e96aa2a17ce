//! The HTTP server of an executor: HTTP/1.1, HTTP/2 and WebSockets on hyper, with limits that hold
//! whatever its clients do.

mod accept;
mod alarm;
mod blocks;
#[cfg(feature = "rustls")]
mod certificate;
mod connection;
mod connection_state;
mod connections;
mod counting_stream;
mod framing;
mod holds;
mod io;
mod keep_alive;
mod limits;
mod min_rate;
mod new_connection;
mod offer;
pub(super) mod receiving;
mod request_body;
mod requests;
mod resets;
mod sending;
mod timeout_stream;
#[cfg(feature = "rustls")]
mod tls;
#[cfg(not(feature = "rustls"))]
#[path = "no_tls.rs"]
mod tls;
mod warm_connections;
mod worker;

use std::any::Any;
use std::cmp::Reverse;
use std::io::{Error, Result};
use std::net::TcpListener;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use actix_rt::ArbiterHandle;
use asyncsteps_actors::pool::ArbiterPool;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use http::{Request, Response};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Service;
use super::answer::BoxError;
use asyncsteps_executor::Closed;

#[cfg(feature = "rustls")]
pub use certificate::{CertificateError, tls_from_pem};
pub use limits::ServerLimits;
pub use new_connection::NewConnection;
pub use request_body::RequestBody;

use accept::{Acceptor, Seat};
use connections::Connections;
use offer::Pace;
use requests::{MakePage, Site, page};
use tls::Handshakes;
use warm_connections::WarmConnections;
use worker::{OnConnect, Order, Worker};

/// How long requests in flight may take when the server stops, unless it is set: the time that a
/// container gets to stop.
const GRACE: Duration = Duration::from_secs(10);

/// How long answers may take to be sent after the last request ended.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Serves an executor over HTTP/1.1, HTTP/2 and WebSocket, beside services of the application.
///
/// Whatever its clients do:
/// - connections are limited, in all and of each client ([`ServerLimits`]);
/// - a connection reads a little further than the request that is answered, and no more; each head,
///   body and answer has a time limit;
/// - connections take turns: in each, one has a request of HTTP/1.1, or eight frames of HTTP/2 or of a
///   WebSocket, however many have come;
/// - a client that disconnects cancels its requests; one that closes its half of an HTTP/1 connection has a second for
///   its answers, because the network does not distinguish the two;
/// - when it stops, it takes what has arrived, refuses new connections, and closes each connection
///   with its last answer.
///
/// HTTP/2 is spoken with clients that agree on it in the TLS handshake, and with clients that begin
/// with it (RFC 9113 §3.3).
///
/// ```no_run
/// use std::net::TcpListener;
/// use asyncsteps_executor::Executor;
/// use asyncsteps_transport::http::{self, Server};
///
/// # #[actix_rt::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let executor = Executor::builder().build()?;
/// let service = http::service("/ftn/", executor);
/// Server::new(service).listen(TcpListener::bind("127.0.0.1:8080")?)?.run().await?;
/// # Ok(())
/// # }
/// ```
#[derive(derive_more::Debug)]
#[debug("Server {{ workers: {workers:?}, limits: {limits:?}, .. }}")]
#[must_use = "a server does nothing before it runs"]
pub struct Server {
    service: Service,
    /// The services for other paths, by path, and whether they are probes.
    pages: Vec<(Box<str>, MakePage, bool)>,
    listeners: Vec<(TcpListener, Option<Handshakes>)>,
    workers: NonZeroUsize,
    limits: ServerLimits,
    drain_delay: Duration,
    grace: Duration,
    before_close: Option<LocalBoxFuture<'static, ()>>,
    on_connect: Option<OnConnect>,
}

impl Server {
    /// Serves an executor under the path of `service`. The executor [closes](asyncsteps_executor::Executor::close) when the
    /// server stops.
    pub fn new(service: Service) -> Self {
        Self {
            service,
            pages: Vec::new(),
            listeners: Vec::new(),
            workers: available_parallelism().unwrap_or(NonZeroUsize::MIN),
            limits: ServerLimits::default(),
            drain_delay: Duration::ZERO,
            grace: GRACE,
            before_close: None,
            on_connect: None,
        }
    }

    /// Serves a path, and all below it, with a [tower](https://docs.rs/tower) service: such as those of
    /// `asyncsteps-observe`, the console, or one of the application, such as an axum router at `/`. Of several paths the
    /// longest one counts; what is below none is answered with 404.
    ///
    /// Each worker has a clone of the service. An error of it is logged and answered with 500. The address of the
    /// client is in the extensions of the request, as a [`SocketAddr`](std::net::SocketAddr). The limits of
    /// connections and of answers hold for the service too; how much of a body it reads, and for how long, it decides
    /// itself, also after its answer.
    pub fn page<S, B>(mut self, path: &str, service: S) -> Self
    where
        S: tower_service::Service<Request<RequestBody>, Response = Response<B>>
            + Clone
            + Send
            + 'static,
        S::Error: Into<BoxError>,
        S::Future: 'static,
        B: http_body::Body<Data = Bytes> + 'static,
        B::Error: Into<BoxError>,
    {
        self.pages.push((path.trim_end_matches('/').into(), page(service), false));
        self
    }

    /// The same for a service that also answers while steps block all workers, on the thread that takes connections:
    /// liveness, readiness, metrics. It must neither block nor call functions. Any other request of a new connection
    /// is refused meanwhile, within a second: with DefenseRejected, 503 and `Retry-After`.
    ///
    /// ```no_run
    /// use asyncsteps_executor::Executor;
    /// use asyncsteps_observe::health;
    /// use asyncsteps_transport::http::{Server, service};
    ///
    /// let executor = Executor::builder().build()?;
    /// let health = health::service(&executor);
    /// let server = Server::new(service("/ftn/", executor)).probe("/health", health.clone()).probe("/ready", health);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn probe<S, B>(self, path: &str, service: S) -> Self
    where
        S: tower_service::Service<Request<RequestBody>, Response = Response<B>>
            + Clone
            + Send
            + 'static,
        S::Error: Into<BoxError>,
        S::Future: 'static,
        B: http_body::Body<Data = Bytes> + 'static,
        B::Error: Into<BoxError>,
    {
        let mut server = self.page(path, service);
        if let Some((.., is_probe)) = server.pages.last_mut() {
            *is_probe = true;
        }
        server
    }

    /// Takes connections from a listener.
    ///
    /// # Errors
    /// If the listener cannot be used without blocking.
    pub fn listen(self, listener: TcpListener) -> Result<Self> {
        self.listen_with(listener, None)
    }

    /// The same over TLS, after [`limits`](Self::limits) are set: the channels of its requests are
    /// secure. Unless the configuration has protocols (ALPN), `h2` and `http/1.1` are offered.
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

    /// How long the server goes on as before when it is asked to stop, but for its readiness: the executor
    /// is not [ready](asyncsteps_executor::Executor::readiness) from then on, so that a balancer can take it out before
    /// connections are refused. None unless set, for services without a balancer; otherwise it should be
    /// longer than the time in which the balancer notices, such as two periods of its probe. Answers
    /// in this time end their connections (`Connection: close`, GOAWAY), so that pools of balancers are empty before requests
    /// would be lost. The [`grace`](Self::grace) begins afterwards.
    pub fn drain_delay(mut self, delay: Duration) -> Self {
        self.drain_delay = delay;
        self
    }

    /// What ends before the server does: it is waited for when the server was asked to stop and the
    /// [delay](Self::drain_delay) has passed, before connections are refused. Nodes of durable requests and of a fabric
    /// stop there, so that others go on with their work.
    pub fn before_close(mut self, end: impl Future<Output = ()> + 'static) -> Self {
        self.before_close = Some(end.boxed_local());
        self
    }

    /// How long requests in flight may take when the server stops; 10 s unless set, which is the
    /// time that containers get to stop.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Calls `told` with each connection before its first request. Its result is kept with the
    /// connection, where requests find it
    /// ([`RequestHead::connection_data`](super::RequestHead::connection_data)), and dropped with it.
    pub fn on_connect<T: 'static>(
        mut self,
        told: impl Fn(&NewConnection<'_>) -> T + Send + Sync + 'static,
    ) -> Self {
        self.on_connect =
            Some(Arc::new(move |connection| Box::new(told(connection)) as Box<dyn Any>));
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

    /// Serves until `stop` is ready and the [delay](Self::drain_delay) after it has passed, then closes; the log says
    /// where it listens. Returns what became of the requests in flight.
    ///
    /// Requests that have arrived on connections that were made before are served, later connections are
    /// refused, and idle ones closed. The executor closes: new requests on open connections are answered
    /// with DefenseRejected. A connection ends with the answer to its last request; one whose client takes
    /// nothing for five seconds is not waited for, nor one that sends nothing of a body as long, or less than
    /// [`least_rate`](ServerLimits::least_rate).
    ///
    /// It takes the delay, the [`grace`](Self::grace), and up to 7 seconds more: one for requests that are
    /// cancelled at the end of the grace, one for the last answers, and five for
    /// [undos](asyncsteps_actors::pool::UNDO_GRACE). An arbiter that is blocked by a step takes longer.
    ///
    /// # Errors
    /// If a listener fails.
    ///
    /// # Cancel safety
    /// Dropping the future ends the server at once.
    ///
    /// # Panics
    /// Outside of an actix system.
    pub async fn run_until(mut self, stop: impl Future<Output = ()>) -> Result<Closed> {
        self.pages.sort_by_key(|(path, ..)| Reverse(path.len()));
        let Self { ref service, limits, drain_delay, grace, .. } = self;
        let before_close = self.before_close.take();
        let executor = service.end_point.executor.clone();
        let pool = ArbiterPool::new(self.workers);
        let seats = pool.arbiters().map(|arbiter| self.seat(arbiter, false)).collect();
        // no function runs there, so that nothing blocks it
        let front = ArbiterPool::new(NonZeroUsize::MIN);
        let [arbiter] = &front.arbiters().collect::<Vec<_>>()[..] else {
            unreachable!("it has one")
        };
        let spare = self.seat(arbiter, true);
        let connections = Connections::new(limits.connections, limits.connections_of_client);
        let acceptor = Acceptor::new(connections.clone(), executor.traffic(), seats, spare);
        let path = service.path.clone();
        let (close, closing) = oneshot::channel();
        let accepting = Arc::clone(&acceptor).accept(arbiter, self.listeners, path, closing);
        let mut accepting = accepting.map(|closed| closed.map_err(Error::other)?);
        let stopped = async {
            stop.await;
            executor.announce_close();
            tokio::time::sleep(drain_delay).await;
            if let Some(end) = before_close {
                end.await;
            }
        };
        let failed = tokio::select! {
            failed = &mut accepting => Some(failed),
            () = stopped => None,
        };
        let end = Instant::now() + grace;
        drop(close);
        match failed {
            Some(failed) => failed?,
            None => accepting.await?,
        }
        acceptor.tell(|| Order::Close);
        executor.close(grace).await;
        let end = end.max(Instant::now() + LAST_ANSWERS);
        // connections that are left get no more time
        let _ = tokio::time::timeout_at(end, connections.none_left()).await;
        acceptor.tell(|| Order::End);
        // flows that requests have launched have the rest of the grace
        let rest = end.saturating_duration_since(Instant::now());
        let left = pool.shutdown(rest).await;
        if left.cancelled > 0 {
            tracing::warn!(flows = left.cancelled, "flows were cancelled at the end of the grace");
        }
        drop(front);
        // the pool does not count requests of other arbiters
        let mut closed = executor.closed();
        closed.not_undone += left.not_undone;
        Ok(closed)
    }

    /// Starts a worker; a spare one has the probes alone.
    fn seat(&self, arbiter: &ArbiterHandle, is_spare: bool) -> Seat {
        let (orders, ordered) = mpsc::unbounded_channel();
        let seat = Seat { orders, pace: Pace::default() };
        let (pace, limits, on_connect) = (seat.pace.clone(), self.limits, self.on_connect.clone());
        let Service { path, end_point } = self.service.clone();
        let pages = self.pages.iter().filter(|(.., is_probe)| *is_probe || !is_spare);
        let pages: Vec<_> = pages.map(|(path, make, _)| (path.clone(), make())).collect();
        arbiter.spawn_fn(move || {
            let pages = pages.into_iter().map(|(path, page)| (path, page())).collect();
            let warm = WarmConnections::default();
            let keep_alive = keep_alive::field(limits.keep_alive);
            let site = Site { end_point, path, pages, limits, keep_alive, warm, is_spare };
            actix_rt::spawn(Worker::new(site, on_connect).run(ordered, pace));
        });
        seat
    }
}
