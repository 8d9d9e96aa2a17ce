//! A connection before its first request.

use std::net::SocketAddr;

use super::io::Io;

/// A connection that was just made; see [`Server::on_connect`](super::Server::on_connect).
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("NewConnection {{ peer: {:?}, .. }}", self.peer())]
pub struct NewConnection<'a> {
    io: &'a Io,
}

impl<'a> NewConnection<'a> {
    pub(super) fn new(io: &'a Io) -> Self {
        Self { io }
    }

    /// The address of the other end, be it a proxy; `None` if it is gone already.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.io.tcp()?.peer_addr().ok()
    }

    /// Whether written bytes are sent at once (`TCP_NODELAY`).
    #[must_use]
    pub fn is_nodelay(&self) -> bool {
        self.io.tcp().is_some_and(|tcp| tcp.nodelay().unwrap_or(false))
    }

    /// The state of TLS, such as the certificates of the client; `None` without TLS.
    #[cfg(feature = "rustls")]
    #[must_use]
    pub fn tls(&self) -> Option<&'a rustls::ServerConnection> {
        self.io.tls()
    }
}
