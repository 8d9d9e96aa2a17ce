//! Adding steps (FTN12 §2.2.1) and loops (§2.2.4).

use std::mem;
use std::time::Duration;

use super::added::{Added, AddedLoop};
use super::collection::Collection;
use super::parallel::Parallel;
use super::run::{Plain, Run, RunContext, WithContext};
use crate::args::Arguments;
use crate::error::{AwaitedResult, Error, StepError, StepResult, StepReturn};
use crate::flow::Flow;
use crate::location::StepLocation;
use crate::stack::{AsyncSteps, QueueItem, QueuedStep, TemplateRange};
use crate::sync::{ISync, Synced};
use crate::template::Template;

/// Common API: adding steps (FTN12 §2.2.1).
///
/// In a step body the steps become its sub-steps; in an error handler they replace the failed
/// step at its own level, which recovers it (FTN12 §1.2.1).
impl AsyncSteps {
    /// Adds a step; steps run in the order added, after the callback returned.
    ///
    /// `body` takes the result of the step before it: `()`, one value, or a tuple of up to four.
    #[track_caller]
    pub fn add<A, R, F>(&mut self, body: F) -> Added<'_>
    where
        A: Arguments,
        R: StepReturn,
        F: FnOnce(&mut Self, A) -> R + 'static,
    {
        self.add_step(QueuedStep::body(StepLocation::here(), move |asi, args| {
            let args = asi.typed(args)?;
            body(asi, args).into_result()
        }))
    }

    /// Adds a step that is shown at the location of the running step: for libraries, whose own lines
    /// say nothing to their users. Otherwise it is like [`add`](Self::add).
    pub fn add_inner<A, R, F>(&mut self, body: F) -> Added<'_>
    where
        A: Arguments,
        R: StepReturn,
        F: FnOnce(&mut Self, A) -> R + 'static,
    {
        self.add_step(QueuedStep::body(self.location(), move |asi, args| {
            let args = asi.typed(args)?;
            body(asi, args).into_result()
        }))
    }

