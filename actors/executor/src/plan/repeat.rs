//! Loops whose iterations are sub-steps, with a state that goes from one to the next.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::{AsyncSteps, Error, StepResult};

use super::context::Context;
use super::form::Form;
use super::node::Level;
use super::returns::IntoReturns;
use super::service::Service;
use super::step::Step;
use super::steps::Steps;
use crate::recorder::{LevelEnd, Part, Sublevel};
use crate::stored::{Codec, Stored};

impl<S, P, I, A, St, E> Step<S, P, I, A, St, E>
where
    S: Service,
    P: 'static,
    I: 'static,
    A: 'static,
    St: 'static,
{
    /// A loop (FTN12 §1.8): each iteration takes the state that the one before it returned as
    /// [`Continue`](ControlFlow::Continue), the first one what the step before returns. The loop returns the value
    /// of the first [`Break`](ControlFlow::Break). The [keys](super::Cx::key) of steps in different iterations differ.
    ///
    /// A `ControlFlow` cannot be recorded, because serde knows none. So in a function that may become
    /// [durable](crate::recorder) the last step only makes it of what the step before returned, and is repeatable.
    ///
    /// ```
    /// # use std::ops::ControlFlow;
    /// # use asyncsteps_core::BodyResult;
    /// # use asyncsteps_executor::{Returns, Service, Steps};
    /// # struct Mirror;
    /// # impl Service for Mirror { type Errors = (); }
    /// # struct Page { next: Option<String>, items: Vec<String> }
    /// # impl Mirror {
    /// #     async fn fetch(&self, _: &str) -> BodyResult<Page> { Ok(Page { next: None, items: Vec::new() }) }
    /// #     async fn store(&self, _: &str, _: &[String]) -> BodyResult<()> { Ok(()) }
    /// # }
    /// fn mirror(steps: &Steps<Mirror, ()>) -> Returns<()> {
    ///     steps
    ///         .run("begin", async |_, ()| Ok("first".to_owned()))
    ///         .repeatable()
    ///         .then_repeat("pages", |page| {
    ///             page.run("fetch", async |cx, page| cx.fetch(&page).await)
    ///                 .repeatable()
    ///                 .then("store", async |cx, page| {
    ///                     cx.store(cx.key(), &page.items).await?;
    ///                     Ok(page.next)
    ///                 })
    ///                 .recorded()
    ///                 .then("next", async |_, next| {
    ///                     Ok(next.map_or(ControlFlow::Break(()), ControlFlow::Continue))
    ///                 })
    ///                 .repeatable()
    ///         })
    ///         .recorded_with_input()
    ///         .returns()
    /// }
    /// ```
    #[track_caller]
    pub fn then_repeat<B, R>(
        self,
        name: &'static str,
        iteration: impl FnOnce(&Steps<S, P, St>) -> R,
    ) -> Step<S, P, I, St, B, E>
    where
        B: 'static,
        R: IntoReturns<S, P, St, Result = ControlFlow<B, St>>,
    {
        let level = Level::of(Steps::inside(iteration));
        let inside = Some(Arc::clone(&level));
        self.into_chain().substeps(
            name,
            Form::Repeat,
            inside,
            move |asi, cx: Context, state: St, said: &_| {
                let codecs = said.input.zip(said.result);
                let looping = Looping { level: Arc::clone(&level), cx, codecs };
                let progress = looping.progress(state)?;
                Rc::new(looping).start(asi, progress);
                Ok(())
            },
        )
    }
}

/// An attempt of a loop.
struct Looping<St, B> {
    level: Arc<Level>,
    cx: Context,
    /// How the host of the request stores the state and the result.
    codecs: Option<(Codec<St>, Codec<B>)>,
}

/// The remaining work of an attempt of a loop.
struct Progress<St, B> {
    /// Iterations that ended before a crash, and may be undone.
    again: VecDeque<(u64, St)>,
    /// The next iteration or the result; `None` while an iteration runs.
    next: Option<ControlFlow<B, (u64, St)>>,
}

