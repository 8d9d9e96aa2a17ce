//! The stream of a connection, as the dispatcher of actix-http sees it.
//!
//! The dispatcher takes whatever the network has, decodes all of it and waits for ever for what is
//! missing. So it is given one head at a time and the body that belongs to it, and an error instead
//! of a wait that lasts too long.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use asyncsteps::Time;
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use super::ServerLimits;
use super::framing::{Lines, body_length};
use super::patience::{Patience, timed_out};
use super::progress::{Phase, Progress};
use asyncsteps_actors::clock;
use asyncsteps_actors::timer::Timer;

/// How many bytes are read while a request is answered, to find out whether its client is still
/// there; the rest stays in the socket. More than the next request of a client that pipelines.
const AHEAD: usize = 4 << 10;

/// How much of that is read at once.
const PIECE: usize = 1 << 10;

/// How many bytes the dispatcher gets in a turn: it keeps room for as many as it got at once.
const TURN: usize = 8 << 10;

/// How long a connection without a request may take to send one while the server closes: for those
/// that were made just before.
const FIRST_WHILE_CLOSING: Duration = Duration::from_secs(1);

/// A stream that is read and written within limits.
pub(super) struct Paced<T> {
    io: T,
    progress: Rc<Progress>,
    /// Read, but not to be decoded yet.
    held: BytesMut,
    lines: Lines,
    /// Whether a head was given in this turn of the dispatcher.
    is_given: bool,
    /// How many bytes were.
    turn: usize,
    head_timeout: Duration,
    /// For the time limit of heads.
    timer: Timer,
    /// When it wakes.
    alarm: Option<Time>,
    reading: Patience,
    writing: Patience,
}

impl<T> Paced<T> {
    pub(super) fn new(io: T, progress: Rc<Progress>, limits: &ServerLimits) -> Self {
        let patience = || Patience::new(limits.stall_timeout, limits.least_rate);
        Self {
            io,
            progress,
            held: BytesMut::new(),
            lines: Lines::new(),
            is_given: false,
            turn: 0,
            head_timeout: limits.head_timeout,
            timer: Timer::default(),
            alarm: None,
            reading: patience(),
            writing: patience(),
        }
    }

    pub(super) fn io(&self) -> &T {
        &self.io
    }

    pub(super) fn progress(&self) -> &Rc<Progress> {
        &self.progress
    }
}

impl<T: AsyncRead + Unpin> Paced<T> {
    fn read_phase(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let phase = self.progress.phase();
        if !matches!(phase, Phase::Body(_) | Phase::Chunks) {
            self.reading.rest();
        }
        match phase {
            Phase::Head => self.read_head(cx, buf),
            Phase::Body(missing) => self.read_body(missing, cx, buf),
            Phase::Chunks => self.read_chunks(cx, buf),
            Phase::Nothing => {
                self.is_given = false;
                let looked = self.look_ahead(cx);
                self.progress.hold(!self.held.is_empty());
                looked
            }
            Phase::Other => self.fill(cx, buf, u64::MAX),
        }
    }

    /// Reads what is left of the request's head, and what came of its body.
    fn read_head(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.is_given {
            // the dispatcher decodes it as soon as there is nothing to read
            self.is_given = false;
            return match self.look_ahead(cx) {
                Poll::Pending if self.held.is_empty() => self.wait_for_head(cx),
                Poll::Pending => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                ended => ended,
            };
        }
        let begin = buf.filled().len();
        if self.fill(cx, buf, u64::MAX)?.is_pending() {
            return self.wait_for_head(cx);
        }
        let read = &buf.filled()[begin..];
        if read.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let is_whole = self.progress.begun().is_none();
        let behind = self.lines.next_end(read).map(|end| {
            // what is no part of this request waits until it is answered: another one, or garbage,
            // for which the dispatcher would drop it
            let length = if is_whole { body_length(&read[..end]) } else { 0 };
            end..read.len().min(end.saturating_add(length))
        });
        self.progress.read_head(behind.clone().map(|behind| &read[behind]));
        if let Some(behind) = behind {
            self.is_given = true;
            self.hold_back(buf, begin + behind.end);
        }
        Poll::Ready(Ok(()))
    }

    /// Nothing more of a head is there.
    fn wait_for_head(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let (begun, is_used) = (self.progress.begun(), self.progress.is_used());
        let due = match (begun, self.progress.closing()) {
            // the dispatcher has a time limit for the first one, and for the time between two
            (Some(begun), _) if is_used => begun + self.head_timeout,
            (_, None) => return Poll::Pending,
            (None, Some(_)) if is_used => return Poll::Ready(Ok(())),
            (_, Some(closing)) => closing + FIRST_WHILE_CLOSING,
        };
        let now = clock::now();
        if now >= due {
            return Poll::Ready(if begun.is_some() { Err(timed_out()) } else { Ok(()) });
        }
        // most heads are there at once, so the timer stays as it is for the next ones
        if self.alarm.is_none_or(|at| at <= now || at > due) {
            self.timer.set(Some(due), cx.waker());
            self.alarm = Some(due);
        }
        Poll::Pending
    }

