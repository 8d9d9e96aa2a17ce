//! The work of a step when a request comes to it, with its options.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::replay::ReplayHooks;
use asyncsteps_core::{
    Added, Args, Arguments, AsyncSteps, BodyResult, Error, Replayable, Retry, RunContext,
    StepError, StepResult, TemplateAdded, TemplateSteps, Untyped, codes,
};

use super::cx::{Cx, With};
use super::locks::{Held, LockOf};
use super::node::{Level, Work};
use super::place::StepId;
use super::recorded::OfBody;
use super::service::{Service, coded};
use super::taken::{Taken, take};
use super::undo_body::UndoBody;
use crate::stored::Codec;

/// The options of a step that takes `A` and returns `T`.
pub(super) struct Said<S: Service, P: 'static, A: 'static, T: 'static> {
    pub(super) locks: Vec<LockOf<S, P, A>>,
    pub(super) limiters: Vec<LockOf<S, P, A>>,
    pub(super) timeout: Option<Duration>,
    pub(super) retry: Option<Tries<S, P, A, T>>,
    pub(super) is_shielded: bool,
    pub(super) undo: Option<Arc<dyn UndoBody<S, P, A, T>>>,
    pub(super) recover: Option<Arc<dyn Recover<S, P, T>>>,
    pub(super) items: ItemRules,
    /// How the host of a request stores its input and result.
    pub(super) input: Option<Codec<A>>,
    pub(super) result: Option<Codec<T>>,
    /// It returns this, and not the recorded value.
    pub(super) passes: Option<fn(&A) -> T>,
    /// The steps inside, if they follow from its input.
    pub(super) define: Option<Arc<Define<S, P, A>>>,
}

/// The steps inside of a step that takes `A`.
type Define<S, P, A> = dyn Fn(&Cx<S, P>, A) -> Result<Arc<Level<S, P>>, Error> + Send + Sync;

/// The options of items.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemRules {
    /// How many are carried out at once.
    pub(super) at_once: usize,
    /// How many win a race.
    pub(super) first: usize,
    /// How long a race takes at most.
    pub(super) within: Option<Duration>,
    /// How many a race needs; by default one, and none if it has a time.
    pub(super) at_least: Option<usize>,
}

/// A retry policy of a step whose input can be kept for the next attempt.
pub(super) struct Tries<S: Service, P: 'static, A: 'static, T: 'static> {
    retry: Retry,
    of_template: SayRetryOfTemplate<With<S, P, A>, With<S, P, T>>,
    of_body: SayRetry<With<S, P, A>, With<S, P, T>>,
    of_substeps: SayRetry<With<S, P, A>, Untyped>,
}

