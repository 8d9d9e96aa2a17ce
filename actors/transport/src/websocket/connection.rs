//! A connection at work: brings a [`Session`] together with the socket, the executor and the clock.

use std::future::{poll_fn, ready};
use std::mem;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use asyncsteps_actors::{clock, timer};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;

use super::calls::Call;
use super::close_code::{GOING_AWAY, TRY_AGAIN_LATER};
use super::frames::{FrameKind, Frames, Incoming};
use super::handler::{Handled, MessageHandler};
use super::limits::WebSocketLimits;
use super::link::Output;
use super::session::{End, Session};
use super::wire::Broken;
use asyncsteps_executor::Direction;
use asyncsteps_server::{Account, FRAMES, Share, UNMOVED};

/// One connection; a task owns it.
pub(super) struct Connection {
    pub(super) handler: MessageHandler,
    pub(super) frames: Frames,
    /// Calls to the other end.
    pub(super) calls: mpsc::Receiver<Box<Call>>,
    pub(super) output: Output,
    /// The memory that it holds for its client.
    pub(super) account: Rc<Account>,
}

/// An event on a connection.
enum Event {
    Frame(Result<Incoming, Broken>),
    /// A message that came in frames of this kind.
    Handled(FrameKind, Handled),
    Call(Box<Call>),
    Tick,
    /// The executor closes.
    Closing,
    /// Others need the memory of what waits for the client.
    Displaced,
}

impl Connection {
    /// Reads requests and writes replies until the connection ends; returns whether the client
    /// learned why.
    pub(super) async fn serve(mut self, limits: WebSocketLimits) -> bool {
        let message_time = self.handler.executor.request_timeout();
        let mut session = Session::new(limits, message_time, clock::now());
        let end = self.run(&mut session).await;
        // requests in flight were dropped, which cancels them
        let Self { handler, frames, output, account, .. } = self;
        handler.channel.close();
        drop(frames);
        if account.is_displaced() {
            account.release();
        }
        let End::Close(code) = end else { return false };
        session.send_close(code);
        let farewell = output.send_last(session.take_output(clock::now()));
        // a client that takes nothing needs no code
        matches!(tokio::time::timeout(UNMOVED, farewell).await, Ok(Ok(())))
    }

    /// Waits for what happens next and lets the session decide what follows.
    ///
    /// The order of the branches decides what comes first if several are ready: all replies, frames
    /// and calls that are there go into the output before it is sent.
    async fn run(&mut self, session: &mut Session) -> End {
        let output = self.output.clone();
        let mut output_closed = pin!(output.closed());
        // polled when it is woken only, and not with each event
        let mut closing: FuturesUnordered<_> =
            [self.handler.executor.closing()].into_iter().collect();
        // in boxes, because an empty set has the memory of one element
        let mut messages = FuturesUnordered::new();
        let account = Rc::clone(&self.account);
        let mut waiting = Waiting { share: account.share(), bytes: 0 };
        let mut alarm_at = session.due();
        let mut alarm = pin!(timer::sleep_until(alarm_at));
        let mut frames = 0;
        loop {
            session.set_begun(self.frames.has_begun(), clock::now);
            waiting.hold(session, &output);
            if session.due() < alarm_at {
                alarm_at = session.due();
                alarm.set(timer::sleep_until(alarm_at));
            }
            let event = tokio::select! {
                biased;
                () = &mut output_closed => return End::Gone,
                () = displaced(&account) => Event::Displaced,
                Some((kind, handled)) = messages.next() => Event::Handled(kind, handled),
                frame = self.frames.next(session.may_read()), if frames < FRAMES => Event::Frame(frame),
                Some(call) = self.calls.recv(), if !session.is_full() => Event::Call(call),
                taken = output.ready(), if session.has_output() || output.is_sending() => {
                    if taken.is_err() || output.send(session.take_output(clock::now())).is_err() {
                        return End::Gone;
                    }
                    continue;
                }
                Some(()) = closing.next() => Event::Closing,
                () = ready(()), if session.may_close() => return End::Close(GOING_AWAY),
                () = &mut alarm => Event::Tick,
                // behind all others: a client that always has a frame keeps none of them from its turn
                () = next_turn(), if frames >= FRAMES => {
                    frames = 0;
                    continue;
                }
            };
            let is_tick = matches!(event, Event::Tick);
            frames += usize::from(matches!(event, Event::Frame(_)));
            match self.apply(session, event) {
                Ok(Some((message, kind))) => {
                    let handled = self.handler.clone().handle(message);
                    let mut handled = handled.map(move |handled| (kind, handled)).boxed_local();
                    // most messages wait for nothing, and need no place among those that do
                    match (&mut handled).now_or_never() {
                        Some((kind, handled)) => self.handled(session, kind, handled),
                        None => messages.push(handled),
                    }
                }
                Ok(None) => {}
                Err(end) => return end,
            }
            if is_tick {
                alarm_at = session.due();
                alarm.set(timer::sleep_until(alarm_at));
            }
        }
    }

