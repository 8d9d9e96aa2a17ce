//! Clients of tests whose connections need no memory of their own, so that what a server takes for them can be counted.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use asyncsteps_budget::{Budget, Limits};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::measure;

/// Bytes of the budget.
const MEMORY: usize = 16 << 20;

/// How many clients send at once what they do not go on with: twice as many as there is room for.
const CLIENTS: usize = 500;

/// Bytes of an idle connection.
const CONNECTION: usize = 8 << 10;

/// A connection whose client takes everything; a handle that is shared with the client.
#[derive(Clone, Debug, Default)]
pub struct Wire(Rc<RefCell<Sent>>);

#[derive(Debug, Default)]
struct Sent {
    /// What the client has sent, and how much of it was read.
    bytes: Rc<[u8]>,
    read: usize,
    has_left: bool,
    reader: Option<Waker>,
}

impl Wire {
    /// The client sends bytes, in place of those before.
    pub fn send(&self, bytes: &Rc<[u8]>) {
        let sent = &mut *self.0.borrow_mut();
        (sent.bytes, sent.read, sent.has_left) = (Rc::clone(bytes), 0, false);
        sent.wake();
    }

    /// The client leaves.
    fn leave(&self) {
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

/// Has clients send the same bytes, then leave; compares what is taken for them with the budget.
///
/// # Panics
/// If the budget counts less than is taken, or if the allocator does not count.
#[track_caller]
pub fn check_memory<S>(sent: impl Into<Rc<[u8]>>, server: impl FnOnce(Budget) -> S)
where
    S: AsyncFn(Wire) + Clone + 'static,
{
    let (sent, system) = (sent.into(), actix_rt::System::new());
    let budget = Budget::new(Limits { memory: MEMORY, ..Limits::default() });
    let serve = system.block_on(async { server(budget.clone()) });
    let clients: Vec<_> = (0..CLIENTS).map(|_| Wire::default()).collect();
    let turns = async || {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    };
    let begin = async || {
        for client in &clients {
            client.send(&Rc::default());
            let (serve, client) = (serve.clone(), client.clone());
            actix_rt::spawn(async move { serve(client).await });
        }
        turns().await;
        clients.iter().for_each(|client| client.send(&sent));
        turns().await;
    };
    let leave = async || {
        clients.iter().for_each(Wire::leave);
        turns().await;
    };
    // for the first time, tables are made that stay
    system.block_on(async {
        begin().await;
        leave().await;
    });
    let begun = measure(|| system.block_on(begin()));
    assert!(begun.count > 0, "the allocator of the test is `Heap`");
    let counted = budget.usage().memory;
    let connections = (CLIENTS * CONNECTION) as i64;
    let taken = begun.bytes_kept - counted as i64;
    assert!(
        counted <= MEMORY && taken < connections,
        "{counted} bytes count, {taken} more are taken"
    );
    let beyond = begun.bytes_at_once - MEMORY as i64;
    assert!(beyond < connections + MEMORY as i64 / 8, "{beyond} bytes too many are taken at once");
    let left = measure(|| system.block_on(leave()));
    let kept = begun.bytes_kept + left.bytes_kept;
    // tables may have grown: 128 bytes for each client
    assert!(kept.abs() < 64 << 10, "{kept} bytes are kept");
}
