//! Completing a waiting step, and cancelling a flow, from any thread (FTN12 §1.3, §2.2.2
//! `waitExternal`, §2.2.3 `cancel`).

use std::fmt;
use std::sync::Arc;

use crate::args::SendArguments;
use crate::error::{Error, ErrorCode, Info};
use crate::inbox::{FlowInbox, HandleKey, WaitKey, WaitMessage};

/// Completes one waiting step from outside, from any thread (FTN12 §1.3).
///
/// It belongs to one wait of the step that made it. The flow receives the completion on its own
/// event loop, after the call returned. When the last clone is dropped without completing, the step
/// fails with `InternalError` ("abandoned"), so that a lost handle never makes a flow hang. It does
/// not matter when or where that happens: in the body, by another thread while the body still runs,
/// or later. A step that waits without a handle calls
/// [`wait_only`](crate::AsyncSteps::wait_only) instead.
#[must_use = "dropping it fails the step; `wait_only` waits without a handle"]
pub struct Completion {
    inbox: Arc<FlowInbox>,
    /// Used up when the wait is known to be over: dropping the handle changes nothing then.
    key: HandleKey,
}

/// The step had ended before the completion arrived: completed, failed, timed out or cancelled
/// (FTN12 §1.3).
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
    pub(crate) fn new(inbox: &Arc<FlowInbox>, key: WaitKey) -> Self {
        if let Some(wait) = inbox.lock().get_mut(key) {
            wait.handles += 1;
        }
        Self::counted(inbox, key)
    }

    /// A handle that its wait has counted already.
    pub(crate) fn counted(inbox: &Arc<FlowInbox>, key: WaitKey) -> Self {
        Self { inbox: Arc::clone(inbox), key: HandleKey::new(key) }
    }

    /// Completes the step with a result, as `success` inside of it would.
    ///
    /// `Ok` means that the step takes the result: it completes before a time limit, a cancel or the
    /// failure of another branch that comes later. Only the step itself can still fail: by an error
    /// that its own body raises after it passed the handle on, or with `InternalError` because its body
    /// breaks a rule, by adding sub-steps or calling [`success`](crate::AsyncSteps::success) as well.
    ///
    /// # Errors
    /// [`Stale`] if the step has ended, was completed before, or its flow is being cancelled; then
    /// nothing happens.
    pub fn success(&self, result: impl SendArguments) -> Result<(), Stale> {
        self.send(WaitMessage::Success(result.into_send_args()))
    }

    /// [`success`](Self::success) that returns the result if the step does not take it.
    ///
    /// # Errors
    /// The result, if the step has ended, was completed before, or its flow is being cancelled.
    pub fn try_success<T: SendArguments>(&self, result: T) -> Result<(), T> {
        let Some(key) = self.key.get() else { return Err(result) };
        match self.send_to(key, WaitMessage::Success(result.into_send_args())) {
            Err(WaitMessage::Success(args)) => match T::from_args(args.into_args()) {
                Ok(result) => Err(result),
                Err(_) => unreachable!("a result is restored as the type that it was"),
            },
            Ok(())
            | Err(
                WaitMessage::Error(_)
                | WaitMessage::Abandoned
                | WaitMessage::Interrupt(_)
                | WaitMessage::Poll,
            ) => Ok(()),
        }
    }

    /// Completes the step with an error, as `error` inside of it would.
    ///
    /// # Errors
    /// [`Stale`] if the step has ended or was completed before; then nothing happens.
    pub fn error(&self, code: impl Into<ErrorCode>, info: impl Into<Info>) -> Result<(), Stale> {
        self.fail(Error::with_info(code, info))
    }

    /// Completes the step with an error that exists already.
    ///
    /// # Errors
    /// [`Stale`] if the step has ended or was completed before; then nothing happens.
    pub fn fail(&self, error: Error) -> Result<(), Stale> {
        self.send(WaitMessage::Error(error))
    }

    /// Whether the step still waits for this: a completion is refused if not.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.key.get().is_some_and(|key| self.inbox.is_open(key))
    }

    fn send(&self, message: WaitMessage) -> Result<(), Stale> {
        let key = self.key.get().ok_or(Stale)?;
        self.send_to(key, message).map_err(|_| Stale)
    }

    /// The wait has ended after this, whether or not it was open before.
    fn send_to(&self, key: WaitKey, message: WaitMessage) -> Result<(), WaitMessage> {
        let sent = self.inbox.send(key, message);
        self.key.use_up();
        sent
    }
}

impl Clone for Completion {
    fn clone(&self) -> Self {
        match self.key.get() {
            Some(key) => Self::new(&self.inbox, key),
            None => Self { inbox: Arc::clone(&self.inbox), key: HandleKey::used() },
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        let Some(key) = self.key.get() else { return };
        let is_last = self.inbox.lock().get_mut(key).is_some_and(|wait| {
            wait.handles -= 1;
            wait.handles == 0
        });
        if is_last {
            // the step may have ended in another way meanwhile
            let _ = self.inbox.send(key, WaitMessage::Abandoned);
        }
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("valid", &self.is_valid()).finish()
    }
}

/// Fails one step from any thread while it is in progress, also with sub-steps, as the end of its time
/// limit does: everything inside is cancelled, then the error is raised at the step itself
/// (FTN12 §1.3).
///
/// Made by [`interrupter`](crate::AsyncSteps::interrupter). Unlike a [`Completion`] it obliges to nothing: dropping it
/// changes nothing.
pub struct Interrupter {
    inbox: Arc<FlowInbox>,
    key: WaitKey,
}

impl Interrupter {
    pub(crate) fn new(inbox: &Arc<FlowInbox>, key: WaitKey) -> Self {
        Self { inbox: Arc::clone(inbox), key }
    }

    /// Interrupts the step with this error. The flow does so on its own event loop, when it runs next.
    ///
    /// # Errors
    /// [`Stale`] if the step has ended, was completed from outside before, or its flow is being
    /// cancelled; then nothing happens.
    pub fn interrupt(&self, error: Error) -> Result<(), Stale> {
        self.inbox.send(self.key, WaitMessage::Interrupt(error)).map_err(|_| Stale)
    }
}

impl fmt::Debug for Interrupter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupter").finish_non_exhaustive()
    }
}

/// Cancels a flow from any thread (FTN12 §2.2.3 `cancel`).
///
/// The flow is cancelled on its own event loop, when it runs next. Idempotent; cancelling a
/// finished flow does nothing.
#[derive(Clone)]
pub struct Canceller(pub(crate) Arc<FlowInbox>);

impl Canceller {
    /// Asks the flow to cancel.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller").finish_non_exhaustive()
    }
}

const _: () = {
    const fn any_thread<T: Send + Sync + 'static>() {}
    any_thread::<Completion>();
    any_thread::<Interrupter>();
    any_thread::<Canceller>();
};
