//! A step that is tried again when it fails: one sub-step for each attempt.

use std::rc::Rc;

use super::attempt::Attempt;
use super::body::Body;
use super::policies::Tries;
use crate::args::Args;
use crate::error::{Error, StepError, StepResult, codes};
use crate::replay::Limit;
use crate::stack::{AsyncSteps, QueuedStep, Repeat};
use crate::time::Time;

/// The attempts of one step.
pub(super) struct Attempts {
    tries: Tries,
    one: Attempt,
    body: Rc<dyn Repeat>,
    /// When the time for all attempts is over.
    end: Option<Time>,
}

impl Attempts {
    /// Makes the first attempt.
    pub(super) fn start(
        tries: Tries,
        one: Attempt,
        body: Rc<dyn Repeat>,
        asi: &mut AsyncSteps,
        args: Args,
    ) -> StepResult {
        let memory = one.policies.memory.clone();
        let end = tries.retry.overall();
        let end = end.map(|limit| asi.limit_hard(Limit::Overall, limit, memory.clone()));
        let failed = memory.and_then(|memory| memory.attempts());
        if let (Some(_), Some(undo)) = (failed, &one.undo) {
            // what those attempts have done is not known
            undo.begin();
            undo.cut();
        }
        let (attempts, next) = failed.unwrap_or_else(|| (0, asi.now()));
        asi.policy_state().has_attempts = true;
        asi.extras().attempt = attempts + 1;
        pause_until(asi, next);
        Rc::new(Self { tries, one, body, end }).add(asi, args)
    }

    /// Adds an attempt; in the error handler of one it adds the next.
    fn add(self: Rc<Self>, asi: &mut AsyncSteps, args: Args) -> StepResult {
        let (args, kept) = if asi.attempt() < self.tries.retry.most_attempts() {
            let (args, kept) = (self.tries.copy)(args)
                .map_err(|mismatch| StepError::error(Error::violation(mismatch, asi.location())))?;
            (args, Some(kept))
        } else {
            (args, None)
        };
        let (this, attempt) = (Rc::clone(&self), asi.attempt());
        let step = QueuedStep::body(asi.location(), move |asi, _| {
            let extras = asi.extras();
            extras.is_attempt = true;
            extras.memory = this.one.policies.memory.clone().map(|memory| (memory, Some(attempt)));
            this.one.start(Body::Again(Rc::clone(&this.body)), asi, args)
        });
        let handler = move |asi: &mut AsyncSteps, error: &Error| self.failed(asi, error, kept);
        asi.queue(step.with_handler(Some(Box::new(handler))));
        Ok(())
    }

    /// Decides in the error handler of an attempt whether there is another one.
    fn failed(
        self: Rc<Self>,
        asi: &mut AsyncSteps,
        error: &Error,
        kept: Option<Args>,
    ) -> StepResult {
        let attempt = asi.attempt();
        let Some(args) = kept.filter(|_| self.helps(asi, error)) else {
            return Err(StepError::error(error.clone().after_attempts(attempt)));
        };
        let pause = self.tries.retry.pause(attempt, || asi.random().number());
        if self.end.is_some_and(|end| asi.now() + pause >= end) {
            return Err(StepError::error(error.clone().after_attempts(attempt)));
        }
        let next = asi.now() + pause;
        if let Some(memory) = &self.one.policies.memory {
            memory.retries(attempt, error, next);
        }
        pause_until(asi, next);
        if let Some(step) = asi.strand.frames.last_mut() {
            step.extras().attempt = attempt + 1;
        }
        self.add(asi, args)
    }

    /// Whether another attempt may help with this error.
    fn helps(&self, asi: &AsyncSteps, error: &Error) -> bool {
        if error.code() == codes::TIMEOUT && is_limit_of_others(asi, error) {
            return false;
        }
        self.tries.retry.helps(error)
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
