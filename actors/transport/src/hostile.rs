//! Clients of tests whose connections need no memory of their own, so that what a server takes for them can be counted.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[global_allocator]
static HEAP: asyncsteps_counted_heap::Heap = asyncsteps_counted_heap::Heap;

/// A connection whose client takes everything; a handle that is shared with the client.
#[derive(Clone, Default)]
pub(crate) struct Wire(Rc<RefCell<Sent>>);

#[derive(Default)]
struct Sent {
    /// What the client has sent, and how much of it was read.
    bytes: Rc<[u8]>,
    read: usize,
    has_left: bool,
    reader: Option<Waker>,
}

impl Wire {
    /// The client sends bytes, in place of those before.
    pub(crate) fn send(&self, bytes: &Rc<[u8]>) {
        let sent = &mut *self.0.borrow_mut();
        (sent.bytes, sent.read, sent.has_left) = (Rc::clone(bytes), 0, false);
        sent.wake();
    }

    /// The client leaves.
    pub(crate) fn leave(&self) {
        let sent = &mut *self.0.borrow_mut();
        sent.has_left = true;
        sent.wake();
    }
}

impl Sent {
    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let sent = &mut *self.0.borrow_mut();
        let rest = &sent.bytes[sent.read..];
        if rest.is_empty() && !sent.has_left {
            sent.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let part = &rest[..rest.len().min(buf.remaining())];
        sent.read += part.len();
        buf.put_slice(part);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
