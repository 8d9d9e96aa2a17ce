//! A step that is tried again when it fails: one sub-step for each attempt.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::body::PlannedBody;
use super::policies::{AttemptPolicies, RetryPolicy};
use crate::args::Args;
use crate::error::{Error, StepError, StepResult, codes};
use crate::replay::{Limit, Then};
use crate::stack::{Activity, AsyncSteps, QueuedStep, RepeatedWork, Retrying, Waking};
use crate::time::Time;

/// The attempts of one step, which the step keeps.
struct StepAttempts {
    one: AttemptPolicies,
    tries: RetryPolicy,
    body: Arc<dyn RepeatedWork>,
    /// When the time for all attempts expires.
    end: Option<Time>,
    /// The number of the attempt that is due or in progress.
    attempt: Cell<u32>,
    /// The input of the next attempt; `None` while it is in progress.
    next: Cell<Option<Args>>,
    /// The input of the attempt after that one.
    kept: Cell<Option<Args>>,
}

/// Makes the running step make attempts.
pub(super) fn start(
    one: AttemptPolicies,
    tries: RetryPolicy,
    body: Arc<dyn RepeatedWork>,
    asi: &mut AsyncSteps,
    args: Args,
) -> StepResult {
    let memory = one.memory.clone();
    let end = tries.retry.overall();
    let end = end.map(|limit| asi.limit_hard(Limit::Overall, limit, memory.clone()));
    let failed = memory.and_then(|memory| memory.attempts());
    if failed.is_some()
        && let Some(undo) = asi.own_undo()
    {
        // the outcome of those attempts is unknown
        undo.set_unknown();
    }
    let (attempts, at) = failed.unwrap_or_else(|| (0, asi.now()));
    asi.policy_state().has_attempts = true;
    pause_until(asi, at);
    let (attempt, next, kept) = (Cell::new(attempts + 1), Cell::default(), Cell::default());
    let attempts = StepAttempts { one, tries, body, end, attempt, next, kept };
    attempts.prepare(asi, args)?;
    asi.start_activity(Activity::Retrying(Rc::new(attempts)));
    Ok(())
}

impl StepAttempts {
    /// Another attempt is to be made; its arguments are kept for the one after it.
    fn prepare(&self, asi: &AsyncSteps, args: Args) -> StepResult {
        let (args, kept) = if self.attempt.get() < self.tries.retry.most_attempts() {
            let (args, kept) = (self.tries.copy)(args)
                .map_err(|mismatch| StepError::error(Error::violation(mismatch, asi.location())))?;
            (args, Some(kept))
        } else {
            (args, None)
        };
        self.next.set(Some(args));
        self.kept.set(kept);
        Ok(())
    }

    /// Whether another attempt may help with this error.
    fn helps(&self, asi: &AsyncSteps, error: &Error) -> bool {
        if error.code() == codes::TIMEOUT && is_limit_of_others(asi, error) {
            return false;
        }
        self.tries.retry.helps(error)
    }
}

impl Retrying for StepAttempts {
    fn is_due(&self) -> bool {
        let next = self.next.take();
        let is_due = next.is_some();
        self.next.set(next);
        is_due
    }

    fn attempt(&self) -> u32 {
        self.attempt.get()
    }

    fn is_worth_another(&self, error: &Error) -> bool {
        self.tries.retry.helps(error)
    }

    fn start(self: Rc<Self>, asi: &mut AsyncSteps, waker: Waking<'_>) -> StepResult {
        let args = self.next.take().unwrap_or_default();
        if let Some(memory) = &self.one.memory {
            asi.extras().memory = Some((Rc::clone(memory), Some(self.attempt.get())));
        }
        self.one.start(PlannedBody::Again(Arc::clone(&self.body)), asi, args, waker)
    }

    fn fail(&self, asi: &mut AsyncSteps, error: &Error) -> StepResult {
        let attempt = self.attempt.get();
        let Some(args) = self.kept.take().filter(|_| self.helps(asi, error)) else {
            return Err(StepError::error(error.clone().after_attempts(attempt)));
        };
        let pause = self.tries.retry.pause(attempt, || asi.random().number());
        let next = asi.now() + pause;
        if self.end.is_some_and(|end| next >= end) {
            return Err(StepError::error(error.clone().after_attempts(attempt)));
        }
        if let Some(memory) = &self.one.memory {
            memory.fails(Some(attempt), error, Then::Retries(next));
        }
        pause_until(asi, next);
        self.attempt.set(attempt + 1);
        if let Some(undo) = asi.own_undo() {
            undo.prepare();
        }
        self.prepare(asi, args)
    }
}

/// Adds the pause before an attempt, unless that may start now.
fn pause_until(asi: &mut AsyncSteps, next: Time) {
    if next > asi.now() {
        asi.queue(QueuedStep::body(asi.location().named("pause"), move |asi, _| {
            asi.wait_until(next);
            Ok(())
        }));
    }
}

/// Whether this is the time limit of a step around the attempt, which has to see it.
fn is_limit_of_others(asi: &AsyncSteps, error: &Error) -> bool {
    let mut expired = asi.own_policy_state().into_iter().flat_map(|policies| &policies.expired);
    expired.any(|expired| {
        expired.error.is_same(error)
            && expired.strand == asi.active()
            && expired.depth < asi.strand.depth()
    })
}
