//! Completing a waiting step from outside (FTN12 §1.3, §2.2.2 `waitExternal`).
//!
//! All handles of a flow share one [`Inbox`]: it knows which waits are alive, keeps what was
//! sent until the flow runs next, and wakes the flow's host.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use smallvec::SmallVec;

use crate::args::{SendArgs, SendArguments};
use crate::error::{Error, ErrorCode, Info};
use crate::flow::level;

/// Completes one waiting step from outside, from any thread.
///
/// It belongs to the execution of the step that made it. Whatever it sends is taken up by the
/// flow on its own event loop, after the call returned. When the last clone of a handle that
/// outlived the step's body is dropped without completing, the step fails with `InternalError`
/// ("abandoned"), so that a flow never hangs silently because somebody lost its handle.
#[must_use = "dropped inside the step it means: wait for a timeout or cancel only"]
pub struct Completion {
    inbox: Arc<Inbox>,
    key: WaitKey,
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
    pub(crate) fn new(inbox: &Arc<Inbox>, key: WaitKey) -> Self {
        inbox.lock().wait(key, |wait| wait.handles += 1);
        Self { inbox: Arc::clone(inbox), key }
    }

    /// Completes the step with a result, as `success` inside of it would.
    ///
    /// # Errors
    /// [`Stale`] if the step is over or was completed before; then nothing happens.
    pub fn success(&self, result: impl SendArguments) -> Result<(), Stale> {
        self.inbox.post(self.key, Mail::Success(result.into_send_args()))
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
        self.inbox.post(self.key, Mail::Error(error))
    }

    /// Whether the step still waits for this.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.inbox.lock().wait(self.key, |_| ()).is_some()
    }
}

impl Clone for Completion {
    fn clone(&self) -> Self {
        Self::new(&self.inbox, self.key)
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        let abandoned = self.inbox.lock().wait(self.key, |wait| {
            wait.handles -= 1;
            wait.handles == 0 && wait.armed
        });
        if abandoned == Some(true) {
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
            let mut inbox = self.0.lock();
            inbox.cancelled = true;
            inbox.waker.take()
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

/// Names one wait of a flow: a place in the table and how often the place was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitKey {
    index: u32,
    generation: u32,
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
pub(crate) struct Inbox(Mutex<Arrivals>);

#[derive(Default)]
pub(crate) struct Arrivals {
    /// Most flows have one wait at a time.
    waits: SmallVec<[Wait; 1]>,
    /// The first place in `waits` that nobody uses; the others are linked to it.
    free: Option<u32>,
    /// The places in `waits` for which something came, in that order.
    news: SmallVec<[u32; 4]>,
    waker: Option<Waker>,
    cancelled: bool,
}

/// Something that came: for which wait, for which strand, and what.
pub(crate) type Arrival = (WaitKey, u32, Mail);

struct Wait {
    generation: u32,
    strand: u32,
    handles: u32,
    /// Set when the body of the step has returned: from then on losing all handles counts.
    armed: bool,
    state: WaitState,
}

enum WaitState {
    /// Nobody uses the place; the next such place, if any.
    Free(Option<u32>),
    Open,
    /// Something came and was not taken up yet.
    Came(Mail),
}

impl Inbox {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Arrivals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what came and wakes the host. After a completion nothing else can come.
    fn post(&self, key: WaitKey, mail: Mail) -> Result<(), Stale> {
        let waker = {
            let mut inbox = self.lock();
            let state = inbox.wait(key, |wait| &mut wait.state).ok_or(Stale)?;
            if matches!(state, WaitState::Came(Mail::Poll)) && matches!(mail, Mail::Poll) {
                return Ok(());
            }
            let is_first = matches!(state, WaitState::Open);
            *state = WaitState::Came(mail);
            if is_first {
                inbox.news.push(key.index);
            }
            inbox.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}

impl Arrivals {
    /// Opens a wait for a step of this strand.
    pub(crate) fn open(&mut self, strand: u32) -> WaitKey {
        let new = |generation| Wait {
            generation,
            strand,
            handles: 0,
            armed: false,
            state: WaitState::Open,
        };
        if let Some(index) = self.free
            && let Some(place) = self.waits.get_mut(index as usize)
            && let WaitState::Free(next) = place.state
        {
            self.free = next;
            *place = new(place.generation.wrapping_add(1));
            return WaitKey { index, generation: place.generation };
        }
        self.waits.push(new(0));
        WaitKey { index: level::index(self.waits.len() - 1), generation: 0 }
    }

    /// The body returned: from now on the step fails if nobody can complete it any more.
    pub(crate) fn arm(&mut self, key: WaitKey) {
        self.wait(key, |wait| wait.armed = true);
    }

    /// The step is over: what still comes for it is stale.
    pub(crate) fn close(&mut self, key: WaitKey) {
        if self.wait(key, |_| ()).is_some() {
            self.release(key.index);
        }
    }

    fn release(&mut self, index: u32) {
        if let Some(place) = self.waits.get_mut(index as usize) {
            place.state = WaitState::Free(self.free);
            self.free = Some(index);
        }
    }

    /// What came since the last time, in the order it came. A poll leaves its wait open; whoever
    /// takes it up polls at once, so a wake-up from now on counts again.
    pub(crate) fn take_news(&mut self) -> SmallVec<[Arrival; 1]> {
        let mut arrivals = SmallVec::new();
        for index in mem::take(&mut self.news) {
            let Some(wait) = self.waits.get_mut(index as usize) else { continue };
            let WaitState::Came(mail) = mem::replace(&mut wait.state, WaitState::Open) else {
                continue;
            };
            let key = WaitKey { index, generation: wait.generation };
            let is_over = !matches!(mail, Mail::Poll);
            arrivals.push((key, wait.strand, mail));
            if is_over {
                self.release(index);
            }
        }
        arrivals
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// Sets whom to wake when something comes.
    pub(crate) fn set_waker(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(old) => old.clone_from(waker),
            None => self.waker = Some(waker.clone()),
        }
    }

    pub(crate) fn has_news(&self) -> bool {
        self.cancelled || !self.news.is_empty()
    }

    /// The wait of this name, unless it is over or was completed.
    fn wait<'a, T>(&'a mut self, key: WaitKey, act: impl FnOnce(&'a mut Wait) -> T) -> Option<T> {
        let wait = self.waits.get_mut(key.index as usize)?;
        let alive = match &wait.state {
            WaitState::Open | WaitState::Came(Mail::Poll) => wait.generation == key.generation,
            WaitState::Free(_) | WaitState::Came(_) => false,
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
