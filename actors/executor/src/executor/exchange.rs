//! A request whose flow was started: the state that its flow, its reply and its raw data share, all
//! on one arbiter.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::mem;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_actors::flow::FlowRef;
use asyncsteps_core::Time;
use asyncsteps_futoin::iface::FunctionName;
use asyncsteps_futoin::message::Rid;
use tracing::Span;

use super::admission::Admission;
use super::handle::Executor;
use super::in_flight::{InFlightGuard, LocalRequests, Served};
use super::over::Timings;
use super::received_parts::ReceivedParts;
use super::recording::RequestRecording;
use super::registry::HostedFunction;
use super::reply::Reply;
use super::reply_context::ReplyContext;
use super::time_limit::TimeLimit;
use crate::raw::{Head, RawFlow};

/// A request whose flow was started.
pub(super) struct Exchange {
    pub(super) reply_to: ReplyContext,
    /// The function as the caller named it.
    pub(super) called: FunctionName,
    pub(super) function: Arc<HostedFunction>,
    pub(super) times: Timings,
    pub(super) received: ReceivedParts,
    pub(super) span: Span,
    pub(super) recording: Option<RequestRecording>,
    /// The function is hosted elsewhere, and has no result.
    pub(super) has_no_result: Cell<bool>,
    /// The head of the answer, if steps of a plan have set some of it.
    pub(super) head: RefCell<Option<Box<Head>>>,
    limit: Cell<TimeLimit>,
    state: RefCell<State>,
    /// The flow of the request has not ended.
    has_flow: Cell<bool>,
    /// How many flows are parts of it and have not ended.
    parts: Cell<u32>,
    /// The resources that the request holds until all of them have ended.
    admission: Cell<Option<Admission>>,
    /// Its entry among the requests of its arbiter, if a flow goes on after the first turn. It has the
    /// flow, which owns this exchange in turn.
    listed: OnceCell<InFlightGuard>,
}

/// A flow that is a part of the request's, until it has ended.
struct Part(Rc<Exchange>);

/// How far a request is. It only changes in [`Exchange::transition`].
enum State {
    /// The flow runs and has not replied.
    Running(Option<Waker>),
    /// There is a reply that was not taken yet. Without an end, the flow goes on with raw data.
    Replied(Reply, Option<End>),
    /// The reply was taken, and the flow goes on with raw data.
    Streaming(Option<Waker>),
    /// The caller is gone; the flow is being cancelled.
    Abandoned,
    /// The flow has ended, and the reply was taken or is not wanted.
    Over(End),
}

/// How a flow ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Succeeded,
    Failed,
}

impl Exchange {
    pub(super) fn new(
        reply_to: ReplyContext,
        (called, function): (FunctionName, Arc<HostedFunction>),
        received: ReceivedParts,
        times: Timings,
        span: Span,
        admission: Admission,
        limit: TimeLimit,
    ) -> Rc<Self> {
        let recorder = reply_to.shared.config.recorder.as_ref();
        let recording = recorder.map(RequestRecording::start);
        Rc::new(Self {
            reply_to,
            called,
            function,
            times,
            received,
            span,
            recording,
            has_no_result: Cell::new(false),
            head: RefCell::default(),
            limit: Cell::new(limit),
            state: RefCell::new(State::Running(None)),
            has_flow: Cell::new(true),
            parts: Cell::new(0),
            admission: Cell::new(Some(admission)),
            listed: OnceCell::new(),
        })
    }

    /// The flow goes on after its first turn; a host records it by this id, if one does.
    pub(super) fn waits(self: &Rc<Self>, flow: FlowRef, recorded: Option<Arc<str>>) {
        if self.has_flow.get() {
            let limit: Weak<Self> = Rc::downgrade(self);
            self.listed().begin(flow, limit, recorded);
        }
    }

