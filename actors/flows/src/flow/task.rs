//! The task of a flow: it runs the turns of the actor.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use actix::dev::channel::AddressReceiver;
use asyncsteps_core::{Execution, Flow, Outcome};
use tokio::task::JoinHandle;
use tracing::Span;

use super::actor::FlowActor;
use super::drive::{self, AfterTurn, Launched};
use super::guarded::guarded;
use super::mailbox::FlowCell;
use super::owner::Unattended;
use super::{Canceller, FlowEnd, FlowOwner, FlowRef, deadline, running};
use crate::arbiter_load::{self, FlowKind};
use crate::record;
use crate::span::{launched_span, trace_started};
use crate::timer::Timer;
use crate::trace::{self, TraceParent};

/// A flow after its first turn.
pub(super) enum StartedFlow {
    Ended(Option<Outcome>),
    Waits(Spawned),
}

/// A flow that waits.
pub(crate) struct Spawned {
    pub(crate) cell: Rc<FlowCell>,
    pub(crate) canceller: Canceller,
    pub(super) task: JoinHandle<()>,
}

/// Runs the first turn of a flow here and now; its actor gets a task if it has to go on later.
pub(super) fn run_inline<O: FlowOwner>(flow: Flow, mut owner: O) -> StartedFlow {
    let (mut actor, mut launched) = (FlowActor::new(flow.execute()), Vec::new());
    let Some(execution) = actor.execution() else { return StartedFlow::Ended(None) };
    match drive::turn(execution, &owner, Waker::noop(), &mut launched) {
        Ok(AfterTurn::Turn | AfterTurn::Wait) => {
            start(launched, &mut owner);
            StartedFlow::Waits(spawn(actor, owner, None))
        }
        Err(end) => {
            drive::settle(execution, &owner, &end, &mut launched);
            start(launched, &mut owner);
            actor.end(|execution| drive::tell(execution, &mut owner, end));
            StartedFlow::Ended(actor.take_outcome())
        }
    }
}

/// Spawns a task for an actor, which runs its next turn when the arbiter gets to it.
///
/// Messages of a mailbox that was made before are handled before that turn.
#[inline]
pub(crate) fn spawn<O: FlowOwner>(
    actor: FlowActor,
    owner: O,
    messages: Option<AddressReceiver<FlowActor>>,
) -> Spawned {
    spawn_for(actor, messages, |_, _| owner)
}

/// [`spawn`] for an owner that has to know its flow.
#[inline]
fn spawn_for<O: FlowOwner>(
    mut actor: FlowActor,
    messages: Option<AddressReceiver<FlowActor>>,
    owner: impl FnOnce(&Rc<FlowCell>, &Canceller) -> O,
) -> Spawned {
    arbiter_load::enter_here(kind(actor.execution()));
    let canceller = actor.canceller();
    let cell = Rc::new(FlowCell::new(actor));
    if let Some(messages) = messages {
        cell.receive(messages, canceller.clone());
    }
    let listed = running::add(&cell);
    let owner = owner(&cell, &canceller);
    let task = FlowTask { cell: Rc::clone(&cell), owner, timer: Timer::default(), listed };
    Spawned { cell, canceller, task: actix_rt::spawn(task) }
}

/// Starts what the steps of a flow launched.
#[inline]
fn start(launched: Vec<Launched>, owner: &mut impl FlowOwner) {
    if !launched.is_empty() {
        start_all(launched, owner);
    }
}

/// Starts flows of their own, without the deadline of their launcher: its parts in its span, others in a span that lets the launcher's end. They begin when the arbiter gets
/// to them, because a flow may launch its successor for ever.
#[cold]
fn start_all(launched: Vec<Launched>, owner: &mut impl FlowOwner) {
    for Launched { launcher, trace, flows } in launched {
        let (_scope, _trace) = (deadline::enter(None), trace::enter(trace));
        for mut flow in flows {
            if flow.is_part() {
                start_part(flow, &launcher, trace, owner);
            } else {
                let span = launched_span(&launcher, trace);
                let _entered = span.enter();
                let unattended = Unattended::new(Span::current(), trace, None);
                trace_started(&mut flow, || (trace, Some(span.clone())));
                spawn(FlowActor::new(flow.execute()), unattended, None);
            }
        }
    }
}

