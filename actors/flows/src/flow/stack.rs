//! Where a flow is and why it waits (FTN12 §1.7 `async_stack`).

use std::fmt;
use std::time::Duration;

use actix::dev::{MessageResponse, OneshotSender};
use actix::{Actor, Message};
use asyncsteps_core::{Execution, Time, Wait, WaitReason};

use crate::clock;
use crate::sync::mutex::{self, HeldLock};

/// Where a flow is and why it waits (FTN12 §1.7 `async_stack`).
///
/// Its text has a line for each branch: the steps in progress with file and line, and what the
/// innermost one waits for.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stack {
    /// The branches that have not ended; empty when the flow has ended.
    pub waits: Vec<Wait>,
    /// The locks that its steps hold.
    pub holds: Vec<HeldLock>,
    /// The time since the last turn of the flow.
    pub idle: Duration,
    /// When this was, on the clock of the arbiter of the flow, as are the times of `waits`.
    pub at: Time,
}

impl<A: Actor, M: Message<Result = Self>> MessageResponse<A, M> for Stack {
    fn handle(self, _: &mut A::Context, to: Option<OneshotSender<Self>>) {
        if let Some(to) = to {
            // whoever asked may be gone
            let _ = to.send(self);
        }
    }
}

impl Stack {
    pub(super) fn of(execution: &mut Execution) -> Self {
        let at = clock::now();
        let idle = at.saturating_since(execution.last_turn());
        Self { waits: execution.waits(), holds: mutex::held(execution), idle, at }
    }

    /// The same text on one line, for logs.
    #[must_use]
    pub fn one_line(&self) -> String {
        self.to_string().trim_end().replace('\n', "; ")
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Wait { branch, stack, reason, attempt, .. } in &self.waits {
            write!(f, "branch {branch}: ")?;
            for step in stack {
                write!(f, "{step} > ")?;
            }
            if *attempt > 1 {
                write!(f, "in attempt {attempt} ")?;
            }
            let waits = if matches!(reason, WaitReason::Until(_)) { "waits" } else { "waits for" };
            writeln!(f, "{waits} {reason} since {:?}", self.idle)?;
        }
        Ok(())
    }
}
