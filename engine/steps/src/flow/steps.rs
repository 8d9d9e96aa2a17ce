//! What a callback may call: the API of FTN12 §2.2.1, §2.2.2 and §2.2.4.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::time::Duration;

use super::added::{Added, AddedLoop};
use super::branches::Parallel;
use super::collection::Collection;
use super::level::{Entry, Handler, Kind};
use super::{AsyncSteps, Callback, Flow, FlowId, Identity};
use crate::args::{Args, Arguments};
use crate::completion::{Completion, WaitKey};
use crate::error::{Error, ErrorCode, Fault, Info, LoopEnd, Raised, StepResult, StepReturn};
use crate::place::Place;
use crate::state::State;
use crate::sync::ISync;
use crate::template::Template;
use crate::time::Time;

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
        self.push_step(Place::here(), move |asi, args| {
            let args = asi.typed(args)?;
            body(asi, args).into_result()
        })
    }

    /// Adds a step whose sub-steps, the branches, run in parallel.
    ///
    /// It completes without a result when all branches are complete. The first branch error that
    /// the branch does not handle cancels the others (FTN12 §1.4).
    #[track_caller]
    pub fn parallel(&mut self, define: impl FnOnce(&mut Parallel)) -> Added<'_> {
        self.push(Entry::parallel(define, Place::here().location()));
        Added::last(&mut self.strand.pending)
    }

    /// Adds a step that is synchronised against `object` (FTN12 §1.11.3).
    ///
    /// Arguments pass into the critical section and its result passes out. The error handler set
    /// with `on_error` belongs to the section: it runs while the lock is held, and it does not see
    /// a rejection by the object.
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
        self.push(Entry::sync(object, body, Place::here().location()));
        Added::last(&mut self.strand.pending)
    }

    /// Adds a step with this result (FTN12 §1.12).
    #[track_caller]
    pub fn success_step(&mut self, result: impl Arguments) -> Added<'_> {
        self.push_step(Place::here(), move |asi, _| asi.success(result))
    }

    /// Adds a step that polls `future` on the flow's own event loop (FTN12 §1.13).
    ///
    /// `Ok` is the result of the step and `Err` its error: an [`Error`] keeps its code, any other
    /// error becomes `InternalError`. Cancel and timeout drop the future.
    #[track_caller]
    pub fn await_<T, E, Fut>(&mut self, future: Fut) -> Added<'_>
    where
        T: Arguments,
        E: Into<Box<dyn StdError + Send + Sync>> + 'static,
        Fut: Future<Output = Result<T, E>> + 'static,
    {
        self.push(Entry::await_(future, Place::here().location()));
        Added::last(&mut self.strand.pending)
    }

    /// [`await_`](Self::await_) for code that adds a step on behalf of the running one: errors and
    /// stacks show the place and name of the running step instead of the code that adds
    /// (FTN12 §1.13).
    pub fn await_in_place<T, E, Fut>(&mut self, future: Fut) -> Added<'_>
    where
        T: Arguments,
        E: Into<Box<dyn StdError + Send + Sync>> + 'static,
        Fut: Future<Output = Result<T, E>> + 'static,
    {
        let place = self.strand.top.place;
        self.push(Entry::await_(future, place.location()));
        let mut added = Added::last(&mut self.strand.pending);
        if let Some(name) = place.name() {
            added.named(name);
        }
        added
    }

    /// Adds a step that completes without a result after `pause`, counted from its start.
    #[track_caller]
    pub fn sleep(&mut self, pause: Duration) -> Added<'_> {
        self.push_step(Place::here(), move |asi, _| {
            asi.wait_until(asi.now() + pause);
            Ok(())
        })
    }

    /// Appends the steps of a template to this level, and the state variables that the flow does
    /// not have (FTN12 §1.5 `copyFrom`).
    pub fn copy_from(&mut self, model: &Template) {
        self.check_adding();
        self.append_template(model);
    }

    /// Appends the steps of a flow that was not executed to this level, and the state variables that
    /// this flow does not have (FTN12 §1.5 `copyFrom`).
    ///
    /// The flow is taken, because its steps can run once; what runs often is a [`Template`]. What was
    /// [passed](Flow::pass) to it goes to its first step. Its extensions, its observer and its
    /// [canceller](Flow::canceller) belong to the flow that it was, and mean nothing here.
    ///
    /// ```
    /// use asyncsteps::{Flow, run_to_end};
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
        let passed = std::mem::take(&mut asi.strand.args);
        asi.fail_misconfigured();
        self.state.take_missing(std::mem::take(&mut asi.state));
        if !passed.is_empty() {
            self.strand
                .enqueue(Entry::step(|asi, _| asi.success(passed), Place::here().location()));
        }
        asi.strand.pending.drain(..).for_each(|entry| self.strand.enqueue(entry));
    }

    pub(super) fn append_template(&mut self, model: &Template) {
        model.copy_state(&mut self.state);
        if let Some(entry) = model.entry() {
            self.strand.enqueue(entry);
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
        self.push_loop(items, Place::here(), move |asi, ()| body(asi).into_result())
    }

    /// Adds a loop that runs `count` times; the body gets the iteration, from 0
    /// (FTN12 §2.2.4 `repeat`).
    #[track_caller]
    pub fn repeat<R, F>(&mut self, count: usize, mut body: F) -> AddedLoop<'_>
    where
        R: StepReturn,
        F: FnMut(&mut Self, usize) -> R + 'static,
    {
        self.push_loop(0..count, Place::here(), move |asi, i| body(asi, i).into_result())
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
        let items = collection.entries();
        self.push_loop(items, Place::here(), move |asi, (key, value)| {
            body(asi, key, value).into_result()
        })
    }

    /// The state variables of the flow, shared by all levels and branches.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state variables, to change them.
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// `error_info` of FTN12 §1.7: the information of the last error, also after recovery.
    #[must_use]
    pub fn error_info(&self) -> Option<&str> {
        self.last_error.as_ref()?.info()
    }

    /// `last_exception` of FTN12 §1.7: the last error with what caused it.
    #[must_use]
    pub fn last_exception(&self) -> Option<&Error> {
        self.last_error.as_ref()
    }

    /// Hangs a value on the flow that its steps find by its type (FTN12 §1, "derived classes");
    /// it replaces one of the same type.
    pub fn extend<T: 'static>(&mut self, value: T) {
        self.more().extensions.set(value);
    }

    /// A value hung on the flow with [`Flow::extend`].
    #[must_use]
    pub fn extension<T: 'static>(&self) -> Option<&T> {
        self.more.as_ref()?.extensions.get()
    }

    /// A value hung on the flow with [`Flow::extend`], to change it.
    #[must_use]
    pub fn extension_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.more.as_mut()?.extensions.get_mut()
    }

    /// A new flow with its own state (FTN12 §2.2.1 `newInstance`); see [`launch`](Self::launch).
    pub fn new_instance(&self) -> Flow {
        Flow::new()
    }

    /// Has the host execute a flow on the same event loop, independent of this one
    /// (FTN12 §2.2.1 `newInstance`): it has its own state and time, and goes on when this one has
    /// ended or was cancelled. A cancel handler can launch what takes steps to undo.
    pub fn launch(&mut self, flow: Flow) {
        self.more().launched.push(flow);
    }

    /// Whether the interface can be used: always, where types forbid any other use
    /// (FTN12 §2.2.1 boolean cast).
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.callback != Callback::None
    }

    /// Whether the running callback has failed already: `Err` after `error`, the end of a loop or
    /// a broken rule (FTN12 §2.1).
    ///
    /// Generic code ends its callback with it where others would get an exception: `asi.check()?`.
    ///
    /// # Errors
    /// What the callback raised; it is recorded, so returning it or not makes no difference.
    pub fn check(&self) -> StepResult {
        if self.raised.is_some() { Err(Raised::RECORDED) } else { Ok(()) }
    }

    /// The error that the running callback raised, for generic code that has to report it; `None`
    /// also for the end of a loop.
    #[must_use]
    pub fn raised(&self) -> Option<&Error> {
        match self.raised.as_ref()? {
            Fault::Error(error) => Some(error),
            Fault::Loop(_) => None,
        }
    }

    /// Names the flow in logs and locks.
    #[must_use]
    pub fn flow_id(&mut self) -> FlowId {
        *self.id.get_or_insert_with(FlowId::next)
    }

    /// Whom a lock taken by the running step belongs to (FTN12 §1.11.4).
    #[must_use]
    pub fn identity(&mut self) -> Identity {
        Identity { flow: self.flow_id(), branch: self.strand.branch }
    }

    /// The host's time at the beginning of this turn.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }
}

