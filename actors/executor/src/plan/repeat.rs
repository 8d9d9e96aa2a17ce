//! Loops whose iterations are sub-steps, with a state that goes from one to the next.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::codes;

use super::cx::Cx;
use super::node::{Form, Level};
use super::place::Inside;
use super::step::{Returns, Step};
use super::steps::Steps;
use crate::service::Service;

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
    /// of the first [`Break`](ControlFlow::Break). The [keys](Cx::key) of steps in different iterations differ.
    ///
    /// ```
    /// # use std::ops::ControlFlow;
    /// # use asyncsteps_core::BodyResult;
    /// # use asyncsteps_executor::Service;
    /// # use asyncsteps_executor::plan::{Returns, Steps};
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
    ///         .then_repeat("pages", |page| {
    ///             page.run("fetch", async |cx, page: String| cx.fetch(&page).await)
    ///                 .then("store", async |cx, page| {
    ///                     cx.store(cx.key(), &page.items).await?;
    ///                     Ok(page.next.map_or(ControlFlow::Break(()), ControlFlow::Continue))
    ///                 })
    ///                 .returns()
    ///         })
    ///         .returns()
    /// }
    /// ```
    #[track_caller]
    pub fn then_repeat<B: 'static>(
        self,
        name: &'static str,
        iteration: impl FnOnce(&Steps<S, P, St>) -> Returns<ControlFlow<B, St>>,
    ) -> Step<S, P, I, St, B, E> {
        let level = Level::of(Steps::inside(iteration));
        let inside = Some(Arc::clone(&level));
        self.into_chain().substeps(
            name,
            Form::Repeat,
            inside,
            move |asi, cx: Cx<S, P>, state: St, _| {
                let (level, source) = (Arc::clone(&level), cx.source());
                let next = Rc::new(RefCell::new(Some(ControlFlow::Continue(state))));
                let (of_end, of_loop, mut index) = (Rc::clone(&next), cx.clone(), 0);
                asi.make_loop(move |asi| {
                    let mut now = next.borrow_mut();
                    let state = match now.take() {
                        Some(ControlFlow::Continue(state)) => state,
                        ended => {
                            *now = ended;
                            return asi.break_loop(None);
                        }
                    };
                    drop(now);
                    let cx = of_loop.clone().inside(level.has_undo, Some(Inside::Iteration(index)));
                    index += 1;
                    level.enter(asi, cx, state)?;
                    let next = Rc::clone(&next);
                    asi.add_inner(move |_, (_, flow): (Cx<S, P>, ControlFlow<B, St>)| {
                        next.replace(Some(flow));
                    });
                    Ok(())
                })
                .located_at(source);
                asi.add_inner(move |asi, ()| match of_end.take() {
                    Some(ControlFlow::Break(result)) => asi.success((cx, result)),
                    _ => asi.error(
                        codes::INTERNAL_ERROR,
                        "a loop with a state was left without a result",
                    ),
                });
                Ok(())
            },
        )
    }
}
