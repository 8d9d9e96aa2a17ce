//! The actor that stands for a flow towards other arbiters.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use actix::dev::MessageResponse;
use actix::{Actor, Context, Handler, Message};
use asyncsteps::{Execution, Wait};

use super::Canceller;
use super::task::Stage;
use crate::clock;

/// Stands for a flow towards other arbiters; made by
/// [`FlowHandle::address`](super::FlowHandle::address), and there as long as somebody has the address.
pub struct FlowActor {
    flow: Rc<RefCell<Stage>>,
    canceller: Canceller,
}

/// Cancels the flow of a [`FlowActor`] (FTN12 §2.2.3 `cancel`).
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Cancel;

/// Asks a [`FlowActor`] where its flow is.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "Stack")]
pub struct Inspect;

/// Where a flow is and why it waits (FTN12 §1.7 `async_stack`).
///
/// Its text has a line for each branch: `step` at file:line waits for what.
#[derive(Clone, Debug, Default, MessageResponse)]
#[non_exhaustive]
pub struct Stack {
    /// The branches that are not over; empty when the flow is over.
    pub waits: Vec<Wait>,
    /// How long ago the flow had its last turn.
    pub idle: Duration,
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Wait { branch, stack, reason, .. } in &self.waits {
            write!(f, "branch {branch}: ")?;
            for place in stack {
                write!(f, "{place} > ")?;
            }
            writeln!(f, "waits for {reason} since {:?}", self.idle)?;
        }
        Ok(())
    }
}

impl Stack {
    /// The same on one line, for logs.
    #[must_use]
    pub fn one_line(&self) -> String {
        self.to_string().trim_end().replace('\n', "; ")
    }

    pub(super) fn of_execution(execution: &Execution) -> Self {
        Self {
            waits: execution.waits(),
            idle: clock::now().saturating_since(execution.last_turn()),
        }
    }

    /// Nothing while the flow runs, because only the flow itself can ask then.
    pub(super) fn of(flow: &RefCell<Stage>) -> Self {
        match flow.try_borrow().as_deref() {
            Ok(Stage::Running(execution)) => Self::of_execution(execution),
            Ok(Stage::Ended(_)) | Err(_) => Self::default(),
        }
    }
}

impl FlowActor {
    pub(super) fn new(flow: &Rc<RefCell<Stage>>, canceller: Canceller) -> Self {
        Self { flow: Rc::clone(flow), canceller }
    }

    /// For a flow that is over.
    pub(super) fn over() -> Self {
        Self { flow: Rc::new(RefCell::new(Stage::Ended(None))), canceller: Canceller::default() }
    }
}

impl Actor for FlowActor {
    type Context = Context<Self>;
}

impl Handler<Cancel> for FlowActor {
    type Result = ();

    fn handle(&mut self, _: Cancel, _: &mut Context<Self>) {
        self.canceller.cancel();
    }
}

impl Handler<Inspect> for FlowActor {
    type Result = Stack;

    fn handle(&mut self, _: Inspect, _: &mut Context<Self>) -> Stack {
        Stack::of(&self.flow)
    }
}

impl fmt::Debug for FlowActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowActor").field("stack", &Stack::of(&self.flow)).finish_non_exhaustive()
    }
}
