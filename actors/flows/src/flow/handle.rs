//! Waiting for a flow, and cancelling it, from the arbiter that runs it.

use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use actix::{Actor, Addr};
use asyncsteps::{Arguments, Error, Execution, Outcome, Time};
use tokio::task::JoinHandle;
use tracing::Span;

use super::task::{End, Hosted, Owner, Stage, host, host_later};
use super::{FlowActor, IntoFlow, Stack, earliest};
use crate::clock;

/// Starts a flow on this arbiter (FTN12 §2.2.3 `execute`, `promise`).
///
/// The first turn runs before this returns; a flow that completes in it costs no task. The handle is
/// a future with the typed result. Started by a step of another flow, it inherits that flow's
/// deadline; what is to outlive that flow is started from a task of its own.
///
/// # Panics
/// Outside of an actix arbiter or a tokio `LocalSet`, if the flow has to wait.
pub fn start_flow<A: Arguments>(flow: impl IntoFlow) -> FlowHandle<A> {
    let owner = Keeper::new(flow.limit());
    FlowHandle::new(host(flow.into_flow(), owner))
}

/// Like [`start_flow`], but the first turn runs when the arbiter gets to it.
///
/// # Panics
/// Outside of an actix arbiter or a tokio `LocalSet`.
pub fn spawn_flow<A: Arguments>(flow: impl IntoFlow) -> FlowHandle<A> {
    let owner = Keeper::new(flow.limit());
    FlowHandle::new(host_later(flow.into_flow(), owner))
}

/// A started flow: a future with its result. Dropping the handle cancels the flow.
///
/// # Cancel safety
/// Polling may stop at any time; the result stays until it is taken.
#[must_use = "dropping the handle cancels the flow; `detach` it to let it run"]
pub struct FlowHandle<A = ()> {
    state: State,
    of: PhantomData<fn() -> A>,
}

enum State {
    Ended(Option<Outcome>),
    Task(Task),
}

struct Task {
    stage: Rc<RefCell<Stage>>,
    join: JoinHandle<()>,
    canceller: asyncsteps::Canceller,
    /// It is not to be cancelled: it is over, or nobody has to wait for it.
    detached: bool,
    /// Made when the handle is first asked for it.
    address: OnceCell<Addr<FlowActor>>,
}

/// Cancels a flow from any thread (FTN12 §2.2.3 `cancel`); made by [`FlowHandle::canceller`].
#[derive(Clone, Debug, Default)]
pub struct Canceller(Option<asyncsteps::Canceller>);

impl Canceller {
    /// Asks the arbiter of the flow to cancel it; called by a step of the flow itself, no further
    /// step runs. A flow that is over stays as it ended.
    pub fn cancel(&self) {
        if let Some(flow) = &self.0 {
            flow.cancel();
        }
    }
}

impl<A> FlowHandle<A> {
    fn new(hosted: Hosted) -> Self {
        let state = match hosted {
            Hosted::Ended(outcome) => State::Ended(outcome),
            Hosted::Task(stage, join, canceller) => {
                let address = OnceCell::new();
                State::Task(Task { stage, join, canceller, detached: false, address })
            }
        };
        Self { state, of: PhantomData }
    }

    /// Cancels the flow (FTN12 §2.2.3 `cancel`): its arbiter does so after this returned; called by a
    /// step of the flow itself, no further step runs.
    pub fn cancel(&self) {
        if let State::Task(task) = &self.state {
            task.canceller.cancel();
        }
    }

    /// Cancels the flow from any thread.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        match &self.state {
            State::Ended(_) => Canceller(None),
            State::Task(task) => Canceller(Some(task.canceller.clone())),
        }
    }

    /// Whether the flow is not over.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        match &self.state {
            State::Ended(_) => false,
            State::Task(task) => !task.is_over(),
        }
    }

    /// Where the flow is; empty when it is over, and for a step of the flow itself.
    #[must_use]
    pub fn stack(&self) -> Stack {
        match &self.state {
            State::Ended(_) => Stack::default(),
            State::Task(task) => Stack::of(&task.stage),
        }
    }

    /// Lets the flow run to its end without anybody waiting for it.
    pub fn detach(mut self) {
        if let State::Task(task) = &mut self.state {
            task.detached = true;
        }
    }

    /// The address of the flow's actor, for other arbiters: it takes [`Cancel`](super::Cancel) and
    /// [`Inspect`](super::Inspect), also when the flow is over.
    ///
    /// # Panics
    /// Outside of an actix arbiter.
    #[must_use]
    pub fn address(&self) -> Addr<FlowActor> {
        match &self.state {
            State::Ended(_) => FlowActor::over().start(),
            State::Task(task) => {
                let start = || FlowActor::new(&task.stage, self.canceller()).start();
                task.address.get_or_init(start).clone()
            }
        }
    }
}

impl<A: Arguments> Future for FlowHandle<A> {
    /// The typed result of the flow, or the error that ended it.
    type Output = Result<A, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = match &mut self.state {
            State::Ended(outcome) => outcome.take(),
            State::Task(task) => {
                if !task.is_over() {
                    // how the task ended is told by the flow's outcome
                    let _ = ready!(Pin::new(&mut task.join).poll(cx));
                }
                task.detached = true;
                let outcome = match &mut *task.stage.borrow_mut() {
                    Stage::Ended(outcome) => outcome.take(),
                    Stage::Running(_) => None,
                };
                self.state = State::Ended(None);
                outcome
            }
        };
        Poll::Ready(outcome.unwrap_or(Outcome::Cancelled).into_result())
    }
}

impl Task {
    fn is_over(&self) -> bool {
        // borrowed by the flow itself while it runs
        matches!(self.stage.try_borrow().as_deref(), Ok(Stage::Ended(_)))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.detached {
            self.canceller.cancel();
        }
    }
}

impl<A> fmt::Debug for FlowHandle<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowHandle").field("valid", &self.is_valid()).finish()
    }
}

/// The owner of a flow with a handle: it keeps the outcome.
struct Keeper(Option<Box<Inherited>>);

struct Inherited {
    span: Option<Span>,
    deadline: Option<Time>,
}

impl Keeper {
    fn new(limit: Option<std::time::Duration>) -> Self {
        let deadline = earliest(limit.map(|limit| clock::now() + limit));
        let span = Some(Span::current()).filter(|span| !span.is_none());
        let needed = deadline.is_some() || span.is_some();
        Self(needed.then(|| Box::new(Inherited { span, deadline })))
    }
}

impl Owner for Keeper {
    /// The handle cancels the task itself.
    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn deadline(&self) -> Option<Time> {
        self.0.as_ref()?.deadline
    }

    fn span(&self) -> Option<&Span> {
        self.0.as_ref()?.span.as_ref()
    }

    fn ended(&mut self, _: &mut Execution, end: End) -> Option<Outcome> {
        Some(end.into_outcome())
    }
}

const _: () = {
    const fn any_thread<T: Send + Sync>() {}
    any_thread::<Canceller>();
};
