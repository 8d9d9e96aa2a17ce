//! One attempt of a step: limiter, time limit, body.

use std::rc::Rc;

use super::body::{Body, within};
use super::policies::Policies;
use super::shield;
use crate::args::Args;
use crate::error::StepResult;
use crate::stack::{AsyncSteps, Undoable};

/// What is said about one attempt, and the entry of its step if that can be undone.
pub(super) struct Attempt {
    pub(super) policies: Policies,
    pub(super) undo: Option<Rc<dyn Undoable>>,
}

impl Attempt {
    /// Starts one attempt as part of the running step.
    pub(super) fn start(&self, body: Body, asi: &mut AsyncSteps, args: Args) -> StepResult {
        let (timeout, undo) = (self.policies.timeout, self.undo.clone());
        let is_shielded = self.policies.is_shielded;
        within(self.policies.limiter.as_deref(), asi, args, move |asi, args| {
            asi.ask_probe_of_body()?;
            if is_shielded {
                return shield::start(body, timeout.unwrap_or(shield::LIMIT), undo, asi, args);
            }
            if let Some(limit) = timeout {
                asi.limit_hard(limit);
            }
            body.start(asi, args)?;
            if let Some(undo) = undo {
                asi.watch(undo);
            }
            Ok(())
        })
    }
}
