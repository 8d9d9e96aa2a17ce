//! Steps that do several things at once and return their results (FTN12 §1.13).
//!
//! Each is one step that polls several futures. Branches of [`AsyncSteps::parallel`] are steps of
//! their own and return no results (§1.4).

use super::added::Added;
use crate::args::Arguments;
use crate::error::{Error, StepError};
use crate::flow::Flow;
use crate::gather;
use crate::stack::AsyncSteps;
use crate::template::{TemplateAdded, TemplateSteps};

macro_rules! gathering {
    ($Steps:ty, $Added:ident, $($bounds:tt)*) => {
        impl $Steps {
            /// Adds a step that runs `body` for each item, at most `at_once` at a time (0 counts as
            /// 1); it returns the results in the order of the items. The first error becomes the
            /// error of the step and drops the others (FTN12 §1.13).
            ///
            /// The items are cloned when the step starts, so that it can be tried again. It is one
            /// step: for locks, limits and names of their own, items become steps or branches.
            #[track_caller]
            pub fn each<I, R, F>(
                &mut self,
                items: I,
                at_once: usize,
                body: F,
            ) -> $Added<'_, (), Vec<R>>
            where
                I: IntoIterator + Clone + $($bounds)*,
                R: 'static,
                F: AsyncFn(I::Item) -> Result<R, StepError> + $($bounds)*,
            {
                self.run(async move |()| gather::each(items.clone(), at_once, &body).await)
            }

            /// [`each`](Self::each) that returns all results, errors included: no error drops
            /// another item (FTN12 §1.13).
            #[track_caller]
            pub fn each_result<I, R, F>(
                &mut self,
                items: I,
                at_once: usize,
                body: F,
            ) -> $Added<'_, (), Vec<Result<R, Error>>>
            where
                I: IntoIterator + Clone + $($bounds)*,
                R: 'static,
                F: AsyncFn(I::Item) -> Result<R, StepError> + $($bounds)*,
            {
                self.run(async move |()| {
                    let body = async |item| Ok(body(item).await.map_err(StepError::into_error));
                    gather::each(items.clone(), at_once, &body).await
                })
            }

            /// Adds a step that runs `body` for all items at once; it returns the result of the
            /// first that succeeds, and drops the others. If none does, the last error becomes the
            /// error of the step (FTN12 §1.13).
            #[track_caller]
            pub fn race<I, R, F>(&mut self, items: I, body: F) -> $Added<'_, (), R>
            where
                I: IntoIterator + Clone + $($bounds)*,
                R: Arguments,
                F: AsyncFn(I::Item) -> Result<R, StepError> + $($bounds)*,
            {
                self.run(async move |()| gather::race(items.clone(), &body).await)
            }

            /// Adds a step that does two things at once and returns both results. The first error
            /// becomes the error of the step and drops the other one (FTN12 §1.13).
            #[track_caller]
            pub fn join<A, B, F, G>(&mut self, one: F, other: G) -> $Added<'_, (), (A, B)>
            where
                A: 'static,
                B: 'static,
                F: AsyncFn() -> Result<A, StepError> + $($bounds)*,
                G: AsyncFn() -> Result<B, StepError> + $($bounds)*,
            {
                self.run(async move |()| gather::join(one(), other()).await)
            }

            /// [`join`](Self::join) for three (FTN12 §1.13).
            #[track_caller]
            pub fn join3<A, B, C, F, G, H>(
                &mut self,
                first: F,
                second: G,
                third: H,
            ) -> $Added<'_, (), (A, B, C)>
            where
                A: 'static,
                B: 'static,
                C: 'static,
                F: AsyncFn() -> Result<A, StepError> + $($bounds)*,
                G: AsyncFn() -> Result<B, StepError> + $($bounds)*,
                H: AsyncFn() -> Result<C, StepError> + $($bounds)*,
            {
                self.run(async move |()| {
                    let two = gather::join(first(), second());
                    let ((a, b), c) = gather::join(two, third()).await?;
                    Ok((a, b, c))
                })
            }
        }
    };
}

gathering!(AsyncSteps, Added, 'static);
gathering!(Flow, Added, 'static);
gathering!(TemplateSteps, TemplateAdded, Send + Sync + 'static);
