//! Steps with parallel branches that know their types.

use std::fmt;
use std::rc::Rc;

use asyncsteps_core::{AsyncSteps, BodyResult, Flow, StepResult};

use super::context::{Cx, Service};
use super::key::Undoes;
use super::retired::Retired;
use super::step::{Nested, Returns, Step};
use super::steps::Steps;
use crate::recorder::Form;

/// The branches of a parallel step while it is being defined, see [`Steps::parallel`].
///
/// Each method adds a branch by its first step; [`Step::then`] adds further steps to that branch.
pub struct Branches<S: Service, P> {
    cx: Cx<S, P>,
    /// The steps of each branch.
    branches: Vec<Flow>,
}

impl<S: Service, P: 'static> Steps<S, P> {
    /// Adds a step with parallel branches (FTN12 §1.4), which `define` adds when the step starts, at each
    /// attempt. It is complete when all branches are; the first error is that of the step, and cancels
    /// the others.
    ///
    /// Branches are for steps with locks, limits, attempts or undo of their own. They give no results;
    /// for several results there are [`each`](Self::each) and [`join`](Self::join).
    ///
    /// ```
    /// # use asyncsteps_core::{BodyResult, Undo};
    /// # use asyncsteps_actors::sync::Mutex;
    /// # use asyncsteps_executor::{Cx, Returns, Service, Steps};
    /// # struct Shop { skus: Mutex }
    /// # impl Service for Shop { type Errors = (); }
    /// # impl Shop {
    /// #     async fn reserve(&self, _: &str) -> BodyResult<()> { Ok(()) }
    /// #     async fn give_back(&self, _: &str) -> BodyResult<()> { Ok(()) }
    /// # }
    /// # struct Order { skus: Vec<String> }
    /// fn order(asi: &mut Steps<Shop, Order>) -> Returns<()> {
    ///     asi.parallel("reserve all", |branches| {
    ///         let cx = branches.cx();
    ///         for sku in &cx.params.skus {
    ///             let (taken, back) = (sku.clone(), sku.clone());
    ///             branches
    ///                 .run("reserve", async move |cx, ()| cx.reserve(&taken).await)
    ///                 .locked(&cx.skus.key(sku))
    ///                 .undo(async move |cx, _| cx.give_back(&back).await);
    ///         }
    ///     })
    ///     .into()
    /// }
    /// ```
    #[track_caller]
    pub fn parallel<F>(&mut self, name: &'static str, define: F) -> Step<'_, S, P, (), (), Nested>
    where
        F: Fn(&mut Branches<S, P>) + 'static,
    {
        let of_step = self.cx.of_new_step(name, Form::Nested);
        let (of_branches, undoes) = (of_step.clone(), Undoes::default());
        Step::with_substeps(&mut self.flow, &self.cx, of_step, move |asi, (), memory| {
            let cx = of_branches.of_substeps(asi.attempt(), &undoes, None, memory);
            let mut branches = Branches { cx, branches: Vec::new() };
            define(&mut branches);
            branches.finish(asi)
        })
    }
}

impl<S: Service, P: 'static> Branches<S, P> {
    /// The context that bodies get, to be used while branches are added. Bodies have their own.
    #[must_use]
    pub fn cx(&self) -> Cx<S, P> {
        self.cx.clone()
    }

    /// Adds a branch that begins with an async closure, see [`Steps::run`].
    #[track_caller]
    pub fn run<T, F>(&mut self, name: &'static str, body: F) -> Step<'_, S, P, (), T>
    where
        T: 'static,
        F: AsyncFn(&Cx<S, P>, ()) -> BodyResult<T> + 'static,
    {
        let (flow, cx) = self.begin();
        Step::add(flow, cx, name, body)
    }

    /// Adds a branch that begins with a step with sub-steps, see [`Steps::substeps`].
    #[track_caller]
    pub fn substeps<T, F>(&mut self, name: &'static str, body: F) -> Step<'_, S, P, (), T, Nested>
    where
        T: 'static,
        F: Fn(&mut Steps<S, P>, ()) -> Returns<T> + 'static,
    {
        let (flow, cx) = self.begin();
        Step::nest(flow, cx, name, body)
    }

    /// Says that there was a branch which began with a step of this name, see [`Steps::retired`].
    #[track_caller]
    pub fn retired(&mut self, name: &'static str) -> Retired<'_, S, P> {
        match self.cx.memory() {
            Some(_) => {
                let (flow, cx) = self.begin();
                Retired::add(flow, cx, name)
            }
            None => Retired::none(),
        }
    }

    fn begin(&mut self) -> (&mut Flow, &Cx<S, P>) {
        self.branches.push(Flow::new());
        self.cx.begin_branch();
        match self.branches.last_mut() {
            Some(branch) => (branch, &self.cx),
            None => unreachable!("a branch was just added"),
        }
    }

    /// Makes the branches those of a sub-step of the running step.
    fn finish(self, asi: &mut AsyncSteps) -> StepResult {
        self.cx.check_defined()?;
        let (branches, source, inside) = (self.branches, self.cx.source(), self.cx.memory_inside());
        let of_branches = inside.clone();
        let mut step = asi.parallel(|parallel| {
            for branch in branches {
                let mut branch = parallel.add(move |asi, ()| asi.append(branch));
                branch.located_at(source);
                if let Some(inside) = &of_branches {
                    branch.remembered(Rc::clone(inside));
                }
            }
        });
        step.located_at(source);
        if let Some(inside) = inside {
            step.remembered(inside);
        }
        // what a typed step gives travels as one value
        let cx = self.cx;
        asi.add(move |asi, ()| {
            cx.ended();
            asi.success(((),))
        })
        .located_at(source);
        Ok(())
    }
}

impl<S: Service, P> fmt::Debug for Branches<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Branches({})", self.branches.len())
    }
}