    /// The flow waits for a request that a host records by this id.
    pub(super) fn waits_for(&self, recorded: Arc<str>) {
        if self.has_flow.get() {
            self.listed().waits_for(recorded);
        }
    }

    /// A flow starts that is a part of the request's flow; it keeps the returned value until it has
    /// ended.
    pub(super) fn part_started(self: &Rc<Self>, part: FlowRef) -> Option<Box<dyn Any>> {
        if !self.has_flow.get() {
            return None;
        }
        self.listed().add_part(part);
        self.parts.set(self.parts.get() + 1);
        Some(Box::new(Part(Rc::clone(self))))
    }

    /// The entry of the request among those in flight, which is made if there is none.
    fn listed(&self) -> &InFlightGuard {
        self.listed.get_or_init(|| {
            let executor = Executor { shared: Arc::clone(&self.reply_to.shared) };
            let caller = self.reply_to.caller.clone();
            let recording = self.recording.clone();
            let (called, arrived) = (self.called.clone(), self.times.arrived);
            let trace = self.reply_to.trace.span;
            let requests = executor.local_requests();
            LocalRequests::add(requests, called, caller, trace, arrived, recording)
        })
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.limit.get().deadline()
    }

    /// Sets another deadline for good; `None` for no limit.
    pub(super) fn cancel_at(&self, deadline: Option<Time>) {
        self.limit.set(TimeLimit::fixed(deadline));
    }

    /// Whether the caller is gone.
    pub(super) fn is_abandoned(&self) -> bool {
        matches!(*self.state.borrow(), State::Abandoned)
    }

    /// Whether the flow can still reply.
    pub(super) fn can_reply(&self) -> bool {
        matches!(*self.state.borrow(), State::Running(_))
    }

    /// Whether its flow, or a part of it, goes on.
    pub(super) fn is_in_flight(&self) -> bool {
        self.has_flow.get() || self.parts.get() > 0
    }

    /// The flow has ended: releases what the request holds, or leaves it to the parts of the flow.
    /// `finished` says whether the flow ended by itself.
    pub(super) fn release(&self, finished: bool) {
        if !self.has_flow.replace(false) {
            return;
        }
        if finished {
            self.change_admission(|admission| admission.entered.finish());
        }
        if let Some(listed) = self.listed.get() {
            listed.end();
        }
        self.release_last();
    }

    /// Lets the next request in, if no flow of this one goes on.
    fn release_last(&self) {
        if self.is_in_flight() {
            return;
        }
        if let Some(listed) = self.listed.get() {
            listed.leave();
        }
        drop(self.admission.take());
    }

    fn change_admission(&self, change: impl FnOnce(&mut Admission)) {
        let mut admission = self.admission.take();
        admission.as_mut().map(change);
        self.admission.set(admission);
    }

    /// The request goes on elsewhere: a shutdown counts it neither as finished nor as cancelled.
    pub(super) fn hand_over(&self) {
        self.change_admission(|admission| admission.entered.hand_over());
    }

    /// Replies with raw data, while the flow goes on.
    pub(super) fn begin_raw_reply(&self, reply: Reply) {
        self.transition(|state| match state {
            State::Running(waker) => {
                let waker = waker.take();
                (Some(State::Replied(reply, None)), waker)
            }
            State::Replied(..) | State::Streaming(_) | State::Abandoned | State::Over(_) => {
                (None, None)
            }
        });
    }

    /// The flow has ended; `reply` is its answer unless it has replied before.
    pub(super) fn end(&self, succeeded: bool, reply: Option<Reply>) {
        let end = if succeeded { End::Succeeded } else { End::Failed };
        self.transition(|state| match state {
            State::Running(waker) => {
                let after = reply.map(|reply| State::Replied(reply, Some(end)));
                (Some(after.unwrap_or(State::Over(end))), waker.take())
            }
            State::Replied(_, ended) => {
                ended.get_or_insert(end);
                (None, None)
            }
            State::Streaming(waker) => (Some(State::Over(end)), waker.take()),
            State::Abandoned => (Some(State::Over(end)), None),
            State::Over(_) => (None, None),
        });
    }

