//! The body of a step with policies, and the locks that it may hold meanwhile.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use crate::args::{Args, Arguments};
use crate::error::{Error, StepError, StepResult};
use crate::stack::{AsyncSteps, RepeatedWork, StepWork, Waking};
use crate::sync::{ISync, Section};

/// The body of a step with policies.
pub(crate) enum PlannedBody {
    Once(Box<dyn StepWork>),
    Again(Arc<dyn RepeatedWork>),
}

impl PlannedBody {
    pub(super) fn start(self, asi: &mut AsyncSteps, args: Args, waker: Waking<'_>) -> StepResult {
        match self {
            Self::Once(work) => work.start(asi, args, waker),
            Self::Again(repeat) => repeat.start(asi, args, waker),
        }
    }
}

/// Two objects of a step: the second one is entered within the first one. `P` is a pointer to an object.
pub(crate) struct Nested<P> {
    pub(crate) outer: P,
    pub(crate) inner: P,
    /// They are places for one attempt.
    pub(crate) is_place: bool,
}

impl<P, O> ISync for Nested<P>
where
    P: Deref<Target = O> + Clone + 'static,
    O: ISync + ?Sized,
{
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        let (inner, is_place) = (self.inner.clone(), self.is_place);
        let section = section.within(asi, move |asi, section| {
            if is_place {
                asi.extras().holds_place = true;
            }
            inner.sync(asi, section)
        });
        self.outer.sync(asi, section)
    }
}

/// An object that a closure chooses when the step starts; without one the step holds none. `A` is what the step
/// takes.
pub(crate) struct Chosen<F, A, O> {
    choose: F,
    types: PhantomData<fn(A) -> O>,
}

impl<F, A, O> Chosen<F, A, O> {
    pub(crate) fn new(choose: F) -> Self {
        Self { choose, types: PhantomData }
    }
}

impl<F, A, O> ISync for Chosen<F, A, O>
where
    A: Arguments,
    O: ISync,
    F: Fn(&mut AsyncSteps, &A) -> Option<O>,
{
    fn sync(&self, asi: &mut AsyncSteps, mut section: Section) -> StepResult {
        let object = section.args().lend(|args| (self.choose)(asi, args));
        let violation = |mismatch| StepError::error(Error::violation(mismatch, asi.location()));
        match object.map_err(violation)? {
            Some(object) => object.sync(asi, section),
            None => section.enter(asi),
        }
    }
}

/// Runs `body` while the step holds `object`.
pub(super) fn within<F>(object: &dyn ISync, asi: &mut AsyncSteps, args: Args, body: F) -> StepResult
where
    F: FnOnce(&mut AsyncSteps, Args) -> StepResult + 'static,
{
    let section = Section::inner(asi, args, body);
    object.sync(asi, section)
}
