//! Completing a waiting step from outside (FTN12 §1.3, §2.2.2 `waitExternal`).
//!
//! All handles of a flow share one [`Inbox`]: it knows which waits are alive, keeps what was
//! sent until the flow runs next, and wakes the flow's host.

use std::fmt;
use std::mem;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use smallvec::SmallVec;

use crate::args::{SendArgs, SendArguments};
use crate::error::{Error, ErrorCode, Info};
use crate::flow::level;

/// Completes one waiting step from outside, from any thread.
///
/// It belongs to the execution of the step that made it. What it sends is taken up by the flow on
/// its own event loop, after the call returned. When the last clone is dropped without completing,
/// the step fails with `InternalError` ("abandoned"), so that a lost handle never makes a flow hang.
/// It does not matter when or where that happens: in the body, by another thread while the body still
/// runs, or later. A step that is to wait without a handle says so with
/// [`wait_only`](crate::AsyncSteps::wait_only).
#[must_use = "dropping it fails the step; `wait_only` waits without a handle"]
pub struct Completion {
    inbox: Arc<Inbox>,
    key: WaitKey,
    /// The wait is known to be over, so that nothing needs to be said when the handle is dropped.
    spent: AtomicBool,
}

/// The step was over before the completion came: completed, failed, timed out or cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale;

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the step is over")
    }
}

impl std::error::Error for Stale {}

impl Completion {
    /// A further handle of a wait.
    pub(crate) fn new(inbox: &Arc<Inbox>, key: WaitKey) -> Self {
        inbox.lock().wait(key, |wait| wait.handles += 1);
        Self::counted(inbox, key)
    }

    /// A handle that its wait has counted already.
    pub(crate) fn counted(inbox: &Arc<Inbox>, key: WaitKey) -> Self {
        Self { inbox: Arc::clone(inbox), key, spent: AtomicBool::new(false) }
    }

    /// Completes the step with a result, as `success` inside of it would.
    ///
    /// `Ok` means that the step takes the result: it completes, and a time limit, a cancel or the
    /// failure of another branch that comes later finds it complete. Only the step itself can still
    /// fail, by an error that its own body raises after it gave the handle away.
    ///
    /// # Errors
    /// [`Stale`] if the step is over, was completed before, or its flow is being cancelled; then
    /// nothing happens.
    pub fn success(&self, result: impl SendArguments) -> Result<(), Stale> {
        self.send(Mail::Success(result.into_send_args()))
    }

    /// Completes the step with an error, as `error` inside of it would.
    ///
    /// # Errors
    /// [`Stale`] if the step is over or was completed before; then nothing happens.
    pub fn error(&self, code: impl Into<ErrorCode>, info: impl Into<Info>) -> Result<(), Stale> {
        self.fail(Error::with_info(code, info))
    }

    /// Completes the step with an error that exists already.
    ///
    /// # Errors
    /// [`Stale`] if the step is over or was completed before; then nothing happens.
    pub fn fail(&self, error: Error) -> Result<(), Stale> {
        self.send(Mail::Error(error))
    }

    /// Whether the step still waits for this.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.inbox.lock().wait(self.key, |_| ()).is_some()
    }

    /// Completed by this or by something else: the wait is over either way.
    fn send(&self, mail: Mail) -> Result<(), Stale> {
        self.spent.store(true, Ordering::Relaxed);
        self.inbox.post(self.key, mail)
    }
}

impl Clone for Completion {
    fn clone(&self) -> Self {
        Self::new(&self.inbox, self.key)
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if *self.spent.get_mut() {
            return;
        }
        let is_last = self.inbox.lock().wait(self.key, |wait| {
            wait.handles -= 1;
            wait.handles == 0
        });
        if is_last == Some(true) {
            // losing the race against another end of the step is fine
            let _ = self.inbox.post(self.key, Mail::Abandoned);
        }
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("valid", &self.is_valid()).finish()
    }
}

/// Cancels a flow from any thread (FTN12 §2.2.3 `cancel`).
///
/// The flow is cancelled on its own event loop, when it runs next. Idempotent; cancelling a
/// finished flow does nothing.
#[derive(Clone)]
pub struct Canceller(pub(crate) Arc<Inbox>);