    /// The caller is gone: the flow is cancelled, unless it has ended.
    fn abandon(&self) {
        self.transition(|state| match state {
            State::Replied(_, Some(end)) => (Some(State::Over(*end)), None),
            State::Over(_) => (None, None),
            State::Running(_)
            | State::Replied(_, None)
            | State::Streaming(_)
            | State::Abandoned => (Some(State::Abandoned), None),
        });
        if let Some(listed) = self.listed.get().filter(|_| self.is_abandoned()) {
            listed.cancel();
        }
    }

    /// The only place where the state changes, except when the reply is taken. A state that is left is dropped, and
    /// the waker is woken, when the state is no longer borrowed, because both may run any code.
    fn transition(&self, change: impl FnOnce(&mut State) -> (Option<State>, Option<Waker>)) {
        let mut state = self.state.borrow_mut();
        let (after, waker) = change(&mut state);
        let before = after.map(|after| mem::replace(&mut *state, after));
        drop(state);
        drop(before);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the reply if it is there.
    fn poll_reply(&self, cx: &Context<'_>) -> Poll<Reply> {
        let mut state = self.state.borrow_mut();
        match mem::replace(&mut *state, State::Abandoned) {
            State::Replied(reply, end) => {
                *state = end.map_or(State::Streaming(None), State::Over);
                Poll::Ready(reply)
            }
            State::Running(waker) => {
                *state = State::Running(Some(remember(waker, cx)));
                Poll::Pending
            }
            other @ (State::Streaming(_) | State::Abandoned | State::Over(_)) => {
                debug_assert!(false, "a reply is taken once");
                *state = other;
                Poll::Pending
            }
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let Self(exchange) = self;
        exchange.parts.set(exchange.parts.get() - 1);
        exchange.release_last();
    }
}

impl Served for Exchange {
    fn deadline(&self) -> Option<Time> {
        Self::deadline(self)
    }

    fn rid(&self) -> Option<&Rid> {
        self.reply_to.rid.as_ref()
    }
}

impl RawFlow for Exchange {
    fn progress(&self) {
        self.wait_for_client(Duration::ZERO);
    }

    fn wait_for_data(&self) {
        let mut limit = self.limit.get();
        limit.wait_for_data(clock::now());
        self.limit.set(limit);
    }

    fn received(&self, bytes: usize) {
        let mut limit = self.limit.get();
        limit.received(bytes, self.reply_to.shared.config.upload_rate, clock::now());
        self.limit.set(limit);
    }

    fn wait_for_client(&self, at_least: Duration) {
        let mut limit = self.limit.get();
        limit.wait_for_client(at_least, clock::now());
        self.limit.set(limit);
    }

    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<bool> {
        match &mut *self.state.borrow_mut() {
            State::Over(end) => Poll::Ready(*end == End::Succeeded),
            State::Streaming(waker) => {
                *waker = Some(remember(waker.take(), cx));
                Poll::Pending
            }
            // a reply is taken before its data is read
            State::Running(_) | State::Replied(..) | State::Abandoned => Poll::Ready(false),
        }
    }

    fn give_up(&self) {
        self.abandon();
    }
}

/// Waits for the reply; dropping it before cancels the flow.
pub(super) struct PendingReply(pub(super) Rc<Exchange>);

impl Future for PendingReply {
    type Output = Reply;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        self.0.poll_reply(cx)
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        let is_untaken = matches!(*self.0.state.borrow(), State::Running(_) | State::Replied(..));
        if is_untaken {
            self.0.abandon();
        }
    }
}

fn remember(waker: Option<Waker>, cx: &Context<'_>) -> Waker {
    waker.filter(|waker| waker.will_wake(cx.waker())).unwrap_or_else(|| cx.waker().clone())
}
