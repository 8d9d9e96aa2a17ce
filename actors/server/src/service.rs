//! What a server serves, and where.

use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_budget::{Client, Holding};
use bytes::Bytes;
use futures_util::TryStream;
use http::Response;
use http::request::Parts;

use super::connection_state::ConnectionState;
use super::fields::FieldsSummary;
use super::receiving::Receiving;
use super::sending::{BoxError, Content};
use super::traffic::Traffic;

/// What a [`Server`](super::Server) serves on its workers, each of which has a clone.
///
/// It is for a service whose requests should cost nothing beyond its own work: its futures have no names and need no
/// box, stay on the thread of their connection, and are compiled into it. For any other,
/// [`Server::page`](super::Server::page) takes a service of tower.
pub trait LocalService: Clone + Send + 'static {
    /// What a request is for.
    type Route;
    /// The parts of an answer that is made while it is sent; an error breaks the connection off.
    type Chunks: TryStream<Ok = Bytes, Error: Into<BoxError>> + Unpin + 'static;
    /// What counts connections.
    type Traffic: Traffic;
    /// The threads of the server.
    type Threads: Threads;
    /// What became of the requests in flight when the server has stopped.
    type Closed;

    /// The threads of a server with so many workers, and one more, on which connections are accepted.
    ///
    /// # Errors
    /// If they cannot be started.
    fn threads(&self, workers: NonZeroUsize) -> io::Result<Self::Threads>;

    /// Called on each worker before its connections. Returns a check of whether the worker is blocked, for any thread.
    fn begin(&mut self) -> Box<dyn Fn() -> bool + Send + Sync> {
        Box::new(|| false)
    }

    /// What counts the connections of the worker.
    fn traffic(&self) -> Self::Traffic;

    /// What a connection holds of the memory for its client; nothing so far.
    fn hold(&self, client: &Client) -> Holding;

    /// The path under which it serves, without the slash at its end; the log says it.
    fn path(&self) -> &str {
        ""
    }

    /// What a request to this path is for; `None` if it is for another service.
    fn route(&self, path: &str, query: &str) -> Option<Self::Route>;

    /// Answers a request. With an answer of 101 the connection [becomes](ConnectionState::upgrade) something else.
    fn call(
        &self,
        request: Arrived,
        route: Self::Route,
        connection: &ConnectionState,
    ) -> impl Future<Output = Response<Content<Self::Chunks>>>;

    /// The body, with its type, of the answer to a request that is not carried out because all workers are blocked: 503
    /// with `Retry-After`.
    fn blocked(&self) -> Response<Bytes> {
        Response::default()
    }

    /// The server will stop: from now on answers end their connections.
    fn announce_close(&self);

    /// Whether it will.
    fn is_close_announced(&self) -> bool;

    /// Waits for the requests in flight; `grace` is the time that they have.
    fn close(&self, grace: Duration) -> impl Future<Output = ()>;

    /// Ends the threads, when the connections have ended; what is left on them has the rest of the grace.
    fn end(&self, threads: Self::Threads, rest: Duration) -> impl Future<Output = Self::Closed>;
}

/// Threads with an event loop of tokio for tasks that stay on them ([`LocalSet`](tokio::task::LocalSet)), which end when
/// this is dropped.
pub trait Threads {
    /// Runs `work` on the thread of this number, from 0; nothing if it is gone.
    fn run(&self, thread: usize, work: Box<dyn FnOnce() + Send>);
}

/// A request whose head has arrived.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "the server makes it, and a service takes all of it")]
pub struct Arrived {
    /// Its head.
    pub head: Parts,
    /// What a look at all fields of the head has found.
    pub fields: FieldsSummary,
    /// Its body, as it comes.
    pub body: Receiving,
    /// Its connection.
    pub connection: Rc<ConnectionInfo>,
}

/// The facts of a connection.
#[derive(derive_more::Debug)]
#[expect(clippy::exhaustive_structs, reason = "tests of services make one")]
pub struct ConnectionInfo {
    /// The other end, be it a proxy.
    pub peer: SocketAddr,
    /// Whether it is over TLS.
    pub is_secure: bool,
    /// What [`Server::on_connect`](super::Server::on_connect) has returned for it.
    #[debug(skip)]
    pub data: Option<Box<dyn Any>>,
}
