//! One connection, from its first byte to its last.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::BytesMut;
use hyper::rt::Executor as HyperExecutor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::Instant;

use super::alarm::Alarm;
use super::blocks::PREFACE;
use super::connection_state::ConnectionState;
use super::hyper_io::HyperIo;
use super::io::Io;
use super::limits::ServerLimits;
use super::requests::Requests;
use super::service::LocalService;
use super::timeout_stream::TimeoutStream;
use super::traffic::{Protocol, Traffic};
use super::upgrade::Upgrade;

/// The least size of hyper's buffers.
const LEAST_BUFFER: usize = 8 << 10;

/// How long a connection is read from after the last bytes were sent, which may refuse data in
/// flight: unread bytes would reset the connection before the refusal has arrived.
const LINGER: Duration = Duration::from_secs(1);

/// The most bytes that are read and dropped in that time.
const MOST_LINGER: usize = 1 << 20;

/// The answer to a head that does not end in time.
const HEAD_TIMEOUT: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// The answer to a request that has not come while others need its memory.
const NO_ROOM: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// How connections are served; the same for all of a worker.
pub(super) struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<OnThread>,
}

impl Protocols {
    pub(super) fn new(limits: &ServerLimits) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            .half_close(false)
            .max_header_size(limits.head_size)
            .max_buf_size(limits.head_size.max(LEAST_BUFFER));
        let mut http2 = http2::Builder::new(OnThread);
        http2
            .max_concurrent_streams(limits.streams)
            // see `Blocks`: what a client has put into a table would be held as long as its connection
            .header_table_size(0)
            .max_header_list_size(u32::try_from(limits.head_size).unwrap_or(u32::MAX))
            .max_pending_accept_reset_streams(Some(limits.resets_per_second as usize))
            .initial_stream_window_size(limits.stream_window)
            .initial_connection_window_size(limits.stream_window.saturating_mul(4))
            .max_send_buf_size(limits.stream_window as usize);
        Self { http1, http2 }
    }

    /// Serves a connection until it ends.
    ///
    /// # Errors
    /// What broke the connection.
    pub(super) async fn serve<S: LocalService>(
        &self,
        mut io: StreamOf<S>,
        is_http2: bool,
        mut requests: Requests<S>,
    ) -> Result<(), hyper::Error> {
        let traffic = requests.site.traffic.clone();
        let mut open = traffic.open(Protocol::New);
        if is_http2 || read_preface(&mut io).await {
            open = traffic.open(Protocol::Http2);
            io.begin_http2();
            // its memory is only taken for clients that speak it
            let ended = Box::pin(self.serve_http2(io, requests)).await;
            drop(open);
            return ended;
        }
        if !io.first().is_empty() {
            open = traffic.open(Protocol::Http1);
        }
        io.begin_http1();
        let progress = Rc::clone(&requests.progress);
        let (io, ended) = loop {
            // a connection that waits for its next request has none of hyper's buffers
            if !io.wait_for(1).await {
                break (io, Ok(()));
            }
            (io, requests) = match Box::pin(self.serve_http1(io, requests)).await {
                NextState::Rest(io, requests) => (io, requests),
                NextState::Upgrade(upgrade, io, read) => {
                    drop(open);
                    // its memory is free before the lingering
                    let account = Rc::clone(progress.holds().account());
                    if let Some(io) = upgrade.serve(io, read, account).await {
                        Box::pin(linger(io)).await;
                    }
                    return Ok(());
                }
                NextState::End(io, ended) => break (io, ended),
            };
        };
        // the last answer has memory of its own, too
        let last = last_word(&progress);
        if progress.holds().account().is_displaced() {
            progress.holds().account().release();
        }
        Box::pin(end(io, last, &ended)).await;
        drop(open);
        ended
    }

    /// Serves requests until the connection ends, or rests while others have requests.
    async fn serve_http1<S: LocalService>(
        &self,
        io: StreamOf<S>,
        requests: Requests<S>,
    ) -> NextState<S> {
        let Requests { site, progress, .. } = &requests;
        let service = service_fn(|request| requests.respond(request));
        let mut connection = self.http1.serve_connection(HyperIo(io), service);
        let ended = poll_fn(|cx| {
            let polled = Pin::new(&mut connection).poll(cx);
            if polled.is_pending() && progress.is_idle() && site.warm.is_over(progress) {
                return Poll::Ready(None);
            }
            polled.map(Some)
        })
        .await;
        let parts = connection.into_parts();
        let mut io = parts.io.0;
        match (ended, progress.take_upgrade()) {
            (None, _) => {
                io.put_back(parts.read_buf);
                NextState::Rest(io, requests)
            }
            (Some(Ok(())), Some(upgrade)) => {
                NextState::Upgrade(upgrade, io.into_inner(), BytesMut::from(&parts.read_buf[..]))
            }
            (Some(ended), _) => NextState::End(io, ended),
        }
    }

    async fn serve_http2<S: LocalService>(
        &self,
        io: StreamOf<S>,
        requests: Requests<S>,
    ) -> Result<(), hyper::Error> {
        let progress = Rc::clone(&requests.progress);
        let site = Rc::clone(&requests.site);
        progress.multiplex();
        // in a box, whose memory is free while the answer waits for the client
        let service = service_fn(move |request| Box::pin(requests.respond(request)));
        let mut connection = pin!(self.http2.serve_connection(HyperIo(io), service));
        let (mut alarm, mut is_told) = (Alarm::default(), false);
        poll_fn(|cx| {
            let is_displaced = progress.holds().account().is_displaced();
            // one that is busy hears it while the server still serves
            let is_closing = progress.closing().is_some() || site.service.is_close_announced();
            if (is_closing || is_displaced) && !is_told {
                is_told = true;
                connection.as_mut().graceful_shutdown();
            }
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                return Poll::Ready(ended);
            }
            if is_displaced {
                tracing::debug!("others need the memory of a connection");
                return Poll::Ready(Ok(()));
            }
            if progress.is_flooded() {
                tracing::debug!("a client gives up too many requests");
                return Poll::Ready(Ok(()));
            }
            if let Some((since, due)) = progress.stalls() {
                let now = Instant::now();
                if now >= due {
                    progress.stall(now.saturating_duration_since(since));
                    return Poll::Ready(Ok(()));
                }
                alarm.set(due, now, cx);
            }
            Poll::Pending
        })
        .await
    }
}

