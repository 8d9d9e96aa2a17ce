//! Serving connections on one thread.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use slab::Slab;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::account::Account;
use super::connection::Protocols;
use super::connection_state::ConnectionState;
use super::io::Io;
use super::keep_alive::KeepAlive;
use super::new_connection::NewConnection;
use super::offer::{Accepted, Offer, Pace};
use super::requests::{Requests, Site};
use super::service::{ConnectionInfo, LocalService};
use super::timeout_stream::TimeoutStream;
use super::traffic::{Counted, Traffic as _};

/// An order to a worker.
pub(super) enum Order {
    /// To serve a connection, unless another worker does.
    Serve(Offer),
    /// Connections end as soon as they are answered.
    Close,
    /// They end now.
    End,
}

/// Called with each connection; its result is kept with the connection.
pub(super) type OnConnect = Arc<dyn Fn(&NewConnection<'_>) -> Box<dyn Any> + Send + Sync>;

/// Serves connections on one thread.
pub(super) struct Worker<S: LocalService> {
    site: Rc<Site<S>>,
    protocols: Protocols,
    on_connect: Option<OnConnect>,
    running: Rc<Running>,
}

impl<S: LocalService> Worker<S> {
    pub(super) fn new(site: Site<S>, on_connect: Option<OnConnect>) -> Self {
        let protocols = Protocols::new(&site.limits);
        Self { site: Rc::new(site), protocols, on_connect, running: Rc::default() }
    }

    /// Serves connections until it receives the order to end.
    pub(super) async fn run(self, mut orders: mpsc::UnboundedReceiver<Order>, pace: Pace) {
        let this = Rc::new(self);
        while let Some(order) = orders.recv().await {
            pace.moves();
            match order {
                Order::Serve(offer) => {
                    let Some(accepted) = offer.take() else { continue };
                    let (limits, connected) = (this.site.limits, &accepted.connected);
                    let client = connected.client();
                    let account = Account::new(this.site.service.hold(client));
                    let keep_alive =
                        KeepAlive::new(limits.keep_alive, connected.connections(), client);
                    let progress = ConnectionState::new(limits, keep_alive, account);
                    if this.site.is_spare {
                        // its client comes back to a worker
                        progress.close(Instant::now());
                    }
                    let (this, peer) = (Rc::clone(&this), accepted.peer);
                    tokio::task::spawn_local(async move {
                        let served = pin!(this.serve(accepted, &progress));
                        this.watch(peer, &progress, served).await;
                    });
                }
                Order::Close => this.running.change(State::Closing(Instant::now())),
                Order::End => break,
            }
        }
        this.running.change(State::Ended);
    }

    /// Waits for the end of a connection; one that did not get all of its answers is logged and counted. Returns
    /// whether it was cut.
    async fn watch(
        &self,
        peer: SocketAddr,
        progress: &Rc<ConnectionState>,
        served: Pin<&mut impl Future<Output = ()>>,
    ) -> bool {
        let has_ended = self.running.run(progress, served).await;
        let (sent, waited) = progress.taken();
        let is_cut = waited.is_some() || !has_ended && !progress.is_idle();
        if is_cut {
            let why = if has_ended { "its client takes nothing" } else { "the grace is over" };
            tracing::warn!(%peer, sent, ?waited, why, "a connection is cut before the end of its answers");
            self.site.traffic.count(Counted::Cut);
        }
        is_cut
    }

    async fn serve(&self, accepted: Accepted, progress: &Rc<ConnectionState>) {
        let Accepted { stream, peer, handshakes, connected } = accepted;
        // an answer is written as a whole: waiting for more of it would only delay it
        let stream = stream.set_nodelay(true).and_then(|()| TcpStream::from_std(stream));
        let is_secure = handshakes.is_some();
        let io = match (stream, handshakes) {
            (Err(error), _) => Err(error),
            (Ok(stream), None) => Ok(Io::plain(stream)),
            // in a box, whose memory the connection does not keep
            (Ok(stream), Some(handshakes)) => {
                let share = progress.holds().account().share();
                Box::pin(handshakes.shake(stream, connected.client(), share)).await.map(Io::secure)
            }
        };
        let io = match io {
            Ok(io) => io,
            Err(error) => {
                self.site.traffic.count(Counted::Failed);
                tracing::debug!(%peer, %error, "a connection was not made");
                return;
            }
        };
        let data = self.on_connect.as_ref().map(|told| told(&NewConnection::new(&io)));
        let connection = Rc::new(ConnectionInfo { peer, is_secure, data });
        let (site, is_http2) = (Rc::clone(&self.site), io.is_http2());
        let io = TimeoutStream::new(io, site.traffic.clone(), Rc::clone(progress), &site.limits);
        let requests = Requests { site, progress: Rc::clone(progress), connection };
        if let Err(error) = self.protocols.serve(io, is_http2, requests).await {
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
    Closing(Instant),
    Ended,
}

impl Running {
    fn change(&self, state: State) {
        self.state.set(state);
        self.connections.borrow().iter().for_each(|(_, connection)| connection.wake());
    }

    /// Serves a connection until that ends or the worker does; returns whether it has ended by itself.
    async fn run(
        &self,
        progress: &Rc<ConnectionState>,
        mut served: Pin<&mut impl Future<Output = ()>>,
    ) -> bool {
        let place = self.connections.borrow_mut().insert(Rc::clone(progress));
        let has_ended = poll_fn(|cx| {
            match self.state.get() {
                State::Serving => {}
                State::Closing(since) => progress.close(since),
                State::Ended => return Poll::Ready(false),
            }
            progress.turn(cx, |cx| served.as_mut().poll(cx)).map(|()| true)
        })
        .await;
        self.connections.borrow_mut().remove(place);
        has_ended
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use asyncsteps_budget::{Budget, Client, Limits};
    use asyncsteps_counted_heap::{hostile, measure};
    use http::Response;
    use http_body_util::Full;
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
    use tokio::task::{LocalSet, spawn_local};

    use super::super::connections::Connections;
    use super::super::limits::ServerLimits;
    use super::super::pages::{Page, PageService as _, Pages};
    use super::super::warm_connections::WarmConnections;
    use super::*;

    fn worker(budget: Budget, pages: Vec<(Box<str>, Page)>) -> Rc<Worker<Pages>> {
        let (limits, warm) = (ServerLimits::default(), WarmConnections::default());
        let (service, traffic, keep_alive) = (Pages::new(budget), (), None);
        let site = Site { service, traffic, pages, limits, keep_alive, warm, is_spare: false };
        Rc::new(Worker::new(site, None))
    }

    /// Serves a client; whether its connection was cut.
    async fn serve(
        worker: &Worker<Pages>,
        client: impl AsyncRead + AsyncWrite + Unpin + 'static,
    ) -> bool {
        let Worker { site, protocols, .. } = worker;
        let account = Account::new(site.service.hold(&Client::Unknown));
        let connections = Connections::new(1, 1);
        let keep_alive = KeepAlive::new(site.limits.keep_alive, &connections, &Client::Unknown);
        let progress = ConnectionState::new(site.limits, keep_alive, account);
        let peer = ([127, 0, 0, 1], 1).into();
        let connection = Rc::new(ConnectionInfo { peer, is_secure: false, data: None });
        let io = TimeoutStream::new(Io::test(client), (), Rc::clone(&progress), &site.limits);
        let site = Rc::clone(site);
        let requests = Requests { site, progress: Rc::clone(&progress), connection };
        let served = pin!(async { drop(protocols.serve(io, false, requests).await) });
        worker.watch(peer, &progress, served).await
    }

    /// Bytes of an answer in one frame.
    const ANSWER: usize = 1_400_000;

    /// How a client of HTTP/2 begins that asks for a file and takes nothing of it so far: with a window of no bytes.
    const ASK: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
        \0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0\
        \0\0\x0c\x01\x05\0\0\0\x01\x82\x86\x04\x05/file\x01\x01a";

    fn window_update(stream: u8, bytes: u32) -> Vec<u8> {
        [&[0, 0, 4, 8, 0, 0, 0, 0, stream][..], &bytes.to_be_bytes()].concat()
    }

    /// How many bytes of the answer a client gets over HTTP/2 that takes so many in each second, from a server that
    /// closes after a time, and whether its connection was cut.
    async fn taken(bytes: u32, closing: Option<Duration>) -> (usize, bool) {
        let file = async |_| Ok::<_, Infallible>(Response::new(Full::from(vec![0; ANSWER])));
        let page = (tower::service_fn(file).make_page()())();
        let budget = Budget::new(Limits::default());
        let worker = worker(budget, vec![("/file".into(), page)]);
        let (client, io) = tokio::io::duplex(64 << 10);
        let (mut reader, mut writer) = tokio::io::split(client);
        let (serving, closed) = (Rc::clone(&worker), Rc::clone(&worker));
        let served = spawn_local(async move { serve(&serving, io).await });
        spawn_local(async move {
            if let Some(closing) = closing {
                tokio::time::sleep(closing).await;
                closed.running.change(State::Closing(Instant::now()));
            }
        });
        spawn_local(async move {
            writer.write_all(ASK).await.expect("the server reads");
            // a window is not raised by nothing (RFC 9113 §6.9)
            let more = match bytes {
                0 => Vec::new(),
                bytes => [window_update(0, bytes), window_update(1, bytes)].concat(),
            };
            // until the server ends
            while writer.write_all(&more).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let mut data = 0;
        let mut head = [0; 9];
        while reader.read_exact(&mut head).await.is_ok() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            reader.read_exact(&mut payload).await.expect("a whole frame");
            data += if head[3] == 0 { length } else { 0 };
            if head[3] == 0 && head[4] & 1 == 1 {
                break;
            }
        }
        drop(reader);
        (data, served.await.expect("it ends"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_cut() {
        let taken = async {
            assert_eq!(taken(0, None).await, (0, true));
            assert_eq!(taken(0, Some(Duration::from_secs(5))).await, (0, true));
        };
        LocalSet::new().run_until(taken).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_that_takes_bytes_all_the_time_gets_all_of_its_answer() {
        let taken = async {
            assert_eq!(taken(18_000, None).await, (ANSWER, false));
            assert_eq!(taken(18_000, Some(Duration::from_secs(5))).await, (ANSWER, false));
        };
        LocalSet::new().run_until(taken).await;
    }

    const HEAD: &str = "POST / HTTP/1.1\r\nHost: localhost\r\n";

    #[track_caller]
    fn check_memory(sent: &str) {
        hostile::check_memory(sent.as_bytes(), |budget| {
            let worker = worker(budget, Vec::new());
            async move |client| {
                let _ = serve(&worker, client).await;
            }
        });
    }

    #[test]
    fn memory_of_heads_that_have_begun_is_what_the_budget_counts() {
        check_memory(&format!("{HEAD}X-Filler: {}", "x".repeat(60_000)));
        check_memory(&format!("{HEAD}{}", "X-Filler: x\r\n".repeat(90)));
    }

    #[test]
    fn a_connection_that_is_idle_after_a_request_keeps_no_buffer() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (runtime, local) = (runtime.expect("a runtime"), LocalSet::new());
        let worker = worker(Budget::new(Limits::default()), Vec::new());
        let request: Rc<[u8]> = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..].into();
        let connect = |clients: &[hostile::Wire]| {
            local.block_on(&runtime, async {
                for client in clients {
                    client.send(&request);
                    let (client, worker) = (client.clone(), Rc::clone(&worker));
                    spawn_local(async move { serve(&worker, client).await });
                }
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
            });
        };
        let clients = |count| (0..count).map(|_| hostile::Wire::default()).collect::<Vec<_>>();
        let (first, clients) = (clients(100), clients(1_000));
        // those that are warm keep theirs
        connect(&first);
        let kept = measure(|| connect(&clients)).bytes_kept / 1_000;
        assert!((1..4 << 10).contains(&kept), "{kept} bytes");
    }
}
