//! A connection as a state machine: frames, replies, calls and time go in; bytes, requests and the
//! end of the connection come out. It has no socket, task or clock.

use std::mem;
use std::time::Duration;

use asyncsteps_core::Time;
use asyncsteps_futoin::message::Response;
use bytes::{Bytes, BytesMut};

use super::calls::{Call, Calls};
use super::close_code::{NO_TEXT, POLICY_VIOLATION, PROTOCOL_ERROR, TOO_LARGE, TRY_AGAIN_LATER};
use super::frames::{self, FrameKind, Incoming};
use super::limits::WebSocketLimits;
use super::wire::{self, Broken, OpCode};
use asyncsteps_server::UNMOVED;

/// Bytes of output that may wait for the client; while there are more, nothing is read from it. The
/// answers to frames that were read before come on top.
pub(super) const MAX_WAITING: usize = 64 << 10;

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The other end is gone.
    Gone,
    /// With the closing handshake and this code.
    Close(u16),
}

/// The state of a connection.
pub(super) struct Session {
    limits: WebSocketLimits,
    /// Frames that wait for the client.
    out: BytesMut,
    /// Bytes of frames that were passed to the socket.
    given: u64,
    /// Messages of the client that are being handled.
    handling: usize,
    /// How the client wrote its last message; binary before the first one.
    written: FrameKind,
    /// Calls to the client that wait for its answers.
    calls: Calls,
    watch: Watch,
    /// How long a message may take to come, and when the one that comes now began.
    message_time: Duration,
    begun: Option<Time>,
    /// The executor closes.
    closing: Option<Closing>,
}

/// Whether the client receives data while the executor closes.
#[derive(Clone, Copy)]
struct Closing {
    looked_at: Time,
    /// How many bytes it had taken then, if more waited for it.
    stood_at: Option<u64>,
}

impl Session {
    /// Watched from now on; each message may take so long to come.
    pub(super) fn new(limits: WebSocketLimits, message_time: Duration, now: Time) -> Self {
        Self {
            limits,
            out: BytesMut::new(),
            given: 0,
            handling: 0,
            written: FrameKind::Binary,
            calls: Calls::new(limits.call_timeout),
            watch: Watch { heard: now, pinged: false },
            message_time,
            begun: None,
            closing: None,
        }
    }

    /// Takes a frame that was read; returns a message that has to be handled, and the kind of its
    /// answer.
    pub(super) fn frame(
        &mut self,
        frame: Result<Incoming, Broken>,
        now: Time,
    ) -> Result<Option<(Bytes, FrameKind)>, End> {
        self.watch.hear(now);
        match frame {
            Ok(Incoming::Message(message, kind)) => {
                self.handling += 1;
                self.written = kind;
                return Ok(Some((message, kind)));
            }
            Ok(Incoming::Ping(payload)) => wire::write(&mut self.out, OpCode::Pong, &payload),
            Ok(Incoming::Pong | Incoming::Part) => {}
            Ok(Incoming::Close(code)) => return Err(End::Close(code)),
            Err(Broken::TooLarge) => return Err(End::Close(TOO_LARGE)),
            Err(Broken::Protocol) => return Err(End::Close(PROTOCOL_ERROR)),
            Err(Broken::Text) => return Err(End::Close(NO_TEXT)),
            Err(Broken::NoRoom) => return Err(End::Close(TRY_AGAIN_LATER)),
            Err(Broken::Ended) => return Err(End::Gone),
        }
        Ok(None)
    }

    /// Whether the rest of a message is waited for; `now` is asked for if that is new.
    pub(super) fn set_begun(&mut self, has_begun: bool, now: impl FnOnce() -> Time) {
        // while nothing is read, the client is not late
        self.begun = (has_begun && self.may_read()).then(|| self.begun.unwrap_or_else(now));
    }

    /// A frame has ended that is no part of a message in several frames.
    pub(super) fn frame_ended(&mut self) {
        self.begun = None;
    }

    /// Bytes that the output takes.
    pub(super) fn output(&self) -> usize {
        self.out.capacity()
    }

    /// A message was handled.
    pub(super) fn handled(&mut self) {
        debug_assert!(self.handling > 0, "a message is handled once");
        self.handling = self.handling.saturating_sub(1);
    }

    /// The client answers a call.
    pub(super) fn answer(&mut self, response: Response) {
        self.calls.answer(response);
    }

    /// Begins a call to the client; returns its message, which has to be sent.
    pub(super) fn call(&mut self, call: Call, now: Time) -> Vec<u8> {
        let mut message = Vec::new();
        self.calls.begin(call, now, &mut message);
        message
    }