/// Says to a step that it is tried again.
type SayRetry<A, T> = fn(&mut Added<'_, A, T>, Retry);

/// Says to a step of a template that it is tried again.
type SayRetryOfTemplate<A, T> = fn(&mut TemplateAdded<'_, A, T>, Retry);

impl<S: Service, P, A: Clone + 'static, T: 'static> Tries<S, P, A, T> {
    pub(super) fn new(retry: Retry) -> Self
    where
        With<S, P, A>: Replayable,
    {
        Self {
            retry,
            of_template: |added, retry| _ = added.retry(retry),
            of_body: |added, retry| _ = added.retry(retry),
            of_substeps: |added, retry| _ = added.retry(retry),
        }
    }
}

/// Recovers from an error of a step.
pub(super) trait Recover<S: Service, P, T>: Send + Sync {
    fn add(self: Arc<Self>, asi: &mut AsyncSteps, cx: Cx<S, P>, error: Error);
}

impl<S: Service, P, A, T> Default for Said<S, P, A, T> {
    fn default() -> Self {
        Self {
            locks: Vec::new(),
            limiters: Vec::new(),
            timeout: None,
            retry: None,
            is_shielded: false,
            undo: None,
            recover: None,
            items: ItemRules { at_once: AT_ONCE, first: 1, within: None, at_least: None },
            input: None,
            result: None,
            passes: None,
            define: None,
        }
    }
}

/// How many items a step carries out at once, unless it says so.
pub(super) const AT_ONCE: usize = 16;

impl<S: Service, P, A, T> Said<S, P, A, T> {
    /// Nothing is said.
    fn is_nothing(&self) -> bool {
        self.locks.is_empty()
            && self.limiters.is_empty()
            && self.timeout.is_none()
            && self.retry.is_none()
            && !self.is_shielded
            && self.undo.is_none()
            && self.recover.is_none()
    }

    /// The locks and limiters of a request.
    fn held(&self, cx: &Cx<S, P>, input: &A) -> Held {
        let asked = |locks: &[LockOf<S, P, A>]| {
            locks.iter().filter_map(|lock| lock.of(cx, input)).collect()
        };
        Held { locks: asked(&self.locks), limiters: asked(&self.limiters) }.noted(cx)
    }

    /// The locks and limiters of a request in which the step took this.
    fn held_by(&self, cx: &Cx<S, P>, taken: Option<&Taken>) -> Result<Held, Error> {
        let asked = |locks: &[LockOf<S, P, A>]| {
            let locks = locks.iter().map(|lock| lock.of_taken(cx, taken));
            locks.filter_map(Result::transpose).collect::<Result<_, _>>()
        };
        Ok(Held { locks: asked(&self.locks)?, limiters: asked(&self.limiters)? }.noted(cx))
    }

    /// Applies the options of steps of any kind to a step of a request.
    fn say<K>(&self, added: &mut Added<'_, With<S, P, A>, K>, cx: &Cx<S, P>, held: &Held) {
        held.say(added);
        if let Some(limit) = self.timeout {
            added.timeout(limit);
        }
        if let Some(recover) = &self.recover {
            let (recover, cx) = (Arc::clone(recover), cx.clone());
            added.on_error(move |asi, error| recover.add(asi, cx, error.clone()));
        }
    }
}

/// A body that becomes the work of its step when all is said about it.
pub(super) trait IntoWork<S: Service, P: 'static, A: 'static, T: 'static> {
    fn into_work(self: Box<Self>, id: Arc<StepId>, said: Said<S, P, A, T>) -> Arc<dyn Work<S, P>>;
}

/// A body that is an async closure.
pub(super) struct Body<F>(pub(super) F);

impl<S, P, A, T, F> IntoWork<S, P, A, T> for Body<F>
where
    S: Service,
    P: 'static,
    A: 'static,
    T: 'static,
    F: AsyncFn(&Cx<S, P>, A) -> BodyResult<T> + Send + Sync + 'static,
{
    fn into_work(self: Box<Self>, id: Arc<StepId>, said: Said<S, P, A, T>) -> Arc<dyn Work<S, P>> {
        Arc::new(BodyWork { id, said, body: self.0 })
    }
}

struct BodyWork<S: Service, P: 'static, A: 'static, T: 'static, F> {
    id: Arc<StepId>,
    said: Said<S, P, A, T>,
    body: F,
}

impl<S, P, A, T, F> Work<S, P> for BodyWork<S, P, A, T, F>
where
    S: Service,
    P: 'static,
    A: 'static,
    T: 'static,
    F: AsyncFn(&Cx<S, P>, A) -> BodyResult<T> + Send + Sync + 'static,
{
    fn add(self: Arc<Self>, steps: &mut TemplateSteps, is_recorded: bool) {
        let (name, source) = (self.id.name, self.id.source);
        // an error handler of a template knows no request
        if self.said.recover.is_none() && !is_recorded {
            let of_body = Arc::clone(&self);
            let mut added =
                steps.run_with(async move |run: RunContext, (cx, input): With<S, P, A>| {
                    let cx = cx.at(&of_body.id).in_attempt(run.attempt);
                    let result = (of_body.body)(&cx, input).await.map_err(coded::<S>)?;
                    Ok((cx, result))
                });
            added.named(name).located_at(source);
            self.say_to_template(&mut added);
        } else {
            steps
                .defer(move |asi, (cx, input): With<S, P, A>| {
                    self.start(asi, cx.at(&self.id), input)
                })
                .named(name)
                .located_at(source);
        }
    }

    fn held(&self, cx: &Cx<S, P>, taken: Option<&Taken>) -> Result<Held, Error> {
        self.said.held_by(cx, taken)
    }

    fn undo(
        self: Arc<Self>,
        asi: &mut AsyncSteps,
        cx: Cx<S, P>,
        taken: Option<&Taken>,
        result: Option<Args>,
    ) -> StepResult {
        let Some(undo) = &self.said.undo else { return Ok(()) };
        let result = result.map(<(T,)>::from_args).transpose();
        let result = result.map_err(|error| Error::caused_by(codes::INTERNAL_ERROR, error))?;
        Arc::clone(undo).add(asi, cx, taken, result.map(|(value,)| value))
    }
}

