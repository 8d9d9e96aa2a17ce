//! FutoIn messages over a WebSocket (FTN5, RFC 6455): many requests at once on one connection,
//! replies as they come, calls in both directions. A text frame is answered with a text frame, a binary one
//! with a binary one; calls to the client are of the kind that it wrote last.
//!
//! The credentials of the upgrade hold for messages without their own. A page, which can set no header, offers the protocols
//! `bearer` and its token (`new WebSocket(url, ["bearer", token])`): they count as `Authorization: Bearer`.
//!
//! When the executor closes, a connection is closed with the code 1001 as soon as its own requests
//! are answered.
//!
//! Frames are read and written here: a frame that is too large is refused by its head. A `Session`, a state machine
//! without IO, decides what a connection does; `Connection` drives it.

mod calls;
#[cfg(any(test, feature = "actix-web"))]
mod chunks;
mod close_code;
mod connection;
mod frames;
mod handler;
mod handshake;
mod limits;
mod link;
mod session;
mod wire;

use std::rc::Rc;
use std::sync::Arc;

use bytes::BytesMut;
use http::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use super::http::head::RequestHead;
use asyncsteps_executor::Executor;
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::observe::Traffic;
use asyncsteps_server::Account;

pub use self::limits::WebSocketLimits;

use self::calls::{Call, Outgoing};
use self::connection::Connection;
use self::frames::Frames;
use self::handler::MessageHandler;
use self::handshake::{BEARER, VERSION, accept_key, bearer};
use self::link::{Duplex, Socket, halves};

/// A WebSocket that is accepted, before its server hands the connection over.
pub(super) struct WebSocket {
    handler: MessageHandler,
    calls: mpsc::Receiver<Box<Call>>,
    limits: WebSocketLimits,
}

impl WebSocket {
    /// Answers an upgrade: with what serves the connection from then on, or why it is refused.
    pub(super) fn accept(
        head: &RequestHead,
        executor: Executor,
        channel: Channel,
        limits: WebSocketLimits,
    ) -> Response<Result<Box<Self>, &'static str>> {
        let accepted = accept_key(head).and_then(|key| match bearer(head) {
            Ok(authorization) => Ok((key, authorization)),
            Err(why) => Err((StatusCode::BAD_REQUEST, why)),
        });
        let (key, authorization) = match accepted {
            Ok(accepted) => accepted,
            Err((status, why)) => {
                let mut refusal = Response::new(Err(why));
                *refusal.status_mut() = status;
                refusal.headers_mut().insert(SEC_WEBSOCKET_VERSION, VERSION);
                return refusal;
            }
        };
        let (outgoing, calls) = Outgoing::new(limits.calls);
        let channel = channel.with_peer_client(Arc::new(outgoing));
        let protocol = authorization.as_ref().map(|_| BEARER);
        let upgrade = Rc::new(head.detached(authorization));
        let handler = MessageHandler { executor, channel, upgrade };
        let socket = Self { handler, calls, limits };
        let mut answer = Response::new(Ok(Box::new(socket)));
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = answer.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, key);
        headers.extend(protocol.map(|protocol| (SEC_WEBSOCKET_PROTOCOL, protocol)));
        answer
    }

    /// Serves it over a connection, of which `read` was read already. Returns the connection if the
    /// code that says why it ends was sent: it has to arrive.
    pub(super) async fn serve_io<T>(
        self,
        io: T,
        read: BytesMut,
        account: Rc<Account>,
        traffic: Traffic,
    ) -> Option<T>
    where
        T: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let socket = Rc::new(Socket::new(io, traffic));
        let is_told = self.serve(Rc::clone(&socket) as _, read, account).await;
        socket.into_inner().filter(|_| is_told)
    }

    async fn serve(self, connection: Rc<dyn Duplex>, read: BytesMut, account: Rc<Account>) -> bool {
        let Self { handler, calls, limits } = self;
        let limit = handler.executor.max_request_size();
        let (input, output) = halves(connection);
        let frames = Frames::new(input, read, limit, account.share());
        Connection { handler, frames, calls, output, account }.serve(limits).await
    }
}

#[cfg(test)]
mod tests {
    use asyncsteps_actors::budget;
    use bytes::Bytes;
    use futures_util::{FutureExt as _, StreamExt as _, stream};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use std::time::Duration;

    use super::chunks::AnswerChunks;
    use super::session::MAX_WAITING;
    use super::*;
    use asyncsteps_counted_heap::hostile;
    use asyncsteps_executor::channel::{ChannelKind, PeerClient};
    use asyncsteps_executor::iface::{Loader, Source};
    use asyncsteps_executor::{Executor, builtin};

    /// A masked pong without payload.
    const PONG: &[u8] = b"\x8a\x80\0\0\0\0";

    /// A ping as servers send it.
    const PING: &[u8] = b"\x89\0";

    type Client = mpsc::UnboundedSender<Bytes>;

    /// A connection without a network, in virtual time: what goes in, and what comes out.
    fn connect() -> (Client, AnswerChunks) {
        let (input, output, _outgoing) = connect_with_calls();
        (input, output)
    }