/// The stream of a connection to a service.
type StreamOf<S> = TimeoutStream<<S as LocalService>::Traffic>;

/// The state of a connection after requests.
enum NextState<S: LocalService> {
    /// It waits for the next one.
    Rest(StreamOf<S>, Requests<S>),
    /// With the bytes that were read of it already.
    Upgrade(Box<dyn Upgrade>, Io, BytesMut),
    End(StreamOf<S>, Result<(), hyper::Error>),
}

/// Waits for the first bytes; returns whether they are the preface of HTTP/2.
async fn read_preface<C: Traffic>(io: &mut TimeoutStream<C>) -> bool {
    let mut length = 1;
    while io.wait_for(length).await {
        let read = io.first();
        if !PREFACE.starts_with(&read[..read.len().min(PREFACE.len())]) {
            return false;
        }
        if read.len() >= PREFACE.len() {
            return true;
        }
        length = read.len() + 1;
    }
    false
}

/// Answers what hyper does not, and ends a connection whose client can know why.
async fn end<C>(mut io: TimeoutStream<C>, last: &[u8], ended: &Result<(), hyper::Error>)
where
    C: Traffic,
{
    if !last.is_empty() {
        // its client may be gone
        let _ = io.write_all(last).await;
    }
    if ended.as_ref().err().is_none_or(is_answered) {
        linger(io).await;
    }
}

/// The answer of the server itself to a request that does not come to its end, if there is one.
fn last_word(progress: &ConnectionState) -> &'static [u8] {
    if progress.is_head_late() {
        HEAD_TIMEOUT
    } else if progress.holds().account().is_displaced() && !progress.holds().has_begun_answer() {
        NO_ROOM
    } else {
        b""
    }
}

/// Ends the writing half and drops what still comes for a while.
async fn linger<T: AsyncRead + AsyncWrite + Unpin>(mut io: T) {
    let ended = async {
        io.shutdown().await?;
        let mut dropped = 0;
        while dropped < MOST_LINGER {
            match drop_read(&mut io).await? {
                0 => break,
                bytes => dropped += bytes,
            }
        }
        Ok::<(), io::Error>(())
    };
    // the connection has ended in any case
    let _ = tokio::time::timeout(LINGER, ended).await;
}

/// Reads the available bytes and drops them; returns their number. Connections that linger have no
/// buffers.
async fn drop_read<T: AsyncRead + Unpin>(io: &mut T) -> io::Result<usize> {
    poll_fn(|cx| {
        let mut chunk = [MaybeUninit::uninit(); 4 << 10];
        let mut chunk = ReadBuf::uninit(&mut chunk);
        ready!(Pin::new(&mut *io).poll_read(cx, &mut chunk))?;
        Poll::Ready(Ok(chunk.filled().len()))
    })
    .await
}

/// Whether hyper has answered the error.
fn is_answered(error: &hyper::Error) -> bool {
    error.is_parse()
}

/// Runs the streams of HTTP/2 connections on this thread.
///
/// Each has its first turn at once: the streams of many connections that arrived together would otherwise wait for it
/// with their memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnThread;

impl<F: Future<Output = ()> + 'static> HyperExecutor<F> for OnThread {
    fn execute(&self, stream: F) {
        let mut stream = Box::pin(stream);
        let mut turn = || stream.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        // a panic ends the stream alone, as it does in a task
        match catch_unwind(AssertUnwindSafe(&mut turn)) {
            Ok(Poll::Pending) => drop(tokio::task::spawn_local(stream)),
            Ok(Poll::Ready(())) | Err(_) => {}
        }
    }
}