impl<S, P, A, T, F> BodyWork<S, P, A, T, F>
where
    S: Service,
    P: 'static,
    A: 'static,
    T: 'static,
    F: AsyncFn(&Cx<S, P>, A) -> BodyResult<T> + Send + Sync + 'static,
{
    /// Applies the options of the step to a step of a template.
    fn say_to_template(
        self: &Arc<Self>,
        added: &mut TemplateAdded<'_, With<S, P, A>, With<S, P, T>>,
    ) {
        let said = &self.said;
        for lock in 0..said.locks.len() {
            let this = Arc::clone(self);
            added.locked_by(move |_, (cx, input)| {
                this.said.locks.get(lock)?.of(&cx.clone().at(&this.id), input)
            });
        }
        for limiter in 0..said.limiters.len() {
            let this = Arc::clone(self);
            added.limited_by(move |_, (cx, input)| {
                this.said.limiters.get(limiter)?.of(&cx.clone().at(&this.id), input)
            });
        }
        if let Some(limit) = said.timeout {
            added.timeout(limit);
        }
        if let Some(tries) = &said.retry {
            (tries.of_template)(added, tries.retry.clone());
        }
        if said.is_shielded {
            added.shielded();
        }
        if let Some(undo) = &said.undo {
            Arc::clone(undo).say_to_template(added, &self.id);
        }
    }

    async fn run(
        &self,
        run: RunContext,
        cx: Cx<S, P>,
        input: A,
    ) -> Result<With<S, P, T>, StepError> {
        let cx = cx.in_attempt(run.attempt);
        let result = (self.body)(&cx, input).await.map_err(coded::<S>)?;
        Ok((cx, result))
    }

    /// Runs an attempt in a request that a host records.
    async fn run_recorded(
        &self,
        run: RunContext,
        cx: Cx<S, P>,
        input: A,
    ) -> Result<With<S, P, T>, StepError> {
        let cx = cx.in_attempt(run.attempt);
        let Some(step) = cx.recorded() else { return self.run(run, cx, input).await };
        let body = async { (self.body)(&cx, input).await.map_err(coded::<S>) };
        let result = step.run(run.attempt, self.said.result, body).await?;
        Ok((cx, result))
    }

    /// Starts the step with its options.
    fn start(self: &Arc<Self>, asi: &mut AsyncSteps, cx: Cx<S, P>, input: A) -> StepResult {
        let (this, said) = (Arc::clone(self), &self.said);
        let held = said.held(&cx, &input);
        let undo = said.undo.as_ref().map(|undo| (Arc::clone(undo), undo.input(&input)));
        let of_step = cx.clone();
        if let Some((step, codec)) = cx.recorded().zip(said.input) {
            step.memory.takes((codec.write)(&input)?);
        }
        let recorded = cx.recorded().map(|step| OfBody {
            cx: cx.clone(),
            step: Rc::clone(step),
            passes: Cell::new(said.passes.map(|passes| passes(&input))),
        });
        let say = |added: &mut Added<'_, With<S, P, A>, With<S, P, T>>,
                   recorded: Option<OfBody<_, T>>| {
            said.say(added, &of_step, &held);
            if let Some(tries) = &said.retry {
                (tries.of_body)(added, tries.retry.clone());
            }
            if said.is_shielded {
                added.shielded();
            }
            if let Some((undo, input)) = undo {
                undo.say(added, of_step, input);
            }
            if let Some(recorded) = recorded {
                added.remembered(Rc::new(recorded));
            }
        };
        let args = (cx, input);
        if recorded.is_some() {
            let body = async move |run, (cx, input)| this.run_recorded(run, cx, input).await;
            asi.become_run(args, body, |added| say(added, recorded))
        } else {
            let body = async move |run, (cx, input)| this.run(run, cx, input).await;
            asi.become_run(args, body, |added| say(added, None))
        }
    }
}

/// A body that adds sub-steps, the last of which returns a context and `T`.
pub(super) struct Substeps<F>(pub(super) F);

