//! The work of a step when a request comes to it, with its options.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::replay::ReplayHooks;
use asyncsteps_core::{
    Added, Args, Arguments, AsyncSteps, BodyResult, Error, Retry, RunContext, StepError,
    StepResult, TemplateAdded, TemplateSteps, Untyped, codes,
};

use super::context::Context;
use super::cx::{Cx, CxBody};
use super::locks::{Held, LockOf};
use super::node::{Level, Work};
use super::place::StepId;
use super::service::{Service, coded};
use super::taken::{Taken, take};
use super::undo_body::UndoBody;
use crate::recorder::Run;
use crate::stored::Codec;

/// The options of a step that takes `A` and returns `T`.
pub(super) struct Said<A: 'static, T: 'static> {
    pub(super) locks: Vec<LockOf<A>>,
    pub(super) limiters: Vec<LockOf<A>>,
    pub(super) timeout: Option<Duration>,
    pub(super) retry: Option<Tries<A, T>>,
    pub(super) is_shielded: bool,
    pub(super) undo: Option<Arc<dyn UndoBody<A, T>>>,
    pub(super) recover: Option<Arc<dyn Recover<T>>>,
    pub(super) items: ItemRules,
    /// How the host of a request stores its input and result.
    pub(super) input: Option<Codec<A>>,
    pub(super) result: Option<Codec<T>>,
    /// It returns what it takes, and not the recorded value.
    pub(super) passes: bool,
    /// The steps inside, if they follow from its input.
    pub(super) define: Option<Arc<Define<A>>>,
}

/// The steps inside of a step that takes `A`.
type Define<A> = dyn Fn(&Context, A) -> Result<Arc<Level>, Error> + Send + Sync;

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
pub(super) struct Tries<A: 'static, T: 'static> {
    retry: Retry,
    of_template: SayRetryOfTemplate<(A,), (T,)>,
    of_body: SayRetry<(A,), (T,)>,
    of_substeps: SayRetry<(A,), Untyped>,
}

/// Says to a step that it is tried again.
type SayRetry<A, T> = fn(&mut Added<'_, A, T>, Retry);

/// Says to a step of a template that it is tried again.
type SayRetryOfTemplate<A, T> = fn(&mut TemplateAdded<'_, A, T>, Retry);

impl<A: Clone + 'static, T: 'static> Tries<A, T> {
    pub(super) fn new(retry: Retry) -> Self {
        Self {
            retry,
            of_template: |added, retry| _ = added.retry(retry),
            of_body: |added, retry| _ = added.retry(retry),
            of_substeps: |added, retry| _ = added.retry(retry),
        }
    }
}

/// Recovers from an error of a step.
pub(super) trait Recover<T>: Send + Sync {
    fn add(self: Arc<Self>, asi: &mut AsyncSteps, cx: Context, error: Error);
}

impl<A, T> Default for Said<A, T> {
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
            passes: false,
            define: None,
        }
    }
}

/// How many items a step carries out at once, unless it says so.
pub(super) const AT_ONCE: usize = 16;

impl<A, T> Said<A, T> {
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
    fn held(&self, cx: &Context, input: &A) -> Held {
        let asked =
            |locks: &[LockOf<A>]| locks.iter().filter_map(|lock| lock.of(cx, input)).collect();
        Held { locks: asked(&self.locks), limiters: asked(&self.limiters) }.noted(cx)
    }

    /// The locks and limiters of a request in which the step took this.
    fn held_by(&self, cx: &Context, taken: Option<&Taken>) -> Result<Held, Error> {
        let asked = |locks: &[LockOf<A>]| {
            let locks = locks.iter().map(|lock| lock.of_taken(cx, taken));
            locks.filter_map(Result::transpose).collect::<Result<_, _>>()
        };
        Ok(Held { locks: asked(&self.locks)?, limiters: asked(&self.limiters)? }.noted(cx))
    }

