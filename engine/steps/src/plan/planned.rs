//! A step that has policies: how they nest when it starts.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::rc::Rc;

use super::body::{PlannedBody, within};
use super::policies::Policies;
use super::{attempts, recalled};
use crate::args::Args;
use crate::error::{Error, StepError, StepResult};
use crate::replay::Replay;
use crate::stack::{AsyncSteps, QueuedStep, StepUndo, StepWork, Waking};

/// A step with policies.
pub(crate) struct StepWithPolicies {
    policies: Policies,
    work: Box<dyn StepWork>,
}

impl StepWithPolicies {
    /// The policies of a step, to change them.
    pub(crate) fn policies_of(step: &mut QueuedStep) -> &mut Policies {
        if step.work.policies().is_none() {
            let work = std::mem::replace(&mut step.work, Box::new(Nothing));
            step.work = Box::new(Self { policies: Policies::default(), work });
        }
        match step.work.policies().and_then(|policies| policies.downcast_mut()) {
            Some(policies) => policies,
            None => unreachable!("the step has policies now"),
        }
    }
}

impl StepWork for StepWithPolicies {
    fn start(self: Box<Self>, asi: &mut AsyncSteps, args: Args, waker: Waking<'_>) -> StepResult {
        let Self { policies, work } = *self;
        let work: Box<dyn StepWork> =
            if work.owns_handler() { Box::new(InsideSection { work }) } else { work };
        let body = match policies.tries {
            None => PlannedBody::Once(work),
            Some(_) => match work.into_repeat() {
                Some(repeat) => PlannedBody::Again(repeat),
                None => unreachable!("`retry` is offered for what can be repeated"),
            },
        };
        policies.start(body, asi, args, waker)
    }

    fn set_label(&mut self, label: Cow<'static, str>) {
        self.work.set_label(label);
    }

    fn signature(&self) -> Option<TypeId> {
        self.work.signature()
    }

    fn policies(&mut self) -> Option<&mut dyn Any> {
        Some(&mut self.policies)
    }
}

impl Policies {
    /// Starts the running step with its policies.
    #[inline(always)]
    pub(crate) fn start(
        mut self,
        body: PlannedBody,
        asi: &mut AsyncSteps,
        mut args: Args,
        waker: Waking<'_>,
    ) -> StepResult {
        if let Some(plan) = self.undo.take() {
            let (undo, same) = StepUndo::new(plan, asi, args)
                .map_err(|mismatch| StepError::error(Error::violation(mismatch, asi.location())))?;
            asi.add_undo(undo);
            args = same;
        }
        if let Some(memory) = &self.one.memory {
            match memory.recall() {
                runs @ (Replay::Nothing | Replay::Begun) => {
                    asi.extras().memory = Some((Rc::clone(memory), None));
                    if let (Replay::Begun, Some(undo)) = (runs, asi.own_undo()) {
                        // the outcome of that run is unknown
                        undo.set_unknown();
                    }
                }
                Replay::Done(_) if self.one.passes => {
                    return recalled::end(Replay::Done(args), asi);
                }
                ended @ (Replay::Done(_) | Replay::Failed { .. } | Replay::Never { .. }) => {
                    return recalled::end(ended, asi);
                }
            }
        }
        match self.lock.take() {
            Some(lock) => {
                within(&*lock, asi, args, move |asi, args| self.start_inside(body, asi, args, None))
            }
            None => self.start_inside(body, asi, args, waker),
        }
    }

    /// Starts the step inside of its lock.
    #[inline(always)]
    fn start_inside(
        self,
        body: PlannedBody,
        asi: &mut AsyncSteps,
        args: Args,
        waker: Waking<'_>,
    ) -> StepResult {
        match (self.tries, body) {
            (Some(tries), PlannedBody::Again(body)) => {
                attempts::start(self.one, tries, body, asi, args)
            }
            (_, body) => self.one.start_only(body, asi, args, waker),
        }
    }
}

/// A critical section as a sub-step, with the error handler that belongs to it.
struct InsideSection {
    work: Box<dyn StepWork>,
}

impl StepWork for InsideSection {
    fn start(self: Box<Self>, asi: &mut AsyncSteps, args: Args, _: Waking<'_>) -> StepResult {
        let handler = asi.take_own_handler();
        let work = self.work;
        let step = QueuedStep::body(asi.location(), move |asi, _| {
            asi.take_memory_over();
            work.start(asi, args, None)
        });
        asi.queue(step.with_handler(handler));
        Ok(())
    }
}

/// Placeholder for a body that is being wrapped.
struct Nothing;

impl StepWork for Nothing {
    fn start(self: Box<Self>, _: &mut AsyncSteps, _: Args, _: Waking<'_>) -> StepResult {
        Ok(())
    }
}