impl<S, P, A, T, F> IntoWork<S, P, A, T> for Substeps<F>
where
    S: Service,
    P: 'static,
    A: 'static,
    T: 'static,
    F: Fn(&mut AsyncSteps, Cx<S, P>, A, &Said<S, P, A, T>) -> StepResult + Send + Sync + 'static,
{
    fn into_work(self: Box<Self>, id: Arc<StepId>, said: Said<S, P, A, T>) -> Arc<dyn Work<S, P>> {
        Arc::new(SubstepsWork { id, said, body: self.0 })
    }
}

struct SubstepsWork<S: Service, P: 'static, A: 'static, T: 'static, F> {
    id: Arc<StepId>,
    said: Said<S, P, A, T>,
    body: F,
}

impl<S, P, A, T, F> Work<S, P> for SubstepsWork<S, P, A, T, F>
where
    S: Service,
    P: 'static,
    A: 'static,
    T: 'static,
    F: Fn(&mut AsyncSteps, Cx<S, P>, A, &Said<S, P, A, T>) -> StepResult + Send + Sync + 'static,
{
    fn add(self: Arc<Self>, steps: &mut TemplateSteps, is_recorded: bool) {
        let (name, source) = (self.id.name, self.id.source);
        let mut added = if self.said.is_nothing() && !is_recorded {
            steps.add(move |asi, (cx, input): With<S, P, A>| {
                (self.body)(asi, cx.at(&self.id), input, &self.said)
            })
        } else {
            steps.defer(move |asi, (cx, input): With<S, P, A>| {
                self.start(asi, cx.at(&self.id), input)
            })
        };
        added.located_at(source);
        if !name.is_empty() {
            added.named(name);
        }
    }

    fn held(&self, cx: &Cx<S, P>, taken: Option<&Taken>) -> Result<Held, Error> {
        self.said.held_by(cx, taken)
    }

    fn define(
        &self,
        cx: &Cx<S, P>,
        taken: Option<&Taken>,
    ) -> Result<Option<Arc<Level<S, P>>>, Error> {
        let Some(define) = &self.said.define else { return Ok(None) };
        define(cx, take::<A>(taken)?).map(Some)
    }
}

impl<S, P, A, T, F> SubstepsWork<S, P, A, T, F>
where
    S: Service,
    P: 'static,
    A: 'static,
    T: 'static,
    F: Fn(&mut AsyncSteps, Cx<S, P>, A, &Said<S, P, A, T>) -> StepResult + Send + Sync + 'static,
{
    /// Starts the step with its options.
    fn start(self: &Arc<Self>, asi: &mut AsyncSteps, cx: Cx<S, P>, input: A) -> StepResult {
        let (this, said) = (Arc::clone(self), &self.said);
        let held = said.held(&cx, &input);
        let of_step = cx.clone();
        // a step that the host does not know is a part of the steps around it
        let recorded = match cx.recorded() {
            Some(step) => Some(Rc::clone(&step.memory) as Rc<dyn ReplayHooks>),
            None => cx.level().map(|level| level.inside()),
        };
        let body = move |asi: &mut AsyncSteps, (cx, input): With<S, P, A>| {
            // the engine counts the attempts of the step around it, unless the step itself is tried
            // again
            let attempt = if this.said.retry.is_some() { asi.attempt() } else { 1 };
            (this.body)(asi, cx.in_attempt(attempt), input, &this.said)
        };
        asi.become_substeps((cx, input), body, |added| {
            said.say(added, &of_step, &held);
            if let Some(tries) = &said.retry {
                (tries.of_substeps)(added, tries.retry.clone());
            }
            if let Some(recorded) = recorded {
                added.remembered(recorded);
            }
        })
    }
}

/// An async closure that returns another result for an error.
pub(super) struct RecoverBy<F>(pub(super) F);

impl<S, P, T, F> Recover<S, P, T> for RecoverBy<F>
where
    S: Service,
    P: 'static,
    T: 'static,
    F: AsyncFn(&Cx<S, P>, &Error) -> BodyResult<T> + Send + Sync + 'static,
{
    fn add(self: Arc<Self>, asi: &mut AsyncSteps, cx: Cx<S, P>, error: Error) {
        let source = cx.source();
        asi.run(async move |()| {
            let result = (self.0)(&cx, &error).await.map_err(coded::<S>)?;
            Ok((cx.clone(), result))
        })
        .located_at(source);
    }
}
