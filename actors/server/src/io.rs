//! The bytes of a connection, plain or over TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(feature = "rustls")]
use tokio_rustls::server::TlsStream;

#[cfg(feature = "rustls")]
use super::tls::Sealed;

/// The stream of a connection.
#[derive(derive_more::Debug)]
#[debug("Io {{ .. }}")]
pub struct Io(Kind);

pub(super) enum Kind {
    Plain(TcpStream),
    /// In a box, because it is large.
    #[cfg(feature = "rustls")]
    Tls(Box<TlsStream<Sealed>>),
    #[cfg(test)]
    Test(Box<dyn TestIo>),
}

/// A connection of tests.
#[cfg(test)]
pub(super) trait TestIo: AsyncRead + AsyncWrite + Unpin {}

#[cfg(test)]
impl<T: AsyncRead + AsyncWrite + Unpin> TestIo for T {}

/// Calls the same on whatever it is.
macro_rules! each {
    ($io:expr, $name:ident => $call:expr) => {
        match &mut $io.get_mut().0 {
            Kind::Plain($name) => $call,
            #[cfg(feature = "rustls")]
            Kind::Tls($name) => $call,
            #[cfg(test)]
            Kind::Test($name) => $call,
        }
    };
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Kind::Plain(io) => Pin::new(io).poll_read(cx, buf),
            #[cfg(test)]
            Kind::Test(io) => Pin::new(io).poll_read(cx, buf),
            #[cfg(feature = "rustls")]
            Kind::Tls(io) => {
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
    pub(super) fn plain(stream: TcpStream) -> Self {
        Self(Kind::Plain(stream))
    }

    #[cfg(feature = "rustls")]
    pub(super) fn secure(stream: Box<TlsStream<Sealed>>) -> Self {
        Self(Kind::Tls(stream))
    }

    #[cfg(not(feature = "rustls"))]
    pub(super) fn secure(none: std::convert::Infallible) -> Self {
        match none {}
    }

    #[cfg(test)]
    pub(super) fn test(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> Self {
        Self(Kind::Test(Box::new(stream)))
    }

    /// Whether both ends have agreed to speak HTTP/2 (RFC 9113 §3.3).
    pub(super) fn is_http2(&self) -> bool {
        #[cfg(feature = "rustls")]
        if let Some(tls) = self.tls() {
            return tls.alpn_protocol() == Some(b"h2");
        }
        false
    }

    pub(super) fn tcp(&self) -> Option<&TcpStream> {
        match &self.0 {
            Kind::Plain(stream) => Some(stream),
            #[cfg(feature = "rustls")]
            Kind::Tls(stream) => Some(stream.get_ref().0.tcp()),
            #[cfg(test)]
            Kind::Test(_) => None,
        }
    }

    #[cfg(feature = "rustls")]
    pub(super) fn tls(&self) -> Option<&rustls::ServerConnection> {
        match &self.0 {
            Kind::Tls(stream) => Some(stream.get_ref().1),
            Kind::Plain(_) => None,
            #[cfg(test)]
            Kind::Test(_) => None,
        }
    }
}
