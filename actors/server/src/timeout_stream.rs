//! The bytes of a connection, with time limits for what its client does not send or take.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use asyncsteps_budget::BudgetRefusal;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::account::{Share, displaced};
use super::blocks::Blocks;
use super::connection_state::{ConnectionState, ReadEnd};
use super::framing::{Ambiguous, Framing};
use super::io::Io;
use super::limits::ServerLimits;
use super::min_rate::{MinRate, timed_out};
use super::traffic::{Counted, Traffic};

/// How much is read at once without a buffer.
const FIRST_READ: usize = 4 << 10;

/// Bytes of hyper's buffers of an HTTP/1 connection whose head is small, with the connection itself.
const BUFFERS: usize = 28 << 10;

/// The most bytes that a byte of a head takes in HTTP/1: hyper's buffer has doubled as it grew, and
/// a line without an end is here too.
const OF_HEAD_BYTE: usize = 3;

/// The most bytes that a byte of a head takes in HTTP/2: it can encode an entry of a map, in a table that has doubled
/// as it grew.
const OF_BLOCK_BYTE: usize = 150;

/// The stream of a connection, counted and with timeouts: it ends when its client is too slow.
///
/// Reading returns the end of the connection when no request comes in time, and `TimedOut` when a
/// head that has begun does not end in time. Bodies have their limit where they are read
/// ([`Receiving`](super::receiving::Receiving)).
pub(super) struct TimeoutStream<C> {
    io: Io,
    traffic: C,
    progress: Rc<ConnectionState>,
    /// Read already, before anything was there to parse it.
    first: Bytes,
    /// Where its requests end.
    follower: Follower,
    /// The memory for a message that has begun.
    begun: Share,
    /// The memory for answers that its client does not take, in HTTP/1.
    blocked: Share,
    writing: MinRate,
}

/// Finds out where requests end.
enum Follower {
    /// The protocol is not known.
    None,
    Http1(Framing),
    Http2(Blocks),
}

impl<C: Traffic> TimeoutStream<C> {
    pub(super) fn new(
        io: Io,
        traffic: C,
        progress: Rc<ConnectionState>,
        limits: &ServerLimits,
    ) -> Self {
        progress.meter(true);
        let writing = MinRate::new(limits);
        let account = progress.holds().account();
        let (begun, blocked) = (account.share(), account.share());
        let follower = Follower::None;
        Self { io, traffic, progress, first: Bytes::new(), follower, begun, blocked, writing }
    }

    /// Follows requests of HTTP/1 from the first byte on.
    pub(super) fn begin_http1(&mut self) {
        self.follower = Follower::Http1(Framing::new());
        let clear = self.follow(&self.first.clone());
        self.first.truncate(clear);
    }

    /// Follows heads of HTTP/2 from the first byte on.
    pub(super) fn begin_http2(&mut self) {
        self.follower = Follower::Http2(Blocks::new());
    }

    /// The bytes that were waited for.
    pub(super) fn first(&self) -> &[u8] {
        &self.first
    }

    /// Has bytes read again, behind which nothing was read.
    pub(super) fn put_back(&mut self, read: Bytes) {
        debug_assert!(self.first.is_empty(), "they come first");
        // none of them would still hold hyper's buffer
        self.first = if read.is_empty() { Bytes::new() } else { read };
    }

    /// Returns this number of the bytes that were read already.
    fn give_first(&mut self, length: usize, buf: &mut ReadBuf<'_>) {
        buf.put_slice(&self.first.split_to(length));
        if self.first.is_empty() {
            self.first = Bytes::new();
        }
    }

    /// The connection itself, for another protocol.
    pub(super) fn into_inner(self) -> Io {
        self.progress.meter(false);
        self.io
    }

    /// Counts the memory of a message that has begun, while the rest is waited for.
    fn hold_begun(&mut self) -> Result<(), BudgetRefusal> {
        let (bytes, waits) = match &mut self.follower {
            Follower::None => (0, false),
            Follower::Http1(framing) if framing.is_in_head() || framing.is_in_body() => {
                (BUFFERS + OF_HEAD_BYTE * framing.head(), true)
            }
            Follower::Http1(_) => (0, false),
            Follower::Http2(blocks) => {
                let unread =
                    self.progress.holds().unread(blocks.take_data(), self.progress.limits());
                let most = OF_HEAD_BYTE * self.progress.limits().head_size;
                let block = blocks.begun().map_or(0, |block| (OF_BLOCK_BYTE * block).min(most));
                let partial = blocks.partial();
                (block + partial + unread + blocks.tabled(), block + partial > 0)
            }
        };
        self.begun.set(bytes, waits)
    }

