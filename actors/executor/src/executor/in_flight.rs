//! The requests whose flows wait on an arbiter.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use asyncsteps_actors::clock;
use asyncsteps_actors::flow::{FlowActor, FlowRef, Stack};
use asyncsteps_actors::record::Recorded;
use asyncsteps_actors::trace::TraceParent;
use asyncsteps_core::{FlowId, Time, WaitCause};
use asyncsteps_futoin::iface::FunctionName;
use asyncsteps_futoin::message::Rid;
use schemars::JsonSchema;
use serde::Serialize;
use slab::Slab;

use super::caller::Caller;
use super::recording::RequestRecording;
use crate::security::User;

/// How far a request in flight is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RequestState {
    /// Its flow runs, or the body of a [shielded](asyncsteps_core::Added::shielded) step of it.
    Running,
    /// The effects of its flow are being undone, see [`Added::undo`](asyncsteps_core::Added::undo).
    /// The reply may have left.
    Undoing,
}

/// A request whose flow or a part of it waits; returned by [`Executor::in_flight`](super::Executor::in_flight).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InFlightRequest {
    /// Its number among the requests of its executor; 0 if they are not recorded.
    pub number: u64,
    /// The function as the caller named it.
    pub function: FunctionName,
    /// Its span in its trace.
    pub trace: TraceParent,
    /// The id by which a host records it, if it is [recorded](crate::recorder), or the request that its caller waits for.
    pub recorded: Option<Arc<str>>,
    /// Whether it only waits for the request with this id.
    pub is_caller: bool,
    /// The local id of the user; `None` for an anonymous caller.
    pub user: Option<String>,
    /// The time since the request arrived.
    pub age: Duration,
    /// The time that it may still take; `None` if it has no time limit, and for an undo.
    pub time_left: Option<Duration>,
    /// How far it is.
    pub state: RequestState,
    /// The number of the flow whose stack this is.
    pub flow_id: Option<FlowId>,
    /// Where its flow is, and what it waits for: of its first undo, if it is undone.
    pub stack: Stack,
    /// The address of that flow, which takes messages from any thread, such as
    /// [`Cancel`](asyncsteps_actors::flow::Cancel). An undo or a shielded body stops when it is cancelled.
    pub flow: Addr<FlowActor>,
}

impl fmt::Display for InFlightRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_deref().unwrap_or("anonymous");
        let undoing = if self.state == RequestState::Undoing { "undoing: " } else { "" };
        let (age, stack) = (self.age, self.stack.one_line());
        write!(f, "{} for {user}, {age:?} old: {undoing}{stack}", self.function)
    }
}

/// Which requests in flight are asked for; all of them by default.
#[derive(Clone, Debug, Default)]
pub struct InFlightFilter {
    function: Option<Arc<str>>,
    user: Option<Arc<str>>,
    cause: Option<Arc<str>>,
}

impl InFlightFilter {
    /// Those whose function has this text in its name, as the caller wrote it.
    #[must_use]
    pub fn function(self, part: &str) -> Self {
        Self { function: Some(part.into()), ..self }
    }

    /// Only requests of the user with this local id.
    #[must_use]
    pub fn user(self, local_id: &str) -> Self {
        Self { user: Some(local_id.into()), ..self }
    }

    /// Those with a branch that waits for this: a word of [`WaitCause::as_str`].
    #[must_use]
    pub fn waits_for(self, cause: &str) -> Self {
        Self { cause: Some(cause.into()), ..self }
    }
}

/// The request that a flow belongs to; returned by
/// [`Executor::requests_of`](super::Executor::requests_of).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestOfFlow {
    /// Its number among the requests of its executor; 0 if they are not recorded.
    pub number: u64,
    /// The function as the caller named it.
    pub function: FunctionName,
    /// The local id of the user; `None` for an anonymous caller.
    pub user: Option<String>,
}

/// A request whose flow runs.
pub(super) trait Served {
    /// Its deadline, which may change.
    fn deadline(&self) -> Option<Time>;

    /// The caller's number of the request.
    fn rid(&self) -> Option<&Rid>;
}

/// The requests of one executor whose flows wait on one arbiter, or are undone there. Its actor there owns them.
#[derive(Default, derive_more::Debug)]
#[debug("LocalRequests({:?})", self.0.borrow().len())]
pub(super) struct LocalRequests(RefCell<Slab<Request>>);

/// The entry of a request, until this is dropped, or the actor has ended that owns it.
pub(super) struct InFlightGuard {
    requests: Weak<LocalRequests>,
    /// `None` once it has left.
    index: Cell<Option<usize>>,
}

