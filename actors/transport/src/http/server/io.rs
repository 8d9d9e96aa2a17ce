//! The bytes of a connection, plain or over TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_rt::net::TcpStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
#[cfg(feature = "rustls")]
use tokio_rustls::server::TlsStream;

#[cfg(feature = "rustls")]
use super::tls::Sealed;

/// The stream of a connection.
pub(super) enum Io {
    Plain(TcpStream),
    /// In a box, because it is large.
    #[cfg(feature = "rustls")]
    Tls(Box<TlsStream<Sealed>>),
}

#[cfg(feature = "rustls")]
impl From<Box<TlsStream<Sealed>>> for Io {
    fn from(stream: Box<TlsStream<Sealed>>) -> Self {
        Self::Tls(stream)
    }
}

#[cfg(not(feature = "rustls"))]
impl From<std::convert::Infallible> for Io {
    fn from(none: std::convert::Infallible) -> Self {
        match none {}
    }
}

/// Calls the same on whatever it is.
macro_rules! each {
    ($io:expr, $name:ident => $call:expr) => {
        match $io.get_mut() {
            Io::Plain($name) => $call,
            #[cfg(feature = "rustls")]
            Io::Tls($name) => $call,
        }
    };
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_read(cx, buf),
            #[cfg(feature = "rustls")]
            Self::Tls(io) => {
                let before = buf.filled().len();
                let polled = Pin::new(&mut *io).poll_read(cx, buf);
                if buf.filled().len() > before {
                    io.get_mut().0.opened();
                }
                polled
            }
        }
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, io => Pin::new(io).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, io => Pin::new(io).poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_shutdown(cx))
    }
}

impl Io {
    /// Whether both ends have agreed to speak HTTP/2 (RFC 9113 §3.3).
    pub(super) fn is_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            #[cfg(feature = "rustls")]
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }

    pub(super) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            #[cfg(feature = "rustls")]
            Self::Tls(stream) => stream.get_ref().0.tcp(),
        }
    }

    #[cfg(feature = "rustls")]
    pub(super) fn tls(&self) -> Option<&rustls::ServerConnection> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => Some(stream.get_ref().1),
        }
    }
}
