//! How far a connection is: shared by its bytes, its requests and its task, which are on one arbiter.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slab::Slab;
use tokio::time::Instant;

use super::account::Account;
use super::alarm::{Alarm, later};
use super::blocks::Followed;
use super::holds::{HeldRequest, Holds};
use super::keep_alive::KeepAlive;
use super::limits::ServerLimits;
use super::min_rate::bought;
use super::resets::Resets;
use super::upgrade::Upgrade;
use super::{FRAMES, UNMOVED};

/// How long a connection without a request is kept while the server closes: for connections that
/// were made just before, and for answers in flight.
const WHILE_CLOSING: Duration = Duration::from_secs(1);

/// How long requests go on whose client has closed its half of the connection. It may have left, or wait
/// for its answers: the network does not show which.
const HALF_CLOSED: Duration = Duration::from_secs(1);

/// The state of a connection.
// Its deadline depends on all of its state, so each change goes through `change`: one in a turn of the connection's task is
// seen at the end of the turn, and one between two turns wakes the task.
#[derive(derive_more::Debug)]
#[debug("ConnectionState {{ .. }}")]
pub struct ConnectionState {
    limits: ServerLimits,
    keep_alive: KeepAlive,
    /// The memory that the connection holds for its client.
    holds: Rc<Holds>,
    state: RefCell<State>,
    /// The task of the connection.
    task: RefCell<Waker>,
    /// Whether the task has its turn.
    is_in_turn: Cell<bool>,
    /// Wakes the task at its deadline.
    alarm: RefCell<Alarm>,
    /// The time in this turn, once the clock was read.
    now: Cell<Option<Instant>>,
    /// Bytes that were written so far, of requests.
    written: Cell<u64>,
    /// How long its client had taken nothing, if it ends for that.
    stalled: Cell<Option<Duration>>,
    /// What the connection becomes after the answer.
    upgrade: RefCell<Option<Box<dyn Upgrade>>>,
}

struct State {
    /// Whether its bytes belong to requests, and not to a handshake or a WebSocket.
    is_metered: bool,
    /// Many requests at once (HTTP/2), or one after the other.
    is_multiplexed: bool,
    in_service: usize,
    /// So far.
    requests: u64,
    /// The request that is refused, and with which the connection ends.
    refused: Option<u64>,
    /// When the client had the last answer, or the connection began.
    idle_since: Instant,
    /// Bodies that may be read on after the answer: hyper knows where they are.
    open_bodies: usize,
    /// Whether the last request has one that is not counted.
    has_foreign_body: bool,
    /// Whether the rest of a body is to come, perhaps after the answer, in HTTP/1.
    is_in_body: bool,
    /// Which one of its worker's connections to become idle it was, while it is.
    idled: Option<u64>,
    /// Whether it keeps its buffers while it is idle.
    is_warm: bool,
    /// When the first byte of the head that is read now came.
    head_since: Option<Instant>,
    /// When the client was last known to be there, if it sends no more while its requests go on, in HTTP/1.
    half_closed: Option<Instant>,
    /// The same in HTTP/2, where other requests are in service meanwhile.
    block_since: Option<Instant>,
    /// Since when the server closes.
    closing: Option<Instant>,
    /// Whether written bytes wait for the client to take them.
    is_blocked: bool,
    /// Whether a request was answered in this turn of its task, in HTTP/1.
    had_request: bool,
    /// How many frames may still be read in this turn of its task, in HTTP/2.
    frames: usize,
    /// Since when the next bytes of answers wait for the client, as far as those that it took did not buy, in HTTP/2.
    unsent: Slab<Instant>,
    resets: Resets,
    /// Whether the task got another turn since its deadline passed.
    was_given_a_turn: bool,
    /// Why nothing more is read, in this turn.
    read_end: Option<ReadEnd>,
}

/// Why nothing more is read of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadEnd {
    /// There is no request, and none is waited for.
    Idle,
    /// A head that has begun did not end in time.
    Late,
}