/// A request of an arbiter.
pub(super) struct Request {
    function: FunctionName,
    caller: Caller,
    trace: TraceParent,
    arrived: Time,
    recording: Option<RequestRecording>,
    /// The id by which a host records it, or the request that it waits for.
    recorded: Option<Arc<str>>,
    is_caller: bool,
    /// `None` once the flow has ended.
    flow: Option<FlowRef>,
    /// The flow that began it. Its locks are held under its number until it is undone.
    flow_id: Option<FlowId>,
    served: Option<Weak<dyn Served>>,
    /// The parts of the flow: undos and shielded bodies, including ended ones.
    parts: Vec<FlowRef>,
}

impl LocalRequests {
    /// Adds a request that has a flow or is undone.
    pub(super) fn add(
        of_actor: Weak<Self>,
        function: FunctionName,
        caller: Caller,
        trace: TraceParent,
        arrived: Time,
        recording: Option<RequestRecording>,
    ) -> InFlightGuard {
        let request = Request {
            function,
            caller,
            trace,
            arrived,
            recording,
            recorded: None,
            is_caller: false,
            flow: None,
            flow_id: None,
            served: None,
            parts: Vec::new(),
        };
        let index = of_actor.upgrade().map(|requests| requests.0.borrow_mut().insert(request));
        InFlightGuard { requests: of_actor, index: Cell::new(index) }
    }

    /// Cancels all of them, after this returned. Their parts go on.
    pub(super) fn cancel_all(&self) {
        let flows: Vec<FlowRef> =
            self.0.borrow().iter().filter_map(|(_, request)| request.flow.clone()).collect();
        flows.iter().for_each(FlowRef::cancel);
    }

    /// Cancels the flow of a request, after this returned, if it has one, and logs that. Its parts go on.
    pub(super) fn cancel(&self, number: u64) -> bool {
        let requests = self.0.borrow();
        let numbered = |request: &Request| {
            request.recording.as_ref().is_some_and(|recording| recording.number == number)
        };
        let found = requests.iter().find(|(_, request)| numbered(request));
        let Some((flow, request)) = found.and_then(|(_, it)| Some((it.flow.clone()?, it))) else {
            return false;
        };
        request.log_cancel();
        drop(requests);
        flow.cancel();
        true
    }

    /// The history of the steps of a request so far.
    pub(super) fn steps(&self, number: u64) -> Option<Recorded> {
        let requests = self.0.borrow();
        let mut recordings = requests.iter().filter_map(|(_, request)| request.recording.as_ref());
        recordings.find(|it| it.number == number).map(|recording| recording.steps.recorded())
    }

    /// Calls `look` for requests from an index on, at most as many as there are in a piece; returns
    /// where the next piece begins.
    pub(super) fn each(
        &self,
        from: usize,
        piece: usize,
        mut look: impl FnMut(usize, &Request),
    ) -> Option<usize> {
        let requests = self.0.borrow();
        if requests.is_empty() {
            return None;
        }
        // freed ones keep their index, so that none is looked at twice or left out
        let end = from.saturating_add(piece).min(requests.capacity());
        for index in from..end {
            if let Some(request) = requests.get(index) {
                look(index, request);
            }
        }
        (end < requests.capacity()).then_some(end)
    }

    /// The request with this index, if there is one that the filter is for.
    pub(super) fn describe(
        &self,
        index: usize,
        filter: &InFlightFilter,
    ) -> Option<InFlightRequest> {
        let requests = self.0.borrow();
        requests.get(index).filter(|request| request.is_for(filter))?.describe()
    }
}

impl Request {
    fn log_cancel(&self) {
        let served = self.served.as_ref().and_then(Weak::upgrade);
        let rid = served.as_ref().and_then(|served| served.rid()).map(Rid::to_string);
        tracing::info!(
            f = self.function.as_str(),
            rid = rid.as_deref(),
            trace = self.trace.trace_digits().as_str(),
            number = self.number(),
            user = self.user(),
            "request cancelled by hand",
        );
    }

    fn number(&self) -> u64 {
        self.recording.as_ref().map_or(0, |recording| recording.number)
    }

    fn user(&self) -> Option<&str> {
        self.caller.user().map(User::local_id)
    }

    pub(super) fn age(&self) -> Duration {
        clock::now().saturating_since(self.arrived)
    }

    /// Whether it waits and the filter is for it.
    pub(super) fn is_for(&self, filter: &InFlightFilter) -> bool {
        let InFlightFilter { function, user, cause } = filter;
        let Some((flow, _)) = self.shown() else { return false };
        let waits_for = |cause: &str| {
            let mut found = false;
            flow.causes(|other| found |= other.as_str() == cause);
            found
        };
        function.as_deref().is_none_or(|part| self.function.as_str().contains(part))
            && user.as_deref().is_none_or(|user| self.user() == Some(user))
            && cause.as_deref().is_none_or(waits_for)
    }

