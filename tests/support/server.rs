//! An executor behind HTTP, in a thread of its own with an actix system of its own.

use std::fs;
use std::future::pending;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use asyncsteps_executor::Executor;
use asyncsteps_transport::http::{self, NewConnection, Server, ServerLimits};
use rustls::ServerConfig;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::PATIENCE;
use crate::client::Connection;

/// A server that a test started; it stops when it is dropped.
#[derive(Debug)]
pub struct TestServer {
    /// Where it listens.
    pub address: SocketAddr,
    /// The executor that it serves.
    pub executor: Executor,
    /// The connections of its clients.
    pub connections: Connections,
    close: Option<oneshot::Sender<()>>,
    thread: Option<Stoppable<()>>,
}

impl TestServer {
    /// Serves the executor that `make` gives inside of the new actix system.
    #[must_use]
    pub fn start(workers: usize, make: impl FnOnce() -> Executor + Send + 'static) -> Self {
        Self::start_as(workers, make, |service| service)
    }

    /// The same with a service that is set up by `set_up`.
    #[must_use]
    pub fn start_as(
        workers: usize,
        make: impl FnOnce() -> Executor + Send + 'static,
        set_up: impl FnOnce(http::Service) -> http::Service + Send + 'static,
    ) -> Self {
        Self::start_with(workers, ServerLimits::default(), None, make, set_up)
    }

    /// The same with other limits of connections, and over TLS if it is configured.
    #[must_use]
    pub fn start_with(
        workers: usize,
        limits: ServerLimits,
        tls: Option<ServerConfig>,
        make: impl FnOnce() -> Executor + Send + 'static,
        set_up: impl FnOnce(http::Service) -> http::Service + Send + 'static,
    ) -> Self {
        Self::start_server(tls, make, set_up, move |server| {
            server.workers(NonZeroUsize::new(workers).expect("one at least")).limits(limits)
        })
    }

    /// The same with a server that is set up by `set_up_server`.
    #[must_use]
    pub fn start_server(
        tls: Option<ServerConfig>,
        make: impl FnOnce() -> Executor + Send + 'static,
        set_up: impl FnOnce(http::Service) -> http::Service + Send + 'static,
        set_up_server: impl FnOnce(Server) -> Server + Send + 'static,
    ) -> Self {
        let (close, closed) = oneshot::channel();
        let serve =
            async move |service, listener: TcpListener, connections: Connections, stopped| {
                let opened = move |connection: &NewConnection<'_>| {
                    connections.opened(connection.is_nodelay())
                };
                let server = set_up_server(Server::new(service).on_connect(opened));
                let server = match tls {
                    Some(tls) => server.listen_rustls(listener, tls),
                    None => server.listen(listener),
                };
                serve(server.expect("a listener"), closed, stopped).await;
            };
        let mut host = Self::run(make, set_up, serve);
        host.close = Some(close);
        host
    }

    /// Has `serve` serve the executor in a new actix system until it is told to stop.
    pub(crate) fn run(
        make: impl FnOnce() -> Executor + Send + 'static,
        set_up: impl FnOnce(http::Service) -> http::Service + Send + 'static,
        serve: impl AsyncFnOnce(http::Service, TcpListener, Connections, oneshot::Receiver<()>)
        + Send
        + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let connections = Connections::default();
        let counted = connections.clone();
        let (ready, made) = mpsc::channel();
        let thread = Stoppable::start(move |stopped| async move {
            let executor = make();
            ready.send(executor.clone()).expect("the test waits");
            let service = set_up(http::service("/ftn/", executor));
            serve(service, listener, counted, stopped).await;
        });
        let executor = made.recv_timeout(PATIENCE).expect("an executor");
        Self { address, executor, connections, close: None, thread: Some(thread) }
    }
}

impl TestServer {
    /// Has the server begin to close gracefully, as at a signal.
    pub fn begin_to_close(&mut self) {
        let close = self.close.take().expect("a server of ours that does not close yet");
        close.send(()).expect("the server runs");
    }