/// Execution API: completing the running step (FTN12 §2.2.2).
impl AsyncSteps {
    /// Completes the step with a result: the arguments of the next step.
    ///
    /// # Errors
    /// Records `InternalError` if the step has sub-steps, was completed before, or is the step of
    /// a parallel branch and the result is not empty.
    pub fn success(&mut self, result: impl Arguments) -> StepResult {
        if self.raised.is_some() {
            return Err(Raised::RECORDED);
        }
        match self.callback {
            Callback::Body | Callback::ErrorHandler => {}
            Callback::CancelHandler => return self.violation("success in a cancel handler"),
            Callback::None => return self.violation("success outside of a callback"),
        }
        if self.completed {
            return self.violation("success was called twice");
        }
        if self.strand.pending.len() > self.strand.top.base() {
            return self.violation("success after adding sub-steps");
        }
        let result = result.into_args();
        if let Err(error) = self.check_result(&result) {
            self.raised = Some(Fault::Error(error));
            return Err(Raised::RECORDED);
        }
        self.strand.args = result;
        self.completed = true;
        Ok(())
    }

    /// Fails the step with a code and information for people; pass `()` for none.
    ///
    /// # Errors
    /// Always: return it, or not; the step fails either way, with the first error of several.
    pub fn error(&mut self, code: impl Into<ErrorCode>, info: impl Into<Info>) -> StepResult {
        if self.raised.is_some() {
            return Err(Raised::RECORDED);
        }
        if self.completed {
            return self.violation("error after success");
        }
        if self.strand.pending.len() > self.strand.top.base() {
            return self.violation("error after adding sub-steps");
        }
        let error = Error::raised(code.into(), info.into(), self.strand.top.place);
        self.raised = Some(Fault::Error(error));
        Err(Raised::RECORDED)
    }

