//! Serving connections on one arbiter.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::{SocketAddr, TcpStream};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use asyncsteps_actors::clock;
use asyncsteps_core::Time;
use slab::Slab;
use tokio::sync::mpsc;

use super::connection::Protocols;
use super::connection_state::ConnectionState;
use super::connections::Connected;
use super::counting_stream::CountingStream;
use super::io::Io;
use super::new_connection::NewConnection;
use super::requests::{Requests, Site};
use super::timeout_stream::TimeoutStream;
use super::tls::Handshakes;
use crate::account::Account;
use crate::http::head::ConnectionInfo;
use asyncsteps_executor::observe::{Protocol, Traffic};

/// An order to a worker.
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
    /// Of its listener, if that speaks TLS.
    pub(super) handshakes: Option<Handshakes>,
    pub(super) connected: Connected,
}

/// Called with each connection; its result is kept with the connection.
pub(super) type OnConnect = Arc<dyn Fn(&NewConnection<'_>) -> Box<dyn Any> + Send + Sync>;

/// Serves connections on one arbiter.
pub(super) struct Worker {
    site: Rc<Site>,
    protocols: Protocols,
    on_connect: Option<OnConnect>,
    traffic: Traffic,
    running: Rc<Running>,
}

impl Worker {
    pub(super) fn new(site: Site, on_connect: Option<OnConnect>) -> Self {
        // other threads can send calls to this arbiter from now on
        let _ = site.end_point.executor.address();
        let protocols = Protocols::new(&site.limits);
        let traffic = site.end_point.executor.traffic();
        Self { site: Rc::new(site), protocols, on_connect, traffic, running: Rc::default() }
    }

    /// Serves connections until it receives the order to end.
    pub(super) async fn run(self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let this = Rc::new(self);
        while let Some(order) = orders.recv().await {
            match order {
                Order::Serve(accepted) => {
                    let client = accepted.connected.client();
                    let account = Account::new(this.site.end_point.executor.hold(client));
                    let progress = ConnectionState::new(this.site.limits, account);
                    let this = Rc::clone(&this);
                    actix_rt::spawn(async move {
                        let served = pin!(this.serve(accepted, &progress));
                        this.running.run(&progress, served).await;
                    });
                }
                Order::Close => this.running.change(State::Closing(clock::now())),
                Order::End => break,
            }
        }
        this.running.change(State::Ended);
    }

    async fn serve(&self, accepted: Accepted, progress: &Rc<ConnectionState>) {
        let Accepted { stream, peer, handshakes, connected } = accepted;
        // an answer is written as a whole: waiting for more of it would only delay it
        let stream =
            stream.set_nodelay(true).and_then(|()| actix_rt::net::TcpStream::from_std(stream));
        let is_secure = handshakes.is_some();
        let io = match (stream, handshakes) {
            (Err(error), _) => Err(error),
            (Ok(stream), None) => Ok(Io::Plain(stream)),
            // in a box, whose memory the connection does not keep
            (Ok(stream), Some(handshakes)) => {
                let share = progress.holds().account().share();
                Box::pin(handshakes.shake(stream, connected.client(), share)).await
            }
        };
        let io = match io {
            Ok(io) => io,
            Err(error) => {
                self.traffic.failed();
                tracing::debug!(%peer, %error, "a connection was not made");
                return;
            }
        };
        let data = self.on_connect.as_ref().map(|told| told(&NewConnection::new(&io)));
        let connection = Rc::new(ConnectionInfo { peer, is_secure, data });
        let (site, is_http2) = (Rc::clone(&self.site), io.is_http2());
        let (open, io) =
            (self.traffic.open(Protocol::New), CountingStream::new(io, self.traffic.clone()));
        let io = TimeoutStream::new(io, Rc::clone(progress), &site.limits);
        let requests = Requests { site, progress: Rc::clone(progress), connection };
        if let Err(error) = self.protocols.serve(io, is_http2, requests, open).await {
            tracing::debug!(%peer, %error, "a connection broke");
        }
        drop(connected);
    }
}

/// The connections of a worker, which it can close and end.
#[derive(Default)]
struct Running {
    state: Cell<State>,
    connections: RefCell<Slab<Rc<ConnectionState>>>,
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
        self.connections.borrow().iter().for_each(|(_, connection)| connection.wake());
    }

    /// Serves a connection until that ends or the worker does.
    async fn run(
        &self,
        progress: &Rc<ConnectionState>,
        mut served: Pin<&mut impl Future<Output = ()>>,
    ) {
        let place = self.connections.borrow_mut().insert(Rc::clone(progress));
        poll_fn(|cx| {
            match self.state.get() {
                State::Serving => {}
                State::Closing(since) => progress.close(since),
                State::Ended => return Poll::Ready(()),
            }
            progress.turn(cx, |cx| served.as_mut().poll(cx))
        })
        .await;
        self.connections.borrow_mut().remove(place);
    }
}

#[cfg(test)]
mod tests {
    use asyncsteps_actors::budget::Client;
    use asyncsteps_executor::Executor;

    use super::super::limits::ServerLimits;
    use super::super::warm_connections::WarmConnections;
    use super::*;
    use crate::hostile::{self, Wire};
    use crate::http::{Service, service};

    /// Serves clients as a worker does.
    fn server(executor: Executor) -> impl AsyncFn(Wire) + Clone + 'static {
        let Service { path, end_point } = service("/ftn/", executor);
        let (limits, warm) = (ServerLimits::default(), WarmConnections::default());
        let site = Site { end_point, path, pages: Vec::new(), limits, warm };
        let worker = Rc::new(Worker::new(site, None));
        async move |client| {
            let Worker { site, protocols, traffic, running, .. } = &*worker;
            let account = Account::new(site.end_point.executor.hold(&Client::Unknown));
            let progress = ConnectionState::new(site.limits, account);
            let peer = ([127, 0, 0, 1], 1).into();
            let connection = Rc::new(ConnectionInfo { peer, is_secure: false, data: None });
            let io = TimeoutStream::new(client, Rc::clone(&progress), &site.limits);
            let (site, open) = (Rc::clone(site), traffic.open(Protocol::New));
            let requests = Requests { site, progress: Rc::clone(&progress), connection };
            let served = pin!(async { drop(protocols.serve(io, false, requests, open).await) });
            running.run(&progress, served).await;
        }
    }

    const HEAD: &str = "POST /ftn/ HTTP/1.1\r\nHost: localhost\r\n";

    #[track_caller]
    fn check_memory(sent: &str) {
        hostile::check_memory(sent.as_bytes(), server);
    }

    #[test]
    fn memory_of_heads_that_have_begun_is_what_the_budget_counts() {
        check_memory(&format!("{HEAD}X-Filler: {}", "x".repeat(60_000)));
        check_memory(&format!("{HEAD}{}", "X-Filler: x\r\n".repeat(90)));
    }
}
