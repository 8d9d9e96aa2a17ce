//! A connection that another server has: what the client sends is the body of the request, what it gets the body of the
//! answer.

use std::cell::RefCell;
use std::io;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use asyncsteps_actors::budget::Client;
use bytes::{Bytes, BytesMut};
use futures_util::Stream;

use super::WebSocket;
use super::link::Duplex;
use asyncsteps_server::Account;

type Input = Pin<Box<dyn Stream<Item = io::Result<Bytes>>>>;

/// The connection, as it is used here.
struct Chunks {
    input: RefCell<Input>,
    output: Rc<RefCell<Slot>>,
}

/// The body of the answer. Dropping it ends the connection.
pub(crate) struct AnswerChunks(Rc<RefCell<Slot>>);

/// The chunk of the answer that its server has not taken; empty if there is none.
#[derive(Default)]
struct Slot {
    chunk: Bytes,
    /// One of the two ends is dropped.
    is_closed: bool,
    /// Who waits until the chunk is taken or the answer dropped.
    writer: Option<Waker>,
    /// Who waits for a chunk.
    reader: Option<Waker>,
}

impl WebSocket {
    /// Serves it in a task of its own, over the body of its request; returns the body of the answer. `open` is kept
    /// until it ends.
    pub(crate) fn serve_chunks(
        self,
        input: impl Stream<Item = io::Result<Bytes>> + 'static,
        open: impl Sized + 'static,
    ) -> AnswerChunks {
        let (connection, answer) = Chunks::new(Box::pin(input));
        let client = self.handler.channel.peer().map_or(Client::Unknown, Client::from);
        let account = Account::new(self.handler.executor.hold(&client));
        actix_rt::spawn(async move {
            self.serve(Rc::new(connection), BytesMut::new(), account).await;
            drop(open);
        });
        answer
    }
}

impl Chunks {
    /// A connection with this body of a request, and the body of its answer.
    fn new(input: Input) -> (Self, AnswerChunks) {
        let output = Rc::<RefCell<Slot>>::default();
        let answer = AnswerChunks(Rc::clone(&output));
        (Self { input: RefCell::new(input), output }, answer)
    }
}

impl Duplex for Chunks {
    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        loop {
            let Some(chunk) = ready!(self.input.borrow_mut().as_mut().poll_next(cx)?) else {
                return Poll::Ready(Ok(0));
            };
            if chunk.is_empty() {
                continue;
            }
            let read = chunk.len();
            match buffer.is_empty() {
                true => *buffer = BytesMut::from(chunk),
                false => buffer.extend_from_slice(&chunk),
            }
            return Poll::Ready(Ok(read));
        }
    }

    fn send(&self, chunk: Bytes) -> io::Result<()> {
        let mut slot = self.output.borrow_mut();
        if slot.is_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        slot.chunk = chunk;
        let reader = slot.reader.take();
        drop(slot);
        wake(reader);
        Ok(())
    }

    fn is_sending(&self) -> bool {
        self.unsent() > 0
    }

    fn unsent(&self) -> usize {
        self.output.borrow().chunk.len()
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let slot = &mut *self.output.borrow_mut();
        if slot.is_closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if slot.chunk.is_empty() {
            return Poll::Ready(Ok(()));
        }
        slot.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let slot = &mut *self.output.borrow_mut();
        if slot.is_closed {
            return Poll::Ready(());
        }
        slot.writer = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        let mut slot = self.output.borrow_mut();
        slot.is_closed = true;
        let reader = slot.reader.take();
        drop(slot);
        wake(reader);
    }
}

impl Stream for AnswerChunks {
    type Item = Bytes;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut slot = self.0.borrow_mut();
        if !slot.chunk.is_empty() {
            let (chunk, writer) = (mem::take(&mut slot.chunk), slot.writer.take());
            drop(slot);
            wake(writer);
            return Poll::Ready(Some(chunk));
        }
        if slot.is_closed {
            return Poll::Ready(None);
        }
        slot.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for AnswerChunks {
    fn drop(&mut self) {
        let mut slot = self.0.borrow_mut();
        slot.is_closed = true;
        let writer = slot.writer.take();
        drop(slot);
        wake(writer);
    }
}

/// Nothing is borrowed meanwhile.
fn wake(task: Option<Waker>) {
    if let Some(task) = task {
        task.wake();
    }
}
