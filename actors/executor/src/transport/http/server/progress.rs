//! How far a connection is: shared by its bytes, its requests and its task, which are on one arbiter.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use asyncsteps::Time;
use asyncsteps_actors::clock;
use slab::Slab;

use super::limits::ServerLimits;
use crate::transport::websocket::WebSocket;

/// How long a connection without a request is kept while the server closes: for those that were made
/// just before, and for answers that are on their way.
const WHILE_CLOSING: Duration = Duration::from_secs(1);

/// How far a connection is.
pub(super) struct Progress {
    limits: ServerLimits,
    /// Many requests at once (HTTP/2), or one after the other.
    is_multiplexed: Cell<bool>,
    in_service: Cell<usize>,
    /// So far.
    requests: Cell<u64>,
    /// The request that is refused, and with which the connection ends.
    refused: Cell<Option<u64>>,
    /// When the client had the last answer, or the connection began.
    idle_since: Cell<Time>,
    /// Bodies that may be read on after the answer: hyper knows where they are.
    open_bodies: Cell<usize>,
    /// Whether the last request has one that is not counted.
    has_foreign_body: Cell<bool>,
    /// Whether the rest of a body is to come, perhaps after the answer, in HTTP/1.
    is_in_body: Cell<bool>,
    /// Which one of its worker's connections to become idle it was, while it is.
    idle_turn: Cell<Option<u64>>,
    /// When the first byte of the head that is read now came.
    head_since: Cell<Option<Time>>,
    /// Since when the server closes.
    closing: Cell<Option<Time>>,
    /// Whether written bytes wait for the client to take them.
    is_blocked: Cell<bool>,
    /// A request that waits until they do not.
    next: RefCell<Option<Waker>>,
    /// Whether a request was answered in this turn of its task, in HTTP/1.
    had_request: Cell<bool>,
    /// Since when the next bytes of answers wait for the client, in HTTP/2.
    unsent: RefCell<Slab<Time>>,
    resets: Cell<Resets>,
    /// What the connection becomes after the answer.
    upgrade: RefCell<Option<Box<WebSocket>>>,
}

/// Requests that their client gave up, in the second that began at a time.
#[derive(Clone, Copy)]
struct Resets {
    since: Time,
    count: u32,
}

/// What a connection without a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// The end of a request, or of its body, is not the connection's business.
    InService,
    /// The next request; the connection ends at this time.
    Idle(Time),
    /// The rest of a head; it is late at this time.
    Head(Time),
    /// Nothing: the server closes.
    Over,
}

impl Progress {
    pub(super) fn new(limits: ServerLimits) -> Rc<Self> {
        let now = clock::now();
        Rc::new(Self {
            limits,
            is_multiplexed: Cell::new(false),
            in_service: Cell::new(0),
            requests: Cell::new(0),
            refused: Cell::new(None),
            idle_since: Cell::new(now),
            open_bodies: Cell::new(0),
            has_foreign_body: Cell::new(false),
            is_in_body: Cell::new(false),
            idle_turn: Cell::new(None),
            head_since: Cell::new(None),
            closing: Cell::new(None),
            is_blocked: Cell::new(false),
            next: RefCell::new(None),
            had_request: Cell::new(false),
            unsent: RefCell::default(),
            resets: Cell::new(Resets { since: now, count: 0 }),
            upgrade: RefCell::new(None),
        })
    }

    pub(super) fn multiplex(&self) {
        self.is_multiplexed.set(true);
        self.head_since.set(None);
    }

    /// Since when the server closes.
    pub(super) fn closing(&self) -> Option<Time> {
        self.closing.get()
    }

    /// The server closes.
    pub(super) fn close(&self, now: Time) {
        self.closing.set(Some(now));
    }

    /// Bytes of a head were read, or behind one.
    pub(super) fn read_head(&self) {
        if self.in_service.get() == 0
            && self.head_since.get().is_none()
            && !self.is_multiplexed.get()
        {
            self.head_since.set(Some(clock::now()));
        }
    }