    /// Limits the time of this step with all its sub-steps: after that `Timeout` is raised in the
    /// innermost running step. A later call replaces an earlier one. Any duration from zero up.
    ///
    /// A handler around turns it into an error of the interface, if callers are to see one.
    pub fn set_timeout(&mut self, limit: Duration) {
        if self.may_wait("set_timeout") {
            self.arm_limit(limit);
        }
    }

    /// Sets what to do when the step ends in any way but success: error, timeout, failure of a
    /// sibling branch, cancel (FTN12 §1.3). A later call replaces an earlier one.
    ///
    /// The handler can add no steps: what takes steps is [launched](Self::launch).
    pub fn set_cancel<R, F>(&mut self, handler: F)
    where
        R: StepReturn,
        F: FnOnce(&mut Self) -> R + 'static,
    {
        if self.may_wait("set_cancel") {
            self.strand.top.rare().cancel = Some(Box::new(move |asi| handler(asi).into_result()));
        }
    }

    /// Makes the step wait for something outside instead of completing when its body returns;
    /// the handle completes it (FTN12 §1.6 `waitExternal`).
    ///
    /// If the last clone of the handle is dropped, inside of the body or later, the step fails with
    /// `InternalError`; see [`wait_only`](Self::wait_only).
    pub fn wait_external(&mut self) -> Completion {
        self.may_wait("wait_external");
        self.completion()
    }

    /// Makes the step wait without a handle: until its time limit or a cancel ends it, or a handle
    /// that [`completion`](Self::completion) gives later in the same body completes it
    /// (FTN12 §1.6 `waitExternal`).
    pub fn wait_only(&mut self) {
        self.may_wait("wait_only");
    }

    /// Makes the step wait until `at`, then completes it without a result.
    ///
    /// Something else may complete the step earlier. A step with sub-steps completes with them. A
    /// later call replaces an earlier one; a point in the past is the next turn.
    pub fn wait_until(&mut self, at: Time) {
        if self.may_wait("wait_until") {
            self.arm_wake_up(at);
        }
    }

    /// A handle that completes this step from outside while it waits, for whatever reason it does.
    ///
    /// Other than [`wait_external`](Self::wait_external) it does not make the step wait: a
    /// timeout or a cancel handler does that too.
    pub fn completion(&mut self) -> Completion {
        match self.wait_key(1) {
            (key, true) => Completion::counted(self.inbox(), key),
            (key, false) => Completion::new(self.inbox(), key),
        }
    }

    /// Ends the flow's turn after this callback, so that others on the event loop can run.
    pub fn relinquish(&mut self) {
        self.burst = 0;
    }

