//! Loops whose iterations are sub-steps, with a state that goes from one to the next.

use std::cell::{OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use asyncsteps_core::{
    Arguments, AsyncSteps, Error, Flow, Replayable, StepError, StepResult, codes,
};

use super::context::{Cx, Service};
use super::key::{Iteration, Undoes};
use super::step::{Kind, Loop, Returns, Step};
use super::steps::Steps;
use crate::recorder::{Codec, EndedIteration, Form, Iterations, Next, StepRecorder, Stored};

impl<S: Service, P: 'static> Steps<S, P> {
    /// Adds a loop: `body` defines the sub-steps of an iteration, from the state that the iteration
    /// before it gave. The first one gets `state`, in each attempt of the loop. The loop gives the value
    /// of the first [`Next::Break`].
    ///
    /// The [keys](Cx::key) of steps in different iterations differ.
    ///
    /// ```
    /// # use asyncsteps_core::BodyResult;
    /// # use asyncsteps_executor::{Next, Returns, Service, Steps};
    /// # struct Mirror;
    /// # impl Service for Mirror { type Errors = (); }
    /// # struct Page { next: Option<String>, items: Vec<String> }
    /// # impl Mirror {
    /// #     async fn fetch(&self, _: &str) -> BodyResult<Page> { Ok(Page { next: None, items: Vec::new() }) }
    /// #     async fn store(&self, _: &str, _: &[String]) -> BodyResult<()> { Ok(()) }
    /// # }
    /// fn mirror(asi: &mut Steps<Mirror, ()>) -> Returns<usize> {
    ///     asi.repeat("pages", ("first".to_owned(), 0), |asi, (page, count)| {
    ///         asi.run("fetch", async move |cx, ()| cx.fetch(&page).await)
    ///             .then("store", async move |cx, page: Page| {
    ///                 cx.store(cx.key(), &page.items).await?;
    ///                 let count = count + page.items.len();
    ///                 Ok(match page.next {
    ///                     Some(next) => Next::Continue((next, count)),
    ///                     None => Next::Break(count),
    ///                 })
    ///             })
    ///             .into()
    ///     })
    ///     .into()
    /// }
    /// ```
    #[track_caller]
    pub fn repeat<St, T, F>(
        &mut self,
        name: &'static str,
        state: St,
        body: F,
    ) -> Step<'_, S, P, (), T, Loop<St>>
    where
        St: Clone + 'static,
        T: 'static,
        F: Fn(&mut Self, St) -> Returns<Next<St, T>> + 'static,
    {
        add(&mut self.flow, &self.cx, name, move |()| state.clone(), body)
    }
}

impl<'a, S, P, A, St, K> Step<'a, S, P, A, St, K>
where
    S: Service,
    P: 'static,
    A: Arguments,
    St: Clone + 'static,
    K: Kind<St>,
{
    /// Adds a loop whose first iteration gets the result of this step. Otherwise as
    /// [`repeat`](Steps::repeat).
    #[track_caller]
    pub fn then_repeat<T, F>(
        self,
        name: &'static str,
        body: F,
    ) -> Step<'a, S, P, (St,), T, Loop<St>>
    where
        (St,): Replayable,
        T: 'static,
        F: Fn(&mut Steps<S, P>, St) -> Returns<Next<St, T>> + 'static,
    {
        let Self { flow, cx, .. } = self;
        add(flow, cx, name, |(state,)| state, body)
    }
}

/// How the host of a request stores the state and the result of a loop.
pub(super) struct Codecs<St, T> {
    pub(super) state: Codec<St>,
    pub(super) result: Codec<T>,
}

/// Shared with the loop, which runs later.
pub(super) type LoopCodecs<St, T> = Rc<OnceCell<Codecs<St, T>>>;

#[track_caller]
fn add<'a, S, P, A, St, T, F>(
    flow: &'a mut Flow,
    cx: &'a Cx<S, P>,
    name: &'static str,
    state: impl Fn(A) -> St + 'static,
    body: F,
) -> Step<'a, S, P, A, T, Loop<St>>
where
    S: Service,
    P: 'static,
    A: Arguments,
    St: 'static,
    T: 'static,
    F: Fn(&mut Steps<S, P>, St) -> Returns<Next<St, T>> + 'static,
{
    let of_step = cx.of_new_step(name, Form::Loop);
    let (codecs, body) = (LoopCodecs::default(), Rc::new(body));
    let (of_body, undoes, of_loop) = (of_step.clone(), Undoes::default(), Rc::clone(&codecs));
    let start = move |asi: &mut AsyncSteps, args, memory: Option<Rc<dyn StepRecorder>>| {
        let (attempt, state) = (asi.attempt(), state(args));
        let memory = memory.filter(|_| of_loop.get().is_some());
        let progress = match (&memory, of_loop.get()) {
            (Some(memory), Some(codecs)) => codecs.progress(memory.iterations(attempt), state)?,
            _ => Progress { again: VecDeque::new(), next: Some(Next::Continue((0, state))) },
        };
        let (cx, undoes, codecs) = (of_body.clone(), undoes.clone(), Rc::clone(&of_loop));
        let this = Rc::new(Looping { cx, attempt, undoes, memory, codecs, body: Rc::clone(&body) });
        this.start(asi, progress);
        Ok(())
    };
    let step = Step::with_substeps(flow, cx, of_step, start);
    if let Some(remembered) = &step.remembered {
        let _ = remembered.items.set(Box::new(codecs));
    }
    step
}

/// An attempt of a loop.
struct Looping<S: Service, P, St, T, F> {
    cx: Cx<S, P>,
    attempt: u32,
    undoes: Undoes,
    memory: Option<Rc<dyn StepRecorder>>,
    codecs: LoopCodecs<St, T>,
    body: Rc<F>,
}