    /// Applies the options of steps of any kind to a step of a request.
    fn say<K>(&self, added: &mut Added<'_, (A,), K>, cx: &Context, held: &Held) {
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
pub(super) trait IntoWork<A: 'static, T: 'static> {
    fn into_work(self: Box<Self>, id: Arc<StepId>, said: Said<A, T>) -> Arc<dyn Work>;
}

impl<S, P, A, T, F> IntoWork<A, T> for CxBody<S, P, F>
where
    S: Service,
    P: 'static,
    A: 'static,
    T: 'static,
    F: AsyncFn(&Cx<S, P>, A) -> BodyResult<T> + Send + Sync + 'static,
{
    fn into_work(self: Box<Self>, id: Arc<StepId>, said: Said<A, T>) -> Arc<dyn Work> {
        Arc::new(BodyWork { id, said, body: *self })
    }
}

struct BodyWork<S, P, A: 'static, T: 'static, F> {
    id: Arc<StepId>,
    said: Said<A, T>,
    body: CxBody<S, P, F>,
}

impl<S, P, A, T, F> Work for BodyWork<S, P, A, T, F>
where
    S: Service,
    P: 'static,
    A: 'static,
    T: 'static,
    F: AsyncFn(&Cx<S, P>, A) -> BodyResult<T> + Send + Sync + 'static,
{
    fn add(self: Arc<Self>, steps: &mut TemplateSteps, is_recorded: bool) {
        let (name, source) = (self.id.name, self.id.source);
        if is_recorded {
            steps
                .defer(move |asi, (input,): (A,)| self.start(asi, input))
                .named(name)
                .located_at(source);
            return;
        }
        let of_body = Arc::clone(&self);
        let mut added = steps.run_made(move |asi, (input,): (A,)| {
            let cx = Context::of_running(asi, &of_body.id).in_attempt(asi.attempt());
            let (this, cx) = (Arc::clone(&of_body), Cx::of(cx));
            async move {
                let result = (this.body.call)(&cx, input).await;
                let result = result.map_err(|raised| coded::<S>(raised).into_error())?;
                Ok((result,).into_args())
            }
        });
        added.named(name).located_at(source);
        self.say_to_template(&mut added);
    }

    fn held(&self, cx: &Context, taken: Option<&Taken>) -> Result<Held, Error> {
        self.said.held_by(cx, taken)
    }

    fn undo(
        self: Arc<Self>,
        asi: &mut AsyncSteps,
        cx: Context,
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
    fn say_to_template(self: &Arc<Self>, added: &mut TemplateAdded<'_, (A,), (T,)>) {
        let said = &self.said;
        for lock in 0..said.locks.len() {
            let this = Arc::clone(self);
            added.locked_by(move |asi, (input,)| {
                this.said.locks.get(lock)?.of(&Context::of_running(asi, &this.id), input)
            });
        }
        for limiter in 0..said.limiters.len() {
            let this = Arc::clone(self);
            added.limited_by(move |asi, (input,)| {
                this.said.limiters.get(limiter)?.of(&Context::of_running(asi, &this.id), input)
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
        if let Some(recover) = &said.recover {
            let (recover, id) = (Arc::clone(recover), Arc::clone(&self.id));
            added.on_error(move |asi, error| {
                let cx = Context::of_running(asi, &id);
                Arc::clone(&recover).add(asi, cx, error.clone());
            });
        }
    }

    /// Runs an attempt of the body; in a request that a host records, as the host has it.
    async fn run(&self, run: RunContext, cx: Context, input: A) -> Result<(T,), StepError> {
        let cx = Cx::of(cx.in_attempt(run.attempt));
        let result = {
            let recorded = cx.context.recorded();
            // it is dropped after what the body holds
            let running = match recorded {
                Some(step) => Some(step.begin(Run::Attempt(run.attempt)).await?),
                None => None,
            };
            // pinned here: each async function that took it would keep room for it once more
            let body = pin!(async { (self.body.call)(&cx, input).await.map_err(coded::<S>) });
            match recorded.zip(running.as_ref()) {
                Some((step, running)) => {
                    step.run((run.attempt, running), self.said.result, body).await?
                }
                None => body.await?,
            }
        };
        Ok((result,))
    }

    /// Starts the step with its options.
    fn start(self: &Arc<Self>, asi: &mut AsyncSteps, input: A) -> StepResult {
        let (this, said, cx) = (Arc::clone(self), &self.said, Context::of_running(asi, &self.id));
        let held = said.held(&cx, &input);
        let undo = said.undo.as_ref().map(|undo| (Arc::clone(undo), undo.input(&input)));
        let of_step = cx.clone();
        if let Some((step, codec)) = cx.recorded().zip(said.input) {
            step.takes((codec.write)(&input)?)?;
        }
        let body = async move |run, (input,)| this.run(run, cx.clone(), input).await;
        asi.become_run((input,), body, |added| {
            said.say(added, &of_step, &held);
            if let Some(tries) = &said.retry {
                (tries.of_body)(added, tries.retry.clone());
            }
            if said.is_shielded {
                added.shielded();
            }
            if let Some(step) = of_step.recorded() {
                added.remembered(Rc::clone(step) as Rc<dyn ReplayHooks>);
            }
            if said.passes {
                added.passes_on();
            }
            if let Some((undo, input)) = undo {
                undo.say(added, of_step, input);
            }
        })
    }
}

/// A body that adds sub-steps, the last of which returns `T`.
pub(super) struct Substeps<F>(pub(super) F);

impl<A, T, F> IntoWork<A, T> for Substeps<F>
where
    A: 'static,
    T: 'static,
    F: Fn(&mut AsyncSteps, Context, A, &Said<A, T>) -> StepResult + Send + Sync + 'static,
{
    fn into_work(self: Box<Self>, id: Arc<StepId>, said: Said<A, T>) -> Arc<dyn Work> {
        Arc::new(SubstepsWork { id, said, body: self.0 })
    }
}

struct SubstepsWork<A: 'static, T: 'static, F> {
    id: Arc<StepId>,
    said: Said<A, T>,
    body: F,
}

impl<A, T, F> Work for SubstepsWork<A, T, F>
where
    A: 'static,
    T: 'static,
    F: Fn(&mut AsyncSteps, Context, A, &Said<A, T>) -> StepResult + Send + Sync + 'static,
{
    fn add(self: Arc<Self>, steps: &mut TemplateSteps, is_recorded: bool) {
        let (name, source) = (self.id.name, self.id.source);
        let mut added = if self.said.is_nothing() && !is_recorded {
            steps.add(move |asi, (input,): (A,)| {
                let cx = Context::of_running(asi, &self.id);
                (self.body)(asi, cx, input, &self.said)
            })
        } else {
            steps.defer(move |asi, (input,): (A,)| self.start(asi, input))
        };
        added.located_at(source);
        if !name.is_empty() {
            added.named(name);
        }
    }

    fn held(&self, cx: &Context, taken: Option<&Taken>) -> Result<Held, Error> {
        self.said.held_by(cx, taken)
    }

    fn define(&self, cx: &Context, taken: Option<&Taken>) -> Result<Option<Arc<Level>>, Error> {
        let Some(define) = &self.said.define else { return Ok(None) };
        define(cx, take::<A>(taken)?).map(Some)
    }
}

impl<A, T, F> SubstepsWork<A, T, F>
where
    A: 'static,
    T: 'static,
    F: Fn(&mut AsyncSteps, Context, A, &Said<A, T>) -> StepResult + Send + Sync + 'static,
{
    /// Starts the step with its options.
    fn start(self: &Arc<Self>, asi: &mut AsyncSteps, input: A) -> StepResult {
        let (this, said, cx) = (Arc::clone(self), &self.said, Context::of_running(asi, &self.id));
        let held = said.held(&cx, &input);
        let of_step = cx.clone();
        // a step that the host does not know is a part of the steps around it
        let recorded = match cx.recorded() {
            Some(step) => Some(Rc::clone(step) as Rc<dyn ReplayHooks>),
            None => cx.around.level().map(|level| level.inside()),
        };
        let body = move |asi: &mut AsyncSteps, (input,): (A,)| {
            // the engine counts the attempts of the step around it, unless the step itself is tried
            // again
            let attempt = if this.said.retry.is_some() { asi.attempt() } else { 1 };
            (this.body)(asi, cx.clone().in_attempt(attempt), input, &this.said)
        };
        asi.become_substeps((input,), body, |added| {
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

impl<S, P, T, F> Recover<T> for CxBody<S, P, F>
where
    S: Service,
    P: 'static,
    T: 'static,
    F: AsyncFn(&Cx<S, P>, &Error) -> BodyResult<T> + Send + Sync + 'static,
{
    fn add(self: Arc<Self>, asi: &mut AsyncSteps, cx: Context, error: Error) {
        let (source, cx) = (cx.source(), Cx::of(cx));
        asi.run(async move |()| {
            let result = (self.call)(&cx, &error).await.map_err(coded::<S>)?;
            Ok((result,))
        })
        .located_at(source);
    }
}