    /// Adds a step whose sub-steps, the branches, run in parallel.
    ///
    /// It completes without a result when all branches are complete. The first branch error that
    /// the branch does not handle cancels the others (FTN12 §1.4).
    #[track_caller]
    pub fn parallel(&mut self, define: impl FnOnce(&mut Parallel)) -> Added<'_> {
        self.add_step(QueuedStep::parallel(StepLocation::here(), define))
    }

    /// Adds a step that is synchronised against `object` (FTN12 §1.11.3).
    ///
    /// Arguments pass into the critical section and its result passes out. The error handler set
    /// with `on_error` belongs to the section: it runs while the lock is held, and it does not see
    /// a rejection by the object.
    #[inline]
    #[track_caller]
    pub fn sync<O, A, R, F>(&mut self, object: &O, body: F) -> Added<'_>
    where
        O: ISync + Clone + 'static,
        A: Arguments,
        R: StepReturn,
        F: FnOnce(&mut Self, A) -> R + 'static,
    {
        let body = move |asi: &mut Self, args| {
            let args = asi.typed(args)?;
            body(asi, args).into_result()
        };
        self.add_step(QueuedStep::new(StepLocation::here(), Synced::new(object, body)))
    }

    /// Adds a step with this result (FTN12 §1.12).
    #[track_caller]
    pub fn success_step(&mut self, result: impl Arguments) -> Added<'_> {
        self.add_step(QueuedStep::body(StepLocation::here(), move |asi, _| asi.success(result)))
    }

    /// Adds a step that is an async closure; its future is polled in place (FTN12 §1.13).
    ///
    /// `body` takes the result of the step before it: `()`, one value, or a tuple of up to four. The
    /// flow keeps the closure as long as the future, so captured values can be borrowed there.
    ///
    /// In the body `?` takes any error, as in other callbacks: an [`Error`] keeps its code, any other
    /// one becomes `InternalError`. A time limit, an error of another branch and a cancel drop the
    /// future.
    ///
    /// ```
    /// use asyncsteps_core::{Flow, run_to_end};
    ///
    /// let greeting = String::from("Hello");
    /// let mut flow = Flow::new();
    /// flow.run(async |()| Ok("4".parse::<usize>()?));
    /// flow.run(async move |length: usize| Ok(greeting[..length].to_owned()));
    /// assert_eq!(run_to_end::<String>(flow).unwrap(), "Hell");
    /// ```
    #[track_caller]
    pub fn run<A, T, F>(&mut self, body: F) -> Added<'_, A, T>
    where
        A: Arguments,
        T: Arguments,
        F: AsyncFn(A) -> Result<T, StepError> + 'static,
    {
        self.queue(Run::step(StepLocation::here(), Plain(body)));
        Added::new(self.strand.last_added())
    }

    /// [`run`](Self::run) with a body that also takes the [`RunContext`]: which attempt it is.
    #[track_caller]
    pub fn run_with<A, T, F>(&mut self, body: F) -> Added<'_, A, T>
    where
        A: Arguments,
        T: Arguments,
        F: AsyncFn(RunContext, A) -> Result<T, StepError> + 'static,
    {
        self.queue(Run::step(StepLocation::here(), WithContext(body)));
        Added::new(self.strand.last_added())
    }

    /// Adds a step whose normal end is final: the steps inside are not undone any more when a later
    /// step fails, see [`Added::undo`]. Its abnormal end is like that of any step (FTN12 §1.2).
    ///
    /// An endless loop has one around each iteration: otherwise it would remember all that it has
    /// ever done.
    #[track_caller]
    pub fn scope<A, R, F>(&mut self, body: F) -> Added<'_>
    where
        A: Arguments,
        R: StepReturn,
        F: FnOnce(&mut Self, A) -> R + 'static,
    {
        self.add_step(QueuedStep::body(StepLocation::here(), move |asi, args| {
            asi.begin_scope();
            let args = asi.typed(args)?;
            body(asi, args).into_result()
        }))
    }

    /// Makes the normal end of the running step final.
    pub(crate) fn begin_scope(&mut self) {
        self.extras().is_scope = true;
    }

    /// Adds a step that fails with this error (FTN12 §2.2.2 `error`): for an error handler that adds
    /// steps and raises the error again after them.
    #[track_caller]
    pub fn error_step(&mut self, error: Error) -> Added<'_> {
        let fail = move |_: &mut Self, _| Err(StepError::error(error));
        self.add_step(QueuedStep::body(StepLocation::here(), fail))
    }

    /// Adds a step that polls `future` on the flow's own event loop (FTN12 §1.13).
    ///
    /// `Ok` is the result of the step and `Err` its error: an [`Error`] keeps its
    /// code, any other error becomes `InternalError`. Cancel and timeout drop the future.
    #[track_caller]
    pub fn await_<T, E, Fut>(&mut self, future: Fut) -> Added<'_>
    where
        T: Arguments,
        E: Into<StepError> + 'static, // name it: `Ok::<_, Error>(value)`
        Fut: Future<Output: AwaitedResult<T, E>> + 'static,
    {
        self.add_step(QueuedStep::polling(StepLocation::here(), future))
    }

    /// [`await_`](Self::await_) for code that adds a step on behalf of the running step: errors
    /// and stacks show the location and name of the running step instead of the code that adds
    /// (FTN12 §1.13).
    pub fn await_in_place<T, E, Fut>(&mut self, future: Fut) -> Added<'_>
    where
        T: Arguments,
        E: Into<StepError> + 'static, // name it: `Ok::<_, Error>(value)`
        Fut: Future<Output: AwaitedResult<T, E>> + 'static,
    {
        self.add_step(QueuedStep::polling(self.location(), future))
    }

    /// Adds a step that completes without a result after `pause`, counted from its start.
    #[track_caller]
    pub fn sleep(&mut self, pause: Duration) -> Added<'_> {
        self.add_step(QueuedStep::body(StepLocation::here(), move |asi, _| {
            asi.wait_until(asi.now() + pause);
            Ok(())
        }))
    }

    /// Appends the steps of a template to this level, and the state variables that the flow does
    /// not have (FTN12 §1.5 `copyFrom`).
    pub fn copy_from(&mut self, model: &Template) {
        self.check_adding();
        self.append_template(model);
    }

    /// Appends the steps of a flow that was not executed to this level, and the state variables
    /// that this flow does not have (FTN12 §1.5 `copyFrom`).
    ///
    /// The flow is taken, because its steps can run once; for repeated runs there is [`Template`].
    /// The arguments [passed](Flow::pass) to it go to its first step. Its extensions, its observer
    /// and its [canceller](Flow::canceller) are dropped with it.
    ///
    /// ```
    /// use asyncsteps_core::{Flow, run_to_end};
    ///
    /// let mut greet = Flow::new();
    /// greet.add(|asi, name: String| asi.success(format!("Hello, {name}!")));
    /// let mut flow = Flow::new();
    /// flow.success_step("Ada");
    /// flow.append(greet);
    /// assert_eq!(run_to_end::<String>(flow).unwrap(), "Hello, Ada!");
    /// ```
    #[track_caller]
    pub fn append(&mut self, flow: Flow) {
        self.check_adding();
        let Flow { mut asi } = flow;
        let passed = mem::take(&mut asi.strand.args);
        asi.fail_if_misconfigured();
        self.state.take_missing(mem::take(&mut asi.state));
        if !passed.is_empty() {
            let location = StepLocation::here();
            let pass = QueuedStep::body(location, |asi, _| asi.success(passed));
            self.strand.enqueue(pass.into());
        }
        asi.strand.pending.drain(..).for_each(|queued| self.strand.enqueue(queued));
    }

    pub(crate) fn append_template(&mut self, model: &Template) {
        model.copy_state(&mut self.state);
        if !model.steps.is_empty() {
            self.strand.enqueue(QueueItem::Template(TemplateRange::all(&model.steps)));
        }
    }

    /// Adds a loop that ends with [`break_loop`](Self::break_loop) (FTN12 §2.2.4 `loop`).
    #[track_caller]
    pub fn make_loop<R, F>(&mut self, mut body: F) -> AddedLoop<'_>
    where
        R: StepReturn,
        F: FnMut(&mut Self) -> R + 'static,
    {
        let items = std::iter::repeat(());
        self.add_loop(StepLocation::here(), items, move |asi, ()| body(asi).into_result())
    }

    /// Adds a loop that runs `count` times; the body gets the iteration, from 0
    /// (FTN12 §2.2.4 `repeat`).
    #[track_caller]
    pub fn repeat<R, F>(&mut self, count: usize, mut body: F) -> AddedLoop<'_>
    where
        R: StepReturn,
        F: FnMut(&mut Self, usize) -> R + 'static,
    {
        let body = move |asi: &mut Self, i| body(asi, i).into_result();
        self.add_loop(StepLocation::here(), 0..count, body)
    }

    /// Adds a loop over a list or map; the body gets index and value, or key and value
    /// (FTN12 §2.2.4 `forEach`). The loop owns the collection.
    #[track_caller]
    pub fn for_each<C, R, F>(&mut self, collection: C, mut body: F) -> AddedLoop<'_>
    where
        C: Collection,
        R: StepReturn,
        F: FnMut(&mut Self, C::Key, C::Value) -> R + 'static,
    {
        let body = move |asi: &mut Self, (key, value)| body(asi, key, value).into_result();
        self.add_loop(StepLocation::here(), collection.entries(), body)
    }

    fn add_step(&mut self, step: QueuedStep) -> Added<'_> {
        self.queue(step);
        Added::new(self.strand.last_added())
    }

    fn add_loop<I, F>(&mut self, location: StepLocation, items: I, body: F) -> AddedLoop<'_>
    where
        I: Iterator + 'static,
        F: FnMut(&mut Self, I::Item) -> StepResult + 'static,
    {
        self.queue(QueuedStep::looping_over(location, items, body));
        AddedLoop(self.strand.last_added())
    }

    /// Adds a step that was made elsewhere.
    #[inline]
    pub(crate) fn queue(&mut self, step: QueuedStep) {
        self.check_adding();
        self.strand.enqueue(step.into());
    }
}
