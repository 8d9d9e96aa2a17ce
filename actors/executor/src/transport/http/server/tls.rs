//! TLS handshakes of new connections.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use actix_rt::net::TcpStream;
use asyncsteps_actors::budget::{Budget, Client, Limits};
use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

use super::io::Io;
use super::limits::ServerLimits;
use super::patience::timed_out;

/// The protocols that are spoken over TLS (RFC 7301), the better one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Makes secure connections; a cheap handle.
#[derive(Clone)]
pub(super) struct Handshakes {
    acceptor: TlsAcceptor,
    /// How long one may take.
    timeout: Duration,
    places: Budget,
}

impl Handshakes {
    pub(super) fn new(mut config: ServerConfig, limits: ServerLimits) -> Self {
        if config.alpn_protocols.is_empty() {
            config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        }
        let concurrent = limits.handshakes;
        // connections are counted already
        let places = Limits { concurrent, queued: usize::MAX, memory: usize::MAX };
        // always half of them, because a client that stops in the middle has its place for a while
        let places = Budget::with_most_of_client(places, concurrent.div_ceil(2));
        Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            timeout: limits.handshake_timeout,
            places,
        }
    }

    /// Makes a connection secure.
    ///
    /// # Errors
    /// What ended the handshake; `TimedOut` if it took too long.
    pub(super) async fn shake(&self, stream: TcpStream, client: &Client) -> io::Result<Io> {
        let shaken = async {
            // a client that says nothing takes no place
            stream.readable().await?;
            let place = self.places.admit(client, 0).await.map_err(io::Error::other)?;
            let stream = self.acceptor.accept(stream).await?;
            drop(place);
            Ok(Io::Tls(Box::new(stream)))
        };
        tokio::time::timeout(self.timeout, shaken).await.unwrap_or_else(|_| Err(timed_out()))
    }
}