impl Canceller {
    /// Asks the flow to cancel.
    pub fn cancel(&self) {
        let waker = {
            let mut arrivals = self.0.lock();
            self.0.refuse();
            self.0.has_news.store(true, Ordering::Relaxed);
            arrivals.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller").finish_non_exhaustive()
    }
}

/// Names one wait of a flow: a place in the table, and how often the place was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WaitKey {
    index: u32,
    generation: NonZeroU32,
}

/// What came for a wait.
pub(crate) enum Mail {
    Success(SendArgs),
    Error(Error),
    /// All handles were dropped.
    Abandoned,
    /// The future of the step wants to be polled; the wait goes on.
    Poll,
}

/// Where completions, wake-ups and `cancel` arrive, from any thread.
#[derive(Default)]
pub(crate) struct Inbox {
    arrivals: Mutex<Arrivals>,
    /// Something came that was not taken up; set within the lock, read anywhere.
    has_news: AtomicBool,
    /// The flow is cancelled: completions are refused from now on. Set within the lock, read
    /// anywhere.
    cancelled: AtomicBool,
}

#[derive(Default)]
pub(crate) struct Arrivals {
    /// Most flows have one wait at a time.
    waits: SmallVec<[Wait; 1]>,
    /// The places in `waits` that nobody uses.
    free: List,
    /// The places in `waits` for which something came, in that order.
    news: List,
    waker: Option<Waker>,
}

/// Something that came: for which wait, for which strand, and what.
pub(crate) type Arrival = (WaitKey, u32, Mail);

struct Wait {
    generation: NonZeroU32,
    strand: u32,
    handles: u32,
    /// The place after this one in the list that this one is in.
    next: u32,
    state: WaitState,
}

enum WaitState {
    /// Nobody uses the place.
    Free,
    Open,
    /// Something came and was not taken up yet.
    Came(Mail),
}

/// Places in a table that are linked to each other; each place is in one list at most.
struct List {
    first: u32,
    last: u32,
}

/// No place.
const NONE: u32 = u32::MAX;

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl List {
    fn push(&mut self, index: u32, waits: &mut [Wait]) {
        if let Some(wait) = waits.get_mut(index as usize) {
            wait.next = NONE;
        }
        match waits.get_mut(self.last as usize) {
            Some(last) => last.next = index,
            None => self.first = index,
        }
        self.last = index;
    }

    fn pop<'a>(&mut self, waits: &'a mut [Wait]) -> Option<(u32, &'a mut Wait)> {
        let index = self.first;
        let wait = waits.get_mut(index as usize)?;
        self.first = wait.next;
        if self.first == NONE {
            self.last = NONE;
        }
        Some((index, wait))
    }
}

impl Inbox {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a wait for a step of this strand; `handles` of it are about to be made.
    pub(crate) fn open(&self, strand: u32, handles: u32) -> WaitKey {
        self.lock().open(strand, handles)
    }

