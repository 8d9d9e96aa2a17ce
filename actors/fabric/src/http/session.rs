//! One WebSocket connection with many calls on it, distinguished by their numbers
//! (`rid`, FTN3 §1.3).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_executor::message::{Message, Response, Rid};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;

use super::connector::Stream;
use super::sent::Sent;
use crate::call_error::CallError;

/// How often the service is asked for a sign of life; executors do it each minute.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// A service that is silent for so long is gone: it did not answer two pings.
const SILENCE: Duration = Duration::from_secs(75);

/// A connection after its handshakes.
pub(super) type Channel = WebSocketStream<TokioIo<Stream>>;

/// A connection in use; a cheap handle. It closes when all are dropped.
#[derive(Clone, Debug)]
pub(super) struct SocketSession {
    queue: mpsc::UnboundedSender<OutgoingCall>,
    waiting: Arc<WaitingCalls>,
}

/// A message to send. There are no more than calls in flight, and these are limited.
#[derive(Debug)]
struct OutgoingCall {
    number: u64,
    message: Bytes,
    sent: Sent,
}

/// The calls that wait for their answers, by number; `None` after the connection ended.
#[derive(Debug)]
struct WaitingCalls(Mutex<Option<HashMap<u64, oneshot::Sender<Response>>>>);

/// A call that waits; dropping this forgets it.
struct WaitingCall<'a> {
    waiting: &'a WaitingCalls,
    number: u64,
    answer: oneshot::Receiver<Response>,
}

/// The `rid` of a call.
pub(super) fn rid(number: u64) -> Option<Rid> {
    Rid::new(format!("C{number}").into())
}

impl SocketSession {
    /// Uses a connection, on the arbiter that opened it.
    pub(super) fn start(channel: Channel) -> Self {
        let (queue, outgoing) = mpsc::unbounded_channel();
        let waiting = Arc::new(WaitingCalls(Mutex::new(Some(HashMap::new()))));
        let end = SessionEnd(Arc::clone(&waiting));
        tokio::spawn(async move {
            let (sink, stream) = channel.split();
            // a service that does not read must not keep its answers from being read
            tokio::select! {
                () = send(sink, outgoing, &end.0) => {}
                () = receive(stream, &end.0) => {}
            }
        });
        Self { queue, waiting }
    }

    pub(super) fn is_over(&self) -> bool {
        self.waiting.0.lock().is_none()
    }

    /// Sends the message of a call and waits for its answer.
    pub(super) async fn exchange(
        &self,
        number: u64,
        message: Bytes,
        sent: &Sent,
    ) -> Result<Response, CallError> {
        let ended = || sent.failure("the connection ended");
        let mut waits = self.waiting.add(number).ok_or_else(ended)?;
        let outgoing = OutgoingCall { number, message, sent: sent.clone() };
        self.queue.send(outgoing).map_err(|_| ended())?;
        (&mut waits.answer)
            .await
            .map_err(|_| sent.failure("the connection ended before the answer"))
    }
}

impl WaitingCalls {
    fn add(&self, number: u64) -> Option<WaitingCall<'_>> {
        let (sender, answer) = oneshot::channel();
        self.0.lock().as_mut()?.insert(number, sender);
        Some(WaitingCall { waiting: self, number, answer })
    }

    fn contains(&self, number: u64) -> bool {
        self.0.lock().as_ref().is_some_and(|calls| calls.contains_key(&number))
    }

    /// Passes an answer to its call, if that still waits.
    fn answered(&self, answer: Response) {
        let rid = answer.rid().and_then(|rid| rid.as_value().as_str());
        let number = rid.and_then(|rid| rid.strip_prefix('C')?.parse().ok());
        let call = number.and_then(|number: u64| self.0.lock().as_mut()?.remove(&number));
        match call {
            // the call may be abandoned at this moment
            Some(call) => drop(call.send(answer)),
            None => tracing::debug!("an answer to no call that waits is dropped"),
        }
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        if let Some(calls) = &mut *self.waiting.0.lock() {
            calls.remove(&self.number);
        }
    }
}

/// The end of the connection, also if its arbiter ends.
struct SessionEnd(Arc<WaitingCalls>);

impl Drop for SessionEnd {
    fn drop(&mut self) {
        let calls = self.0.0.lock().take();
        drop(calls);
    }
}

/// Sends messages and pings until there are no more callers or the connection ends.
async fn send(
    mut sink: SplitSink<Channel, Frame>,
    mut queue: mpsc::UnboundedReceiver<OutgoingCall>,
    waiting: &WaitingCalls,
) {
    let mut pings = interval(PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // the first is due at once
    pings.tick().await;
    loop {
        let frame = tokio::select! {
            outgoing = queue.recv() => match outgoing {
                Some(outgoing) if !waiting.contains(outgoing.number) => continue,
                Some(OutgoingCall { message, sent, .. }) => {
                    sent.set();
                    Frame::Binary(message)
                }
                None => Frame::Close(None),
            },
            _ = pings.tick() => Frame::Ping(Bytes::new()),
        };
        let is_last = frame.is_close();
        if sink.send(frame).await.is_err() || is_last {
            return;
        }
    }
}

/// Passes answers to their calls until the connection ends.
async fn receive(mut stream: SplitStream<Channel>, waiting: &WaitingCalls) {
    while let Ok(Some(Ok(frame))) = timeout(SILENCE, stream.next()).await {
        let frame = match frame {
            Frame::Binary(bytes) => bytes,
            Frame::Text(text) => text.into(),
            Frame::Ping(_) | Frame::Pong(_) | Frame::Close(_) | Frame::Frame(_) => continue,
        };
        match Message::parse(&frame) {
            Ok(Message::Response(answer)) => waiting.answered(answer),
            Ok(Message::Request(_)) => tracing::debug!("a call by the service is dropped"),
            Err(error) => tracing::debug!(%error, "a frame that is no message is dropped"),
        }
    }
}
