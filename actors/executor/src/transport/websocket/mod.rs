//! FutoIn messages over a WebSocket (FTN5, RFC 6455): many requests at once on one connection,
//! answers as they come, calls in both directions.
//!
//! When the executor closes, a connection is closed with the code 1001 as soon as its own requests
//! are answered.
//!
//! Frames are read and written here and not by actix-ws, because that takes a frame of any length
//! into memory before it refuses it.

mod calls;
mod frames;

use std::convert::Infallible;
use std::future::ready;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_http::body::BodyStream;
use actix_http::ws::{OpCode, handshake};
use actix_web::web::{Bytes, BytesMut, Payload};
use actix_web::{HttpRequest, HttpResponse};
use asyncsteps::Time;
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use tokio::sync::mpsc;

use crate::channel::Channel;
use crate::executor::{Executor, Incoming, Reply, Way};
use asyncsteps_actors::clock;
use asyncsteps_actors::timer;
use asyncsteps_futoin::message::{Message, Response};

use super::headers::HttpHeaders;
use calls::{Call, Calls, Outgoing};
use frames::{Broken, Frames};

/// How a connection is watched and bounded; see [`FutoIn::web_socket`](super::http::FutoIn::web_socket).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a new limit must be thought of by everybody")]
pub struct WebSocketLimits {
    /// A client that said nothing for so long is asked whether it is still there.
    pub ping_after: Duration,
    /// A client that said nothing for so long is gone.
    pub gone_after: Duration,
    /// How many requests of a connection may be in flight; more stay in its socket. While the other
    /// end owes answers, there may be one more for each of them, up to twice as many.
    pub in_flight: usize,
    /// How many calls to the other end may wait for their answers; more are refused with
    /// DefenseRejected.
    pub calls: usize,
    /// How long the other end may take to answer a call, which fails with Timeout then.
    pub call_timeout: Duration,
}

impl Default for WebSocketLimits {
    /// 60 s, 90 s and 128 requests; as many calls, and 30 s for each, as FutoIn invokers have it
    /// (FTN7).
    fn default() -> Self {
        Self {
            ping_after: Duration::from_secs(60),
            gone_after: Duration::from_secs(90),
            in_flight: 128,
            calls: 128,
            call_timeout: Duration::from_secs(30),
        }
    }
}

/// How many bytes of answers may wait for the client, beside the largest of them; while there are
/// more, nothing is read from it.
const MAX_WAITING: usize = 64 << 10;

/// How long a client may take to take what was sent to it before its connection is closed.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// Codes of RFC 6455 §7.4.1.
const NORMAL: u16 = 1000;
const GOING_AWAY: u16 = 1001;
const PROTOCOL_ERROR: u16 = 1002;
const NO_TEXT: u16 = 1007;
const TOO_LARGE: u16 = 1009;

/// Answers an upgrade, and serves the connection in a task of its own.
pub(super) fn upgrade(
    http: &HttpRequest,
    payload: Payload,
    executor: Executor,
    channel: Channel,
    limits: WebSocketLimits,
) -> HttpResponse {
    let mut response = match handshake(http.head()) {
        Ok(response) => response,
        Err(error) => return actix_http::Response::from(error).into(),
    };
    // what was sent is on its way, and what is sent meanwhile
    let (sink, mut chunks) = mpsc::channel(1);
    let body =
        stream::poll_fn(move |cx| chunks.poll_recv(cx).map(|chunk| chunk.map(Ok::<_, Infallible>)));
    let (outgoing, calls) = Outgoing::new(limits.calls);
    let channel = channel.with_caller(Arc::new(outgoing));
    let frames = Frames::new(payload.into_inner(), executor.max_request_size());
    let server = Server { executor, channel, upgrade: Rc::new(HttpHeaders::new(http)) };
    let connection = Connection { server, limits, sink, out: BytesMut::new() };
    actix_rt::spawn(connection.serve(frames, calls));
    response.message_body(BodyStream::new(body)).map_or_else(
        |_| HttpResponse::InternalServerError().finish(),
        |response| response.map_into_boxed_body().into(),
    )
}

/// What answers the messages of one connection.
#[derive(Clone)]
struct Server {
    executor: Executor,
    channel: Channel,
    /// The request that it began with, whose credentials hold for messages without their own.
    upgrade: Rc<HttpHeaders>,
}

/// One connection; a task owns it.
struct Connection {
    server: Server,
    limits: WebSocketLimits,
    /// The writing half. It takes a chunk when the one before is on its way.
    sink: mpsc::Sender<Bytes>,
    /// Frames that are not on their way.
    out: BytesMut,
}

/// Why a connection ends.
enum End {
    /// There is nobody any more.
    Gone,
    /// With the closing handshake.
    Close(u16),
}

impl Connection {
    async fn serve(mut self, mut frames: Frames, calls: mpsc::Receiver<Call>) {
        let end = self.exchange(&mut frames, calls).await;
        // all that was in flight is dropped, and with it cancelled
        self.server.channel.close();
        if let End::Close(code) = end {
            frames::write_close(&mut self.out, code);
            // the server reads on for a while and forgets it, so that bytes that nobody reads do not
            // reset the connection before the code has arrived
            let farewell = self.sink.send(self.out.split().freeze());
            // whoever takes nothing needs no code
            let _ = tokio::time::timeout(CLOSE_GRACE, farewell).await;
        }
    }

