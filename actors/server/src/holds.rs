//! The memory that a connection holds for its client, by the parts of HTTP.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::account::{Account, Share};
use super::limits::ServerLimits;

/// Bytes of an HTTP/2 connection without requests: its buffers and tables.
const MULTIPLEXED: usize = 32 << 10;

/// Bytes of a request in addition to its head and its answer: its task and its stream.
const STREAM: usize = 5 << 10;

/// Bytes of bodies that may wait to be taken before they count.
const UNREAD: usize = 16 << 10;

/// The memory that a connection holds for its client.
///
/// In HTTP/1 what the permit of a request does not count is held only while the client is waited for, so a
/// request that comes at once and whose answer is taken at once costs nothing here.
pub(super) struct Holds {
    account: Rc<Account>,
    is_multiplexed: Cell<bool>,
    /// What it holds in addition to its requests, in HTTP/2.
    base: RefCell<Share>,
    requests: Cell<usize>,
    /// Bytes of bodies that were read, and how many of them were taken, in HTTP/2.
    received: Cell<usize>,
    taken: Arc<AtomicUsize>,
    /// Bytes of answers that are not on their way.
    unsent: Cell<usize>,
    /// Whether the answer to the last request has begun, and nothing was read behind it.
    has_begun_answer: Cell<bool>,
}

impl Holds {
    pub(super) fn new(account: Rc<Account>) -> Rc<Self> {
        Rc::new(Self {
            base: RefCell::new(account.share()),
            account,
            is_multiplexed: Cell::new(false),
            requests: Cell::new(0),
            received: Cell::new(0),
            taken: Arc::default(),
            unsent: Cell::new(0),
            has_begun_answer: Cell::new(false),
        })
    }

    pub(super) fn account(&self) -> &Rc<Account> {
        &self.account
    }

    /// Its protocol is HTTP/2.
    pub(super) fn multiplex(&self) {
        self.is_multiplexed.set(true);
        if self.base.borrow_mut().set(MULTIPLEXED, true).is_err() {
            self.account.refuse();
        }
    }

    /// Counts the bytes of bodies that are taken.
    pub(super) fn taken(&self) -> &Arc<AtomicUsize> {
        &self.taken
    }

    /// Counts bytes of bodies that were read; returns how many wait to be taken, if they are more than a few.
    pub(super) fn unread(&self, read: usize, limits: &ServerLimits) -> usize {
        let taken = self.taken.load(Ordering::Relaxed);
        // without requests, the rest of their bodies was dropped
        let received = if self.requests.get() > 0 { self.received.get() + read } else { taken };
        self.received.set(received);
        let unread = received.saturating_sub(taken);
        let most = limits.stream_window.saturating_mul(4) as usize;
        if unread > UNREAD { unread.min(most) } else { 0 }
    }

    /// Bytes of answers that are not on their way.
    pub(super) fn unsent(&self) -> usize {
        self.unsent.get()
    }

    /// A head has begun.
    pub(super) fn begin_head(&self) {
        self.has_begun_answer.set(false);
    }

    /// An answer has begun.
    pub(super) fn begin_answer(&self) {
        self.has_begun_answer.set(true);
    }

    /// Whether a part of the answer to the last request was made, which may not be sent.
    pub(super) fn has_begun_answer(&self) -> bool {
        self.has_begun_answer.get()
    }

    /// A request begins.
    pub(super) fn begin(self: &Rc<Self>) -> HeldRequest {
        self.begin_head();
        let requests = self.requests.get();
        self.requests.set(requests + 1);
        if requests == 0 && self.is_multiplexed.get() {
            self.base.borrow_mut().set_taken(MULTIPLEXED, false);
        }
        let share = RefCell::new(self.account.share());
        HeldRequest { holds: Rc::clone(self), share, unsent: Cell::new(0) }
    }
}

/// The memory that is held for one request, until its answer is sent.
pub(super) struct HeldRequest {
    holds: Rc<Holds>,
    share: RefCell<Share>,
    /// Bytes of its answer that were made and are not on their way.
    unsent: Cell<usize>,
}

impl HeldRequest {
    /// Its head has this number of bytes, until it is answered; whether there is room for it.
    pub(super) fn head(&self, bytes: usize) -> bool {
        // in HTTP/1 its permit counts them
        !self.holds.is_multiplexed.get()
            || self.share.borrow_mut().set(STREAM + bytes, false).is_ok()
    }

    /// This number of bytes of its answer were made, and this number are on their way.
    pub(super) fn answer(&self, made: usize, left: usize) {
        let Self { holds, share, unsent } = self;
        unsent.set(unsent.get() + made - left);
        holds.unsent.set(holds.unsent.get() + made - left);
        if holds.is_multiplexed.get() {
            share.borrow_mut().set_taken(STREAM + unsent.get(), true);
        }
    }
}

impl Drop for HeldRequest {
    fn drop(&mut self) {
        let Self { holds, unsent, .. } = self;
        holds.unsent.set(holds.unsent.get() - unsent.get());
        let requests = holds.requests.get() - 1;
        holds.requests.set(requests);
        if requests == 0 && holds.is_multiplexed.get() {
            holds.base.borrow_mut().set_taken(MULTIPLEXED, true);
        }
    }
}
