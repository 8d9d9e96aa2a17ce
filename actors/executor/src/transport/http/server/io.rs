//! The bytes of a connection, plain or over TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_rt::net::TcpStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
#[cfg(feature = "rustls")]
use tokio_rustls::server::TlsStream;

/// What a connection is read from and written to.
pub(super) enum Io {
    Plain(TcpStream),
    /// In a box, because it is large.
    #[cfg(feature = "rustls")]
    Tls(Box<TlsStream<TcpStream>>),
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
        each!(self, io => Pin::new(io).poll_read(cx, buf))
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

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_shutdown(cx))
    }
}

impl Io {
    pub(super) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            #[cfg(feature = "rustls")]
            Self::Tls(stream) => stream.get_ref().0,
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
