//! The branches of a parallel step of a template (FTN12 §2.2.1 `parallel`).

use std::sync::Arc;

use super::TemplateSteps;
use super::added::{TemplateAdded, TemplateLoop};
use super::draft::Draft;
use crate::error::{StepError, StepReturn};
use crate::interface::Collection;
use crate::stack::{AsyncSteps, SharedSteps};
use crate::sync::SharedSync;

/// The branches of a parallel step of a template, each a step with its sub-steps (FTN12 §2.2.1
/// `parallel`); see [`Parallel`](crate::Parallel).
#[derive(Debug)]
pub struct TemplateParallel(TemplateSteps);

impl TemplateParallel {
    pub(super) fn define(define: impl FnOnce(&mut Self)) -> SharedSteps {
        let mut branches = Self(TemplateSteps::default());
        define(&mut branches);
        Arc::new(branches.0.steps.into_iter().map(Draft::finish).collect())
    }

    /// Adds a branch; it takes no arguments and its result is dropped (FTN12 §2.2.1 `parallel`).
    #[track_caller]
    pub fn add<R, F>(&mut self, body: F) -> TemplateAdded<'_, ()>
    where
        R: StepReturn,
        F: Fn(&mut AsyncSteps, ()) -> R + Send + Sync + 'static,
    {
        self.0.add(body)
    }

    /// Adds a branch that is an async closure, see [`AsyncSteps::run`].
    #[track_caller]
    pub fn run<F>(&mut self, body: F) -> TemplateAdded<'_, (), ()>
    where
        F: AsyncFn(()) -> Result<(), StepError> + Send + Sync + 'static,
    {
        self.0.run(body)
    }

    /// Adds a branch whose step has parallel branches itself (FTN12 §2.2.1 `parallel`).
    #[track_caller]
    pub fn parallel(&mut self, define: impl FnOnce(&mut Self)) -> TemplateAdded<'_> {
        self.0.parallel(define)
    }

    /// Adds a branch that is synchronised against `object`; the lock belongs to the branch, not to the
    /// flow (FTN12 §2.2.1 `sync`, §1.11.4).
    #[track_caller]
    pub fn sync<O, R, F>(&mut self, object: &O, body: F) -> TemplateAdded<'_, ()>
    where
        O: SharedSync,
        R: StepReturn,
        F: Fn(&mut AsyncSteps, ()) -> R + Send + Sync + 'static,
    {
        self.0.sync(object, move |asi, ()| {
            let end = body(asi, ()).into_result();
            asi.without_result(end)
        })
    }

    /// Adds a branch that is a loop, see [`AsyncSteps::make_loop`].
    #[track_caller]
    pub fn make_loop<R, F>(&mut self, body: F) -> TemplateLoop<'_>
    where
        R: StepReturn,
        F: Fn(&mut AsyncSteps) -> R + Send + Sync + 'static,
    {
        self.0.make_loop(body)
    }

    /// Adds a branch that runs `count` times, see [`AsyncSteps::repeat`].
    #[track_caller]
    pub fn repeat<R, F>(&mut self, count: usize, body: F) -> TemplateLoop<'_>
    where
        R: StepReturn,
        F: Fn(&mut AsyncSteps, usize) -> R + Send + Sync + 'static,
    {
        self.0.repeat(count, body)
    }

    /// Adds a branch that goes over a list or map, one entry after the other, see
    /// [`AsyncSteps::for_each`].
    #[track_caller]
    pub fn for_each<C, R, F>(&mut self, collection: C, body: F) -> TemplateLoop<'_>
    where
        C: Collection + Clone + Send + Sync + 'static,
        R: StepReturn,
        F: Fn(&mut AsyncSteps, C::Key, C::Value) -> R + Send + Sync + 'static,
    {
        self.0.for_each(collection, body)
    }
}