    /// The same, and what calls the other end.
    fn connect_with_calls() -> (Client, AnswerChunks, Arc<Outgoing>) {
        tokio::time::pause();
        let (input, mut chunks) = mpsc::unbounded_channel();
        let chunks = stream::poll_fn(move |cx| chunks.poll_recv(cx).map(|chunk| chunk.map(Ok)));
        let (socket, outgoing) = socket();
        let output = socket.serve_chunks(chunks, ());
        (input, output, outgoing)
    }

    fn account(handler: &MessageHandler) -> Rc<Account> {
        Account::new(handler.executor.hold(&budget::Client::Unknown))
    }

    /// A connection that is served over nothing yet.
    fn socket() -> (WebSocket, Arc<Outgoing>) {
        let executor = Executor::builder().build().expect("no interfaces are wrong");
        socket_of(executor)
    }

    /// The same for this executor.
    fn socket_of(executor: Executor) -> (WebSocket, Arc<Outgoing>) {
        let limits = WebSocketLimits::default();
        let (outgoing, calls) = Outgoing::new(limits.calls);
        let outgoing = Arc::new(outgoing);
        let client: Arc<dyn PeerClient> = Arc::clone(&outgoing) as _;
        let channel = Channel::new(ChannelKind::WebSocket).with_peer_client(client);
        let upgrade = Rc::new(RequestHead::of_test(http::Request::new(())));
        let handler = MessageHandler { executor, channel, upgrade };
        (WebSocket { handler, calls, limits }, outgoing)
    }

    #[actix::test]
    async fn a_silent_client_is_asked_and_then_left() {
        let (input, mut output) = connect();
        let start = Instant::now();
        for minute in 1..=3 {
            assert_eq!(output.next().await.as_deref(), Some(PING));
            assert_eq!(start.elapsed().as_secs(), minute * 60);
            input.send(Bytes::from_static(PONG)).expect("it listens");
        }
        assert_eq!(output.next().await.as_deref(), Some(PING));
        assert_eq!(output.next().await, None);
        assert_eq!(start.elapsed().as_secs(), 3 * 60 + 90);
    }

    #[actix::test]
    async fn a_client_that_talks_is_not_asked() {
        let (input, mut output) = connect();
        let start = Instant::now();
        for _ in 0..10 {
            tokio::time::advance(Duration::from_secs(50)).await;
            input.send(Bytes::from_static(PONG)).expect("it listens");
            tokio::task::yield_now().await;
        }
        assert!(output.next().now_or_never().is_none());
        assert_eq!(output.next().await.as_deref(), Some(PING));
        assert_eq!(start.elapsed().as_secs(), 500 + 60);
    }

    #[actix::test]
    async fn who_takes_nothing_is_left_too() {
        let (input, mut output) = connect();
        let start = Instant::now();
        // pings, and their answers are more than fits
        let ping = [&b"\x89\xfd\0\0\0\0"[..], &[0; 125]].concat().repeat(10_000);
        input.send(ping.into()).expect("it listens");
        input.closed().await;
        assert_eq!(start.elapsed().as_secs(), 90);
        assert!(output.next().await.is_some_and(|chunk| chunk.len() < 2 * MAX_WAITING));
    }