    fn read_body(
        &mut self,
        missing: u64,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let begin = buf.filled().len();
        if self.fill(cx, buf, missing)?.is_pending() {
            self.reading.wait(self.progress.closing(), cx)?;
            return Poll::Pending;
        }
        let read = buf.filled().len() - begin;
        self.reading.moved(read);
        self.progress.read_body(read);
        Poll::Ready(Ok(()))
    }

    fn read_chunks(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let begin = buf.filled().len();
        if self.fill(cx, buf, u64::MAX)?.is_pending() {
            self.reading.wait(self.progress.closing(), cx)?;
            return Poll::Pending;
        }
        self.reading.moved(buf.filled().len() - begin);
        let length = self.progress.read_chunks(&buf.filled()[begin..]);
        self.hold_back(buf, begin + length);
        Poll::Ready(Ok(()))
    }

    /// Looks for the end of the connection: its client may be gone. What comes instead is held back.
    fn look_ahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.held.len() < AHEAD {
            let mut piece = [0; PIECE];
            let mut piece = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut self.io).poll_read(cx, &mut piece))?;
            if piece.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.held.extend_from_slice(piece.filled());
        }
        Poll::Pending
    }

    /// Reads at most `most` bytes, what was held back first.
    fn fill(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        most: u64,
    ) -> Poll<io::Result<()>> {
        if self.held.is_empty() {
            let io = &mut self.io;
            return Pin::new(&mut io.take(most)).poll_read(cx, buf);
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let length = self.held.len().min(buf.remaining()).min(most);
        buf.put_slice(&self.held[..length]);
        self.held.advance(length);
        if self.held.is_empty() {
            // it is rarely needed again
            self.held = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }

    /// Takes back what was read beyond `end`.
    fn hold_back(&mut self, buf: &mut ReadBuf<'_>, end: usize) {
        let read = buf.filled();
        if end == read.len() {
            return;
        }
        let mut held = BytesMut::from(&read[end..]);
        held.extend_from_slice(&self.held);
        self.held = held;
        buf.set_filled(end);
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Paced<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.progress.watch(cx);
        if this.turn >= TURN {
            this.turn = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let begin = buf.filled().len();
        let polled = this.read_phase(cx, buf);
        this.turn = if polled.is_ready() { this.turn + buf.filled().len() - begin } else { 0 };
        polled
    }
}

impl<T: AsyncWrite + Unpin> Paced<T> {
    /// Bounds the wait for the other end to take bytes.
    fn watch<R>(&mut self, written: Poll<io::Result<R>>, cx: &Context<'_>) -> Poll<io::Result<R>> {
        if written.is_pending() {
            self.writing.wait(self.progress.closing(), cx)?;
        }
        written
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Paced<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = written {
            this.writing.moved(written);
        }
        this.watch(written, cx)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.io).poll_flush(cx);
        if flushed.is_ready() {
            // all is written before it is flushed
            this.writing.rest();
        }
        this.watch(flushed, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.io).poll_shutdown(cx);
        this.watch(shut, cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, DuplexStream};
    use tokio::time::Instant;

    use super::*;

    const LIMITS: ServerLimits = ServerLimits {
        connections: 1,
        connections_of_client: 1,
        head_timeout: Duration::from_secs(5),
        keep_alive: Duration::from_secs(5),
        stall_timeout: Duration::from_secs(60),
        least_rate: 100,
        handshake_timeout: Duration::from_secs(5),
        handshakes: 1,
    };

    /// A connection in virtual time: what the client has of it, and the server.
    fn connect() -> (DuplexStream, Paced<DuplexStream>) {
        tokio::time::pause();
        let (client, server) = tokio::io::duplex(1000);
        (client, Paced::new(server, Progress::new(), &LIMITS))
    }

    /// What the dispatcher gets in one turn.
    async fn turn(server: &mut Paced<DuplexStream>) -> String {
        let mut all = Vec::new();
        std::future::poll_fn(|cx| {
            loop {
                let mut bytes = [0; 500];
                let mut buf = ReadBuf::new(&mut bytes);
                match Pin::new(&mut *server).poll_read(cx, &mut buf) {
                    Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                        all.extend_from_slice(buf.filled());
                    }
                    Poll::Ready(_) | Poll::Pending => return Poll::Ready(()),
                }
            }
        })
        .await;
        String::from_utf8(all).expect("text")
    }

    fn timed_out<T: std::fmt::Debug>(result: io::Result<T>) -> bool {
        result.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
    }

    #[actix::test]
    async fn a_turn_has_one_head() {
        let (mut client, mut server) = connect();
        client.write_all(b"A\r\n\r\nB\r\n\r\n").await.expect("room");
        assert_eq!(turn(&mut server).await, "A\r\n\r\n");
        assert_eq!(turn(&mut server).await, "B\r\n\r\n");
        assert_eq!(turn(&mut server).await, "");
    }

    #[actix::test]
    async fn what_came_of_a_body_comes_with_its_head() {
        let (mut client, mut server) = connect();
        client.write_all(b"content-LENGTH: 2 \r\n\r\nabC\r\n\r\n").await.expect("room");
        assert_eq!(turn(&mut server).await, "content-LENGTH: 2 \r\n\r\nab");
    }

    #[actix::test]
    async fn a_body_of_unclear_length_does_not_come_with_its_head() {
        let (mut client, mut server) = connect();
        let unclear = "Content-Length: 2\r\nContent-Length: 3\r\n\r\n";
        client.write_all(format!("{unclear}abc").as_bytes()).await.expect("room");
        assert_eq!(turn(&mut server).await, unclear);
    }

    #[actix::test]
    async fn nothing_is_read_ahead_of_an_answer() {
        let (mut client, mut server) = connect();
        client.write_all(b"A: b\r\n\r\n").await.expect("room");
        assert_eq!(turn(&mut server).await, "A: b\r\n\r\n");
        let in_service = server.progress().begin(&mut actix_http::Request::new());
        client.write_all(b"next\r\n\r\n").await.expect("room");
        assert_eq!(turn(&mut server).await, "");
        drop(in_service);
        assert_eq!(turn(&mut server).await, "next\r\n\r\n");
    }

    #[actix::test]
    async fn the_end_is_seen_while_a_request_is_answered() {
        let (client, mut server) = connect();
        let _in_service = server.progress().begin(&mut actix_http::Request::new());
        drop(client);
        assert_eq!(server.read(&mut [0; 10]).await.expect("no error"), 0);
    }

    #[actix::test]
    async fn the_next_head_has_its_time_from_its_first_byte() {
        let (mut client, mut server) = connect();
        drop(server.progress().begin(&mut actix_http::Request::new()));
        let begin = Instant::now();
        client.write_all(b"P").await.expect("room");
        assert_eq!(server.read(&mut [0; 10]).await.expect("a byte"), 1);
        let mut more = client;
        let trickle = actix_rt::spawn(async move {
            while more.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let mut bytes = [0; 10];
        let end = loop {
            match server.read(&mut bytes).await {
                Ok(1) => {}
                end => break end,
            }
        };
        assert!(timed_out(end));
        assert_eq!(begin.elapsed().as_secs(), LIMITS.head_timeout.as_secs());
        drop(server);
        trickle.await.expect("no panic");
    }

    #[actix::test]
    async fn a_client_that_takes_nothing_is_not_waited_for() {
        let (client, mut server) = connect();
        let begin = Instant::now();
        assert!(timed_out(server.write_all(&[0; 2000]).await));
        assert_eq!(begin.elapsed().as_secs(), LIMITS.stall_timeout.as_secs());
        drop(client);
    }

    #[actix::test]
    async fn a_client_that_takes_too_little_is_not_waited_for_either() {
        let (mut client, mut server) = connect();
        let begin = Instant::now();
        let trickle = actix_rt::spawn(async move {
            // a tenth of what it must
            while client.read(&mut [0; 10]).await.is_ok_and(|read| read > 0) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        assert!(timed_out(server.write_all(&[0; 20_000]).await));
        assert!(begin.elapsed() < LIMITS.stall_timeout * 2, "{:?}", begin.elapsed());
        drop(server);
        trickle.await.expect("no panic");
    }

    #[actix::test]
    async fn closing_waits_for_those_that_take_their_answers_only() {
        let (mut client, mut server) = connect();
        server.progress().close(clock::now());
        let begin = Instant::now();
        let slow = actix_rt::spawn(async move {
            for _ in 0..20 {
                assert_eq!(client.read(&mut [0; 1000]).await.expect("bytes"), 1000);
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            client
        });
        server.write_all(&[0; 20_000]).await.expect("it is slow, but takes them");
        assert!(begin.elapsed() > Duration::from_secs(30));
        let begin = Instant::now();
        let client = slow.await.expect("no panic");
        assert!(timed_out(server.write_all(&[0; 2000]).await));
        assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
        drop(client);
    }

    #[actix::test]
    async fn closing_ends_idle_connections_and_gives_new_ones_a_moment() {
        let (_client, mut server) = connect();
        let begin = Instant::now();
        server.progress().close(clock::now());
        assert_eq!(server.read(&mut [0; 10]).await.expect("no error"), 0);
        assert_eq!(begin.elapsed().as_secs(), FIRST_WHILE_CLOSING.as_secs());
        drop(server.progress().begin(&mut actix_http::Request::new()));
        let begin = Instant::now();
        assert_eq!(server.read(&mut [0; 10]).await.expect("no error"), 0);
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }
}
