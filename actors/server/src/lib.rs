//! A server of HTTP/1.1 and HTTP/2 on hyper, with limits that hold whatever its clients do.
//!
//! [`serve`] serves any service of [tower](https://docs.rs/tower), such as a router of axum:
//!
//! ```no_run
//! use std::net::TcpListener;
//! use axum::Router;
//! use axum::routing::get;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let router = Router::new().route("/", get(async || "hello"));
//! asyncsteps_server::serve(router).listen(TcpListener::bind("127.0.0.1:8080")?)?.run().await
//! # }
//! ```
//!
//! - [`Server`]: its options, and how it stops; [`ServerLimits`]: what is limited
//! - [`LocalService`]: a service whose requests cost nothing beyond its own work, as that of `asyncsteps-transport`
//! - [`Upgrade`]: a connection that becomes something else than HTTP
//!
//! The feature `rustls` brings TLS, with a certificate that is read again when its files change.
//!
//! # What a connection holds
//!
//! It depends on its state. Idle connections of HTTP/1.1 are bounded by [`connections`](ServerLimits::connections); all else
//! counts in the memory of the [`Budget`] before it is taken, or when the client is first waited for. The
//! measured bytes are those of the process for each connection, in a release build; TLS adds 8 KB in each state. What
//! ends a state is the one timer of its connection, beside one for each body that is waited for.
//!
//! | connection | state | measured | bytes that count | until |
//! |---|---|---|---|---|
//! | any | nothing has come | 3.4 KB | none | `head_timeout` |
//! | TLS | a handshake has begun | 6 KB | those received, from 4 KiB on | `handshake_timeout` |
//! | | a record is not complete | 16 KB more | those received, from 4 KiB on | as without TLS |
//! | | records are not taken | 32 KB more | 32 KiB | `stall_timeout` |
//! | HTTP/1.1 | idle | 3.1 KB | none | `keep_alive` |
//! | | a head has begun | 22 KB; 145 KB with 60 KB of it | 28 KiB, and 3 for each byte of the head (at most `head_size`) | `head_timeout` |
//! | | a body has begun | 26 KB; 152 KB with 50 KB of head and 60 KB of body | the same, and the bytes of the body that are taken and kept | `stall_timeout` |
//! | | the answer is not taken | 25 KB | 28 KiB, and the bytes of the answer | `stall_timeout` |
//! | HTTP/2 | idle | 24 KB | 32 KiB | `keep_alive` |
//! | | the client has not given up its table of fields | 1.8 MB at most | 2 for each byte that was read, at most 2 MB | it has, see below |
//! | | a head has begun | | 150 for each byte of it, at most three times `head_size` | `head_timeout` |
//! | | each stream whose body is waited for, or that is in service | 5 KB | 5 KiB, its head, and 112 for each field, of which a head has 100 at most | the service has it |
//! | | bodies that are not read | | their bytes, at most four times `stream_window` | the service has it |
//! | | each stream whose answer is not taken | 1.3 KB | 5 KiB, and the bytes of the answer | `stall_timeout` |
//!
//! The requests in service hold what their service takes; it is asked for one request of a connection at a time in
//! HTTP/1.1, and for [`streams`](ServerLimits::streams) at most in HTTP/2.
//!
//! A table of fields (RFC 7541) can hold a buffer of 16 KiB for each of its entries, however small they are. So
//! the server asks clients to keep none; those that do not, count for what they have sent.
//!
//! When the memory is used up, connections whose client is waited for are closed until there is room: of the
//! client with the most bytes, the one that has waited longest. They end with the word of their protocol if
//! it can still be said: status 503, or GOAWAY. A request in service is not touched, except on an HTTP/2 connection that
//! also waits for its client; if that is not enough, new streams are refused with 503. A head with more than 100 fields is
//! answered with 431.
#![forbid(unsafe_code)]

