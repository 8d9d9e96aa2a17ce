//! A step that nothing outside cancels: it runs as a flow of its own.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use super::body::PlannedBody;
use crate::args::Args;
use crate::error::{Error, StepResult, codes};
use crate::replay::{Limit, ReplayHooks};
use crate::stack::{AsyncSteps, QueuedStep};

/// How long a shielded step may take, unless it has a limit: nothing else ends it.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// The result on its way from the shielded flow to the step that waits for it.
#[derive(Default)]
struct ShieldedResult {
    result: Option<Result<Args, Error>>,
    waker: Option<Waker>,
}

/// Sends the result; if it is dropped without one, the step fails.
struct Sender(Rc<RefCell<ShieldedResult>>);

/// Runs `body` in a flow that is launched, and makes the running step wait for its result.
pub(super) fn start(
    body: PlannedBody,
    (limit, memory): (Duration, Option<Rc<dyn ReplayHooks>>),
    asi: &mut AsyncSteps,
    args: Args,
) -> StepResult {
    if let Some(undo) = asi.told_undo() {
        // the flow runs whatever becomes of this step, also if that ends before the flow begins
        undo.begin();
    }
    let (attempt, answer) = (asi.attempt(), Rc::<RefCell<ShieldedResult>>::default());
    let sender = Rc::new(Sender(Rc::clone(&answer)));
    let failed = Rc::clone(&sender);
    let fails_itself = Rc::new(Cell::new(false));
    let fails = Rc::clone(&fails_itself);
    let mut flow = AsyncSteps::root();
    let policies = flow.policy_state();
    (policies.has_attempts, policies.is_shield) = (true, true);
    let step = QueuedStep::body(asi.location(), move |asi, _| {
        asi.extras().attempt = attempt;
        asi.limit_hard(Limit::Attempt(attempt), limit, memory);
        body.start(asi, args, None)?;
        asi.watch(move |result| fails.set(result.is_err()));
        Ok(())
    });
    let handler = move |_: &mut AsyncSteps, error: &Error| {
        let error = error.clone();
        // a body that was cut has not failed by itself
        failed.send(Err(if fails_itself.get() { error } else { error.outcome_unknown() }));
        Ok(())
    };
    flow.queue(step.with_handler(Some(Box::new(handler))));
    flow.add(move |_, result: Args| sender.send(Ok(result)));
    asi.cold().launched.push(flow);
    asi.poll(Box::pin(poll_fn(move |cx| {
        let mut answer = answer.borrow_mut();
        match answer.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                answer.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    })));
    Ok(())
}

impl Sender {
    /// Sends the result; only the first one counts.
    fn send(&self, result: Result<Args, Error>) {
        let waker = {
            let mut answer = self.0.borrow_mut();
            answer.result.get_or_insert(result);
            answer.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let lost = Error::with_info(codes::INTERNAL_ERROR, "the shielded step was dropped");
        self.send(Err(lost.outcome_unknown()));
    }
}
