//! The task of a flow, and who waits for its end.

use std::cell::RefCell;
use std::error::Error as _;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use asyncsteps::{Canceller, Error, Execution, Flow, Outcome, Progress, Time, codes};
use tokio::task::JoinHandle;
use tracing::Span;

use super::{Stack, deadline, site, spawn_flow};
use crate::clock;
use crate::span;
use crate::timer::Timer;

/// Who waits for the end of a flow, and may end it early.
pub trait Owner: Unpin + 'static {
    /// Whether the owner counts the flow at its site itself.
    const COUNTS: bool = false;

    /// Ready if nobody wants the result any more, else `cx` is woken when that happens.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// When the owner stops waiting.
    fn deadline(&self) -> Option<Time>;

    /// What the work of the flow belongs to.
    fn span(&self) -> Option<&Span>;

    /// The flow ended; called once. What it gives is kept for the handle of the flow.
    fn ended(&mut self, execution: &mut Execution, end: End) -> Option<Outcome>;
}

/// How a hosted flow ended.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "an owner has to know all of them")]
pub enum End {
    /// The flow ended by itself.
    Flow(Outcome),
    /// The owner's deadline passed; where the flow was then.
    Expired(Stack),
    /// The owner or the arbiter is gone, or the flow was cancelled.
    Gone,
}

impl End {
    /// What those who only know flows see of it.
    pub fn into_outcome(self) -> Outcome {
        match self {
            Self::Flow(outcome) => outcome,
            Self::Expired(stack) => {
                tracing::warn!(stack = stack.one_line(), "the deadline of a flow passed");
                let error = Error::with_info(codes::TIMEOUT, "the deadline of the flow passed");
                Outcome::Error(error)
            }
            Self::Gone => Outcome::Cancelled,
        }
    }
}

/// A flow that somebody started.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "there is nothing between")]
pub enum Hosted {
    /// In its first turn.
    Ended(Option<Outcome>),
    /// It goes on as a task.
    Task(Rc<RefCell<Stage>>, JoinHandle<()>, Canceller),
}

/// A flow that its task and its handle share; borrowed while the flow runs or ends.
#[expect(clippy::large_enum_variant, reason = "one allocation instead of two")]
#[expect(unnameable_types, reason = "only its handle looks into it")]
#[derive(Debug)]
pub enum Stage {
    Running(Execution),
    Ended(Option<Outcome>),
}

/// Drives a flow. With an owner of eight bytes it fits into the smallest task of tokio.
struct Task<O: Owner> {
    stage: Rc<RefCell<Stage>>,
    /// Set to the next deadline of the flow or its owner while the flow waits.
    timer: Timer,
    ended: bool,
    owner: O,
}

/// Runs the first turn of a flow here and now; makes it a task if it has to go on later.
pub fn host<O: Owner>(flow: Flow, mut owner: O) -> Hosted {
    let mut execution = flow.execute();
    let end = match turn(&mut execution, &owner, Waker::noop()) {
        Ok(Progress::Done(outcome)) => End::Flow(outcome),
        Ok(Progress::Waiting | Progress::Ready) => return spawn(execution, owner),
        Err(end) => end,
    };
    let outcome = finish(&mut execution, &mut owner, end);
    discard(|| drop(execution));
    Hosted::Ended(outcome)
}

/// Makes a flow a task before its first turn.
pub(crate) fn host_later<O: Owner>(flow: Flow, owner: O) -> Hosted {
    spawn(flow.execute(), owner)
}

fn spawn<O: Owner>(mut execution: Execution, owner: O) -> Hosted {
    if !O::COUNTS {
        site::entered();
    }
    let canceller = execution.canceller();
    let stage = Rc::new(RefCell::new(Stage::Running(execution)));
    let (timer, shared) = (Timer::default(), Rc::clone(&stage));
    let task = Task { stage: shared, timer, ended: false, owner };
    Hosted::Task(stage, actix_rt::spawn(task), canceller)
}

/// One turn of a flow and the start of what it launched, unless its deadline has passed.
///
/// A panic outside of the callbacks, in a destructor for example, ends the flow and not the arbiter.
fn turn<O: Owner>(execution: &mut Execution, owner: &O, waker: &Waker) -> Result<Progress, End> {
    let now = clock::now();
    let limit = owner.deadline();
    if limit.is_some_and(|limit| limit <= now) {
        return Err(End::Expired(Stack::of_execution(execution)));
    }
    let _entered = owner.span().map(Span::enter);
    let _scope = deadline::enter(limit);
    let progress = catch_unwind(AssertUnwindSafe(|| execution.run(now, waker)));
    serve(execution);
    match progress {
        Ok(Progress::Done(Outcome::Cancelled)) => Err(End::Gone),
        Ok(progress) => Ok(progress),
        Err(payload) => {
            let_go("a flow panicked outside of its callbacks", payload);
            let info = "panic outside of the callbacks of the flow";
            Err(End::Flow(Outcome::Error(Error::with_info(codes::INTERNAL_ERROR, info))))
        }
    }
}