    /// Puts an answer into the output, in frames of the kind of its request.
    pub(super) fn send_answer(&mut self, kind: FrameKind, message: &[u8]) {
        frames::write_message(&mut self.out, kind, message);
    }

    /// Puts a call into the output, in frames of the kind that the client wrote last.
    pub(super) fn send_call(&mut self, message: &[u8]) {
        frames::write_message(&mut self.out, self.written, message);
    }

    /// Puts the closing handshake into the output.
    pub(super) fn send_close(&mut self, code: u16) {
        frames::write_close(&mut self.out, code);
    }

    /// Takes the output, for a client that has room for it.
    pub(super) fn take_output(&mut self, now: Time) -> Bytes {
        if !self.may_read() {
            // nothing is read from it, but it takes its replies
            self.watch.hear(now);
        }
        self.given += self.out.len() as u64;
        // an idle connection keeps no memory of its output
        mem::take(&mut self.out).freeze()
    }

    /// The executor closes: the connection ends as soon as it is [idle](Self::may_close), and when its client
    /// takes nothing of what waits for it. The socket has `unsent` bytes.
    pub(super) fn close(&mut self, now: Time, unsent: usize) {
        self.closing = Some(Closing { looked_at: now, stood_at: self.stands_at(unsent) });
    }

    /// How many bytes the client has taken, if more waits for it.
    fn stands_at(&self, unsent: usize) -> Option<u64> {
        (unsent > 0 || self.has_output()).then(|| self.given - unsent as u64)
    }

    /// Does what is due at this time. The socket has `unsent` bytes.
    pub(super) fn tick(&mut self, now: Time, unsent: usize) -> Result<(), End> {
        self.calls.expire(now);
        if self.message_due().is_some_and(|due| now >= due) {
            return Err(End::Close(POLICY_VIOLATION));
        }
        if let Some(Closing { looked_at, stood_at }) = self.closing
            && now >= looked_at + UNMOVED
        {
            if stood_at.is_some() && stood_at == self.stands_at(unsent) {
                return Err(End::Gone);
            }
            self.close(now, unsent);
        }
        match self.watch.look(&self.limits, now) {
            Watched::Heard => {}
            Watched::Ping => wire::write(&mut self.out, OpCode::Ping, b""),
            // as long as it waits for its replies nothing is read from it
            Watched::Gone if self.is_busy() && !self.is_full() => self.watch.hear(now),
            Watched::Gone => return Err(End::Gone),
        }
        Ok(())
    }

    /// When the next [`tick`](Self::tick) is due.
    pub(super) fn due(&self) -> Time {
        let looks = self.closing.as_ref().map(|closing| closing.looked_at + UNMOVED);
        let watched = self.watch.next(&self.limits);
        [self.calls.due(), self.message_due(), looks].into_iter().flatten().fold(watched, Time::min)
    }

    /// When the message that comes now is late.
    fn message_due(&self) -> Option<Time> {
        self.begun.map(|begun| begun + self.message_time)
    }

    /// Whether the output has to be taken before more may be put into it.
    pub(super) fn is_full(&self) -> bool {
        self.out.len() >= MAX_WAITING
    }

    /// Whether the client may send more.
    pub(super) fn may_read(&self) -> bool {
        !self.is_full() && !self.is_busy()
    }

    pub(super) fn is_handling(&self) -> bool {
        self.handling > 0
    }

    pub(super) fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Whether the executor closes and all requests are answered.
    pub(super) fn may_close(&self) -> bool {
        self.is_closing() && !self.is_handling() && !self.has_output()
    }

    /// Whether the client has as many requests in flight as it may.
    fn is_busy(&self) -> bool {
        // answers to calls come between requests, and must not wait for requests that wait for them
        let most = self.limits.in_flight;
        self.handling >= most + self.calls.expected().min(most)
    }
}

/// When the client was heard last.
struct Watch {
    heard: Time,
    pinged: bool,
}

/// The reaction to a silent client.
enum Watched {
    Heard,
    Ping,
    Gone,
}

impl Watch {
    fn hear(&mut self, now: Time) {
        (self.heard, self.pinged) = (now, false);
    }

    /// When to look again, if nothing is heard until then.
    fn next(&self, limits: &WebSocketLimits) -> Time {
        self.heard + if self.pinged { limits.gone_after } else { limits.ping_after }
    }

