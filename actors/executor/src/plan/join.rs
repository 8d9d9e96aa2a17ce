//! Several steps at once: branches with types of their own.

use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::vec;

use asyncsteps_core::{Args, Arguments, AsyncSteps, Error, StepResult, codes};

use super::context::Context;
use super::form::Form;
use super::node::{Level, Node};
use super::returns::IntoReturns;
use super::service::Service;
use super::step::{Chain, Step};
use super::steps::Steps;

/// The branches of [`join`](Steps::join): a tuple of two to eight.
#[diagnostic::on_unimplemented(
    message = "branches are a tuple of two to eight steps, not `{Self}`",
    label = "no tuple of steps",
    note = "for as many branches as there are items use `each`"
)]
pub trait Branches<S: Service, P, I> {
    /// Their results, as a tuple.
    type Results: 'static;

    /// Their form in a plan.
    #[doc(hidden)]
    fn into_parts(self, source: &'static Location<'static>) -> Parts<Self::Results>;
}

/// Branches in a plan.
#[derive(derive_more::Debug)]
#[debug("Parts({})", self.branches.len())]
#[doc(hidden)]
pub struct Parts<R> {
    branches: Vec<Vec<Node>>,
    gather: Gather<R>,
}

/// Makes a tuple of what branches returned, in their order.
type Gather<R> = fn(vec::IntoIter<Args>) -> Result<R, Error>;

macro_rules! branches {
    ($($branch:ident),*) => {
        impl<S, P, I, $($branch),*> Branches<S, P, I> for ($($branch,)*)
        where
            S: Service,
            P: 'static,
            I: 'static,
            $($branch: IntoReturns<S, P, I>,)*
        {
            type Results = ($($branch::Result,)*);

            #[expect(non_snake_case, reason = "each type and its value have one name")]
            fn into_parts(self, source: &'static Location<'static>) -> Parts<Self::Results> {
                let ($($branch,)*) = self;
                Parts {
                    branches: vec![$($branch.into_returns().into_nodes::<S, P, I>(source)),*],
                    gather: |mut results| {
                        Ok(($(result_of::<$branch::Result>(results.next())?,)*))
                    },
                }
            }
        }
    };
}

branches!(A, B);
branches!(A, B, C);
branches!(A, B, C, D);
branches!(A, B, C, D, E);
branches!(A, B, C, D, E, F);
branches!(A, B, C, D, E, F, G);
branches!(A, B, C, D, E, F, G, H);

/// The result of a branch.
pub(super) fn result_of<T: 'static>(result: Option<Args>) -> Result<T, Error> {
    let Some(result) = result else { unreachable!("each branch has a result") };
    let (value,) = <(T,)>::from_args(result)
        .map_err(|mismatch| Error::caused_by(codes::INTERNAL_ERROR, mismatch))?;
    Ok(value)
}

/// The results of branches while they run.
#[derive(Clone)]
pub(super) struct Results(Rc<RefCell<Vec<Args>>>);

impl Results {
    /// Room for `count` results.
    pub(super) fn of(count: usize) -> Self {
        Self(Rc::new(RefCell::new((0..count).map(|_| Args::none()).collect())))
    }

    /// Adds a step that keeps what the steps before it return as the result of this branch.
    pub(super) fn keep(&self, asi: &mut AsyncSteps, branch: usize) {
        let results = self.clone();
        asi.add_inner(move |_, result: Args| {
            if let Some(kept) = results.0.borrow_mut().get_mut(branch) {
                *kept = result;
            }
        });
    }

    pub(super) fn take(&self) -> vec::IntoIter<Args> {
        self.0.take().into_iter()
    }
}

impl<S: Service, P: 'static, I: Clone + 'static> Steps<S, P, I> {
    /// A step that runs several branches at once, each with policies of its own (FTN12 §1.4), and returns the
    /// tuple of their results. Each takes what the step takes, which is cloned for it.
    ///
    /// The first error that a branch does not handle becomes the error of the step, and cancels the other branches. If
    /// the step fails, or a later one, the branches are undone in parallel.
    ///
    /// ```
    /// # use asyncsteps_core::BodyResult;
    /// # use asyncsteps_executor::{Returns, Service, Steps};
    /// # struct Travel;
    /// # impl Service for Travel { type Errors = (); }
    /// # impl Travel {
    /// #     async fn seat(&self) -> BodyResult<u32> { Ok(7) }
    /// #     async fn room(&self) -> BodyResult<String> { Ok("12b".into()) }
    /// #     async fn leave(&self, _: &str) -> BodyResult<()> { Ok(()) }
    /// # }
    /// fn trip(steps: &Steps<Travel, ()>) -> Returns<String> {
    ///     steps
    ///         .join("reserve", |all| {
    ///             (
    ///                 all.run("seat", async |cx, ()| cx.seat().await)
    ///                     .undo(async |cx, _| cx.leave(cx.key()).await),
    ///                 all.run("room", async |cx, ()| cx.room().await)
    ///                     .undo(async |cx, _| cx.leave(cx.key()).await),
    ///             )
    ///         })
    ///         .then("tell", async |_, (seat, room)| Ok(format!("seat {seat}, room {room}")))
    ///         .returns()
    /// }
    /// ```
    #[track_caller]
    pub fn join<B>(
        &self,
        name: &'static str,
        branches: impl FnOnce(&Self) -> B,
    ) -> Step<S, P, I, I, B::Results>
    where
        B: Branches<S, P, I>,
    {
        join(Chain::new(), name, branches(&Self::new()))
    }
}

impl<S, P, I, A, T, E> Step<S, P, I, A, T, E>
where
    S: Service,
    P: 'static,
    I: 'static,
    A: 'static,
    T: Clone + 'static,
{
    /// [`join`](Steps::join) of branches that take the result of the step before.
    #[track_caller]
    pub fn then_join<B>(
        self,
        name: &'static str,
        branches: impl FnOnce(&Steps<S, P, T>) -> B,
    ) -> Step<S, P, I, T, B::Results, E>
    where
        B: Branches<S, P, T>,
    {
        join(self.into_chain(), name, branches(&Steps::new()))
    }
}

#[track_caller]
fn join<S, P, I, A, B, E>(
    chain: Chain,
    name: &'static str,
    branches: B,
) -> Step<S, P, I, A, B::Results, E>
where
    S: Service,
    P: 'static,
    A: Clone + 'static,
    B: Branches<S, P, A>,
{
    let Parts { branches, gather } = branches.into_parts(Location::caller());
    let level = Level::of_ways(branches);
    let inside = Some(Arc::clone(&level));
    chain.substeps(name, Form::Join, inside, move |asi, cx: Context, input: A, _: &_| {
        let (source, results) = (cx.source(), Results::of(level.ways()));
        let inside = cx.recorded().map(|step| step.inside_attempt(cx.attempt()));
        let around = level.inside(&cx, None, None)?;
        let (of_branches, recorded) = (inside.clone(), around.recorded.clone());
        let mut step = asi.parallel(|parallel| {
            for way in 0..level.ways() {
                let (level, results) = (Arc::clone(&level), results.clone());
                let (around, input) = (Rc::clone(&around), input.clone());
                let branch = move |asi: &mut AsyncSteps, ()| -> StepResult {
                    level.enter_branch(way, asi, around, input);
                    results.keep(asi, way);
                    Ok(())
                };
                let mut branch = parallel.add(branch);
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
        asi.add_inner(move |asi, ()| {
            if let Some(level) = &recorded {
                level.ended(false)?;
            }
            asi.success((gather(results.take())?,))
        });
        Ok(())
    })
}
