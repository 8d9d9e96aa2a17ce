//! Loops of templates (FTN12 §2.2.4): each flow goes over items of its own.

use std::sync::Arc;

use super::TemplateSteps;
use super::added::{Label, TemplateLoop};
use crate::error::{StepResult, StepReturn};
use crate::interface::Collection;
use crate::location::StepLocation;
use crate::stack::{AsyncSteps, Waking};

impl TemplateSteps {
    /// Adds a loop that ends with [`break_loop`](AsyncSteps::break_loop) (FTN12 §2.2.4 `loop`).
    #[track_caller]
    pub fn make_loop<R, F>(&mut self, body: F) -> TemplateLoop<'_>
    where
        R: StepReturn,
        F: Fn(&mut AsyncSteps) -> R + Send + Sync + 'static,
    {
        let body = move |asi: &mut AsyncSteps, ()| body(asi).into_result();
        self.push_loop(StepLocation::here(), || std::iter::repeat(()), body)
    }

    /// Adds a loop that runs `count` times; the body gets the iteration, from 0
    /// (FTN12 §2.2.4 `repeat`).
    #[track_caller]
    pub fn repeat<R, F>(&mut self, count: usize, body: F) -> TemplateLoop<'_>
    where
        R: StepReturn,
        F: Fn(&mut AsyncSteps, usize) -> R + Send + Sync + 'static,
    {
        let body = move |asi: &mut AsyncSteps, i| body(asi, i).into_result();
        self.push_loop(StepLocation::here(), move || 0..count, body)
    }

    /// Adds a loop over a list or map; the body gets index and value, or key and value
    /// (FTN12 §2.2.4 `forEach`). Each flow goes over a clone of the collection; an `Arc<[T]>` is
    /// shared.
    #[track_caller]
    pub fn for_each<C, R, F>(&mut self, collection: C, body: F) -> TemplateLoop<'_>
    where
        C: Collection + Clone + Send + Sync + 'static,
        R: StepReturn,
        F: Fn(&mut AsyncSteps, C::Key, C::Value) -> R + Send + Sync + 'static,
    {
        let body = move |asi: &mut AsyncSteps, (key, value)| body(asi, key, value).into_result();
        self.push_loop(StepLocation::here(), move || collection.clone().entries(), body)
    }

    fn push_loop<I, M, F>(&mut self, location: StepLocation, items: M, body: F) -> TemplateLoop<'_>
    where
        I: Iterator + 'static,
        M: Fn() -> I + Send + Sync + 'static,
        F: Fn(&mut AsyncSteps, I::Item) -> StepResult + Send + Sync + 'static,
    {
        let (body, label) = (Arc::new(body), Label::default());
        let own_label = Arc::clone(&label);
        let start = move |asi: &mut AsyncSteps, _, _: Waking<'_>| {
            let body = Arc::clone(&body);
            asi.start_loop(items(), move |asi, item| body(asi, item), own_label.get().cloned());
            Ok(())
        };
        TemplateLoop { step: self.push_step(Box::new(start), location), label }
    }
}