    /// Leaves a loop: the innermost one for `None`, else the nearest with this label
    /// (FTN12 §2.2.4 `break`).
    ///
    /// # Errors
    /// Always; `InternalError` if there is no such loop.
    pub fn break_loop<'a>(&mut self, label: impl Into<Option<&'a str>>) -> StepResult {
        self.end_iteration(false, label.into())
    }

    /// Goes on with the next iteration of a loop: the innermost one for `None`, else the nearest
    /// with this label (FTN12 §2.2.4 `continue`).
    ///
    /// # Errors
    /// Always; `InternalError` if there is no such loop.
    pub fn continue_loop<'a>(&mut self, label: impl Into<Option<&'a str>>) -> StepResult {
        self.end_iteration(true, label.into())
    }

    fn end_iteration(&mut self, again: bool, label: Option<&str>) -> StepResult {
        if self.raised.is_some() {
            return Err(Raised::RECORDED);
        }
        if self.completed {
            return self.violation("the end of a loop after success");
        }
        let label = label.map(|label| Cow::Owned(label.to_owned()));
        self.raised = Some(Fault::Loop(Box::new(LoopEnd { again, label })));
        Err(Raised::RECORDED)
    }
}

impl AsyncSteps {
    /// The arguments in the types that the step declares.
    pub(crate) fn typed<A: Arguments>(&self, args: Args) -> Result<A, Raised> {
        A::from_args(args)
            .map_err(|mismatch| Raised::error(Error::violation(mismatch, self.strand.top.place)))
    }

    pub(crate) fn place(&self) -> Place {
        self.strand.top.place
    }

    /// Takes the error handler of the running step away from it.
    pub(crate) fn take_own_handler(&mut self) -> Option<Handler> {
        self.strand.top.handler.take()
    }

    pub(crate) fn set_own_handler(&mut self, handler: Handler) {
        self.strand.top.handler = Some(handler);
    }

    /// A rule was broken while the flow was being configured: all it does is to fail.
    pub(super) fn fail_misconfigured(&mut self) {
        if let Some(fault) = self.raised.take() {
            self.strand.pending.clear();
            self.push_step(Place::here(), |_, _| Err(Raised(Some(fault))));
        }
    }

    /// What the running step does beside waiting for sub-steps.
    pub(crate) fn become_kind(&mut self, kind: Kind) {
        self.strand.top.kind = kind;
    }

    pub(crate) fn push_step(
        &mut self,
        place: Place,
        body: impl FnOnce(&mut Self, Args) -> StepResult + 'static,
    ) -> Added<'_> {
        self.push(Entry::step(body, place.location()));
        Added::last(&mut self.strand.pending)
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        self.check_adding();
        self.strand.enqueue(entry);
    }

    fn push_loop<I, F>(&mut self, items: I, place: Place, body: F) -> AddedLoop<'_>
    where
        I: Iterator + 'static,
        F: FnMut(&mut Self, I::Item) -> StepResult + 'static,
    {
        self.push(Entry::looped(items, body, place.location()));
        AddedLoop::last(&mut self.strand.pending)
    }

    fn check_adding(&mut self) {
        if self.completed {
            let _ = self.violation("adding a sub-step after success");
        } else if self.callback == Callback::CancelHandler {
            let _ = self.violation("adding a step in a cancel handler");
        }
    }

    /// A branch of a parallel step has no result (FTN12 §2.2.1 `parallel`).
    pub(super) fn check_result(&self, result: &Args) -> Result<(), Error> {
        if self.strand.is_branch_step() && !result.is_empty() {
            let rule = "success with arguments in the step of a parallel branch";
            return Err(Error::violation(rule, self.strand.top.place));
        }
        Ok(())
    }

    /// The end of a body that is the section of a branch: it has no result either, whether or not it
    /// had to wait to be entered.
    pub(crate) fn without_result(&mut self, end: StepResult) -> StepResult {
        if self.completed && !self.strand.args.is_empty() {
            return self.violation("success with arguments in the step of a parallel branch");
        }
        end
    }

    fn may_wait(&mut self, what: &str) -> bool {
        if self.callback == Callback::Body {
            self.strand.top.flags.waits = true;
            return true;
        }
        let error = Error::violation(
            format_args!("{what} outside of a step body (add a step instead)"),
            self.strand.top.place,
        );
        self.raised.get_or_insert(Fault::Error(error));
        false
    }

    /// How external events name the running step, and whether that is a new name, which counts so
    /// many handles.
    pub(super) fn wait_key(&mut self, handles: u32) -> (WaitKey, bool) {
        if let Some(key) = self.strand.top.wait {
            return (key, false);
        }
        let strand = self.active();
        let key = self.inbox().open(strand, handles);
        self.strand.top.wait = Some(key);
        (key, true)
    }

    #[cold]
    fn violation(&mut self, rule: &str) -> StepResult {
        let error = Error::violation(rule, self.strand.top.place);
        self.raised.get_or_insert(Fault::Error(error));
        Err(Raised::RECORDED)
    }
}