mod accept;
mod account;
mod alarm;
mod blocks;
#[cfg(feature = "rustls")]
mod certificate;
mod connection;
mod connection_state;
mod connections;
mod fields;
mod framing;
mod holds;
mod hyper_io;
mod io;
mod keep_alive;
mod limits;
mod min_rate;
mod new_connection;
mod offer;
mod pages;
mod receiving;
mod request_body;
mod requests;
mod resets;
mod sending;
mod service;
mod timeout_stream;
#[cfg(feature = "rustls")]
mod tls;
#[cfg(not(feature = "rustls"))]
#[path = "no_tls.rs"]
mod tls;
mod traffic;
mod upgrade;
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

use asyncsteps_budget::{Budget, Limits};
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

pub use asyncsteps_budget as budget;

pub use account::{Account, Share};
#[cfg(feature = "rustls")]
pub use certificate::{CertificateError, tls_from_pem};
pub use connection_state::ConnectionState;
pub use fields::{FieldsSummary, copy_uri};
pub use io::Io;
pub use limits::ServerLimits;
pub use new_connection::NewConnection;
pub use pages::{OwnThreads, PageService, Pages};
pub use receiving::Receiving;
pub use request_body::RequestBody;
pub use sending::{BoxError, Content, PageBody};
pub use service::{Arrived, ConnectionInfo, LocalService, Threads};
pub use traffic::{Counted, Protocol, Traffic};
pub use upgrade::Upgrade;

use accept::{Acceptor, Seat};
use connections::Connections;
use offer::Pace;
use pages::MakePage;
use requests::Site;
use tls::Handshakes;
use warm_connections::WarmConnections;
use worker::{OnConnect, Order, Worker};

/// How long a client may take, or send, no bytes while the server closes: what takes some all the time, but slowly, is
/// seen to take a window at once.
pub const UNMOVED: Duration = Duration::from_secs(5);

/// How many frames of a connection are read in a turn of its task: each can be a request, and other
/// connections wait meanwhile.
pub const FRAMES: usize = 8;

/// How long requests in flight may take when the server stops, unless it is set: the time that a
/// container gets to stop.
const GRACE: Duration = Duration::from_secs(10);

/// How long answers may take to be sent after the last request ended.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// A server of HTTP/1.1 and HTTP/2.
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
#[derive(derive_more::Debug)]
#[debug("Server {{ workers: {workers:?}, limits: {limits:?}, .. }}")]
#[must_use = "a server does nothing before it runs"]
pub struct Server<S = Pages> {
    service: S,
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

/// Serves a service of [tower](https://docs.rs/tower), such as a router of axum, on threads of its own; see
/// [`Server::page`].
pub fn serve(service: impl PageService) -> Server {
    Server::new(Pages::new(Budget::new(Limits::default()))).page("/", service)
}

impl Server {
    /// What counts the memory that connections hold for clients that do not go on; 256 MB unless set.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.service.budget = budget;
        self
    }
}

