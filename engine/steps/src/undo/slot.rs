//! What became of a body that can be undone, and the value that it gave.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::marker::PhantomData;
use std::mem;
use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::contained::Contained;
use super::flow::Unreported;
use super::policy::UndoPolicy;
use crate::args::{Args, Arguments};
use crate::error::{Error, StepError, StepResult};
use crate::flow::Identity;
use crate::outcome::Undo;
use crate::plan::UndoPlan;
use crate::replay::NotUndone;
use crate::retry::Retry;
use crate::stack::{AsyncSteps, Repeat, StepFuture, UndoWork, Undoable, Waking};

/// The undo of a step that gives `T`; `P` is a pointer to its closure.
pub(crate) struct UndoOf<P, T> {
    body: P,
    policy: UndoPolicy,
    result: PhantomData<fn() -> T>,
}

impl<P, T> UndoOf<P, T> {
    pub(crate) fn new(body: P, policy: UndoPolicy) -> Self {
        Self { body, policy, result: PhantomData }
    }
}

impl<P, F, T> UndoPlan for UndoOf<P, T>
where
    P: Deref<Target = F> + Clone + 'static,
    F: AsyncFn(Undo<&T>) -> Result<(), StepError> + 'static,
    T: Arguments + Clone,
{
    fn entry(&self) -> Rc<dyn Undoable> {
        Rc::new(Slot {
            body: self.body.clone(),
            policy: self.policy.clone(),
            outcome: RefCell::new(Outcome::Nothing),
            was_cut: Cell::new(false),
        })
    }
}

/// The undo of a step that started.
struct Slot<P, T> {
    body: P,
    policy: UndoPolicy,
    outcome: RefCell<Outcome<T>>,
    /// The outcome of an attempt of the body is unknown, so that a failure of a later one says little.
    was_cut: Cell<bool>,
}

enum Outcome<T> {
    /// The body has not begun, or failed by itself.
    Nothing,
    Unknown,
    Done(T),
}

impl<P, F, T> Undoable for Slot<P, T>
where
    P: Deref<Target = F> + Clone + 'static,
    F: AsyncFn(Undo<&T>) -> Result<(), StepError> + 'static,
    T: Arguments + Clone,
{
    fn begin(&self) {
        self.outcome.replace(Outcome::Unknown);
    }

    fn complete(&self, result: Args) -> Args {
        match T::from_args(result) {
            Ok(value) => {
                self.outcome.replace(Outcome::Done(value.clone()));
                value.into_args()
            }
            Err(_) => unreachable!("the body gives the type that its undo takes"),
        }
    }

    fn fail(&self) {
        if !self.was_cut.get() {
            self.outcome.replace(Outcome::Nothing);
        }
    }

    fn cut(&self) {
        self.was_cut.set(true);
    }

    fn is_needed(&self) -> bool {
        !matches!(*self.outcome.borrow(), Outcome::Nothing)
    }

    fn take(&self, branch: Identity) -> Option<(bool, UndoWork)> {
        let value = match mem::replace(&mut *self.outcome.borrow_mut(), Outcome::Nothing) {
            Outcome::Nothing => return None,
            Outcome::Unknown => None,
            Outcome::Done(value) => Some(value),
        };
        let is_done = value.is_some();
        let (body, value) = (Contained::new(self.body.clone()), Contained::new(value));
        let body: Rc<dyn Repeat> = Rc::new(UndoRun { body, value, branch });
        let UndoPolicy { timeout, retry } = self.policy.clone();
        Some((is_done, UndoWork { body, timeout, retry }))
    }
}

/// An undo that runs, as often as it is tried.
struct UndoRun<P, T> {
    body: Contained<P>,
    value: Contained<Option<T>>,
    /// The branch whose step it undoes.
    branch: Identity,
}

impl<P, F, T> Repeat for UndoRun<P, T>
where
    P: Deref<Target = F> + Clone + 'static,
    F: AsyncFn(Undo<&T>) -> Result<(), StepError> + 'static,
    T: Arguments,
{
    fn start(self: Rc<Self>, asi: &mut AsyncSteps, _: Args, _: Waking<'_>) -> StepResult {
        let branch = self.branch;
        let undo = async move {
            let outcome = self.value.as_ref().map_or(Undo::Unknown, Undo::Done);
            match (**self.body)(outcome).await.map_err(StepError::into_error) {
                Ok(()) => Ok(Args::none()),
                Err(error) if error.find::<NotUndone>().is_some() => Ok(Unreported.into_args()),
                Err(error) => Err(error),
            }
        };
        let mut undo = Contained::new(Box::pin(undo));
        asi.poll(poll_fn(move |cx| branch.undone_by(|| undo.as_mut().poll(cx))));
        Ok(())
    }
}

/// The future of a body that can be undone: it tells the entry what becomes of it.
pub(crate) struct Watched {
    future: StepFuture,
    entry: Rc<dyn Undoable>,
    /// How the body is tried again.
    retry: Option<Retry>,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    New,
    Begun,
    Over,
}

impl Watched {
    pub(crate) fn new(future: StepFuture, entry: Rc<dyn Undoable>, retry: Option<Retry>) -> Self {
        Self { future, entry, retry, state: State::New }
    }

    /// Tells the entry that the body failed. What is worth another attempt may have been done.
    fn fail(&self, error: &Error) {
        let is_worth_another = || self.retry.as_ref().is_some_and(|retry| retry.helps(error));
        if error.leaves_outcome_unknown() || is_worth_another() {
            self.entry.cut();
        } else {
            self.entry.fail();
        }
    }
}

impl Future for Watched {
    type Output = Result<Args, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.state == State::New {
            self.state = State::Begun;
            self.entry.begin();
        }
        let Poll::Ready(result) = self.future.as_mut().poll(cx) else { return Poll::Pending };
        // a clone of the result or a test of the error may panic: then the body counts as cut
        let result = match result {
            Ok(args) => Ok(self.entry.complete(args)),
            Err(error) => {
                self.fail(&error);
                Err(error)
            }
        };
        self.state = State::Over;
        Poll::Ready(result)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.state == State::Begun {
            self.entry.cut();
        }
    }
}
