//! Accepting connections and distributing them to workers.

use std::io::{ErrorKind, Result};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::connections::Connections;
use super::tls::Handshakes;
use super::worker::{Accepted, Order};
use asyncsteps_executor::observe::Traffic;

/// How long to wait after the system had no room for a connection, such as no more open files.
const PAUSE: Duration = Duration::from_millis(100);

/// How often it is logged that the system has no room.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// Distributes connections to workers in turn.
pub(super) struct Acceptor {
    connections: Connections,
    traffic: Traffic,
    workers: Vec<mpsc::UnboundedSender<Order>>,
    next: AtomicUsize,
}

impl Acceptor {
    pub(super) fn new(
        connections: Connections,
        traffic: Traffic,
        workers: Vec<mpsc::UnboundedSender<Order>>,
    ) -> Self {
        Self { connections, traffic, workers, next: AtomicUsize::new(0) }
    }

    /// Sends an order to all workers.
    pub(super) fn tell(&self, order: impl Fn() -> Order) {
        for worker in &self.workers {
            // one that is gone has no connections
            let _ = worker.send(order());
        }
    }

    /// Over a limit, dropping the stream closes the connection.
    fn give(&self, handshakes: Option<Handshakes>, stream: TcpStream, peer: SocketAddr) {
        let Some(connected) = self.connections.enter(peer) else {
            return self.traffic.over_limit();
        };
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.workers.len();
        let accepted = Accepted { stream, peer, handshakes, connected };
        if self.workers[next].send(Order::Serve(accepted)).is_err() {
            tracing::error!("a worker is gone");
        }
    }
}

/// Where connections come from.
pub(super) struct Listener {
    /// If it speaks TLS.
    handshakes: Option<Handshakes>,
    listener: actix_rt::net::TcpListener,
}

impl Listener {
    pub(super) fn new(listener: TcpListener, handshakes: Option<Handshakes>) -> Result<Self> {
        Ok(Self { handshakes, listener: actix_rt::net::TcpListener::from_std(listener)? })
    }

    /// Logs where clients reach this listener.
    pub(super) fn announce(&self, path: &str) -> Result<()> {
        let address = self.listener.local_addr()?;
        let scheme = if self.handshakes.is_some() { "https" } else { "http" };
        tracing::info!("listening on {scheme}://{address}{path}/");
        Ok(())
    }

    /// Takes connections for ever.
    pub(super) async fn accept(&self, acceptor: &Acceptor) {
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
    pub(super) fn close(self, acceptor: &Acceptor) -> Result<()> {
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
