//! The stream of a WebSocket: a connection, or the bodies of an HTTP request and its answer.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use asyncsteps_executor::observe::Traffic;
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

/// How much is read at once where no frame has begun: more than most messages.
pub(super) const READ: usize = 4 << 10;

/// A connection whose halves are used at once, by one task.
pub(crate) trait Duplex {
    /// Reads the available bytes, of a connection as many as there is room for, and appends them to `buffer`, which
    /// has room unless it is empty; returns their number, 0 at the end.
    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>>;

    /// Takes a chunk after the one before is on its way, and sends as much of it as can be sent now.
    ///
    /// # Errors
    /// If the other end is gone.
    fn send(&self, chunk: Bytes) -> io::Result<()>;

    /// Whether a part of the last chunk is not on its way.
    fn is_sending(&self) -> bool;

    /// Bytes of the last chunk that are not on their way.
    fn unsent(&self) -> usize;

    /// Waits until everything is on its way.
    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Waits until the other end is gone, as far as that shows without reading.
    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()>;
}

/// The reading half.
pub(super) struct Input(Rc<dyn Duplex>);

/// The writing half; a cheap handle.
#[derive(Clone)]
pub(super) struct Output(Rc<dyn Duplex>);

/// The other end is gone.
#[derive(Debug)]
pub(super) struct Gone;

/// The halves of a connection.
pub(super) fn halves(connection: Rc<dyn Duplex>) -> (Input, Output) {
    (Input(Rc::clone(&connection)), Output(connection))
}

impl Input {
    /// Reads the available bytes and appends them to `buffer`; `false` at the end.
    pub(super) fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<bool> {
        self.0.poll_read(cx, buffer).map(|read| read.is_ok_and(|bytes| bytes > 0))
    }
}

impl Output {
    /// Waits until the other end is gone, as far as that shows without reading.
    pub(super) async fn closed(&self) {
        poll_fn(|cx| self.0.poll_closed(cx)).await;
    }

    /// Whether some of the sent bytes are not in flight yet.
    pub(super) fn is_sending(&self) -> bool {
        self.0.is_sending()
    }

    /// Bytes that were sent and are not on their way, as far as that is known.
    pub(super) fn unsent(&self) -> usize {
        self.0.unsent()
    }

    /// Waits until there is room for more.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(super) async fn ready(&self) -> Result<(), Gone> {
        poll_fn(|cx| self.0.poll_flush(cx)).await.map_err(|_| Gone)
    }

    /// Sends a chunk for which there is room.
    pub(super) fn send(&self, chunk: Bytes) -> Result<(), Gone> {
        if chunk.is_empty() { Ok(()) } else { self.0.send(chunk).map_err(|_| Gone) }
    }

    /// Sends the last chunk, and waits until it is on its way.
    pub(super) async fn send_last(&self, chunk: Bytes) -> Result<(), Gone> {
        self.ready().await?;
        self.send(chunk)?;
        self.ready().await
    }
}

/// A connection of a server.
pub(super) struct Socket<T> {
    io: RefCell<T>,
    /// The bytes that are not in flight yet.
    waiting: RefCell<Bytes>,
    is_flushed: Cell<bool>,
    /// Counts its bytes.
    traffic: Traffic,
}

impl<T> Socket<T> {
    pub(super) fn new(io: T, traffic: Traffic) -> Self {
        let (waiting, is_flushed) = (RefCell::default(), Cell::new(true));
        Self { io: RefCell::new(io), waiting, is_flushed, traffic }
    }

    /// The connection itself, when nothing uses it any more.
    pub(super) fn into_inner(self: Rc<Self>) -> Option<T> {
        Rc::into_inner(self).map(|socket| socket.io.into_inner())
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for Socket<T> {
    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        let mut io = self.io.borrow_mut();
        let io = Pin::new(&mut *io);
        let read = if buffer.is_empty() {
            // a connection that waits for its next message has no buffer
            let mut chunk = [MaybeUninit::uninit(); READ];
            let mut chunk = ReadBuf::uninit(&mut chunk);
            ready!(io.poll_read(cx, &mut chunk))?;
            *buffer = BytesMut::from(chunk.filled());
            chunk.filled().len()
        } else {
            ready!(poll_read_buf(io, cx, buffer))?
        };
        self.traffic.received(read);
        Poll::Ready(Ok(read))
    }

    fn send(&self, chunk: Bytes) -> io::Result<()> {
        *self.waiting.borrow_mut() = chunk;
        self.is_flushed.set(false);
        match self.poll_flush(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }

    fn is_sending(&self) -> bool {
        !self.is_flushed.get()
    }

    fn unsent(&self) -> usize {
        self.waiting.borrow().len()
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_flushed.get() {
            return Poll::Ready(Ok(()));
        }
        let (io, waiting) = (&mut *self.io.borrow_mut(), &mut *self.waiting.borrow_mut());
        while !waiting.is_empty() {
            let written = ready!(Pin::new(&mut *io).poll_write(cx, waiting))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.traffic.sent(written);
            waiting.advance(written);
        }
        ready!(Pin::new(io).poll_flush(cx))?;
        // the memory of a large chunk is not kept
        *waiting = Bytes::new();
        self.is_flushed.set(true);
        Poll::Ready(Ok(()))
    }

    fn poll_closed(&self, _: &mut Context<'_>) -> Poll<()> {
        // it shows when something is read
        Poll::Pending
    }
}
