//! One attempt of a step: limiter, time limit, body.

use super::body::{PlannedBody, within};
use super::policies::AttemptPolicies;
use super::shield;
use crate::args::Args;
use crate::error::StepResult;
use crate::replay::Limit;
use crate::stack::{AsyncSteps, QueuedStep, Waking};

impl AttemptPolicies {
    /// Starts the only attempt as part of the running step. A limiter has it run in a step of its own,
    /// whose end releases the place before anything is undone.
    #[inline(always)]
    pub(super) fn start_only(
        self,
        body: PlannedBody,
        asi: &mut AsyncSteps,
        args: Args,
        waker: Waking<'_>,
    ) -> StepResult {
        if self.limiter.is_none() {
            return self.start_body(body, asi, args, waker);
        }
        let step = QueuedStep::body(asi.location(), move |asi, _| {
            asi.take_memory_over();
            self.start(body, asi, args, None)
        });
        asi.queue(step);
        Ok(())
    }

    /// Starts one attempt, which the running step is, while it holds a place.
    #[inline]
    pub(super) fn start(
        &self,
        body: PlannedBody,
        asi: &mut AsyncSteps,
        args: Args,
        waker: Waking<'_>,
    ) -> StepResult {
        let Some(limiter) = &self.limiter else {
            return self.start_body(body, asi, args, waker);
        };
        asi.extras().holds_place = true;
        let one = self.clone();
        within(&**limiter, asi, args, move |asi, args| one.start_body(body, asi, args, None))
    }

    /// Starts the body as part of the running step, within its time limit.
    #[inline]
    fn start_body(
        &self,
        body: PlannedBody,
        asi: &mut AsyncSteps,
        args: Args,
        waker: Waking<'_>,
    ) -> StepResult {
        asi.ask_probe_of_body()?;
        if self.undoes {
            asi.tell_undo();
        }
        if self.is_shielded {
            let limit = (self.timeout.unwrap_or(shield::LIMIT), self.memory.clone());
            return shield::start(body, limit, asi, args);
        }
        if self.memory.is_some() {
            self.limit_body(asi);
        }
        body.start(asi, args, waker)?;
        if self.memory.is_none() && !asi.completed {
            // a body that has ended needs no timer
            self.limit_body(asi);
        }
        Ok(())
    }

    fn limit_body(&self, asi: &mut AsyncSteps) {
        let Some(limit) = self.timeout else { return };
        asi.limit_hard(Limit::Attempt(asi.attempt()), limit, self.memory.clone());
        asi.extras().ends_flow = self.ends_flow;
    }
}
