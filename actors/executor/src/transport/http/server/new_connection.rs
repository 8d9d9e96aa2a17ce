//! A connection before its first request.

use std::fmt;
use std::net::SocketAddr;

use super::io::Io;

/// A connection that was just made; see [`Server::on_connect`](super::Server::on_connect).
#[derive(Clone, Copy)]
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
        self.io.tcp().peer_addr().ok()
    }

    /// Whether written bytes are sent at once (`TCP_NODELAY`).
    #[must_use]
    pub fn is_nodelay(&self) -> bool {
        self.io.tcp().nodelay().unwrap_or(false)
    }

    /// The state of TLS, such as the certificates of the client; `None` without TLS.
    #[cfg(feature = "rustls")]
    #[must_use]
    pub fn tls(&self) -> Option<&'a rustls::ServerConnection> {
        self.io.tls()
    }
}

impl fmt::Debug for NewConnection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewConnection").field("peer", &self.peer()).finish_non_exhaustive()
    }
}