/// Starts a flow that is a part of the flow of this owner.
fn start_part(
    mut flow: Flow,
    launcher: &Span,
    trace: Option<TraceParent>,
    owner: &mut impl FlowOwner,
) {
    let _entered = launcher.enter();
    record::observe(&mut flow, launcher, trace, owner.recording());
    spawn_for(FlowActor::new(flow.execute()), None, |cell, canceller| {
        let part = FlowRef::new(Rc::clone(cell), canceller.clone());
        let kept = guarded("the owner of a flow panicked when a part of it began", || {
            owner.part_started(&part)
        });
        Unattended::new(launcher.clone(), trace, kept.flatten())
    });
}

#[cfg(feature = "ffi")]
impl FlowRef {
    /// Cancels the flow here and now, or after the current turn if it runs; its owner is notified
    /// only in the second case.
    pub(crate) fn abort(&self) {
        let Ok(mut actor) = self.cell().actor.try_borrow_mut() else { return self.cancel() };
        let flow = actor.abandon();
        // its cancel handlers may ask about it
        drop(actor);
        if let Some(mut flow) = flow {
            let (mut owner, mut launched) = (Unattended::new(Span::none(), None, None), Vec::new());
            drive::settle(&mut flow, &owner, &FlowEnd::Cancelled, &mut launched);
            start(launched, &mut owner);
            super::guarded::discard(flow);
        }
        // wakes its task, which ends
        self.cancel();
    }
}

fn kind(execution: Option<&mut Execution>) -> FlowKind {
    if execution.is_some_and(|execution| execution.is_part()) {
        FlowKind::Part
    } else {
        FlowKind::Logic
    }
}

/// Runs the turns of a [`FlowActor`]. With an owner of eight bytes it has 24, and fits into the
/// smallest task of tokio.
struct FlowTask<O: FlowOwner> {
    cell: Rc<FlowCell>,
    owner: O,
    /// Set to the next deadline of the flow or its owner while the flow waits.
    timer: Timer,
    /// Its number among the flows of the arbiter.
    listed: u32,
}

impl<O: FlowOwner> Future for FlowTask<O> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { cell, owner, timer, .. } = &mut *self;
        let mut actor = cell.actor.borrow_mut();
        let Some(execution) = actor.execution() else {
            drop(actor);
            self.leave(FlowKind::Logic, false);
            return Poll::Ready(());
        };
        let mut launched = Vec::new();
        match drive::turn(execution, owner, cx.waker(), &mut launched) {
            // others on this arbiter get their turn first
            Ok(AfterTurn::Turn) => cx.waker().wake_by_ref(),
            Ok(AfterTurn::Wait) => {
                let deadlines = [execution.deadline(), drive::deadline_of(owner)];
                timer.set(deadlines.into_iter().flatten().min(), cx.waker());
            }
            Err(end) => {
                drop(actor);
                self.end(end, launched);
                return Poll::Ready(());
            }
        }
        drop(actor);
        start(launched, owner);
        Poll::Pending
    }
}

impl<O: FlowOwner> FlowTask<O> {
    /// Ends the flow. Flows that it launched are counted before it is counted out, which happens
    /// before anything is notified of its end.
    fn end(&mut self, end: FlowEnd, mut launched: Vec<Launched>) {
        let cell = Rc::clone(&self.cell);
        let mut actor = cell.actor.borrow_mut();
        let mut ended = FlowKind::Logic;
        if let Some(execution) = actor.execution() {
            drive::settle(execution, &self.owner, &end, &mut launched);
            ended = kind(Some(execution));
        }
        if !launched.is_empty() {
            guarded("what a flow launched is lost with its arbiter", || {
                start_all(launched, &mut self.owner);
            });
        }
        self.leave(ended, end.is_done());
        actor.end(|execution| drive::tell(execution, &mut self.owner, end));
        drop(actor);
        cell.discard_unwanted();
    }

    /// Removes the flow from the flows that run on the arbiter.
    fn leave(&self, kind: FlowKind, is_done: bool) {
        running::remove(self.listed);
        arbiter_load::leave_here(kind, is_done);
    }
}

impl<O: FlowOwner> Drop for FlowTask<O> {
    /// The arbiter ends: so does the flow, and its locks are released.
    fn drop(&mut self) {
        if self.cell.actor.borrow().is_over() {
            return;
        }
        self.end(FlowEnd::Cancelled, Vec::new());
    }
}
