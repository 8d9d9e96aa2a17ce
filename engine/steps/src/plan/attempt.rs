//! One attempt of a step: limiter, time limit, body.

use std::rc::Rc;

use super::body::{Body, within};
use super::policies::Policies;
use super::shield;
use crate::args::Args;
use crate::error::StepResult;
use crate::replay::Limit;
use crate::stack::{AsyncSteps, QueuedStep, Undoable};

/// What is said about one attempt, and the entry of its step if that can be undone.
pub(super) struct Attempt {
    pub(super) policies: Policies,
    pub(super) undo: Option<Rc<dyn Undoable>>,
}

impl Attempt {
    /// Starts the only attempt as part of the running step. A limiter has it run in a step of its own,
    /// whose end gives the place back before anything is undone.
    pub(super) fn start_only(self, body: Body, asi: &mut AsyncSteps, args: Args) -> StepResult {
        if self.policies.limiter.is_none() {
            return self.start(body, asi, args);
        }
        let step = QueuedStep::body(asi.location(), move |asi, _| {
            asi.take_memory_over();
            self.start(body, asi, args)
        });
        asi.queue(step);
        Ok(())
    }

    /// Starts one attempt as part of the running step, which is the attempt if there is a limiter.
    pub(super) fn start(&self, body: Body, asi: &mut AsyncSteps, args: Args) -> StepResult {
        let (timeout, undo) = (self.policies.timeout, self.undo.clone());
        let tries = self.policies.tries.as_ref().filter(|_| undo.is_some());
        let retry = tries.map(|tries| tries.retry.clone());
        let (limiter, is_shielded) = (self.policies.limiter.as_deref(), self.policies.is_shielded);
        let (memory, ends_flow) = (self.policies.memory.clone(), self.policies.ends_flow);
        if limiter.is_some() {
            asi.extras().holds_place = true;
        }
        within(limiter, asi, args, move |asi, args| {
            asi.ask_probe_of_body()?;
            let undo = undo.map(|undo| (undo, retry));
            if is_shielded {
                let limit = (timeout.unwrap_or(shield::LIMIT), memory);
                return shield::start(body, limit, undo, asi, args);
            }
            if let Some(limit) = timeout {
                asi.limit_hard(Limit::Attempt(asi.attempt()), limit, memory);
                asi.extras().ends_flow = ends_flow;
            }
            body.start(asi, args, None)?;
            if let Some((undo, retry)) = undo {
                asi.watch(undo, retry);
            }
            Ok(())
        })
    }
}