impl<St, B> Looping<St, B>
where
    St: 'static,
    B: 'static,
{
    /// The remaining work of a loop that begins with this state, after the part that the host has
    /// stored.
    fn progress(&self, state: St) -> Result<Progress<St, B>, Error> {
        let Some((step, (of_state, of_result))) = self.cx.recorded().zip(self.codecs) else {
            let next = Some(ControlFlow::Continue((0, state)));
            return Ok(Progress { again: VecDeque::new(), next });
        };
        let stored = step.recalled(self.cx.attempt()).iterations;
        let mut first = Some(state);
        let mut read = |state: Option<Stored>| match state {
            Some(stored) => (of_state.read)(&stored),
            None => match first.take() {
                Some(first) => Ok(first),
                None => unreachable!("only the first iteration has the first state"),
            },
        };
        let again = stored.again.into_iter().map(|(index, state)| Ok((index, read(state)?)));
        let again = again.collect::<Result<_, Error>>()?;
        let next = match stored.next {
            ControlFlow::Continue((index, state)) => ControlFlow::Continue((index, read(state)?)),
            ControlFlow::Break(result) => ControlFlow::Break((of_result.read)(&result)?),
        };
        Ok(Progress { again, next: Some(next) })
    }

    /// Adds the loop to the running step, and a step that returns its result.
    fn start(self: Rc<Self>, asi: &mut AsyncSteps, progress: Progress<St, B>) {
        let source = self.cx.source();
        let progress = Rc::new(RefCell::new(progress));
        let ended = Rc::clone(&progress);
        asi.make_loop(move |asi| {
            let mut now = progress.borrow_mut();
            if let Some((index, state)) = now.again.pop_front() {
                drop(now);
                self.enter(asi, index, state)?;
                // it counts as it ended then
                asi.add_inner(|_, (_,): (ControlFlow<B, St>,)| {});
                return Ok(());
            }
            let (index, state) = match now.next.take() {
                Some(ControlFlow::Continue(next)) => next,
                ended => {
                    now.next = ended;
                    return asi.break_loop(None);
                }
            };
            drop(now);
            self.enter(asi, index, state)?;
            let (this, progress) = (Rc::clone(&self), Rc::clone(&progress));
            asi.add_inner(move |_, (flow,): (ControlFlow<B, St>,)| {
                this.ended(index, &flow)?;
                progress.borrow_mut().next = Some(flow.map_continue(|state| (index + 1, state)));
                Ok(())
            });
            Ok(())
        })
        .located_at(source);
        asi.add_inner(move |asi, ()| match ended.borrow_mut().next.take() {
            Some(ControlFlow::Break(result)) => asi.success((result,)),
            _ => Err(Error::unexpected("a loop with a state was left without a result").into()),
        });
    }

    /// Adds the steps of an iteration to the running step.
    fn enter(&self, asi: &mut AsyncSteps, index: u64, state: St) -> StepResult {
        self.level.enter_inside(asi, &self.cx, (Part::Iteration(index), state))
    }

    /// Notifies the host of the request that an iteration ended.
    fn ended(&self, index: u64, flow: &ControlFlow<B, St>) -> StepResult {
        let Some((step, (of_state, of_result))) = self.cx.recorded().zip(self.codecs) else {
            return Ok(());
        };
        let next = match flow {
            ControlFlow::Continue(state) => ControlFlow::Continue((of_state.write)(state)?),
            ControlFlow::Break(result) => ControlFlow::Break((of_result.write)(result)?),
        };
        let (attempt, can_be_undone) = (self.cx.attempt(), self.level.keeps_undo);
        let ends = LevelEnd::Iteration { index, can_be_undone, next };
        Ok(step.ended(&Sublevel::of(attempt), ends)?)
    }
}
