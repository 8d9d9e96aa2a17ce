//! Completing a waiting step from outside (FTN12 §1.3, §2.2.2 `waitExternal`).
//!
//! All handles of a flow share one [`Inbox`]: it knows which waits are alive, keeps what was
//! sent until the flow runs next, and wakes the flow's host.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

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
    waits: Vec<Wait>,
    /// The places in `waits` whose wait is over.
    free: Vec<u32>,
    mail: Vec<(WaitKey, u32, Mail)>,
    waker: Option<Waker>,
    cancelled: bool,
}

struct Wait {
    generation: u32,
    strand: u32,
    handles: u32,
    state: WaitState,
    /// Set when the body of the step has returned: from then on losing all handles counts.
    armed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitState {
    Free,
    Open,
    /// A poll was asked for and not taken up yet.
    Polling,
}

impl Inbox {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Arrivals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a completion and wakes the host; a completion closes its wait.
    fn post(&self, key: WaitKey, mail: Mail) -> Result<(), Stale> {
        let waker = {
            let mut inbox = self.lock();
            let (before, strand) =
                inbox.wait(key, |wait| (wait.state, wait.strand)).ok_or(Stale)?;
            match mail {
                Mail::Poll if before == WaitState::Polling => return Ok(()),
                Mail::Poll => {
                    inbox.wait(key, |wait| wait.state = WaitState::Polling);
                }
                Mail::Success(_) | Mail::Error(_) | Mail::Abandoned => inbox.close(key),
            }
            inbox.mail.push((key, strand, mail));
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
        let mut wait =
            Wait { generation: 0, strand, handles: 0, state: WaitState::Open, armed: false };
        if let Some(index) = self.free.pop()
            && let Some(place) = self.waits.get_mut(index as usize)
        {
            wait.generation = place.generation.wrapping_add(1);
            let generation = wait.generation;
            *place = wait;
            return WaitKey { index, generation };
        }
        self.waits.push(wait);
        WaitKey { index: level::index(self.waits.len() - 1), generation: 0 }
    }

    /// The body returned: from now on the step fails if nobody can complete it any more.
    pub(crate) fn arm(&mut self, key: WaitKey) {
        self.wait(key, |wait| wait.armed = true);
    }

    /// The step is over: what still comes for it is stale.
    pub(crate) fn close(&mut self, key: WaitKey) {
        if self.wait(key, |wait| wait.state = WaitState::Free).is_some() {
            self.free.push(key.index);
        }
    }

    /// The future of the step is about to be polled: a wake-up from now on counts again.
    pub(crate) fn polled(&mut self, key: WaitKey) {
        self.wait(key, |wait| wait.state = WaitState::Open);
    }

    /// What came since the last time, in the order it came; each with the strand it is for.
    pub(crate) fn take_mail(&mut self) -> Vec<(WaitKey, u32, Mail)> {
        mem::take(&mut self.mail)
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
        self.cancelled || !self.mail.is_empty()
    }

    fn wait<T>(&mut self, key: WaitKey, act: impl FnOnce(&mut Wait) -> T) -> Option<T> {
        let wait = self.waits.get_mut(key.index as usize)?;
        let alive = wait.generation == key.generation && wait.state != WaitState::Free;
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
