//! Steps that a function has no more.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

use asyncsteps_core::{
    Args, AsyncSteps, BodyResult, Error, StepError, StepResult, TemplateSteps, UndoPolicy, codes,
};

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
    steps: &'a RefCell<Vec<RetiredStep<S, P>>>,
    at: usize,
}

/// The options of a step that the function has no more.
pub(super) struct RetiredStep<S: Service, P> {
    name: &'static str,
    source: &'static Location<'static>,
    was: Vec<&'static str>,
    undo: Option<(UndoPolicy, Arc<dyn RetiredUndo<S, P>>)>,
}

/// The undo of such a step.
trait RetiredUndo<S: Service, P>: Send + Sync {
    fn run(self: Arc<Self>, cx: Cx<S, P>) -> Later<Result<(), StepError>>;
}

impl<S, P, F> RetiredUndo<S, P> for F
where
    S: Service,
    P: 'static,
    F: AsyncFn(&Cx<S, P>) -> BodyResult<()> + Send + Sync + 'static,
{
    fn run(self: Arc<Self>, cx: Cx<S, P>) -> Later<Result<(), StepError>> {
        Box::pin(async move { (*self)(&cx).await.map_err(coded::<S>) })
    }
}

#[expect(
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "it was said already: what is returned only serves to say more about it"
)]
impl<'a, S: Service, P: 'static> Retired<'a, S, P> {
    #[track_caller]
    pub(super) fn add(steps: &'a RefCell<Vec<RetiredStep<S, P>>>, name: &'static str) -> Self {
        let source = Location::caller();
        let at = steps.borrow().len();
        steps.borrow_mut().push(RetiredStep { name, source, was: Vec::new(), undo: None });
        Self { steps, at }
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
        self.say(|step| step.undo = Some((policy, Arc::new(undo))))
    }

    fn say(self, say: impl FnOnce(&mut RetiredStep<S, P>)) -> Self {
        if let Some(step) = self.steps.borrow_mut().get_mut(self.at) {
            say(step);
        }
        self
    }
}

impl<S: Service, P: 'static> RetiredStep<S, P> {
    /// A step in front of others that take `I`, which it passes on.
    pub(super) fn into_node<I: 'static>(self) -> Node<S, P> {
        let Self { name, source, was, undo } = self;
        let id = StepId::new(name, source);
        let mut facts = Facts::new::<I, I>(Form::Body);
        (facts.kind, facts.was, facts.passes) = (Some(Kind::Retired), was, true);
        facts.undo = undo.is_some().then_some(UndoForm::OfResult);
        Node { id, facts, work: Arc::new(RetiredWork { undo }), inside: None }
    }
}

struct RetiredWork<S: Service, P> {
    undo: Option<(UndoPolicy, Arc<dyn RetiredUndo<S, P>>)>,
}

impl<S: Service, P: 'static> Work<S, P> for RetiredWork<S, P> {
    fn add(self: Arc<Self>, _: &mut TemplateSteps, _: bool) {}

    fn held(&self, _: &Cx<S, P>, _: Option<&Taken>) -> Result<Held, Error> {
        Ok(Held::default())
    }

    fn undo(
        self: Arc<Self>,
        asi: &mut AsyncSteps,
        cx: Cx<S, P>,
        _: Option<&Taken>,
        _: Option<Args>,
    ) -> StepResult {
        let Some((step, (policy, _))) = cx.recorded().cloned().zip(self.undo.as_ref()) else {
            let info =
                format!("the program has retired the step without an undo ({})", cx.source());
            return asi.error(codes::INTERNAL_ERROR, info);
        };
        add_undo(asi, cx.clone(), policy.clone(), async move || match &self.undo {
            Some((_, undo)) => step.undo(Arc::clone(undo).run(cx.clone())).await,
            None => Ok(()),
        });
        Ok(())
    }
}
