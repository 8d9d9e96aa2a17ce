//! Steps that a function has no more.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use asyncsteps_core::{
    Args, AsyncSteps, BodyResult, Error, StepError, StepResult, TemplateSteps, UndoPolicy,
};

use super::context::Context;
use super::cx::Cx;
use super::facts::Facts;
use super::form::{Form, UndoForm};
use super::locks::Held;
use super::node::{Node, Work};
use super::place::StepId;
use super::service::{Service, coded};
use super::taken::Taken;
use super::undo_body::add_undo;
use crate::recorder::{Kind, Later};

/// A step that the function has no more, see [`Steps::retired`](super::Steps::retired).
#[derive(derive_more::Debug)]
#[debug("Retired({:?})", steps.borrow().get(*at).map(|step| step.name))]
pub struct Retired<'a, S: Service, P: 'static> {
    steps: &'a RefCell<Vec<RetiredStep>>,
    at: usize,
    of: PhantomData<fn(S, P)>,
}

/// The options of a step that the function has no more.
pub(super) struct RetiredStep {
    name: &'static str,
    source: &'static Location<'static>,
    was: Vec<&'static str>,
    undo: Option<(UndoPolicy, RetiredUndo)>,
}

/// The undo of such a step.
type RetiredUndo = Arc<dyn Fn(Context) -> Later<Result<(), StepError>> + Send + Sync>;

#[expect(
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "it was said already: what is returned only serves to say more about it"
)]
impl<'a, S: Service, P: 'static> Retired<'a, S, P> {
    #[track_caller]
    pub(super) fn add(steps: &'a RefCell<Vec<RetiredStep>>, name: &'static str) -> Self {
        let source = Location::caller();
        let at = steps.borrow().len();
        steps.borrow_mut().push(RetiredStep { name, source, was: Vec::new(), undo: None });
        Self { steps, at, of: PhantomData }
    }

    /// The step had this name before, see [`Step::was`](super::Step::was).
    pub fn was(self, name: &'static str) -> Self {
        self.say(|step| step.was.push(name))
    }

    /// Undoes the step if it had its effect or may have had it, see [`Step::undo`](super::Step::undo). The body gets
    /// the same [key](Cx::key) as the step, and has to find out by it what there is to undo.
    pub fn undo<F>(self, undo: F) -> Self
    where
        F: AsyncFn(&Cx<S, P>) -> BodyResult<()> + Send + Sync + 'static,
    {
        self.undo_with(UndoPolicy::default(), undo)
    }

    /// [`undo`](Self::undo) with a policy: how long it may take, and whether it is tried again.
    pub fn undo_with<F>(self, policy: UndoPolicy, undo: F) -> Self
    where
        F: AsyncFn(&Cx<S, P>) -> BodyResult<()> + Send + Sync + 'static,
    {
        let undo = Arc::new(undo);
        let run = move |cx| -> Later<_> {
            let (undo, cx) = (Arc::clone(&undo), Cx::of(cx));
            Box::pin(async move { (*undo)(&cx).await.map_err(coded::<S>) })
        };
        self.say(|step| step.undo = Some((policy, Arc::new(run))))
    }

    fn say(self, say: impl FnOnce(&mut RetiredStep)) -> Self {
        if let Some(step) = self.steps.borrow_mut().get_mut(self.at) {
            say(step);
        }
        self
    }
}

impl RetiredStep {
    /// A step in front of others that take `I`, which it passes on.
    pub(super) fn into_node<S: Service, I: 'static>(self) -> Node {
        let Self { name, source, was, undo } = self;
        let id = StepId::new(name, source);
        let mut facts = Facts::new::<S, I, I>(Form::Body);
        (facts.kind, facts.was, facts.passes) = (Some(Kind::Retired), was, true);
        facts.undo = undo.is_some().then_some(UndoForm::OfResult);
        Node::new(id, facts, Arc::new(RetiredWork { undo }), None)
    }
}

struct RetiredWork {
    undo: Option<(UndoPolicy, RetiredUndo)>,
}

impl Work for RetiredWork {
    fn add(self: Arc<Self>, _: &mut TemplateSteps, _: bool) {}

    fn held(&self, _: &Context, _: Option<&Taken>) -> Result<Held, Error> {
        Ok(Held::default())
    }

    fn undo(
        self: Arc<Self>,
        asi: &mut AsyncSteps,
        cx: Context,
        _: Option<&Taken>,
        _: Option<Args>,
    ) -> StepResult {
        let Some((step, (policy, _))) = cx.recorded().cloned().zip(self.undo.as_ref()) else {
            let info =
                format!("the program has retired the step without an undo ({})", cx.source());
            return Err(Error::unexpected(info).into());
        };
        add_undo(asi, cx.source(), policy.clone(), async move || match &self.undo {
            Some((_, undo)) => step.undo(undo(cx.clone())).await,
            None => Ok(()),
        });
        Ok(())
    }
}
