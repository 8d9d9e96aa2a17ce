//! The bytes of a connection, with time limits for what its client does not send or take.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use asyncsteps_actors::clock;
use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::{Ambiguous, Framing};
use super::limits::ServerLimits;
use super::patience::{Patience, timed_out};
use super::progress::{Alarm, Progress, Waiting};

/// A connection that ends when its client is too slow.
///
/// Reading gives the end of the connection when no request comes in time, and `TimedOut` when a head
/// that has begun does not end in time. Bodies have their limit where they are read
/// ([`Receiving`](super::receiving::Receiving)).
pub(super) struct Metered<T> {
    io: T,
    progress: Rc<Progress>,
    /// Read already, to find out the protocol.
    first: Bytes,
    /// Where its requests end, in HTTP/1.
    framing: Option<Framing>,
    reading: Alarm,
    writing: Patience,
}

impl<T> Metered<T> {
    pub(super) fn new(io: T, progress: Rc<Progress>, limits: &ServerLimits) -> Self {
        let writing = Patience::new(limits.stall_timeout, limits.least_rate);
        Self {
            io,
            progress,
            first: Bytes::new(),
            framing: None,
            reading: Alarm::default(),
            writing,
        }
    }

    /// Has these bytes read again, which are the first of HTTP/1.
    pub(super) fn begin_http1(&mut self, first: Bytes) {
        self.first = first;
        self.framing = Some(Framing::new());
    }

    /// The same, which are the first of HTTP/2.
    pub(super) fn begin_http2(&mut self, first: Bytes) {
        self.first = first;
    }

    /// The connection itself, for another protocol.
    pub(super) fn into_inner(self) -> T {
        self.io
    }

    /// Looks at what was read behind `begin`; nothing is given of what follows a head that two ends
    /// could take for different requests.
    fn follow(&mut self, buf: &mut ReadBuf<'_>, begin: usize) {
        if let Some(framing) = &mut self.framing
            && let Err(Ambiguous { end, number }) = framing.follow(&buf.filled()[begin..])
        {
            self.progress.refuse(number);
            buf.set_filled(begin + end);
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Metered<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let begin = buf.filled().len();
        if this.progress.is_refused() {
            return Poll::Ready(Ok(()));
        }
        if !this.first.is_empty() {
            let length = this.first.len().min(buf.remaining());
            buf.put_slice(&this.first[..length]);
            this.first.advance(length);
            this.follow(buf, begin);
            return Poll::Ready(Ok(()));
        }
        let polled = Pin::new(&mut this.io).poll_read(cx, buf);
        if polled.is_ready() {
            this.progress.read();
            this.follow(buf, begin);
            return polled;
        }
        let (due, late) = match this.progress.waiting() {
            Waiting::InService => return Poll::Pending,
            Waiting::Over => return Poll::Ready(Ok(())),
            Waiting::Idle(due) => (due, Ok(())),
            Waiting::Head(due) => (due, Err(timed_out())),
        };
        let now = clock::now();
        if now >= due {
            return Poll::Ready(late);
        }
        this.reading.set(due, now, cx);
        Poll::Pending
    }
}

impl<T> Metered<T> {
    /// Bounds the wait for the other end to take bytes.
    fn watch<R>(&mut self, written: Poll<io::Result<R>>, cx: &Context<'_>) -> Poll<io::Result<R>> {
        if written.is_pending() {
            self.progress.block();
            self.writing.wait(self.progress.closing(), cx)?;
        }
        written
    }

    fn moved(&mut self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.writing.moved(*bytes);
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Metered<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write(cx, bytes);
        this.moved(&written);
        this.watch(written, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write_vectored(cx, parts);
        this.moved(&written);
        this.watch(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.io).poll_flush(cx);
        if flushed.is_ready() {
            // all is written before it is flushed
            this.writing.rest();
            if this.progress.unblock() {
                // how long it may be idle is known only now
                cx.waker().wake_by_ref();
            }
        }
        this.watch(flushed, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.io).poll_shutdown(cx);
        this.watch(shut, cx)
    }
}