    /// Reads requests and writes answers until the connection ends.
    async fn exchange(&mut self, frames: &mut Frames, mut incoming: mpsc::Receiver<Call>) -> End {
        let mut calls = Calls::new(self.limits.call_timeout);
        let mut messages = FuturesUnordered::new();
        // so it is looked at when it is told, and not with each message
        let mut closing: FuturesUnordered<_> =
            [self.server.executor.closing()].into_iter().collect();
        let mut watch = Watch::start(self.limits);
        let mut alarm_at = watch.next();
        let mut alarm = pin!(timer::sleep_until(alarm_at));
        let sink = self.sink.clone();
        let mut closed = pin!(sink.closed());
        loop {
            if let Some(due) = calls.due().filter(|due| *due < alarm_at) {
                alarm_at = due;
                alarm.set(timer::sleep_until(due));
            }
            let is_full = self.out.len() >= MAX_WAITING;
            // answers to calls come between requests, and must not wait for what waits for them
            let most = self.limits.in_flight;
            let is_busy = messages.len() >= most + calls.expected().min(most);
            let is_idle = messages.is_empty() && self.out.is_empty();
            // in this order all that is ready is written at once
            tokio::select! {
                biased;
                () = &mut closed => return End::Gone,
                Some(handled) = messages.next(), if !is_full && !messages.is_empty() => {
                    match handled {
                        Handled::Request(reply) => {
                            // the calls that its flow made before it come before it
                            while let Ok(call) = incoming.try_recv() {
                                self.call(&mut calls, call);
                            }
                            self.answer(reply);
                        }
                        Handled::Response(response) => calls.answer(response),
                        Handled::Nothing => {}
                    }
                }
                frame = frames.next(), if !is_full && !is_busy => {
                    watch.heard();
                    match frame {
                        Ok(frames::Incoming::Message(bytes)) => {
                            self.server.note(&bytes, Way::In);
                            messages.push(self.server.clone().handle(bytes));
                        }
                        Ok(frames::Incoming::Ping(payload)) => {
                            frames::write(&mut self.out, OpCode::Pong, &payload);
                        }
                        Ok(frames::Incoming::Pong) => {}
                        Ok(frames::Incoming::Close(code)) => return End::Close(code),
                        Err(Broken::TooLarge) => return End::Close(TOO_LARGE),
                        Err(Broken::Protocol) => return End::Close(PROTOCOL_ERROR),
                        Err(Broken::Text) => return End::Close(NO_TEXT),
                        Err(Broken::Ended) => return End::Gone,
                    }
                }
                Some(call) = incoming.recv(), if !is_full => self.call(&mut calls, call),
                room = sink.reserve(), if !self.out.is_empty() => {
                    let Ok(room) = room else { return End::Gone };
                    room.send(self.out.split().freeze());
                    if is_full || is_busy {
                        // it is not read from, but it takes its answers
                        watch.heard();
                    }
                }
                Some(()) = closing.next(), if !closing.is_empty() => {}
                // it is told, all is answered, and nothing came meanwhile
                () = ready(()), if closing.is_empty() && is_idle => return End::Close(GOING_AWAY),
                () = &mut alarm => {
                    calls.expire(clock::now());
                    match watch.look() {
                        Look::Well => {}
                        Look::Ask => frames::write(&mut self.out, OpCode::Ping, b""),
                        // as long as it waits for its answers it is not read from
                        Look::Gone if is_busy && !is_full => watch.heard(),
                        Look::Gone => return End::Gone,
                    }
                    alarm_at = watch.next();
                    alarm.set(timer::sleep_until(alarm_at));
                }
            }
        }
    }

    fn answer(&mut self, reply: Reply) {
        if let Some(message) = reply.into_bytes() {
            self.send(&message);
        }
    }

    fn call(&mut self, calls: &mut Calls, call: Call) {
        let mut message = Vec::new();
        calls.begin(call, clock::now(), &mut message);
        self.send(&message);
    }

    fn send(&mut self, message: &[u8]) {
        self.server.note(message, Way::Out);
        frames::write(&mut self.out, OpCode::Binary, message);
    }
}

/// What became of a message.
enum Handled {
    /// It is answered.
    Request(Reply),
    /// It answers a call of ours.
    Response(Response),
    /// It is no message, or nobody could tell what its answer would be to.
    Nothing,
}

