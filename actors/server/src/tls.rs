//! TLS handshakes of new connections, and what their records take.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use asyncsteps_budget::{Budget, Client, Limits};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::account::{Share, displaced};
use super::limits::ServerLimits;
use super::min_rate::timed_out;

/// The protocols that are spoken over TLS (RFC 7301), the better one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Bytes of an incomplete record before they count: rustls has a buffer of this size in any case.
const READ: usize = 4 << 10;

/// Bytes of records that wait for the client at most.
const UNSENT: usize = 32 << 10;

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
    pub(super) async fn shake(
        &self,
        stream: TcpStream,
        client: &Client,
        share: Share,
    ) -> io::Result<Box<TlsStream<Sealed>>> {
        let shaken = async {
            // a client that says nothing takes no place
            stream.readable().await?;
            let place = self.places.admit(client, 0).await.map_err(io::Error::other)?;
            let sealed = Sealed { tcp: stream, share, received: 0, is_blocked: false, held: 0 };
            let mut stream = self.acceptor.accept(sealed).await?;
            stream.get_mut().1.set_buffer_limit(Some(UNSENT));
            drop(place);
            Ok(Box::new(stream))
        };
        tokio::time::timeout(self.timeout, shaken).await.unwrap_or_else(|_| Err(timed_out()))
    }
}

/// The records of a connection: what rustls buffers of an incomplete record, and of records that the client does not
/// take, counts as held.
pub(super) struct Sealed {
    tcp: TcpStream,
    share: Share,
    /// Bytes since a record was complete.
    received: usize,
    is_blocked: bool,
    /// Bytes that count.
    held: usize,
}

impl Sealed {
    pub(super) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// The received record is complete.
    pub(super) fn opened(&mut self) {
        self.received = 0;
    }

    fn hold(&mut self) -> io::Result<()> {
        let received = if self.received > READ { self.received } else { 0 };
        let held = received + if self.is_blocked { UNSENT } else { 0 };
        if held != self.held {
            self.share.set(held, held > 0).map_err(|_| displaced())?;
            self.held = held;
        }
        if self.share.is_displaced() { Err(displaced()) } else { Ok(()) }
    }
}

impl AsyncRead for Sealed {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let polled = Pin::new(&mut this.tcp).poll_read(cx, buf);
        this.received += buf.filled().len() - before;
        if polled.is_pending() {
            this.hold()?;
        }
        polled
    }
}

impl AsyncWrite for Sealed {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.tcp).poll_write(cx, bytes);
        if std::mem::replace(&mut this.is_blocked, written.is_pending()) != written.is_pending() {
            this.hold()?;
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_shutdown(cx)
    }
}
