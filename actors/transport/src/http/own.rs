//! The service behind a server of its own.

use std::io;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::time::Duration;

use actix_rt::ArbiterHandle;
use asyncsteps_actors::budget::{Client, Holding};
use asyncsteps_actors::pool::ArbiterPool;
use asyncsteps_actors::stuck;
use asyncsteps_executor::Closed;
use asyncsteps_executor::observe::{self, OpenConnection};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};

use super::Service;
use super::answer::{AnswerBody, Chunks};
use super::body::Body;
use super::end_point::Route;
use super::head::RequestHead;
use crate::websocket::WebSocket;
use asyncsteps_server::{
    self as server, Account, Arrived, ConnectionState, Content, Counted, Io, LocalService,
    Protocol, Threads, Upgrade,
};

/// Serves an executor over HTTP/1.1, HTTP/2 and WebSocket, beside services of the application.
///
/// ```no_run
/// use std::net::TcpListener;
/// use asyncsteps_executor::Executor;
/// use asyncsteps_observe::health;
/// use asyncsteps_transport::http::{self, Server};
///
/// # #[actix_rt::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let executor = Executor::builder().build()?;
/// let health = health::service(&executor);
/// let service = http::service("/ftn/", executor);
/// let server = Server::new(service).probe("/health", health.clone()).probe("/ready", health);
/// server.listen(TcpListener::bind("127.0.0.1:8080")?)?.run().await?;
/// # Ok(())
/// # }
/// ```
pub type Server = server::Server<Service>;

/// Counts connections for metrics.
#[derive(Clone, Debug)]
#[expect(unnameable_types, reason = "only the server has it")]
pub struct Traffic(pub(super) observe::Traffic);

impl server::Traffic for Traffic {
    type Open = OpenConnection;

    fn open(&self, protocol: Protocol) -> OpenConnection {
        self.0.open(match protocol {
            Protocol::Http1 => observe::Protocol::Http1,
            Protocol::Http2 => observe::Protocol::Http2,
            Protocol::New => observe::Protocol::New,
        })
    }

    #[inline]
    fn count(&self, event: Counted) {
        match event {
            Counted::OverLimit => self.0.over_limit(),
            Counted::Failed => self.0.failed(),
            Counted::Cut => self.0.cut(),
            Counted::Received(bytes) => self.0.received(bytes),
            Counted::Sent(bytes) => self.0.sent(bytes),
        }
    }
}

/// The arbiters of a server.
#[derive(Debug)]
#[expect(unnameable_types, reason = "only the server has them")]
pub struct Arbiters {
    workers: ArbiterPool,
    /// No function runs there, so that nothing blocks it.
    front: ArbiterPool,
}

impl Threads for Arbiters {
    fn run(&self, thread: usize, work: Box<dyn FnOnce() + Send>) {
        let arbiter = self.workers.arbiters().chain(self.front.arbiters()).nth(thread);
        // one that is gone runs nothing
        arbiter.map(|arbiter: &ArbiterHandle| arbiter.spawn_fn(work));
    }
}

impl LocalService for Service {
    type Route = Route;
    type Chunks = Chunks;
    type Traffic = Traffic;
    type Threads = Arbiters;
    type Closed = Closed;

    fn threads(&self, workers: NonZeroUsize) -> io::Result<Arbiters> {
        let [workers, front] = [workers, NonZeroUsize::MIN].map(ArbiterPool::new);
        Ok(Arbiters { workers, front })
    }

    fn begin(&mut self) -> Box<dyn Fn() -> bool + Send + Sync> {
        // other threads can send calls to this arbiter from now on
        let _ = self.end_point.executor.address();
        self.traffic = Traffic(self.end_point.executor.traffic());
        let here = stuck::here();
        Box::new(move || here.is_blocked())
    }

    fn traffic(&self) -> Traffic {
        self.traffic.clone()
    }

    fn hold(&self, client: &Client) -> Holding {
        self.end_point.executor.hold(client)
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn route(&self, path: &str, query: &str) -> Option<Route> {
        self.end_point.route(path, query, &self.path)
    }

    fn call(
        &self,
        request: Arrived,
        route: Route,
        connection: &ConnectionState,
    ) -> impl Future<Output = Response<Content<Chunks>>> {
        let Arrived { head, fields, body, connection: of } = request;
        let head = Rc::new(RequestHead::own(head, fields, of));
        let answer = self.end_point.serve(head, route, Body::Own(body));
        answer.map(move |answer| answer.map(|body| self.content(body, connection)))
    }

    /// Nothing was carried out.
    fn blocked(&self) -> Response<Bytes> {
        let text = br#"{"e":"DefenseRejected","edesc":"All threads are blocked (arbiter_stuck)"}"#;
        let mut response = Response::new(Bytes::from_static(text));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    fn announce_close(&self) {
        self.end_point.executor.announce_close();
    }

    fn is_close_announced(&self) -> bool {
        self.end_point.executor.is_close_announced()
    }

    async fn close(&self, grace: Duration) {
        self.end_point.executor.close(grace).await;
    }

    async fn end(&self, threads: Arbiters, rest: Duration) -> Closed {
        // flows that requests have launched have the rest of the grace
        let left = threads.workers.shutdown(rest).await;
        if left.cancelled > 0 {
            tracing::warn!(flows = left.cancelled, "flows were cancelled at the end of the grace");
        }
        // the pool does not count requests of other arbiters
        let mut closed = self.end_point.executor.closed();
        closed.not_undone += left.not_undone;
        closed
    }
}

impl Service {
    /// The content of an answer of the end point.
    fn content(&self, body: AnswerBody, connection: &ConnectionState) -> Content<Chunks> {
        match body {
            AnswerBody::Whole(bytes) => Content::Whole(bytes),
            AnswerBody::Raw(body) => Content::Chunks(body),
            #[cfg(feature = "mcp")]
            AnswerBody::Page(body) => Content::Page(body),
            AnswerBody::WebSocket(socket) => {
                let traffic = self.traffic.0.clone();
                connection.upgrade(Box::new(Upgraded { socket, traffic }));
                Content::Nothing
            }
        }
    }
}

/// A WebSocket on a connection of the server.
struct Upgraded {
    socket: Box<WebSocket>,
    traffic: observe::Traffic,
}

impl Upgrade for Upgraded {
    fn serve(
        self: Box<Self>,
        io: Io,
        read: BytesMut,
        account: Rc<Account>,
    ) -> LocalBoxFuture<'static, Option<Io>> {
        let Self { socket, traffic } = *self;
        Box::pin(async move {
            let _open = traffic.open(observe::Protocol::WebSocket);
            socket.serve_io(io, read, account, traffic).await
        })
    }
}