    #[actix::test]
    async fn a_message_in_fragments_that_does_not_end_ends_its_connection() {
        let (input, mut output) = connect();
        let start = Instant::now();
        let pongs = actix_rt::spawn(async move {
            let begun = [&b"\x02\x80\0\0\0\0"[..], PONG].concat();
            let mut sent = input.send(begun.into());
            while sent.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
                sent = input.send(Bytes::from_static(PONG));
            }
        });
        // a policy is violated
        assert_eq!(output.next().await.as_deref(), Some(&b"\x88\x02\x03\xf0"[..]));
        assert_eq!(start.elapsed().as_secs(), 5);
        assert_eq!(output.next().await, None);
        pongs.await.expect("it ends");
    }

    #[actix::test]
    async fn a_message_that_has_begun_ends_its_connection_without_another_event() {
        // a part of a head, of a payload, and a first fragment; then nothing, or parts that say nothing
        for (begun, more) in [
            (&b"\x82"[..], &b""[..]),
            (b"\x82\x85\0\0\0\0a", b""),
            (b"\x02\x80\0\0\0\0", b""),
            (b"\x02\x80\0\0\0\0", b"\0\x80\0\0\0\0"),
        ] {
            let (input, mut output) = connect();
            let start = Instant::now();
            input.send(Bytes::from_static(begun)).expect("it listens");
            let parts = actix_rt::spawn(async move {
                let mut sent = Ok(());
                while sent.is_ok() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    sent = match more.is_empty() {
                        true if input.is_closed() => break,
                        true => Ok(()),
                        false => input.send(Bytes::from_static(more)),
                    };
                }
            });
            // a policy is violated
            assert_eq!(output.next().await.as_deref(), Some(&b"\x88\x02\x03\xf0"[..]));
            assert_eq!(start.elapsed().as_secs(), 5, "{begun:?}");
            parts.await.expect("it ends");
            tokio::time::resume();
        }
    }

    #[actix::test]
    async fn a_client_that_always_has_a_frame_does_not_hold_its_connection_up() {
        // empty parts of a message, and pongs while the executor closes
        for (begun, frame, code, closes) in [
            (&b"\x02\x80\0\0\0\0"[..], &b"\0\x80\0\0\0\0"[..], 1008_u16, false),
            (b"", PONG, 1001, true),
        ] {
            tokio::time::pause();
            let (mut client, server) = duplex(64 << 10);
            let (socket, _outgoing) = socket();
            let (account, executor) = (account(&socket.handler), socket.handler.executor.clone());
            let served = socket.serve_io(server, BytesMut::new(), account, Traffic::default());
            let served = actix_rt::spawn(async move { drop(served.await) });
            client.write_all(begun).await.expect("there is room");
            if closes {
                actix_rt::spawn(async move { executor.close(Duration::from_secs(1)).await });
            }
            let flood = frame.repeat(10_000);
            let mut sent = 0;
            while client.write_all(&flood).await.is_ok() && sent < 20 {
                sent += 1;
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            assert!(sent < 20, "it is served without an end");
            let mut received = Vec::new();
            client.read_to_end(&mut received).await.expect("it is closed");
            assert_eq!(received, [&b"\x88\x02"[..], &code.to_be_bytes()].concat());
            served.await.expect("it ends");
            tokio::time::resume();
        }
    }

    #[actix::test]
    async fn a_call_that_is_not_answered_ends() {
        let (_input, mut output, outgoing) = connect_with_calls();
        let begin = Instant::now();
        let function = "a.b:1.0:f".parse().expect("a name");
        let call = outgoing.call(&function, serde_json::Map::new());
        let (called, sent) = tokio::join!(call, output.next());
        assert!(sent.is_some());
        assert_eq!(called.expect_err("no answer").code(), "Timeout");
        assert_eq!(begin.elapsed().as_secs(), 30);
    }

    #[actix::test]
    async fn a_connection_is_given_back_if_its_client_was_told_why_it_ends() {
        tokio::time::pause();
        // a text that is too large, a goodbye, and a connection that ends by itself
        for (sent, told) in [
            (&b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff"[..], &b"\x88\x02\x03\xf1"[..]),
            (b"\x88\x82\0\0\0\0\x03\xe8", b"\x88\x02\x03\xe8"),
            (b"", b""),
        ] {
            let (mut client, server) = duplex(1000);
            client.write_all(sent).await.expect("there is room");
            client.shutdown().await.expect("nothing else is sent");
            let (socket, _outgoing) = socket();
            let account = account(&socket.handler);
            let given_back =
                socket.serve_io(server, BytesMut::new(), account, Traffic::default()).await;
            assert_eq!(given_back.is_some(), !told.is_empty());
            drop(given_back);
            let mut received = Vec::new();
            client.read_to_end(&mut received).await.expect("it is closed");
            assert_eq!(received, told);
        }
    }

    /// Bytes of a message that is almost as large as it may be.
    const LARGE: usize = 64_000;

    /// A frame of spaces, with a mask of zeros.
    fn frame(first: u8, length: usize) -> Vec<u8> {
        let length_bytes = u16::try_from(length).expect("a length of two bytes").to_be_bytes();
        [&[first, 0xfe][..], &length_bytes, &[0; 4], &vec![b' '; length]].concat()
    }

    /// Takes messages of 64 KiB.
    fn executor(budget: budget::Budget) -> Executor {
        let ping = "futoin.anonping:1.0".parse().expect("a name");
        let ping = Loader::new([Source::builtin()]).load(&ping).expect("a definition");
        let builder = Executor::builder().budget(budget).interface(ping, |functions| {
            functions.add("ping", &builtin::ping());
        });
        builder.build().expect("it is right")
    }

    #[track_caller]
    fn check_memory(sent: impl Into<Rc<[u8]>>) {
        hostile::check_memory(sent, |budget| {
            let executor = executor(budget);
            async move |client| {
                let (socket, _) = socket_of(executor.clone());
                let account = account(&socket.handler);
                drop(socket.serve_io(client, BytesMut::new(), account, Traffic::default()).await);
            }
        });
    }

    #[test]
    fn memory_of_messages_that_have_begun_is_what_the_budget_counts() {
        check_memory(&frame(0x82, LARGE)[..LARGE]);
    }

    #[test]
    fn memory_of_messages_in_frames_is_what_the_budget_counts() {
        let frames: Vec<u8> =
            (0..100).flat_map(|n| frame(if n == 0 { 2 } else { 0 }, 639)).collect();
        check_memory(frames);
        check_memory(frame(2, LARGE));
    }

    #[test]
    fn a_message_that_has_begun_keeps_no_bytes_of_those_before_it() {
        let begun = [frame(0x82, 1_500).repeat(41), frame(2, 126)].concat();
        check_memory(begun);
    }
}