    /// Whether the rest of a body is to come, in HTTP/1.
    pub(super) fn set_in_body(&self, is_in_body: bool) {
        let was_in_body = self.is_in_body.replace(is_in_body);
        if was_in_body && !is_in_body && self.in_service.get() == 0 {
            self.idle_since.set(clock::now());
        }
    }

    /// What it means that nothing can be read now.
    pub(super) fn waiting(&self) -> Waiting {
        let ServerLimits { head_timeout, keep_alive, .. } = self.limits;
        let (idle_since, was_used) = (self.idle_since.get(), self.requests.get() > 0);
        if self.in_service.get() > 0 || self.is_in_body.get() {
            return Waiting::InService;
        }
        if self.is_blocked.get() && self.head_since.get().is_none() {
            // what is written has a limit of its own
            return Waiting::Idle(clock::now() + keep_alive);
        }
        match (self.head_since.get(), self.closing.get()) {
            (Some(_), _) if head_timeout.is_zero() && !was_used => Waiting::InService,
            (Some(since), _) => Waiting::Head(since + head_timeout),
            (None, Some(closing)) if self.is_multiplexed.get() => {
                // the end of what is read would cut answers off; it ends itself when they are sent
                Waiting::Idle(closing.max(idle_since) + WHILE_CLOSING)
            }
            (None, Some(_)) if was_used => Waiting::Over,
            (None, Some(closing)) => Waiting::Idle(closing + WHILE_CLOSING),
            (None, None) if was_used => Waiting::Idle(idle_since + keep_alive),
            (None, None) if head_timeout.is_zero() => Waiting::InService,
            (None, None) => Waiting::Idle(idle_since + head_timeout),
        }
    }

    /// Whether the client has had all answers, and has sent nothing that is not read.
    pub(super) fn is_idle(&self) -> bool {
        self.in_service.get() == 0
            && self.open_bodies.get() == 0
            && !self.has_foreign_body.get()
            && self.head_since.get().is_none()
            && !self.is_blocked.get()
    }

    /// The body of a request can be read, until it is closed.
    pub(super) fn open_body(&self) {
        self.open_bodies.set(self.open_bodies.get() + 1);
    }

    pub(super) fn close_body(&self) {
        self.open_bodies.set(self.open_bodies.get() - 1);
    }

    /// The application has the body of the request, and may keep it.
    pub(super) fn give_body(&self) {
        self.has_foreign_body.set(true);
    }

    pub(super) fn idle_turn(&self) -> Option<u64> {
        self.idle_turn.get()
    }

    pub(super) fn set_idle_turn(&self, turn: u64) {
        self.idle_turn.set(Some(turn));
    }

    /// Whether a head has begun and did not end in time.
    pub(super) fn is_head_late(&self) -> bool {
        matches!(self.waiting(), Waiting::Head(due) if clock::now() >= due)
    }

    /// A request begins.
    pub(super) fn begin(self: &Rc<Self>) -> InService {
        self.in_service.set(self.in_service.get() + 1);
        self.requests.set(self.requests.get() + 1);
        self.head_since.set(None);
        self.idle_turn.set(None);
        self.has_foreign_body.set(false);
        InService { progress: Rc::clone(self), is_answered: false, unsent: None }
    }

    /// Refuses the request of this number; nothing is read behind it.
    pub(super) fn refuse(&self, number: u64) {
        self.refused.set(Some(number));
    }

