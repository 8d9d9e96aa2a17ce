//! Parallel branches while they are being defined (FTN12 §2.2.1).

use std::fmt;

use super::added::{Added, AddedLoop};
use super::collection::Collection;
use super::run::{Plain, Run};
use crate::error::{AwaitedResult, StepError, StepResult, StepReturn};
use crate::location::StepLocation;
use crate::stack::{AsyncSteps, QueuedStep};
use crate::sync::{ISync, Synced};

/// The branches of a parallel step while it is being defined (FTN12 §2.2.1 `parallel`).
///
/// It has the methods of [`AsyncSteps`] that add a step: each adds a branch that consists of this
/// step with its sub-steps. Branches take no arguments and return no results; they share the state
/// of the flow. So it has no `success_step`, which would only return a result. The steps of a
/// template are one branch by `add(move |asi, ()| asi.copy_from(&template))`.
///
/// ```
/// use asyncsteps_core::{AsyncSteps, Flow, run_to_end, sync::Mutex};
///
/// fn add(asi: &mut AsyncSteps, n: usize) {
///     *asi.state_mut().get_mut::<usize>("sum").unwrap() += n;
/// }
///
/// let lock = Mutex::default();
/// let mut flow = Flow::new();
/// flow.state_mut().set("sum", 0usize);
/// flow.parallel(|p| {
///     p.for_each(vec![1, 2], |asi, _, n| add(asi, n));
///     p.sync(&lock, |asi, ()| add(asi, 10));
///     p.await_(async { Ok::<(), std::io::Error>(()) }).named("fetch");
/// });
/// flow.add(|asi, ()| asi.success(*asi.state().get::<usize>("sum").unwrap()));
/// assert_eq!(run_to_end::<usize>(flow).unwrap(), 13);
/// ```
pub struct Parallel {
    pub(super) branches: Vec<QueuedStep>,
}

impl Parallel {
    /// Adds a branch; it takes no arguments, and its result is dropped: pass results through
    /// the state (FTN12 §2.2.1 `parallel`).
    #[track_caller]
    pub fn add<R, F>(&mut self, body: F) -> Added<'_>
    where
        R: StepReturn,
        F: FnOnce(&mut AsyncSteps, ()) -> R + 'static,
    {
        let body = move |asi: &mut AsyncSteps, _| body(asi, ()).into_result();
        Added::new(self.push(QueuedStep::body(StepLocation::here(), body)))
    }

    /// Adds a branch that is an async closure, see [`AsyncSteps::run`].
    #[track_caller]
    pub fn run<F>(&mut self, body: F) -> Added<'_, (), ()>
    where
        F: AsyncFn(()) -> Result<(), StepError> + 'static,
    {
        Added::new(self.push(Run::step(StepLocation::here(), Plain(body))))
    }

    /// Adds a branch whose step has parallel branches itself, see [`AsyncSteps::parallel`].
    #[track_caller]
    pub fn parallel(&mut self, define: impl FnOnce(&mut Self)) -> Added<'_> {
        Added::new(self.push(QueuedStep::parallel(StepLocation::here(), define)))
    }

    /// Adds a branch that is synchronised against `object`, see [`AsyncSteps::sync`]. The lock
    /// belongs to the branch, not to the flow (FTN12 §1.11.4).
    #[track_caller]
    pub fn sync<O, R, F>(&mut self, object: &O, body: F) -> Added<'_>
    where
        O: ISync + Clone + 'static,
        R: StepReturn,
        F: FnOnce(&mut AsyncSteps, ()) -> R + 'static,
    {
        let body = move |asi: &mut AsyncSteps, _| {
            let end = body(asi, ()).into_result();
            asi.without_result(end)
        };
        Added::new(self.push(QueuedStep::new(StepLocation::here(), Synced::new(object, body))))
    }

    /// Adds a branch that awaits a future, see [`AsyncSteps::await_`].
    #[track_caller]
    pub fn await_<E, Fut>(&mut self, future: Fut) -> Added<'_>
    where
        E: Into<StepError> + 'static, // name it: `Ok::<_, Error>(())`
        Fut: Future<Output: AwaitedResult<(), E>> + 'static,
    {
        Added::new(self.push(QueuedStep::polling(StepLocation::here(), future)))
    }

    /// Adds a branch that is a loop, see [`AsyncSteps::make_loop`].
    #[track_caller]
    pub fn make_loop<R, F>(&mut self, mut body: F) -> AddedLoop<'_>
    where
        R: StepReturn,
        F: FnMut(&mut AsyncSteps) -> R + 'static,
    {
        let items = std::iter::repeat(());
        self.push_loop(StepLocation::here(), items, move |asi, ()| body(asi).into_result())
    }

    /// Adds a branch that runs `count` times, see [`AsyncSteps::repeat`].
    #[track_caller]
    pub fn repeat<R, F>(&mut self, count: usize, mut body: F) -> AddedLoop<'_>
    where
        R: StepReturn,
        F: FnMut(&mut AsyncSteps, usize) -> R + 'static,
    {
        let body = move |asi: &mut AsyncSteps, i| body(asi, i).into_result();
        self.push_loop(StepLocation::here(), 0..count, body)
    }

    /// Adds a branch that goes over a list or map, one entry after the other, see
    /// [`AsyncSteps::for_each`].
    #[track_caller]
    pub fn for_each<C, R, F>(&mut self, collection: C, mut body: F) -> AddedLoop<'_>
    where
        C: Collection,
        R: StepReturn,
        F: FnMut(&mut AsyncSteps, C::Key, C::Value) -> R + 'static,
    {
        let body = move |asi: &mut AsyncSteps, (key, value)| body(asi, key, value).into_result();
        self.push_loop(StepLocation::here(), collection.entries(), body)
    }

    fn push(&mut self, branch: QueuedStep) -> &mut QueuedStep {
        self.branches.push(branch);
        match self.branches.last_mut() {
            Some(branch) => branch,
            None => unreachable!("a branch was just added"),
        }
    }

    fn push_loop<I, F>(&mut self, location: StepLocation, items: I, body: F) -> AddedLoop<'_>
    where
        I: Iterator + 'static,
        F: FnMut(&mut AsyncSteps, I::Item) -> StepResult + 'static,
    {
        AddedLoop(self.push(QueuedStep::looping_over(location, items, body)))
    }
}

impl fmt::Debug for Parallel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parallel({})", self.branches.len())
    }
}
