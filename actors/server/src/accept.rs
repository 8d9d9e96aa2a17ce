//! Accepting connections and distributing them to workers, on a thread where no service runs but probes.

use std::convert::Infallible;
use std::io::{ErrorKind, Result};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::connections::Connections;
use super::offer::{Accepted, Offer, Pace};
use super::tls::Handshakes;
use super::traffic::{Counted, Traffic};
use super::worker::Order;

/// How long to wait after the system had no room for a connection, such as no more open files.
const PAUSE: Duration = Duration::from_millis(100);

/// How often it is logged that the system has no room.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// How long a worker may take to begin with a connection before others are offered it: longer than a busy one does.
const LATE: Duration = Duration::from_millis(100);

/// How often that time passes at most until the acceptor answers itself, unless all workers are seen to be blocked by
/// steps before. A machine that is too busy is no reason.
const LOOKS: u32 = 50;

/// The orders of a worker.
pub(super) struct Seat {
    pub(super) orders: mpsc::UnboundedSender<Order>,
    pub(super) pace: Pace,
}

/// Distributes connections to workers in turn: a worker that is blocked by a step keeps none waiting.
pub(super) struct Acceptor<C> {
    connections: Connections,
    traffic: C,
    workers: Vec<Seat>,
    /// Answers probes, and refuses all else, while all workers are blocked.
    spare: Seat,
    next: AtomicUsize,
}

impl<C: Traffic> Acceptor<C> {
    pub(super) fn new(
        connections: Connections,
        traffic: C,
        workers: Vec<Seat>,
        spare: Seat,
    ) -> Arc<Self> {
        Arc::new(Self { connections, traffic, workers, spare, next: AtomicUsize::new(0) })
    }

    /// Sends an order to all workers.
    pub(super) fn tell(&self, order: impl Fn() -> Order) {
        for worker in self.workers.iter().chain([&self.spare]) {
            // one that is gone has no connections
            let _ = worker.orders.send(order());
        }
    }

    /// Takes connections, in a task of this thread, until the sender of `closing` is dropped, then those that are made already, and
    /// refuses all others; the log says where clients reach `path`. `told` gets an error if a listener fails.
    pub(super) fn accept(
        self: Arc<Self>,
        listeners: Vec<(TcpListener, Option<Handshakes>)>,
        path: String,
        closing: oneshot::Receiver<Infallible>,
        told: oneshot::Sender<Result<()>>,
    ) {
        let accept = async move || {
            let listeners = listen(listeners, &path)?;
            let accept = join_all(listeners.iter().map(|listener| listener.accept(&self)));
            tokio::select! {
                _ = accept, if !listeners.is_empty() => {}
                _ = closing => {}
            }
            listeners.into_iter().try_for_each(|listener| listener.close(&self))
        };
        tokio::task::spawn_local(async move {
            // the server may have ended
            let _ = told.send(accept().await);
        });
    }

    /// Over a limit, dropping the stream closes the connection.
    fn give(self: &Arc<Self>, handshakes: Option<Handshakes>, stream: TcpStream, peer: SocketAddr) {
        let Some(connected) = self.connections.enter(peer) else {
            return self.traffic.count(Counted::OverLimit);
        };
        let accepted = Accepted { stream, peer, handshakes, connected };
        let offer = Offer::new(accepted);
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let count = self.workers.len();
        let mut workers = (0..count).map(|at| (first + at) % count);
        let free = workers.find(|at| self.workers[*at].pace.level() == 0);
        if let Some(free) = free {
            self.workers[free].offer(&offer);
        }
        tokio::task::spawn_local(Arc::clone(self).follow(offer, free));
    }

    /// Offers a connection to others, if the worker that it was offered to does not take it.
    async fn follow(self: Arc<Self>, offer: Offer, first: Option<usize>) {
        if let Some(first) = first {
            tokio::time::sleep(LATE).await;
            if offer.is_taken() {
                return;
            }
            self.workers[first].pace.at_least(Pace::LATE);
        }
        let mut others: Vec<_> = self.workers.iter().collect();
        others.retain(|worker| worker.pace.level() < Pace::STUCK);
        if !others.is_empty() {
            others.iter().for_each(|worker| worker.offer(&offer));
            for _ in 0..LOOKS {
                tokio::time::sleep(LATE).await;
                if offer.is_taken() {
                    return;
                }
                if others.iter().all(|worker| worker.pace.is_blocked()) {
                    break;
                }
            }
            for worker in others {
                worker.pace.at_least(Pace::STUCK);
                // it has an order from which it is seen to move again
                worker.offer(&offer);
            }
        }
        self.spare.offer(&offer);
    }
}

impl Seat {
    fn offer(&self, offer: &Offer) {
        if self.orders.send(Order::Serve(offer.clone())).is_err() {
            tracing::error!("a worker is gone");
        }
    }
}

fn listen(listeners: Vec<(TcpListener, Option<Handshakes>)>, path: &str) -> Result<Vec<Listener>> {
    let listeners = listeners.into_iter().map(|(listener, tls)| Listener::new(listener, tls));
    let listeners = listeners.collect::<Result<Vec<_>>>()?;
    listeners.iter().try_for_each(|listener| listener.announce(path))?;
    Ok(listeners)
}

/// Where connections come from.
struct Listener {
    /// If it speaks TLS.
    handshakes: Option<Handshakes>,
    listener: tokio::net::TcpListener,
}

impl Listener {
    fn new(listener: TcpListener, handshakes: Option<Handshakes>) -> Result<Self> {
        Ok(Self { handshakes, listener: tokio::net::TcpListener::from_std(listener)? })
    }

    /// Logs where clients reach this listener.
    fn announce(&self, path: &str) -> Result<()> {
        let address = self.listener.local_addr()?;
        let scheme = if self.handshakes.is_some() { "https" } else { "http" };
        tracing::info!("listening on {scheme}://{address}{path}/");
        Ok(())
    }

    /// Takes connections for ever.
    async fn accept<C: Traffic>(&self, acceptor: &Arc<Acceptor<C>>) {
        let mut warned: Option<Instant> = None;
        loop {
            let accepted = self.listener.accept().await;
            match accepted.and_then(|(stream, peer)| Ok((stream.into_std()?, peer))) {
                Ok((stream, peer)) => acceptor.give(self.handshakes.clone(), stream, peer),
                Err(error) if is_of_connection(error.kind()) => {}
                Err(error) => {
                    if warned.is_none_or(|at| at.elapsed() >= WARN_INTERVAL) {
                        tracing::warn!(%error, "cannot take connections");
                        warned = Some(Instant::now());
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Takes the connections that are made already, and refuses all others.
    fn close<C: Traffic>(self, acceptor: &Arc<Acceptor<C>>) -> Result<()> {
        let listener = self.listener.into_std()?;
        loop {
            match listener.accept() {
                Ok((stream, peer)) => {
                    stream.set_nonblocking(true)?;
                    acceptor.give(self.handshakes.clone(), stream, peer);
                }
                Err(error) if is_of_connection(error.kind()) => {}
                // there is none, or no room for one
                Err(_) => return Ok(()),
            }
        }
    }
}

/// Whether it concerns the one connection that was taken.
fn is_of_connection(error: ErrorKind) -> bool {
    matches!(
        error,
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
            | ErrorKind::Interrupted
    )
}