    fn look(&mut self, limits: &WebSocketLimits, now: Time) -> Watched {
        let silence = now.saturating_since(self.heard);
        if silence >= limits.gone_after {
            Watched::Gone
        } else if silence >= limits.ping_after && !self.pinged {
            self.pinged = true;
            Watched::Ping
        } else {
            Watched::Heard
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn session() -> Session {
        Session::new(WebSocketLimits::default(), Duration::from_secs(5), at(0))
    }

    fn message() -> Result<Incoming, Broken> {
        Ok(Incoming::Message(Bytes::from_static(b"{}"), FrameKind::Binary))
    }

    #[test]
    fn a_silent_client_gets_a_ping_and_is_gone_after_the_limit() {
        let mut session = session();
        assert_eq!(session.due(), at(60));
        assert_eq!(session.tick(at(60), 0), Ok(()));
        assert_eq!(&*session.take_output(at(60)), b"\x89\0");
        assert_eq!(session.due(), at(90));
        assert_eq!(session.tick(at(90), 0), Err(End::Gone));
    }

    #[test]
    fn a_client_that_waits_for_its_replies_is_not_gone() {
        let mut session = session();
        for _ in 0..128 {
            assert!(session.may_read());
            assert!(session.frame(message(), at(0)).is_ok_and(|message| message.is_some()));
        }
        assert!(!session.may_read());
        assert_eq!(session.tick(at(90), 0), Ok(()));
        session.handled();
        assert!(session.may_read());
    }

    #[test]
    fn a_client_that_takes_no_output_is_not_read_from_and_is_gone_after_the_limit() {
        let mut session = session();
        session.send_call(&[0; MAX_WAITING]);
        assert!(session.is_full() && !session.may_read());
        assert_eq!(session.tick(at(90), 0), Err(End::Gone));
    }

    #[test]
    fn a_client_that_takes_its_output_slowly_is_not_gone() {
        let mut session = session();
        for minute in 1..10 {
            session.send_call(&[0; MAX_WAITING]);
            assert!(session.take_output(at(60 * minute)).len() > MAX_WAITING);
            assert_eq!(session.tick(at(60 * minute + 59), 0), Ok(()));
        }
    }

    #[test]
    fn a_closing_session_ends_when_all_is_answered_and_sent() {
        let mut session = session();
        assert!(session.frame(message(), at(0)).is_ok());
        session.close(at(0), 0);
        assert!(!session.may_close());
        session.handled();
        session.send_call(b"{}");
        assert!(!session.may_close());
        assert!(!session.take_output(at(1)).is_empty());
        assert!(session.may_close());
    }

    #[test]
    fn a_closing_session_does_not_wait_for_a_client_that_takes_nothing() {
        let mut session = session();
        session.send_call(&[0; 100]);
        let chunk = session.take_output(at(0)).len();
        session.close(at(10), chunk);
        assert_eq!(session.due(), at(15));
        // a byte of the chunk, then the rest of it, with more behind it
        assert_eq!(session.tick(at(15), chunk - 1), Ok(()));
        session.send_call(b"{}");
        assert_eq!(session.tick(at(20), 0), Ok(()));
        assert_eq!(session.tick(at(25), 0), Err(End::Gone));
    }

    #[test]
    fn a_message_that_does_not_end_is_late_whatever_comes_between() {
        let mut session = session();
        session.set_begun(true, || at(10));
        assert!(session.frame(Ok(Incoming::Pong), at(14)).is_ok());
        session.set_begun(true, || at(14));
        assert_eq!((session.due(), session.tick(at(14), 0)), (at(15), Ok(())));
        assert_eq!(session.tick(at(15), 0), Err(End::Close(1008)));
        // the next one has as much time
        session.frame_ended();
        session.set_begun(true, || at(16));
        assert_eq!((session.due(), session.tick(at(16), 0)), (at(21), Ok(())));
        // nothing is read from a client that takes nothing
        session.send_call(&[0; MAX_WAITING]);
        session.set_begun(true, || at(17));
        assert_eq!(session.tick(at(60), 0), Ok(()));
    }

    #[test]
    fn a_broken_frame_ends_the_connection_with_its_code() {
        let end = |broken| session().frame(Err(broken), at(0)).expect_err("it is broken");
        assert_eq!(end(Broken::TooLarge), End::Close(1009));
        assert_eq!(end(Broken::Protocol), End::Close(1002));
        assert_eq!(end(Broken::Text), End::Close(1007));
        assert_eq!(end(Broken::NoRoom), End::Close(1013));
        assert_eq!(end(Broken::Ended), End::Gone);
        let goodbye = session().frame(Ok(Incoming::Close(1000)), at(0));
        assert_eq!(goodbye.expect_err("it says so"), End::Close(1000));
    }
}