    /// Looks at what was read, and returns how much of it may be passed on: nothing behind a head that two ends could
    /// take for different requests, and no more frames than are read in a turn.
    fn follow(&mut self, read: &[u8]) -> usize {
        let progress = &self.progress;
        match &mut self.follower {
            Follower::None => {
                progress.read(true, false);
                read.len()
            }
            Follower::Http2(blocks) => {
                let followed = blocks.follow(read, progress.frames());
                progress.read_frames(&followed, blocks.begun().is_some());
                followed.length
            }
            Follower::Http1(framing) => {
                let clear = match framing.follow(read) {
                    Ok(()) => read.len(),
                    Err(Ambiguous { end, number }) => {
                        progress.refuse(number);
                        end
                    }
                };
                progress.read(framing.has_seen_head(), framing.is_in_body());
                clear
            }
        }
    }
}

impl<C: Traffic> TimeoutStream<C> {
    /// Waits until at least `bytes` bytes were read, without a buffer; returns whether they arrived
    /// in time.
    pub(super) async fn wait_for(&mut self, bytes: usize) -> bool {
        while self.first.len() < bytes {
            // an end or an error has no answer
            if !poll_fn(|cx| self.poll_fill(cx)).await.is_ok_and(|read| read > 0) {
                return false;
            }
        }
        true
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut chunk = [MaybeUninit::uninit(); FIRST_READ];
        let mut chunk = ReadBuf::uninit(&mut chunk);
        ready!(self.poll_more(cx, &mut chunk))?;
        let read = chunk.filled();
        self.first = match self.first.is_empty() {
            true => Bytes::copy_from_slice(read),
            false => [&self.first, read].concat().into(),
        };
        Poll::Ready(Ok(read.len()))
    }

    /// Reads from the connection itself.
    fn poll_more(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.progress.is_refused() {
            return Poll::Ready(Ok(()));
        }
        if self.progress.holds().account().is_displaced() {
            return Poll::Ready(Err(displaced()));
        }
        if self.progress.is_half_closed() {
            return self.poll_end();
        }
        if self.progress.holds().account().is_crowded() || self.progress.frames() == 0 {
            // the tasks that release memory come first, or others that have requests
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Follower::Http2(_) = self.follower
            && !self.first.is_empty()
        {
            let read = self.first.slice(..self.first.len().min(buf.remaining()));
            let length = self.follow(&read);
            self.give_first(length, buf);
            return Poll::Ready(Ok(()));
        }
        let (begin, has_room) = (buf.filled().len(), buf.remaining() > 0);
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        self.traffic.count(Counted::Received(buf.filled().len() - begin));
        let is_end = has_room && buf.filled().len() == begin;
        if is_end && matches!(polled, Poll::Ready(Ok(()))) && self.progress.half_close() {
            return Poll::Pending;
        }
        if polled.is_ready() {
            let clear = self.follow(&buf.filled()[begin..]);
            if let Follower::Http2(_) = self.follower {
                // for another turn; in HTTP/1 nothing is read behind a refused head
                self.first = Bytes::copy_from_slice(&buf.filled()[begin + clear..]);
            }
            buf.set_filled(begin + clear);
            return polled;
        }
        if self.hold_begun().is_err() {
            self.progress.holds().account().refuse();
            return Poll::Ready(Err(displaced()));
        }
        self.poll_end()
    }

    /// The end of reading, if there is one now.
    fn poll_end(&self) -> Poll<io::Result<()>> {
        match self.progress.read_end() {
            None => Poll::Pending,
            Some(ReadEnd::Idle) => Poll::Ready(Ok(())),
            Some(ReadEnd::Late) => Poll::Ready(Err(timed_out())),
        }
    }
}

impl<C: Traffic> AsyncRead for TimeoutStream<C> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.first.is_empty() || matches!(this.follower, Follower::Http2(_)) {
            return this.poll_more(cx, buf);
        }
        this.give_first(this.first.len().min(buf.remaining()), buf);
        Poll::Ready(Ok(()))
    }
}

impl<C: Traffic> TimeoutStream<C> {
    /// Bounds the wait for the other end to take bytes.
    fn watch<R>(
        &mut self,
        written: Poll<io::Result<R>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<R>> {
        if written.is_pending() {
            self.progress.block();
            if let Err(waited) = self.writing.wait(self.progress.closing(), cx) {
                self.progress.stall(waited);
                return Poll::Ready(Err(timed_out()));
            }
            if self.progress.holds().account().is_displaced() {
                return Poll::Ready(Err(displaced()));
            }
            if let Follower::Http1(_) = self.follower {
                self.blocked.set_taken(BUFFERS + self.progress.holds().unsent(), true);
            }
        }
        written
    }

    fn moved(&mut self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.traffic.count(Counted::Sent(*bytes));
            self.progress.written(*bytes);
            self.writing.moved(*bytes);
        }
    }
}

impl<C: Traffic> AsyncWrite for TimeoutStream<C> {
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
            this.blocked.set_taken(0, false);
            if this.progress.unblock() {
                // the next request may have waited for it
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