    /// Reports to the session what happened; returns a message that has to be handled, and the kind of its answer.
    fn apply(
        &mut self,
        session: &mut Session,
        event: Event,
    ) -> Result<Option<(Bytes, FrameKind)>, End> {
        match event {
            Event::Frame(frame) => {
                let is_part = matches!(frame, Ok(Incoming::Part));
                let message = session.frame(frame, clock::now())?;
                if !is_part && !self.frames.is_fragmented() {
                    session.frame_ended();
                }
                if let Some((message, _)) = &message {
                    self.handler.trace(message, Direction::In);
                }
                return Ok(message);
            }
            Event::Handled(kind, handled) => self.handled(session, kind, handled),
            Event::Call(call) => self.call(session, *call),
            Event::Closing => session.close(clock::now(), self.output.unsent()),
            // a client that takes nothing needs no code
            Event::Displaced if self.output.unsent() > 0 => return Err(End::Gone),
            Event::Displaced => return Err(End::Close(TRY_AGAIN_LATER)),
            Event::Tick => {
                let unsent = self.output.unsent();
                let ticked = session.tick(clock::now(), unsent);
                if ticked == Err(End::Gone) && unsent > 0 {
                    let peer = self.handler.channel.peer();
                    tracing::warn!(?peer, unsent, "a WebSocket is cut: its client takes nothing");
                }
                ticked?;
            }
        }
        Ok(None)
    }

    fn handled(&mut self, session: &mut Session, kind: FrameKind, handled: Handled) {
        session.handled();
        match handled {
            Handled::Request(reply) => {
                // the calls that its flow made before it come before it
                while let Ok(call) = self.calls.try_recv() {
                    self.call(session, *call);
                }
                // there may be none
                let _ = reply.with_bytes(|message| {
                    self.handler.trace(message, Direction::Out);
                    session.send_answer(kind, message);
                });
            }
            Handled::Response(response) => session.answer(response),
            Handled::Nothing => {}
        }
    }

    fn call(&self, session: &mut Session, call: Call) {
        let message = session.call(call, clock::now());
        self.handler.trace(&message, Direction::Out);
        session.send_call(&message);
    }
}

/// Output that waits for the client.
struct Waiting {
    share: Share,
    bytes: usize,
}

impl Waiting {
    /// Counts its memory while the client does not take the sent bytes.
    fn hold(&mut self, session: &Session, output: &Output) {
        let waiting = output.unsent();
        let bytes = if waiting > 0 { waiting + session.output() } else { 0 };
        if bytes != self.bytes {
            self.share.set_taken(bytes, bytes > 0);
            self.bytes = bytes;
        }
    }
}

/// Lets the tasks that are ready come first.
async fn next_turn() {
    let mut had_turn = false;
    poll_fn(|cx| {
        if mem::replace(&mut had_turn, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Waits until others need the memory of a connection.
async fn displaced(account: &Account) {
    poll_fn(|cx| if account.poll_displaced(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
}