    /// Waits until this many requests are in flight.
    pub fn wait_for_in_flight(&self, count: usize) {
        self.wait_for("requests in flight", count, || self.executor.in_flight_count());
    }

    /// Waits until a figure has this value. There is no event to wait for, so it looks again and
    /// again, with a round trip to the server between two looks.
    pub fn wait_for(&self, what: &str, value: usize, figure: impl Fn() -> usize) {
        let mut client = Connection::open(self.address);
        let begun = Instant::now();
        while figure() != value {
            assert!(begun.elapsed() < PATIENCE, "{what}: {}", figure());
            client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").receive();
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let ended = self.thread.take().map(Stoppable::stop);
        assert!(thread::panicking() || !matches!(ended, Some(Err(_))), "the server panicked");
    }
}

async fn serve(server: Server, closed: oneshot::Receiver<()>, stopped: oneshot::Receiver<()>) {
    let close = async {
        if closed.await.is_err() {
            pending::<()>().await;
        }
    };
    tokio::select! {
        ended = server.run_until(close) => drop(ended.expect("no error of the server")),
        // dropped with the test's handle, or told by it
        _ = stopped => {}
    }
}

/// Bytes of this process, which the server is a part of, in memory.
#[must_use]
pub fn resident_bytes() -> usize {
    memory_of("self")
}

/// Bytes of a process in memory that no file backs: pages of its program come when code first runs.
pub(crate) fn memory_of(process: &str) -> usize {
    let statm = fs::read_to_string(format!("/proc/{process}/statm")).expect("Linux");
    let pages = |field| statm.split(' ').nth(field).and_then(|pages| pages.parse::<usize>().ok());
    let (resident, shared) = (pages(1).expect("a number"), pages(2).expect("a number"));
    resident.saturating_sub(shared) * 4096
}

/// How many connections a server took, and how many of them are open.
#[derive(Clone, Debug, Default)]
pub struct Connections(Arc<(Mutex<Counts>, Condvar)>);

#[derive(Debug, Default)]
struct Counts {
    taken: usize,
    open: usize,
    nodelay: usize,
}

/// Lives as long as a connection.
pub(crate) struct Open(Connections);

impl Connections {
    pub(crate) fn opened(&self, is_nodelay: bool) -> Open {
        let mut counts = self.0.0.lock().expect("no panic");
        counts.nodelay += usize::from(is_nodelay);
        counts.taken += 1;
        counts.open += 1;
        Open(self.clone())
    }

    /// Whether all of them send at once what is written (`TCP_NODELAY`).
    #[must_use]
    pub fn are_nodelay(&self) -> bool {
        let counts = self.0.0.lock().expect("no panic");
        counts.nodelay == counts.taken
    }

    /// How many are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.0.0.lock().expect("no panic").open
    }

    /// Waits until the server took `count` connections, over all its time, and has closed them.
    pub fn wait_for_the_end_of(&self, count: usize) {
        let (counts, changed) = &*self.0;
        let counts = counts.lock().expect("no panic");
        let waited = changed
            .wait_timeout_while(counts, PATIENCE, |counts| counts.taken < count || counts.open > 0);
        let (counts, timeout) = waited.expect("no panic");
        assert!(!timeout.timed_out(), "{counts:?} of {count}");
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let (counts, changed) = &*self.0.0;
        counts.lock().expect("no panic").open -= 1;
        changed.notify_all();
    }
}

/// A thread with an actix system that runs until it is told to stop.
#[derive(Debug)]
pub(crate) struct Stoppable<T> {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> Stoppable<T> {
    pub(crate) fn start<F>(main: impl FnOnce(oneshot::Receiver<()>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = T>,
    {
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("host".to_owned());
        let thread = thread.spawn(move || actix_rt::System::new().block_on(main(stopped)));
        Self { stop, thread: thread.expect("a thread") }
    }

    /// Tells it to stop and waits for its result.
    pub(crate) fn stop(self) -> thread::Result<T> {
        // it may have ended by itself, and tells below why
        let _ = self.stop.send(());
        self.thread.join()
    }
}