/// Reports what the callbacks of a flow did that nothing else tells, and starts what they launched.
fn serve(execution: &mut Execution) {
    for error in execution.take_unseen() {
        let place = error.place().map(tracing::field::display);
        match error.panic_message() {
            Some(panic) => tracing::error!(panic, place, "a step panicked"),
            None => {
                let cause = error.source().map(tracing::field::display);
                tracing::error!(%error, cause, place, "a cancel handler failed");
            }
        }
    }
    let launched = execution.take_launched();
    if launched.is_empty() {
        return;
    }
    // a flow of its own: it has no deadline of this one, and a span that leaves this one's to end
    let _scope = deadline::enter(None);
    let span = span::launched_span(&Span::current());
    let _entered = span.enter();
    for flow in launched {
        // not here and now: a flow may launch its successor for ever
        spawn_flow::<()>(flow).detach();
    }
}

/// Cancels the flow unless it ended by itself, and tells the owner.
fn finish<O: Owner>(execution: &mut Execution, owner: &mut O, end: End) -> Option<Outcome> {
    let span = owner.span().cloned();
    let _entered = span.as_ref().map(Span::enter);
    let _scope = deadline::enter(owner.deadline());
    if !matches!(end, End::Flow(_)) {
        let cancelled = catch_unwind(AssertUnwindSafe(|| {
            execution.cancel();
            serve(execution);
        }));
        cancelled.unwrap_or_else(|payload| let_go("a flow panicked when cancelled", payload));
    }
    owner.ended(execution, end)
}

/// Cancels a flow here and now, unless it is running; its owner is not told how it ended.
#[cfg(feature = "ffi")]
pub(crate) fn cancel_now(stage: &RefCell<Stage>) {
    let Ok(mut running) = stage.try_borrow_mut() else { return };
    let ended = mem::replace(&mut *running, Stage::Ended(None));
    // its handlers may ask about it
    drop(running);
    // a flow that is dropped is cancelled
    discard(|| drop(ended));
}

/// Drops what a flow owned; its destructors are not ours.
fn discard(drops: impl FnOnce()) {
    let dropped = catch_unwind(AssertUnwindSafe(drops));
    dropped.unwrap_or_else(|payload| let_go("a flow panicked when dropped", payload));
}

#[cold]
fn let_go(what: &str, payload: Box<dyn std::any::Any + Send>) {
    tracing::error!("{what}");
    drop(payload);
}

impl<O: Owner> Future for Task<O> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        match this.advance(cx) {
            Some(end) => {
                this.end(end);
                Poll::Ready(())
            }
            None => Poll::Pending,
        }
    }
}

impl<O: Owner> Task<O> {
    /// Runs the flow as far as it goes now; gives its end.
    fn advance(&mut self, cx: &mut Context<'_>) -> Option<End> {
        if self.owner.poll_gone(cx).is_ready() {
            return Some(End::Gone);
        }
        let mut stage = self.stage.borrow_mut();
        let Stage::Running(execution) = &mut *stage else { return Some(End::Gone) };
        match turn(execution, &self.owner, cx.waker()) {
            Ok(Progress::Done(outcome)) => Some(End::Flow(outcome)),
            // others on this arbiter get their turn first
            Ok(Progress::Ready) => {
                cx.waker().wake_by_ref();
                None
            }
            Ok(Progress::Waiting) => {
                let deadlines = [execution.deadline(), self.owner.deadline()];
                self.timer.set(deadlines.into_iter().flatten().min(), cx.waker());
                None
            }
            Err(end) => Some(end),
        }
    }

    fn end(&mut self, end: End) {
        if mem::replace(&mut self.ended, true) {
            return;
        }
        if !O::COUNTS {
            site::left(matches!(end, End::Flow(_)));
        }
        let mut stage = self.stage.borrow_mut();
        if let Stage::Running(execution) = &mut *stage {
            let outcome = finish(execution, &mut self.owner, end);
            discard(|| *stage = Stage::Ended(outcome));
        }
    }
}

impl<O: Owner> Drop for Task<O> {
    /// The task was cancelled, or the arbiter ends: so is the flow, and its locks are released.
    fn drop(&mut self) {
        self.end(End::Gone);
    }
}