    /// Refuses what is sent from now on; to be called within the lock.
    fn refuse(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the flow is to be cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Whether something may have come: what is not seen yet will wake the host.
    pub(crate) fn has_news(&self) -> bool {
        self.has_news.load(Ordering::Relaxed)
    }

    /// What came since the last time, in the order it came, `limit` at most. A poll leaves its wait
    /// open; it is carried out at once, so a wake-up from now on counts again.
    pub(crate) fn take_news(&self, limit: u32) -> SmallVec<[Arrival; 1]> {
        let mut arrivals = self.lock();
        let taken = arrivals.take_news(limit);
        self.has_news.store(arrivals.has_news() || self.is_cancelled(), Ordering::Relaxed);
        taken
    }

    /// Refuses what is sent from now on, and gives everything that came before.
    pub(crate) fn close(&self) -> SmallVec<[Arrival; 1]> {
        let mut arrivals = self.lock();
        self.refuse();
        arrivals.take_news(u32::MAX)
    }

    /// Sets whom to wake when something comes; `false` if something came already.
    pub(crate) fn rest(&self, waker: &Waker) -> bool {
        let mut arrivals = self.lock();
        if self.has_news() {
            return false;
        }
        match &mut arrivals.waker {
            Some(old) => old.clone_from(waker),
            None => arrivals.waker = Some(waker.clone()),
        }
        true
    }

    /// Takes what came and wakes the host. After a completion nothing else can come.
    pub(crate) fn post(&self, key: WaitKey, mail: Mail) -> Result<(), Stale> {
        let waker = {
            let mut arrivals = self.lock();
            if self.is_cancelled() {
                return Err(Stale);
            }
            let state = arrivals.wait(key, |wait| &mut wait.state).ok_or(Stale)?;
            if matches!(state, WaitState::Came(Mail::Poll)) && matches!(mail, Mail::Poll) {
                return Ok(());
            }
            if let WaitState::Open = mem::replace(state, WaitState::Came(mail)) {
                let Arrivals { waits, news, .. } = &mut *arrivals;
                news.push(key.index, waits);
            }
            self.has_news.store(true, Ordering::Relaxed);
            arrivals.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}

impl Arrivals {
    fn open(&mut self, strand: u32, handles: u32) -> WaitKey {
        let new =
            |generation| Wait { generation, strand, handles, next: NONE, state: WaitState::Open };
        if let Some((index, place)) = self.free.pop(&mut self.waits) {
            let generation = place.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
            *place = new(generation);
            return WaitKey { index, generation };
        }
        let generation = NonZeroU32::MIN;
        self.waits.push(new(generation));
        WaitKey { index: level::index(self.waits.len() - 1), generation }
    }

    /// The step is over: what still comes for it is stale. Gives what came for it and was not taken
    /// up.
    pub(crate) fn close(&mut self, key: WaitKey) -> Option<Mail> {
        let wait = self.waits.get_mut(key.index as usize)?;
        if wait.generation != key.generation {
            return None;
        }
        // a wait with news is in a list already, and is given back when they are taken
        match mem::replace(&mut wait.state, WaitState::Free) {
            WaitState::Came(mail) => return Some(mail),
            WaitState::Open => self.free.push(key.index, &mut self.waits),
            WaitState::Free => {}
        }
        None
    }

    fn has_news(&self) -> bool {
        self.news.first != NONE
    }

    fn take_news(&mut self, limit: u32) -> SmallVec<[Arrival; 1]> {
        let mut arrivals = SmallVec::new();
        for _ in 0..limit {
            let Some((index, wait)) = self.news.pop(&mut self.waits) else { break };
            let (mail, state) = match mem::replace(&mut wait.state, WaitState::Free) {
                WaitState::Came(Mail::Poll) => (Some(Mail::Poll), WaitState::Open),
                WaitState::Came(mail) => (Some(mail), WaitState::Free),
                WaitState::Free | WaitState::Open => (None, WaitState::Free),
            };
            wait.state = state;
            let key = WaitKey { index, generation: wait.generation };
            arrivals.extend(mail.map(|mail| (key, wait.strand, mail)));
            if matches!(wait.state, WaitState::Free) {
                self.free.push(index, &mut self.waits);
            }
        }
        arrivals
    }

    /// The wait of this name, unless it is over or was completed.
    fn wait<'a, T>(&'a mut self, key: WaitKey, act: impl FnOnce(&'a mut Wait) -> T) -> Option<T> {
        let wait = self.waits.get_mut(key.index as usize)?;
        let alive = match &wait.state {
            WaitState::Open | WaitState::Came(Mail::Poll) => wait.generation == key.generation,
            WaitState::Free | WaitState::Came(_) => false,
        };
        alive.then(|| act(wait))
    }
}

/// Wakes the flow for one awaited future (FTN12 §1.13).
pub(crate) struct FutureWaker {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) key: WaitKey,
}

impl Wake for FutureWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // a wake-up after the end of the step is nobody's business
        let _ = self.inbox.post(self.key, Mail::Poll);
    }
}

const _: () = {
    const fn any_thread<T: Send + Sync + 'static>() {}
    any_thread::<Completion>();
    any_thread::<Canceller>();
};
