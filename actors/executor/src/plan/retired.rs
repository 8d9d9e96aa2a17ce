//! Steps that a function has no more.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::replay::NotUndone;
use asyncsteps_core::{BodyResult, StepError, TemplateSteps, Undo, UndoPolicy};

use super::cx::Cx;
use super::node::{Facts, Form, Node, UndoForm, Work};
use super::place::StepId;
use crate::recorder::{HostUndo, Kind, Later};
use crate::service::{Service, coded};

/// A step that the function has no more, see [`Steps::retired`](super::Steps::retired).
pub struct Retired<'a, S: Service, P: 'static> {
    steps: &'a RefCell<Vec<RetiredStep<S, P>>>,
    at: usize,
}

/// What is said of a step that the function has no more.
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

    /// Undoes the step if it had its effect or may have had it, see [`Step::undo`](super::Step::undo). The body gets the
    /// same [key](Cx::key) as that of the step, and has to find out by that what there is to undo.
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
        (facts.kind, facts.was) = (Some(Kind::Retired), was);
        facts.undo = undo.is_some().then_some(UndoForm::OfResult);
        let work = RetiredWork { id: Arc::clone(&id), undo, types: PhantomData::<fn(I)> };
        Node { id, facts, work: Arc::new(work), inside: None }
    }
}

struct RetiredWork<S: Service, P, I> {
    id: Arc<StepId>,
    undo: Option<(UndoPolicy, Arc<dyn RetiredUndo<S, P>>)>,
    /// What it passes on.
    types: PhantomData<fn(I)>,
}

impl<S: Service, P: 'static, I: 'static> Work<S, P> for RetiredWork<S, P, I> {
    fn add(self: Arc<Self>, steps: &mut TemplateSteps, is_recorded: bool) {
        if !is_recorded {
            return;
        }
        let source = self.id.source;
        steps
            .add(move |asi, (cx, input): (Cx<S, P>, I)| {
                let cx = cx.at(&self.id);
                let Some(step) = cx.recorded().cloned() else { return asi.success((cx, input)) };
                let (this, of_undo) = (Arc::clone(&self), cx.clone());
                let policy = self.undo.as_ref().map(|(policy, _)| policy.clone());
                asi.run(async move |()| Ok(()))
                    .named(self.id.name)
                    .located_at(source)
                    .remembered(Rc::clone(&step.memory) as _)
                    .undo_with(policy.unwrap_or_default(), async move |_: Undo<&()>| {
                        this.undone(&of_undo).await
                    });
                asi.add_inner(move |asi, ()| asi.success((cx, input)));
                Ok(())
            })
            .located_at(source);
    }

    fn host_undo(&self, cx: Cx<S, P>) -> Option<HostUndo> {
        let (_, undo) = self.undo.as_ref()?;
        let undo = Arc::clone(undo);
        Some(Rc::new(move |_| {
            let undone = Arc::clone(&undo).run(cx.clone());
            Box::pin(async { undone.await.map_err(StepError::into_error) })
        }))
    }
}

impl<S: Service, P: 'static, I> RetiredWork<S, P, I> {
    async fn undone(&self, cx: &Cx<S, P>) -> Result<(), StepError> {
        let Some(step) = cx.recorded() else { return Err(NotUndone.into()) };
        match &self.undo {
            Some((_, undo)) => step.undo(Arc::clone(undo).run(cx.clone())).await,
            None => {
                // the host knows what it means: there is nothing to run
                let _running = step.memory.begin_undo().await;
                Err(NotUndone.into())
            }
        }
    }
}

impl<S: Service, P> fmt::Debug for Retired<'_, S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.steps.borrow();
        write!(f, "Retired({:?})", steps.get(self.at).map(|step| step.name))
    }
}
