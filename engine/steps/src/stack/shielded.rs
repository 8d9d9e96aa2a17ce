//! The bodies of shielded steps, which go on when their steps are ended from outside (FTN12 §1.3).

use std::any::Any;
use std::cell::RefCell;
use std::mem;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::args::Args;
use crate::completion::Completion;
use crate::error::Error;
use crate::replay::{ReplayHooks, Then};

/// The body of a shielded step, which its step and its undo share with the flow that runs it.
pub(crate) struct ShieldedBody {
    state: RefCell<BodyState>,
    /// Whether the step would be tried again after this error.
    is_worth_another: Box<dyn Fn(&Error) -> bool>,
    /// Is notified if the body fails when its step has ended.
    memory: Option<Rc<dyn ReplayHooks>>,
}

struct BodyState {
    end: BodyEnd,
    /// The step has ended without the result.
    is_alone: bool,
    waker: Option<Waker>,
    /// The locks of steps that have ended around it.
    locks: Vec<Rc<dyn Any>>,
    /// The steps that wait until these are released.
    waiting: Vec<Completion>,
}

enum BodyEnd {
    Running,
    /// Until the step or its undo takes the result.
    Result(Result<Args, Error>),
    Over,
}

impl ShieldedBody {
    pub(crate) fn new(
        is_worth_another: impl Fn(&Error) -> bool + 'static,
        memory: Option<Rc<dyn ReplayHooks>>,
    ) -> Self {
        let (end, locks, waiting) = (BodyEnd::Running, Vec::new(), Vec::new());
        let state = BodyState { end, is_alone: false, waker: None, locks, waiting };
        let is_worth_another = Box::new(is_worth_another);
        Self { state: RefCell::new(state), is_worth_another, memory }
    }

    /// The body has ended; only the first result counts.
    pub(crate) fn end(&self, result: Result<Args, Error>) {
        if self.has_ended() {
            return;
        }
        let mut state = self.state.borrow_mut();
        state.end = BodyEnd::Result(result);
        let waker = state.waker.take();
        let (locks, waiting) = (mem::take(&mut state.locks), mem::take(&mut state.waiting));
        drop(state);
        self.tell_memory();
        if let Some(waker) = waker {
            waker.wake();
        }
        drop(locks);
        for step in waiting {
            // it may have been ended meanwhile
            let _ = step.success(());
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        !matches!(self.state.borrow().end, BodyEnd::Running)
    }

    /// The step ends without the result, which its undo may take.
    pub(crate) fn leave_alone(&self) {
        self.state.borrow_mut().is_alone = true;
        self.tell_memory();
    }

    /// Reports to the host's replay hooks that the body has failed without its step.
    fn tell_memory(&self) {
        let state = self.state.borrow();
        let failed = match &state.end {
            BodyEnd::Result(Err(error)) if state.is_alone => Some(error.clone()),
            BodyEnd::Result(_) | BodyEnd::Running | BodyEnd::Over => None,
        };
        drop(state);
        if let Some((memory, error)) = self.memory.as_ref().zip(failed)
            && self.has_done_nothing(&error)
        {
            memory.fails(None, &error, Then::Unwinds { undoes: false });
        }
    }

    /// The result, once.
    pub(crate) fn poll_result(&self, cx: &Context<'_>) -> Poll<Result<Args, Error>> {
        match self.take_result() {
            Some(result) => Poll::Ready(result),
            None => {
                self.state.borrow_mut().waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Ready when the body has ended, whatever becomes of its result.
    pub(crate) fn poll_end(&self, cx: &Context<'_>) -> Poll<()> {
        if self.has_ended() {
            return Poll::Ready(());
        }
        self.state.borrow_mut().waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The result if the body has ended, once.
    pub(crate) fn take_result(&self) -> Option<Result<Args, Error>> {
        let end = &mut self.state.borrow_mut().end;
        match mem::replace(end, BodyEnd::Over) {
            BodyEnd::Result(result) => Some(result),
            before @ (BodyEnd::Running | BodyEnd::Over) => {
                *end = before;
                None
            }
        }
    }

    /// Whether a body that failed with this error is taken at its word. If the error is worth another attempt, the
    /// effect may have happened.
    pub(crate) fn has_done_nothing(&self, error: &Error) -> bool {
        !error.leaves_outcome_unknown() && !(self.is_worth_another)(error)
    }

    /// Keeps the locks of a step until the body has ended.
    pub(crate) fn keep(&self, locks: Rc<dyn Any>) {
        self.state.borrow_mut().locks.push(locks);
    }

    /// Completes a step when the body has ended and has released its locks.
    pub(crate) fn tell(&self, waiting: Completion) {
        self.state.borrow_mut().waiting.push(waiting);
    }
}

/// The bodies whose steps have ended before them, by the level of a step that they are inside of, as in
/// [`Undos`](super::undo::Undos).
#[derive(Default)]
pub(crate) struct BodiesAlone(Vec<BodyAlone>);

struct BodyAlone {
    strand: u32,
    level: u32,
    body: Rc<ShieldedBody>,
}

impl BodiesAlone {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a body inside of the step at this level of the strand in this slot.
    pub(crate) fn push(&mut self, (strand, level): (u32, u32), body: Rc<ShieldedBody>) {
        self.0.retain(|alone| !alone.body.has_ended());
        self.0.push(BodyAlone { strand, level, body });
    }

    /// Those that run inside of the step at this level.
    pub(crate) fn inside(
        &self,
        (strand, level): (u32, u32),
    ) -> impl Iterator<Item = &Rc<ShieldedBody>> {
        let inside = self.0.iter().filter(move |it| it.strand == strand && it.level >= level);
        inside.map(|alone| &alone.body).filter(|body| !body.has_ended())
    }

    /// One of this strand that runs and keeps locks.
    pub(crate) fn keeping_locks(&self, strand: u32) -> Option<Rc<ShieldedBody>> {
        let mut bodies = self.inside((strand, 0));
        bodies.find(|body| !body.state.borrow().locks.is_empty()).cloned()
    }

    /// The step inside ended: its bodies are inside of the step at this level around it.
    pub(crate) fn raise(&mut self, (strand, level): (u32, u32)) {
        for alone in self.0.iter_mut().filter(|alone| alone.strand == strand) {
            alone.level = alone.level.min(level);
        }
    }

    /// A branch ended: its bodies are inside of the step at this level of the strand that started it.
    pub(crate) fn move_up(&mut self, branch: u32, (parent, level): (u32, u32)) {
        for alone in self.0.iter_mut().filter(|alone| alone.strand == branch) {
            (alone.strand, alone.level) = (parent, level);
        }
    }
}
