//! Flows in actors (FTN12 §2.2.3): each runs on the arbiter that started it.
//!
//! The first turn of a flow runs at once, inside [`start_flow`]. A flow that completes in it never
//! becomes an actor; any other becomes a [`FlowActor`] with a context of its own that costs about
//! as much as a bare task.

mod context;
mod handle;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use actix::dev::{Mailbox, MessageResponse};
use actix::{Actor, ActorContext, Addr, Handler, Message};
use asyncsteps::{Error, Execution, Flow, Outcome, Place, Progress, Time, codes};
use tracing::Span;

use crate::clock;
use crate::wheel::Timer;

pub use context::FlowContext;
pub use handle::{FlowHandle, spawn_flow, start_flow};

/// Who waits for the end of a flow, and may end it early. Shared with the flow's actor, so that a
/// handle and its flow need one allocation.
pub(crate) trait Owner: 'static {
    /// Whether nobody wants the result any more; the flow is cancelled then.
    fn is_gone(&self) -> bool;

    /// The flow waits: ready if nobody wants the result, else `cx` is woken when that happens.
    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// When the owner stops waiting.
    fn deadline(&self) -> Option<Time> {
        None
    }

    /// A mailbox that somebody asked for since the last time.
    fn take_mailbox(&self) -> Option<(Addr<FlowActor>, Mailbox<FlowActor>)> {
        None
    }

    /// The flow ended; `Expired` and `Gone` when its owner ended it.
    fn ended(&self, execution: &mut Execution, end: End);
}

/// How a hosted flow ended.
pub(crate) enum End {
    Flow(Outcome),
    /// The owner's deadline passed.
    Expired,
    /// The owner is gone, or the actor was stopped.
    Gone,
}

/// The actor that owns a flow: its step stack, its state, and its one timer.
pub struct FlowActor {
    execution: Execution,
    owner: Option<Rc<dyn Owner>>,
    /// Set to the next deadline of the flow or its owner while the flow waits.
    timer: Timer,
    /// What the flow's work belongs to.
    span: Span,
}

/// Cancels the flow of a [`FlowActor`] (FTN12 §2.2.3 `cancel`).
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Cancel;

/// Asks a [`FlowActor`] where its flow is: the steps in progress, outermost first.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "Stack")]
pub struct Inspect;

/// The steps in progress of a flow, outermost first (FTN12 §1.7 `async_stack`).
#[derive(Clone, Debug, MessageResponse)]
pub struct Stack(pub Vec<Place>);

impl FlowActor {
    fn new(execution: Execution, owner: Rc<dyn Owner>, span: Span) -> Self {
        Self { execution, owner: Some(owner), timer: Timer::default(), span }
    }

    /// Runs the flow as far as it goes now; ready when it ended.
    fn poll_flow(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(owner) = &self.owner else { return Poll::Ready(()) };
        if owner.is_gone() {
            self.end(End::Gone);
            return Poll::Ready(());
        }
        let now = clock::now();
        if self.deadline_of_owner().is_some_and(|at| at <= now) {
            self.end(End::Expired);
            return Poll::Ready(());
        }
        let turn = self.span.in_scope(|| run_turn(&mut self.execution, now, cx.waker()));
        match turn {
            Progress::Done(outcome) => {
                self.end(End::Flow(outcome));
                return Poll::Ready(());
            }
            Progress::Ready => {
                // others on this arbiter get their turn first
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Progress::Waiting => {}
        }
        let deadlines = [self.execution.deadline(), self.deadline_of_owner()];
        self.timer.set(deadlines.into_iter().flatten().min(), cx.waker());
        self.poll_owner(cx)
    }

    fn poll_owner(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let gone = self.owner.as_ref().map_or(Poll::Ready(()), |owner| owner.poll_gone(cx));
        if gone.is_ready() {
            self.end(End::Gone);
        }
        gone
    }

    fn take_mailbox(&self) -> Option<(Addr<Self>, Mailbox<Self>)> {
        self.owner.as_ref()?.take_mailbox()
    }

    fn deadline_of_owner(&self) -> Option<Time> {
        self.owner.as_ref().and_then(|owner| owner.deadline())
    }

    fn end(&mut self, end: End) {
        let span = std::mem::replace(&mut self.span, Span::none());
        let _entered = span.enter();
        if !matches!(end, End::Flow(_)) {
            self.execution.cancel();
        }
        if let Some(owner) = self.owner.take() {
            owner.ended(&mut self.execution, end);
        }
    }
}

/// One turn of a flow and the start of what it launched; a panic outside of the callbacks, in a
/// destructor for example, ends the flow and not the arbiter.
fn run_turn(execution: &mut Execution, now: Time, waker: &Waker) -> Progress {
    let progress = catch_unwind(AssertUnwindSafe(|| execution.run(now, waker)));
    for flow in execution.take_launched() {
        start_flow::<()>(flow).detach();
    }
    progress.unwrap_or_else(|payload| {
        tracing::error!("a flow panicked outside of its callbacks");
        drop(payload);
        let info = "panic outside of the callbacks of the flow";
        Progress::Done(Outcome::Error(Error::with_info(codes::INTERNAL_ERROR, info)))
    })
}

/// Runs the first turn of a flow here and now; makes it an actor if it has to go on later.
pub(crate) fn host(flow: Flow, owner: Rc<dyn Owner>, span: Span) {
    let mut execution = flow.execute();
    let entered = span.enter();
    match run_turn(&mut execution, clock::now(), Waker::noop()) {
        Progress::Done(outcome) => owner.ended(&mut execution, End::Flow(outcome)),
        Progress::Waiting | Progress::Ready => {
            drop(entered);
            context::spawn(Box::new(FlowActor::new(execution, owner, span)));
        }
    }
}

/// Makes a flow an actor before its first turn.
pub(crate) fn host_later(flow: Flow, owner: Rc<dyn Owner>) {
    context::spawn(Box::new(FlowActor::new(flow.execute(), owner, Span::current())));
}

impl Actor for FlowActor {
    type Context = FlowContext;

    /// Whatever stops the actor, the flow is cancelled and its owner hears of it.
    fn stopped(&mut self, _: &mut FlowContext) {
        self.end(End::Gone);
    }
}

impl Handler<Cancel> for FlowActor {
    type Result = ();

    fn handle(&mut self, _: Cancel, ctx: &mut FlowContext) {
        ctx.stop();
    }
}

impl Handler<Inspect> for FlowActor {
    type Result = Stack;

    fn handle(&mut self, _: Inspect, _: &mut FlowContext) -> Stack {
        Stack(self.execution.stack())
    }
}

impl std::fmt::Debug for FlowActor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowActor").field("stack", &self.execution.stack()).finish_non_exhaustive()
    }
}