impl Server {
    async fn handle(self, bytes: Bytes) -> Handled {
        let Self { executor, channel, upgrade } = self;
        let admitted = executor.admit(&channel).await;
        let size = bytes.len();
        let parsed = Message::parse(&bytes);
        // a request may wait for long, and what it says is in its parameters
        drop(bytes);
        let (rid, coding, request) = match parsed {
            Ok(Message::Response(response)) => return Handled::Response(response),
            Ok(Message::Request(request)) => {
                (request.rid().cloned(), request.coding(), Ok(request))
            }
            Err(refusal) => (refusal.rid().cloned(), refusal.coding(), Err(refusal)),
        };
        if rid.is_none() {
            executor.note_unanswerable(&channel);
            return Handled::Nothing;
        }
        Handled::Request(match (admitted, request) {
            (Err(rejected), _) => rejected.into_reply(rid.as_ref(), coding),
            (Ok(_), Err(refusal)) => refusal.into(),
            (Ok(pass), Ok(request)) => {
                let incoming = Incoming::new(request, channel)
                    .with_size(size)
                    .with_pass(pass)
                    .with_credentials(upgrade.credentials())
                    .with_headers(upgrade);
                executor.serve(incoming).await
            }
        })
    }

    fn note(&self, message: &[u8], way: Way) {
        self.executor.note(message, way, &self.channel);
    }
}

/// When a client was heard, and what follows from that.
struct Watch {
    limits: WebSocketLimits,
    heard: Time,
    asked: bool,
}

/// What has to be done about a client.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Well,
    /// It is time for a ping.
    Ask,
    Gone,
}

impl Watch {
    fn start(limits: WebSocketLimits) -> Self {
        Self { limits, heard: clock::now(), asked: false }
    }

    fn heard(&mut self) {
        self.heard = clock::now();
        self.asked = false;
    }

    /// When to look again, if nothing is heard until then.
    fn next(&self) -> Time {
        self.heard + if self.asked { self.limits.gone_after } else { self.limits.ping_after }
    }

    fn look(&mut self) -> Look {
        let silence = clock::now().saturating_since(self.heard);
        if silence >= self.limits.gone_after {
            Look::Gone
        } else if silence >= self.limits.ping_after && !self.asked {
            self.asked = true;
            Look::Ask
        } else {
            Look::Well
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::dev;
    use actix_web::test::TestRequest;
    use tokio::time::Instant;

    use super::*;
    use crate::channel::{Caller, ChannelKind};
    use crate::executor::Executor;

    /// A masked pong without payload.
    const PONG: &[u8] = b"\x8a\x80\0\0\0\0";

    /// A ping as servers send it.
    const PING: &[u8] = b"\x89\0";

    type Input = mpsc::UnboundedSender<Bytes>;

    /// A connection without a network, in virtual time: what goes in, and what comes out.
    fn connect() -> (Input, mpsc::Receiver<Bytes>) {
        let (input, output, _outgoing) = connect_with_calls();
        (input, output)
    }

    /// The same, and what calls the other end.
    fn connect_with_calls() -> (Input, mpsc::Receiver<Bytes>, Arc<Outgoing>) {
        tokio::time::pause();
        let (input, mut chunks) = mpsc::unbounded_channel();
        let payload = stream::poll_fn(move |cx| chunks.poll_recv(cx).map(|chunk| chunk.map(Ok)));
        let payload: dev::Payload = dev::Payload::Stream { payload: Box::pin(payload) as _ };
        let (sink, output) = mpsc::channel(1);
        let limits = WebSocketLimits::default();
        let (outgoing, calls) = Outgoing::new(limits.calls);
        let outgoing = Arc::new(outgoing);
        let caller: Arc<dyn Caller> = Arc::clone(&outgoing) as _;
        let channel = Channel::new(ChannelKind::WebSocket).with_caller(caller);
        let executor = Executor::builder().build().expect("no interfaces are wrong");
        let upgrade = Rc::new(HttpHeaders::new(&TestRequest::default().to_http_request()));
        let server = Server { executor, channel, upgrade };
        let connection = Connection { server, limits, sink, out: BytesMut::new() };
        actix_rt::spawn(connection.serve(Frames::new(payload, 1000), calls));
        (input, output, outgoing)
    }

    #[actix::test]
    async fn a_silent_client_is_asked_and_then_left() {
        let (input, mut output) = connect();
        let start = Instant::now();
        for minute in 1..=3 {
            assert_eq!(output.recv().await.as_deref(), Some(PING));
            assert_eq!(start.elapsed().as_secs(), minute * 60);
            input.send(Bytes::from_static(PONG)).expect("it listens");
        }
        assert_eq!(output.recv().await.as_deref(), Some(PING));
        assert_eq!(output.recv().await, None);
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
        assert!(output.try_recv().is_err());
        assert_eq!(output.recv().await.as_deref(), Some(PING));
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
        assert!(output.recv().await.is_some_and(|chunk| chunk.len() < 2 * MAX_WAITING));
    }

    #[actix::test]
    async fn a_call_that_is_not_answered_ends() {
        let (_input, mut output, outgoing) = connect_with_calls();
        let begin = Instant::now();
        let function = "a.b:1.0:f".parse().expect("a name");
        let call = outgoing.call(&function, serde_json::Map::new());
        let (called, sent) = tokio::join!(call, output.recv());
        assert!(sent.is_some());
        assert_eq!(called.expect_err("no answer").code(), "Timeout");
        assert_eq!(begin.elapsed().as_secs(), 30);
    }
}