impl<S: LocalService> Server<S> {
    /// Serves this service, which closes when the server stops.
    pub fn new(service: S) -> Self {
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

    /// Serves a path, and all below it, with a [tower](https://docs.rs/tower) service, such as an axum router at
    /// `/`. Of several paths the longest one counts; what is below none is answered with 404.
    ///
    /// Each worker has a clone of the service. An error of it is logged and answered with 500. The address of the
    /// client is in the extensions of the request, as a [`SocketAddr`](std::net::SocketAddr). The limits of
    /// connections, bodies and answers hold for the service too; how much of a body it reads it decides itself, also after
    /// its answer.
    pub fn page(mut self, path: &str, service: impl PageService) -> Self {
        self.pages.push((path.trim_end_matches('/').into(), service.make_page(), false));
        self
    }

    /// The same for a service that also answers while all workers are blocked, on the thread that takes connections:
    /// liveness, readiness, metrics. It must not block. Any other request of a new connection is refused meanwhile,
    /// within a second: with 503 and `Retry-After`.
    pub fn probe(self, path: &str, service: impl PageService) -> Self {
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

    /// How long the server goes on as before when it is asked to stop, so that a balancer can take it out before
    /// connections are refused: an executor is not ready from then on. None unless set, for services without a balancer; otherwise it should be
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
    /// connection, where requests find it ([`ConnectionInfo::data`]; `RequestHead::connection_data` of an executor's),
    /// and dropped with it.
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
    /// As [`run_until`](Self::run_until).
    #[cfg(unix)]
    pub async fn run(self) -> Result<S::Closed> {
        use tokio::signal::unix::{SignalKind, signal};

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
    /// refused, and idle ones closed. The service closes: an executor answers new requests on open connections with
    /// DefenseRejected. A connection ends with the answer to its last request; one whose client takes
    /// nothing for five seconds is not waited for, nor one that sends nothing of a body as long, or less than
    /// [`least_rate`](ServerLimits::least_rate).
    ///
    /// It takes the delay, the [`grace`](Self::grace), and for an executor up to 7 seconds more: one for requests that are
    /// cancelled at the end of the grace, one for the last answers, and five for undos. A thread that is blocked takes
    /// longer.
    ///
    /// # Errors
    /// If a listener fails, or a thread cannot be started.
    ///
    /// # Cancel safety
    /// Dropping the future ends the server at once.
    ///
    /// # Panics
    /// Outside of tokio; for an executor, outside of an actix system.
    pub async fn run_until(mut self, stop: impl Future<Output = ()>) -> Result<S::Closed> {
        self.pages.sort_by_key(|(path, ..)| Reverse(path.len()));
        let Self { ref service, limits, drain_delay, grace, workers, .. } = self;
        let before_close = self.before_close.take();
        let threads = service.threads(workers)?;
        let seats = (0..workers.get()).map(|at| self.seat(&threads, at)).collect();
        // nothing blocks its thread, the last one
        let spare = self.seat(&threads, workers.get());
        let connections = Connections::new(limits.connections, limits.connections_of_client);
        let acceptor = Acceptor::new(connections.clone(), service.traffic(), seats, spare);
        let (accept, path) = (Arc::clone(&acceptor), service.path().to_owned());
        let ((close, closing), (told, accepting)) = (oneshot::channel(), oneshot::channel());
        let listeners = self.listeners;
        threads.run(workers.get(), Box::new(move || accept.accept(listeners, path, closing, told)));
        let mut accepting = accepting.map(|closed| closed.map_err(Error::other)?);
        let stopped = async {
            stop.await;
            service.announce_close();
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
        service.close(grace).await;
        let end = end.max(Instant::now() + LAST_ANSWERS);
        // connections that are left get no more time
        let _ = tokio::time::timeout_at(end, connections.none_left()).await;
        acceptor.tell(|| Order::End);
        Ok(service.end(threads, end.saturating_duration_since(Instant::now())).await)
    }

    /// Starts a worker on a thread; on the one behind all workers, a spare one has the probes alone.
    fn seat(&self, threads: &S::Threads, at: usize) -> Seat {
        let (orders, ordered) = mpsc::unbounded_channel();
        let (seat, is_spare) = (Seat { orders, pace: Pace::default() }, at == self.workers.get());
        let (pace, limits, on_connect) = (seat.pace.clone(), self.limits, self.on_connect.clone());
        let mut service = self.service.clone();
        let pages = self.pages.iter().filter(|(.., is_probe)| *is_probe || !is_spare);
        let pages: Vec<_> = pages.map(|(path, make, _)| (path.clone(), make())).collect();
        let begin = move || {
            let pages = pages.into_iter().map(|(path, page)| (path, page())).collect();
            if !is_spare {
                pace.begins(service.begin());
            }
            let (traffic, warm) = (service.traffic(), WarmConnections::default());
            let keep_alive = keep_alive::field(limits.keep_alive);
            let site = Site { service, traffic, pages, limits, keep_alive, warm, is_spare };
            tokio::task::spawn_local(Worker::new(site, on_connect).run(ordered, pace));
        };
        threads.run(at, Box::new(begin));
        seat
    }
}

#[cfg(test)]
#[global_allocator]
static HEAP: asyncsteps_counted_heap::Heap = asyncsteps_counted_heap::Heap;