/// The wait of a connection without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// The end of a request, or of its body, is not the connection's business.
    InService,
    /// The next request, since then.
    Next(Instant),
    /// The end of the connection at this time, without another request.
    Idle(Instant),
    /// The rest of a head; it is late at this time.
    Head(Instant),
    /// Nothing: the server closes.
    Over,
}

impl ConnectionState {
    pub(super) fn new(
        limits: ServerLimits,
        keep_alive: KeepAlive,
        account: Rc<Account>,
    ) -> Rc<Self> {
        let now = Instant::now();
        let state = State {
            is_metered: false,
            is_multiplexed: false,
            in_service: 0,
            requests: 0,
            refused: None,
            idle_since: now,
            open_bodies: 0,
            has_foreign_body: false,
            is_in_body: false,
            idled: None,
            is_warm: false,
            head_since: None,
            half_closed: None,
            block_since: None,
            closing: None,
            is_blocked: false,
            had_request: false,
            frames: FRAMES,
            unsent: Slab::new(),
            resets: Resets::new(now),
            was_given_a_turn: false,
            read_end: None,
        };
        Rc::new(Self {
            limits,
            keep_alive,
            holds: Holds::new(account),
            state: RefCell::new(state),
            task: RefCell::new(Waker::noop().clone()),
            is_in_turn: Cell::new(false),
            alarm: RefCell::default(),
            now: Cell::new(None),
            written: Cell::new(0),
            stalled: Cell::new(None),
            upgrade: RefCell::new(None),
        })
    }

    /// Runs a turn of the connection's task, and watches how long it waits for bytes.
    pub(super) fn turn<T>(
        &self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if !self.task.borrow().will_wake(cx.waker()) {
            *self.task.borrow_mut() = cx.waker().clone();
            // it ends by itself then
            let _ = self.holds.account().poll_displaced(cx);
        }
        self.is_in_turn.set(true);
        self.now.set(None);
        self.change(|state| {
            state.had_request = false;
            state.frames = FRAMES;
        });
        let mut polled = poll(cx);
        if polled.is_pending()
            && let Some(end) = self.read_end_after(cx)
        {
            self.change(|state| state.read_end = Some(end));
            polled = poll(cx);
            self.change(|state| state.read_end = None);
            if polled.is_pending() {
                // the end may have changed the wait
                self.read_end_after(cx);
            }
        }
        self.is_in_turn.set(false);
        polled
    }

    /// Why nothing more is to be read, if so; otherwise the task is woken when that changes.
    fn read_end_after(&self, cx: &mut Context<'_>) -> Option<ReadEnd> {
        let (due, end) = match self.waiting() {
            Waiting::InService => return None,
            Waiting::Over => return Some(ReadEnd::Idle),
            Waiting::Next(since) => (self.keep_alive.until(since, self.now()), ReadEnd::Idle),
            Waiting::Idle(due) => (due, ReadEnd::Idle),
            Waiting::Head(due) => (due, ReadEnd::Late),
        };
        let now = self.now();
        if now < due {
            self.alarm.borrow_mut().set(due, now, cx);
            return None;
        }
        if !self.change(|state| mem::replace(&mut state.was_given_a_turn, true)) {
            // bytes that came while the worker was busy are in time: it shows after this turn
            let _ = pin!(tokio::task::yield_now()).poll(cx);
            return None;
        }
        Some(end)
    }

    /// The time in this turn.
    fn now(&self) -> Instant {
        let now = self.now.get().unwrap_or_else(Instant::now);
        self.now.set(Some(now));
        now
    }

    /// Wakes the task of the connection.
    pub(super) fn wake(&self) {
        self.task.borrow().wake_by_ref();
    }

