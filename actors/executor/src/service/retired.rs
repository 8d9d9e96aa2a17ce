//! Steps that a function has no more.

use std::fmt;

use asyncsteps_core::{BodyResult, Flow, Undo, UndoPolicy};

use super::context::{Cx, Service};
use super::step::Step;
use crate::recorder::Kind;

/// A step that the function has no more, see [`Steps::retired`](super::Steps::retired).
pub struct Retired<'a, S: Service, P> {
    /// Stands for it in a request whose host remembers it.
    step: Option<Step<'a, S, P, (), ()>>,
}

#[expect(
    clippy::return_self_not_must_use,
    reason = "it was said already: what is given back only serves to say more about it"
)]
impl<'a, S: Service, P: 'static> Retired<'a, S, P> {
    /// It was a step of `flow`.
    #[track_caller]
    pub(super) fn add(flow: &'a mut Flow, cx: &'a Cx<S, P>, name: &'static str) -> Self {
        let step = Step::add(flow, cx, name, async |_: &Cx<S, P>, ()| Ok(()));
        Self { step: Some(step.remembered(Kind::Retired, None).undone_by_host()) }
    }

    /// There is nothing to remember.
    pub(super) fn none() -> Self {
        Self { step: None }
    }

    /// The step had this name before, see [`Step::was`].
    pub fn was(self, name: &'static str) -> Self {
        Self { step: self.step.map(|step| step.was(name)) }
    }

    /// Undoes the step if it had its effect or may have had it, see [`Step::undo`]. The body gets the same
    /// [key](Cx::key) as that of the step, and has to find out by that what there is to undo.
    #[track_caller]
    pub fn undo<F>(self, undo: F) -> Self
    where
        F: AsyncFn(&Cx<S, P>) -> BodyResult<()> + 'static,
    {
        self.undo_with(UndoPolicy::default(), undo)
    }

    /// [`undo`](Self::undo) with a policy: how long it may take, and whether it is tried again.
    #[track_caller]
    pub fn undo_with<F>(self, policy: UndoPolicy, undo: F) -> Self
    where
        F: AsyncFn(&Cx<S, P>) -> BodyResult<()> + 'static,
    {
        let undo = async move |cx: &Cx<S, P>, _: Undo<&()>| undo(cx).await;
        let undone = |step: Step<'a, S, P, (), ()>| {
            step.of_step.had_undo();
            step.undone_by(policy, undo)
        };
        Self { step: self.step.map(undone) }
    }
}

impl<S: Service, P> fmt::Debug for Retired<'_, S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Retired").field(&self.step).finish()
    }
}