/// What an attempt of a loop has to do.
struct Progress<St, T> {
    /// Iterations that ended in an earlier run, and may be undone.
    again: VecDeque<(u64, St)>,
    /// What follows then; `None` while an iteration runs.
    next: Option<Next<(u64, St), T>>,
}

impl<S, P, St, T, F> Looping<S, P, St, T, F>
where
    S: Service,
    P: 'static,
    St: 'static,
    T: 'static,
    F: Fn(&mut Steps<S, P>, St) -> Returns<Next<St, T>> + 'static,
{
    /// Adds the loop to the running step, and a step that gives its result.
    fn start(self: Rc<Self>, asi: &mut AsyncSteps, progress: Progress<St, T>) {
        let source = self.cx.source();
        let progress = Rc::new(RefCell::new(progress));
        let of_end = Rc::clone(&progress);
        asi.make_loop(move |asi| {
            let mut now = progress.borrow_mut();
            if let Some((index, state)) = now.again.pop_front() {
                drop(now);
                self.enter(asi, index, state)?;
                // it counts as it ended then
                asi.add(|_, _: (Next<St, T>,)| {}).located_at(source);
                return Ok(());
            }
            let (index, state) = match now.next.take() {
                Some(Next::Continue(next)) => next,
                ended => {
                    now.next = ended;
                    return asi.break_loop(None);
                }
            };
            drop(now);
            let undoes = self.enter(asi, index, state)?;
            let (this, progress) = (Rc::clone(&self), Rc::clone(&progress));
            asi.add(move |_, (next,): (Next<St, T>,)| {
                this.ended(index, &next, &undoes)?;
                progress.borrow_mut().next = Some(match next {
                    Next::Continue(state) => Next::Continue((index + 1, state)),
                    Next::Break(result) => Next::Break(result),
                });
                Ok(())
            })
            .located_at(source);
            Ok(())
        })
        .located_at(source);
        asi.add(move |asi, ()| match of_end.borrow_mut().next.take() {
            Some(Next::Break(result)) => asi.success((result,)),
            _ => asi.error(codes::INTERNAL_ERROR, "a loop with a state was left without a result"),
        })
        .located_at(source);
    }

    /// Adds the steps of an iteration to the running step; gives whether something in it can be undone,
    /// once it ended.
    fn enter(&self, asi: &mut AsyncSteps, index: u64, state: St) -> Result<Undoes, StepError> {
        let undoes = Undoes::default();
        let iteration = Iteration { index, undoes: undoes.clone() };
        let (memory, source) = (self.memory.clone(), self.cx.source());
        let cx = self.cx.of_substeps(self.attempt, &self.undoes, Some(iteration), memory);
        let path = cx.path_of_attempt();
        let mut steps = Steps::new(cx);
        let Returns { .. } = (self.body)(&mut steps, state);
        match &self.memory {
            // an iteration that fails has the whole attempt fail
            Some(memory) => {
                let inside = memory.inside(self.attempt, &path);
                asi.add(move |asi, ()| steps.finish(asi)).remembered(inside).located_at(source);
            }
            None => steps.finish(asi)?,
        }
        Ok(undoes)
    }

    /// Tells the host that an iteration ended.
    fn ended(&self, index: u64, next: &Next<St, T>, undoes: &Undoes) -> StepResult {
        let Some((memory, codecs)) = self.memory.as_ref().zip(self.codecs.get()) else {
            return Ok(());
        };
        let next = match next {
            Next::Continue(state) => Next::Continue((codecs.state.write)(state)?),
            Next::Break(result) => Next::Break((codecs.result.write)(result)?),
        };
        let can_be_undone = undoes.get();
        let ended = EndedIteration { attempt: self.attempt, index, can_be_undone, next };
        Ok(memory.iterated(ended)?)
    }
}

impl<St, T> Codecs<St, T> {
    /// What a loop has to do that began with this state, after what the host stored of it.
    fn progress(&self, stored: Iterations, first: St) -> Result<Progress<St, T>, Error>
    where
        St: 'static,
    {
        let mut first = Some(first);
        let mut read = |state: Option<Stored>| match state {
            Some(stored) => (self.state.read)(&stored),
            None => match first.take() {
                Some(first) => Ok(first),
                None => unreachable!("only the first iteration has the first state"),
            },
        };
        let again = stored.again.into_iter().map(|(index, state)| Ok((index, read(state)?)));
        let again = again.collect::<Result<_, Error>>()?;
        let next = match stored.next {
            Next::Continue((index, state)) => Next::Continue((index, read(state)?)),
            Next::Break(result) => Next::Break((self.result.read)(&result)?),
        };
        Ok(Progress { again, next: Some(next) })
    }
}

#[expect(
    clippy::return_self_not_must_use,
    reason = "the step is added already: what is given back only serves to say more about it"
)]
impl<S: Service, P, A, St: 'static, T: 'static> Step<'_, S, P, A, T, Loop<St>> {
    /// Says how the host of a request that it [remembers](crate::recorder) stores the state and the result
    /// of the loop, so that iterations which ended are not done again.
    pub fn loop_remembered(self, state: Codec<St>, result: Codec<T>) -> Self {
        if let Some(remembered) = &self.remembered {
            remembered.step.set_kind(crate::recorder::Kind::Recorded);
            let codecs = remembered.items.get();
            if let Some(codecs) = codecs.and_then(|any| any.downcast_ref::<LoopCodecs<St, T>>()) {
                // said twice, the first one counts
                let _ = codecs.set(Codecs { state, result });
            }
        }
        self
    }
}
