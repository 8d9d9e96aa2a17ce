//! A step that nothing outside cancels: it runs as a flow of its own.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use super::body::PlannedBody;
use crate::args::Args;
use crate::error::{Error, StepResult};
use crate::replay::{Limit, ReplayHooks};
use crate::stack::{AsyncSteps, QueuedStep, ShieldedBody};

/// How long a shielded step may take, unless it has a limit: nothing else ends it.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// Ends the body; if it is dropped before that, the body ends with an error.
struct Sender(Rc<ShieldedBody>);

/// Runs `body` in a flow that is launched, and makes the running step wait for its result.
pub(super) fn start(
    body: PlannedBody,
    (limit, memory): (Duration, Option<Rc<dyn ReplayHooks>>),
    asi: &mut AsyncSteps,
    args: Args,
) -> StepResult {
    let attempts = asi.strand.attempts().cloned();
    let helps = move |error: &Error| attempts.iter().any(|it| it.is_worth_another(error));
    let shielded = Rc::new(ShieldedBody::new(helps, memory.clone()));
    if let Some(undo) = asi.told_undo() {
        // the flow runs whatever becomes of this step, also if that ends before the flow begins
        undo.begin();
        undo.follow(Rc::clone(&shielded));
    }
    let attempt = asi.attempt();
    let sender = Rc::new(Sender(Rc::clone(&shielded)));
    let failed = Rc::clone(&sender);
    let fails_itself = Rc::new(Cell::new(false));
    let fails = Rc::clone(&fails_itself);
    let mut flow = AsyncSteps::root();
    let policies = flow.policy_state();
    (policies.has_attempts, policies.is_shield) = (true, true);
    let surroundings = asi.any_surroundings();
    let step = QueuedStep::body(asi.location(), move |asi, _| {
        asi.extras().attempt = attempt;
        asi.extras().surroundings = surroundings;
        asi.limit_hard(Limit::Attempt(attempt), limit, memory);
        body.start(asi, args, None)?;
        asi.watch(move |result| fails.set(result.is_err()));
        Ok(())
    });
    let handler = move |_: &mut AsyncSteps, error: &Error| {
        let error = error.clone();
        // a body that was cut has not failed by itself
        failed.0.end(Err(if fails_itself.get() { error } else { error.outcome_unknown() }));
        Ok(())
    };
    flow.queue(step.with_handler(Some(Box::new(handler))));
    flow.add(move |_, result: Args| sender.0.end(Ok(result)));
    asi.cold().launched.push(flow);
    asi.extras().shielded = Some(Rc::clone(&shielded));
    asi.poll(Box::pin(poll_fn(move |cx| shielded.poll_result(cx))));
    Ok(())
}

impl Drop for Sender {
    fn drop(&mut self) {
        let lost = Error::unexpected("the shielded step was dropped");
        self.0.end(Err(lost.outcome_unknown()));
    }
}