    /// Calls `see` with what each branch of it waits for.
    pub(super) fn causes(&self, see: impl FnMut(WaitCause)) {
        if let Some((flow, _)) = self.shown() {
            flow.causes(see);
        }
    }

    /// The flows of the request: the one that began it, even after its end, and the parts that have not ended.
    pub(super) fn flows(&self) -> impl Iterator<Item = FlowId> {
        self.flow_id.into_iter().chain(self.parts.iter().filter_map(FlowRef::id))
    }

    pub(super) fn named(&self) -> RequestOfFlow {
        RequestOfFlow {
            number: self.number(),
            function: self.function.clone(),
            user: self.user().map(str::to_owned),
        }
    }

    /// The flow that shows how far the request is; `None` if all of its flows have ended.
    fn shown(&self) -> Option<(&FlowRef, RequestState)> {
        let parts = || self.parts.iter().filter(|part| part.is_valid());
        if let Some(undo) = parts().find(|part| part.is_undo()) {
            return Some((undo, RequestState::Undoing));
        }
        let flow = self.flow.as_ref().or_else(|| parts().next())?;
        Some((flow, RequestState::Running))
    }

    fn describe(&self) -> Option<InFlightRequest> {
        let (flow, state) = self.shown()?;
        let now = clock::now();
        let is_limited = state == RequestState::Running;
        let served = self.served.as_ref().filter(|_| is_limited).and_then(Weak::upgrade);
        let deadline = served.and_then(|served| served.deadline());
        Some(InFlightRequest {
            number: self.number(),
            function: self.function.clone(),
            trace: self.trace,
            recorded: self.recorded.clone(),
            is_caller: self.is_caller,
            user: self.user().map(str::to_owned),
            age: now.saturating_since(self.arrived),
            time_left: deadline.map(|deadline| deadline.saturating_since(now)),
            state,
            flow_id: flow.id(),
            stack: flow.stack(),
            flow: flow.address(),
        })
    }
}

impl InFlightGuard {
    /// Notes the flow of the request, which serves it from now on, and the id by which a host records it.
    pub(super) fn begin(
        &self,
        flow: FlowRef,
        served: Weak<dyn Served>,
        recorded: Option<Arc<str>>,
    ) {
        self.change(|request| {
            // it may be known already what its first turn waits for
            request.recorded = recorded.or_else(|| request.recorded.take());
            request.flow_id = flow.id();
            request.served = Some(served);
            request.flow.replace(flow)
        });
    }

    /// The request waits for one that a host records by this id.
    pub(super) fn waits_for(&self, recorded: Arc<str>) {
        self.change(|request| {
            (request.recorded, request.is_caller) = (Some(recorded), true);
            None
        });
    }

    /// The flow of the request has ended.
    pub(super) fn end(&self) {
        self.change(|request| request.flow.take());
    }

    /// This flow is a part of the one of the request.
    pub(super) fn add_part(&self, part: FlowRef) {
        let Some((requests, index)) = self.entry() else { return };
        let mut requests = requests.0.borrow_mut();
        let Some(request) = requests.get_mut(index) else { return };
        let over: Vec<FlowRef> = request.parts.extract_if(.., |part| !part.is_valid()).collect();
        request.parts.push(part);
        // dropped when nothing is borrowed: they may be the last references to their flows
        drop(requests);
        drop(over);
    }

    /// Cancels the flow of the request, after this returned. Its parts go on.
    pub(super) fn cancel(&self) {
        let Some((requests, index)) = self.entry() else { return };
        let flow = requests.0.borrow().get(index).and_then(|request| request.flow.clone());
        if let Some(flow) = flow {
            flow.cancel();
        }
    }

    fn change(&self, change: impl FnOnce(&mut Request) -> Option<FlowRef>) {
        let Some((requests, index)) = self.entry() else { return };
        let before = requests.0.borrow_mut().get_mut(index).and_then(change);
        // dropped when nothing is borrowed: it may be the last reference to its flow
        drop(before);
    }

    /// Removes the entry. A second time does nothing.
    pub(super) fn leave(&self) {
        let Some((requests, index)) = self.entry() else { return };
        self.index.set(None);
        let request = requests.0.borrow_mut().try_remove(index);
        debug_assert!(request.is_some(), "a request is listed once");
        // dropped when nothing is borrowed: it may be the last reference to its flow
        drop(request);
    }

    fn entry(&self) -> Option<(Rc<LocalRequests>, usize)> {
        self.requests.upgrade().zip(self.index.get())
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.leave();
    }
}