    /// Whether nothing more is read.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.get().is_some()
    }

    /// Whether the request that has just begun is the one that is refused.
    pub(super) fn refuses_this(&self) -> bool {
        self.refused.get() == Some(self.requests.get())
    }

    /// Written bytes wait for the client.
    pub(super) fn block(&self) {
        self.is_blocked.set(true);
    }

    /// The client has taken all that was written; whether it was waited for.
    pub(super) fn unblock(&self) -> bool {
        let was_blocked = self.is_blocked.replace(false);
        if was_blocked {
            self.idle_since.set(clock::now());
            if let Some(next) = self.next.take() {
                next.wake();
            }
        }
        was_blocked
    }

    /// The task of the connection has its turn.
    pub(super) fn begin_turn(&self) {
        self.had_request.set(false);
    }

    /// Waits until the client has taken what was written for the requests before, so that answers do
    /// not pile up for a client that reads none, and for the next turn if this one had a request, so
    /// that those who pipeline delay others no more than those who do not.
    pub(super) async fn next_turn(&self) {
        if self.is_multiplexed.get() {
            return;
        }
        poll_fn(|cx| {
            if self.is_blocked.get() {
                *self.next.borrow_mut() = Some(cx.waker().clone());
                return Poll::Pending;
            }
            if self.had_request.replace(true) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }

    /// When the client has taken nothing for too long of one of its answers, in HTTP/2.
    pub(super) fn stalled_at(&self) -> Option<Time> {
        // they are no more than a connection has streams
        let oldest = self.unsent.borrow().iter().map(|(_, since)| *since).min();
        oldest.map(|since| since + self.limits.stall_timeout)
    }

    /// Whether the client has given up more requests within a second than it may.
    pub(super) fn is_flooded(&self) -> bool {
        self.resets.get().count > self.limits.resets_per_second
    }

    /// Has the connection go on as a WebSocket after the answer.
    pub(super) fn upgrade(&self, socket: Box<WebSocket>) {
        *self.upgrade.borrow_mut() = Some(socket);
    }

    pub(super) fn take_upgrade(&self) -> Option<Box<WebSocket>> {
        self.upgrade.take()
    }

    fn count_reset(&self) {
        let (now, Resets { since, count }) = (clock::now(), self.resets.get());
        self.resets.set(if now.saturating_since(since) < Duration::from_secs(1) {
            Resets { since, count: count.saturating_add(1) }
        } else {
            Resets { since: now, count: 1 }
        });
    }
}

/// A request from its head to the end of its answer.
pub(super) struct InService {
    progress: Rc<Progress>,
    is_answered: bool,
    /// Where it is among the answers that wait for the client, if it does.
    unsent: Option<usize>,
}

impl InService {
    /// Its answer has begun, or its body goes on.
    pub(super) fn sent(&mut self) {
        self.is_answered = true;
        if self.progress.is_multiplexed.get() && self.unsent.is_none() {
            self.unsent = Some(self.progress.unsent.borrow_mut().insert(clock::now()));
        }
    }

    /// The client has taken all of its answer that was made.
    pub(super) fn taken(&mut self) {
        if let Some(unsent) = self.unsent.take() {
            self.progress.unsent.borrow_mut().remove(unsent);
        }
    }
}

impl Drop for InService {
    fn drop(&mut self) {
        self.taken();
        let Self { progress, is_answered, .. } = self;
        if !*is_answered {
            progress.count_reset();
        }
        progress.in_service.set(progress.in_service.get() - 1);
        progress.idle_since.set(clock::now());
    }
}

/// What wakes a task at a time that is often set anew, and rarely comes.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    timer: asyncsteps_actors::timer::Timer,
    at: Option<Time>,
}

impl Alarm {
    /// Wakes the task at `due` at the latest; perhaps also before.
    pub(super) fn set(&mut self, due: Time, now: Time, cx: &Context<'_>) {
        if self.at.is_none_or(|at| at <= now || at > due) {
            self.timer.set(Some(due), cx.waker());
            self.at = Some(due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_comes_after_the_answer_is_no_head() {
        let progress = Progress::new(ServerLimits::default());
        progress.read_head();
        progress.set_in_body(true);
        drop(progress.begin());
        assert_eq!(progress.waiting(), Waiting::InService);
        progress.set_in_body(false);
        assert!(matches!(progress.waiting(), Waiting::Idle(_)));
        progress.read_head();
        assert!(matches!(progress.waiting(), Waiting::Head(_)));
    }

    #[test]
    fn a_connection_whose_body_may_be_read_on_is_not_idle() {
        let progress = Progress::new(ServerLimits::default());
        let request = progress.begin();
        progress.open_body();
        assert!(!progress.is_idle());
        drop(request);
        assert!(!progress.is_idle(), "its body is open");
        progress.close_body();
        assert!(progress.is_idle());
        // a body that is not counted is over when the next request begins
        progress.give_body();
        assert!(!progress.is_idle());
        drop(progress.begin());
        assert!(progress.is_idle());
    }
}