    /// Changes the state, and makes the task see it.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state.borrow_mut());
        if !self.is_in_turn.get() {
            self.wake();
        }
        changed
    }

    /// The bytes of the connection belong to requests from now on, or no longer.
    pub(super) fn meter(&self, is_metered: bool) {
        self.change(|state| state.is_metered = is_metered);
    }

    pub(super) fn multiplex(&self) {
        self.change(|state| {
            state.is_multiplexed = true;
            state.head_since = None;
        });
        self.holds.multiplex();
    }

    pub(super) fn limits(&self) -> &ServerLimits {
        &self.limits
    }

    /// The memory that the connection holds for its client.
    pub(super) fn holds(&self) -> &Holds {
        &self.holds
    }

    /// How many frames may be read in this turn, so that those who send many at once delay others no more
    /// than those who do not.
    pub(super) fn frames(&self) -> usize {
        self.state.borrow().frames
    }

    /// Frames were read in HTTP/2; whether the rest of a head is to come.
    pub(super) fn read_frames(&self, read: &Followed, is_in_head: bool) {
        self.change(|state| {
            state.frames -= read.frames;
            if read.resets > 0 {
                state.resets.count(read.resets, Instant::now());
            }
            state.was_given_a_turn = false;
            let since = state.block_since;
            state.block_since = is_in_head.then(|| since.unwrap_or_else(Instant::now));
        });
    }

    /// Since when the server closes.
    pub(super) fn closing(&self) -> Option<Instant> {
        self.state.borrow().closing
    }

    /// The server closes.
    pub(super) fn close(&self, now: Instant) {
        if self.closing().is_none() {
            self.change(|state| state.closing = Some(now));
        }
    }

    /// Bytes were read: of a head or behind one, or of a body, whose rest is to come in HTTP/1.
    pub(super) fn read(&self, is_of_head: bool, is_in_body: bool) {
        self.change(|state| {
            state.was_given_a_turn = false;
            let is_served = state.in_service > 0;
            if is_of_head && !is_served && state.head_since.is_none() && !state.is_multiplexed {
                state.head_since = Some(Instant::now());
                self.holds.begin_head();
            }
            let was_in_body = mem::replace(&mut state.is_in_body, is_in_body);
            if was_in_body && !is_in_body && !is_served {
                state.idle_since = Instant::now();
            }
        });
    }

    /// The client sends no more: whether its requests go on for a while.
    pub(super) fn half_close(&self) -> bool {
        self.change(|state| {
            let goes_on = state.in_service > 0 && !state.is_in_body && !state.is_multiplexed;
            if goes_on {
                state.half_closed = Some(Instant::now());
            }
            goes_on
        })
    }

    /// Bytes were written: if the client has left, the next ones cannot be.
    pub(super) fn written(&self, bytes: usize) {
        self.written.set(self.written.get() + bytes as u64);
        if self.is_half_closed() {
            self.change(|state| state.half_closed = Some(Instant::now()));
        }
    }

    pub(super) fn is_half_closed(&self) -> bool {
        self.state.borrow().half_closed.is_some()
    }

    /// Why nothing more is read in this turn.
    pub(super) fn read_end(&self) -> Option<ReadEnd> {
        self.state.borrow().read_end
    }

    /// The meaning of a read that finds nothing.
    fn waiting(&self) -> Waiting {
        let ServerLimits { head_timeout, .. } = self.limits;
        let state = self.state.borrow();
        let was_used = state.requests > 0;
        if let Some(since) = state.block_since {
            return Waiting::Head(later(since, head_timeout));
        }
        let is_blocked = state.is_blocked && state.head_since.is_none();
        if let Some(since) = state.half_closed
            && state.in_service > 0
            && !is_blocked
        {
            return Waiting::Idle(since + HALF_CLOSED);
        }
        if !state.is_metered || state.in_service > 0 || state.is_in_body || is_blocked {
            // writing has a limit of its own
            return Waiting::InService;
        }
        if state.half_closed.is_some() {
            return Waiting::Over;
        }
        match (state.head_since, state.closing) {
            (Some(_), _) if head_timeout.is_zero() && !was_used => Waiting::InService,
            (Some(since), _) => Waiting::Head(later(since, head_timeout)),
            (None, Some(closing)) if state.is_multiplexed => {
                // the end of reading would cut answers off; it ends itself when they are sent
                Waiting::Idle(closing.max(state.idle_since) + WHILE_CLOSING)
            }
            (None, Some(_)) if was_used => Waiting::Over,
            (None, Some(closing)) => Waiting::Idle(closing + WHILE_CLOSING),
            (None, None) if was_used => Waiting::Next(state.idle_since),
            (None, None) if head_timeout.is_zero() => Waiting::InService,
            (None, None) => Waiting::Idle(later(state.idle_since, head_timeout)),
        }
    }

    /// Whether the client has had all answers, and has sent nothing that is not read.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state.borrow();
        state.in_service == 0
            && state.open_bodies == 0
            && !state.has_foreign_body
            && state.head_since.is_none()
            && !state.is_blocked
    }

    /// The body of a request can be read, until it is closed.
    pub(super) fn open_body(&self) {
        self.change(|state| state.open_bodies += 1);
    }

    pub(super) fn close_body(&self) {
        self.change(|state| state.open_bodies -= 1);
    }

    /// The application has the body of the request, and may keep it.
    pub(super) fn give_body(&self) {
        self.change(|state| state.has_foreign_body = true);
    }

    pub(super) fn idled(&self) -> Option<u64> {
        self.state.borrow().idled
    }

    /// It is the connection with this number that becomes idle; returns whether it is warm.
    pub(super) fn idle(&self, turn: u64) -> bool {
        self.change(|state| {
            state.idled = Some(turn);
            state.is_warm
        })
    }

    pub(super) fn is_warm(&self) -> bool {
        self.state.borrow().is_warm
    }

    pub(super) fn set_warm(&self, is_warm: bool) {
        self.change(|state| state.is_warm = is_warm);
    }

    /// Whether a head has begun and did not end in time.
    pub(super) fn is_head_late(&self) -> bool {
        matches!(self.waiting(), Waiting::Head(due) if Instant::now() >= due)
    }

    /// A request begins.
    pub(super) fn begin(self: &Rc<Self>) -> InService {
        self.change(|state| {
            state.in_service += 1;
            state.requests += 1;
            state.head_since = None;
            state.idled = None;
            state.has_foreign_body = false;
        });
        InService {
            progress: Rc::clone(self),
            is_answered: Cell::new(false),
            unsent: Cell::new(None),
            held: self.holds.begin(),
        }
    }

    /// Refuses the request of this number; nothing is read behind it.
    pub(super) fn refuse(&self, number: u64) {
        self.change(|state| state.refused = Some(number));
    }

    /// Whether nothing more is read.
    pub(super) fn is_refused(&self) -> bool {
        self.state.borrow().refused.is_some()
    }

    /// Whether the request that has just begun is the one that is refused.
    pub(super) fn refuses_this(&self) -> bool {
        let state = self.state.borrow();
        state.refused == Some(state.requests)
    }

    /// Written bytes wait for the client.
    pub(super) fn block(&self) {
        self.change(|state| state.is_blocked = true);
    }

    /// The client has taken all that was written; whether it was waited for.
    pub(super) fn unblock(&self) -> bool {
        self.change(|state| {
            let was_blocked = mem::replace(&mut state.is_blocked, false);
            if was_blocked {
                state.idle_since = Instant::now();
            }
            was_blocked
        })
    }

    /// Waits until the client has taken the answers to the requests before, so that answers do not
    /// pile up for a client that reads none, and for the next turn if this one had a request, so
    /// that those who pipeline delay others no more than those who do not.
    pub(super) async fn next_turn(&self) {
        if self.state.borrow().is_multiplexed {
            return;
        }
        poll_fn(|cx| {
            self.change(|state| {
                if state.is_blocked {
                    // the task is woken when it is not
                    return Poll::Pending;
                }
                if mem::replace(&mut state.had_request, true) {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
        })
        .await;
    }

    /// Since when the client has taken nothing of one of its answers, and when that is too long, in HTTP/2.
    pub(super) fn stalls(&self) -> Option<(Instant, Instant)> {
        let state = self.state.borrow();
        // they are no more than a connection has streams
        let since = state.unsent.iter().map(|(_, since)| *since).min()?;
        let due = later(since, self.limits.stall_timeout);
        Some((since, state.closing.map_or(due, |closing| due.min(closing.max(since) + UNMOVED))))
    }

    /// The connection ends because its client has taken nothing for so long.
    pub(super) fn stall(&self, waited: Duration) {
        self.stalled.set(Some(waited));
    }

    /// Bytes that were written so far, and how long its client had taken nothing, if it has ended for that.
    pub(super) fn taken(&self) -> (u64, Option<Duration>) {
        (self.written.get(), self.stalled.get())
    }

    /// Whether the client has cancelled more requests within a second than it may.
    pub(super) fn is_flooded(&self) -> bool {
        self.state.borrow().resets.are_over(self.limits.resets_per_second)
    }

    /// Makes the connection become something else after the answer, which has the status 101.
    pub fn upgrade(&self, upgrade: Box<dyn Upgrade>) {
        *self.upgrade.borrow_mut() = Some(upgrade);
    }

    pub(super) fn take_upgrade(&self) -> Option<Box<dyn Upgrade>> {
        self.upgrade.take()
    }
}

/// A request from its head until its answer is sent.
pub(super) struct InService {
    progress: Rc<ConnectionState>,
    is_answered: Cell<bool>,
    /// Where it is among the answers that wait for the client, if it does.
    unsent: Cell<Option<usize>>,
    held: HeldRequest,
}

impl InService {
    /// The memory that is held for it.
    pub(super) fn held(&self) -> &HeldRequest {
        &self.held
    }

    /// Its answer has begun, or its body goes on.
    pub(super) fn sent(&self) {
        if !self.is_answered.replace(true) {
            self.progress.holds.begin_answer();
        }
        if self.unsent.get().is_none() {
            let unsent = self
                .progress
                .change(|state| state.is_multiplexed.then(|| state.unsent.insert(Instant::now())));
            self.unsent.set(unsent);
        }
    }

    /// The client has taken bytes of its answer.
    pub(super) fn moved(&self, bytes: usize) {
        let Some(unsent) = self.unsent.get() else { return };
        let bought = bought(bytes, self.progress.limits.least_rate);
        self.progress.change(|state| {
            state.unsent[unsent] = (state.unsent[unsent] + bought).min(Instant::now());
        });
    }

    /// The client has taken all of its answer that was made.
    pub(super) fn taken(&self) {
        if let Some(unsent) = self.unsent.take() {
            self.progress.change(|state| state.unsent.remove(unsent));
        }
    }
}

impl Drop for InService {
    fn drop(&mut self) {
        self.taken();
        let now = Instant::now();
        self.progress.now.set(Some(now));
        self.progress.change(|state| {
            state.in_service -= 1;
            state.idle_since = now;
        });
    }
}

#[cfg(test)]
mod tests {
    use asyncsteps_budget::{Budget, Client, Limits};

    use super::super::connections::Connections;
    use super::*;

    fn progress() -> Rc<ConnectionState> {
        let (budget, client) = (Budget::new(Limits::default()), Client::Unknown);
        let keep_alive = KeepAlive::new(Duration::ZERO, &Connections::new(1, 1), &client);
        let account = Account::new(budget.hold(&client));
        ConnectionState::new(ServerLimits::default(), keep_alive, account)
    }

    #[test]
    fn a_body_that_comes_after_the_answer_is_no_head() {
        let progress = progress();
        progress.meter(true);
        progress.read(true, true);
        drop(progress.begin());
        assert_eq!(progress.waiting(), Waiting::InService);
        progress.read(false, false);
        assert!(matches!(progress.waiting(), Waiting::Next(_)));
        progress.read(true, false);
        assert!(matches!(progress.waiting(), Waiting::Head(_)));
    }

    #[test]
    fn a_connection_whose_body_may_be_read_on_is_not_idle() {
        let progress = progress();
        let request = progress.begin();
        progress.open_body();
        assert!(!progress.is_idle());
        drop(request);
        assert!(!progress.is_idle(), "its body is open");
        progress.close_body();
        assert!(progress.is_idle());
        // a body that is not counted has ended when the next request begins
        progress.give_body();
        assert!(!progress.is_idle());
        drop(progress.begin());
        assert!(progress.is_idle());
    }
}
