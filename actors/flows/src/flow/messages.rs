//! Messages to the actor of a flow, from other arbiters and threads.

use actix::{Handler, Message, MessageResult};
use asyncsteps_core::{WaitId, WaitResult};

use super::{CompleteError, FlowActor, FlowContext, Stack};

/// Cancels the flow of a [`FlowActor`] (FTN12 §2.2.3 `cancel`); a flow that has ended stays as it
/// ended.
#[derive(Clone, Copy, Debug)]
pub struct Cancel;

impl Message for Cancel {
    type Result = ();
}

/// Asks a [`FlowActor`] where its flow is and what it waits for; answered by a [`Stack`], which is
/// empty when the flow has ended.
#[derive(Clone, Copy, Debug)]
pub struct Inspect;

impl Message for Inspect {
    type Result = Stack;
}

/// Completes a wait of the flow of a [`FlowActor`] (FTN12 §1.3), as a
/// [`Completion`](asyncsteps_core::Completion) would.
///
/// The answer `Ok` means that the step takes the result.
#[derive(Debug)]
pub struct Complete {
    /// The wait, as the [`Stack`] names it.
    pub wait: WaitId,
    /// The result or error of the step.
    pub result: WaitResult,
}

impl Message for Complete {
    type Result = Result<(), CompleteError>;
}

impl Handler<Cancel> for FlowActor {
    type Result = ();

    fn handle(&mut self, _: Cancel, ctx: &mut FlowContext) {
        actix::ActorContext::stop(ctx);
    }
}

impl Handler<Inspect> for FlowActor {
    type Result = Stack;

    fn handle(&mut self, _: Inspect, _: &mut FlowContext) -> Stack {
        self.stack()
    }
}

impl Handler<Complete> for FlowActor {
    type Result = MessageResult<Complete>;

    fn handle(&mut self, Complete { wait, result }: Complete, _: &mut FlowContext) -> Self::Result {
        MessageResult(self.complete(wait, result))
    }
}
