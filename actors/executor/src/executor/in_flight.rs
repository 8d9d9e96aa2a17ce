//! The requests whose flows wait on an arbiter.

use std::cell::RefCell;
use std::fmt;
use std::mem;
use std::rc::Rc;
use std::time::Duration;

use actix::Addr;
use asyncsteps::Time;
use asyncsteps_actors::clock;
use asyncsteps_actors::flow::{FlowActor, FlowRef, Stack};
use asyncsteps_actors::record::Recorded;
use asyncsteps_futoin::iface::FunctionName;
use slab::Slab;

use super::caller::Caller;
use super::recording::RequestRecording;
use crate::security::User;

/// How far a request in flight is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestState {
    /// Its flow runs, or the body of a [shielded](asyncsteps::Added::shielded) step of it.
    Running,
    /// What its flow has done is being undone, see [`Added::undo`](asyncsteps::Added::undo). The
    /// reply may have left.
    Undoing,
}

/// A request whose flow or a part of it waits; given by [`Executor::in_flight`](super::Executor::in_flight).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InFlightRequest {
    /// Its number among the requests of its executor; 0 if they are not recorded.
    pub number: u64,
    /// The function as the caller named it.
    pub function: FunctionName,
    /// The local id of the user; `None` for an anonymous caller.
    pub user: Option<String>,
    /// The time since the request arrived.
    pub age: Duration,
    /// How far it is.
    pub state: RequestState,
    /// Where its flow is, and what it waits for: of its first undo, if it is undone.
    pub stack: Stack,
    /// The address of that flow, which takes messages from any thread, such as
    /// [`Cancel`](asyncsteps_actors::flow::Cancel). An undo or a shielded body that is cancelled gives up.
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

/// The requests of one executor whose flows wait on one arbiter, or are undone there.
#[derive(Default)]
pub(super) struct LocalRequests(RefCell<Slab<Request>>);

/// The entry of a request, until this is dropped.
pub(super) struct Listed {
    requests: Rc<LocalRequests>,
    index: usize,
}

struct Request {
    function: FunctionName,
    caller: Caller,
    arrived: Time,
    recording: Option<RequestRecording>,
    /// `None` once the flow is over.
    flow: Option<FlowRef>,
    /// The parts of the flow: undos and shielded bodies, those that are over among them.
    parts: Vec<FlowRef>,
}

impl LocalRequests {
    /// Adds a request, which has a flow or is undone.
    pub(super) fn add(
        self: &Rc<Self>,
        function: FunctionName,
        caller: Caller,
        arrived: Time,
        recording: Option<RequestRecording>,
    ) -> Listed {
        let (flow, parts) = (None, Vec::new());
        let request = Request { function, caller, arrived, recording, flow, parts };
        let index = self.0.borrow_mut().insert(request);
        Listed { requests: Rc::clone(self), index }
    }

    /// Cancels all of them, after this returned. Their parts go on.
    pub(super) fn cancel_all(&self) {
        let flows: Vec<FlowRef> =
            self.0.borrow().iter().filter_map(|(_, request)| request.flow.clone()).collect();
        flows.iter().for_each(FlowRef::cancel);
    }

    /// Cancels the flow of a request, after this returned, if it has one. Its parts go on.
    pub(super) fn cancel(&self, number: u64) -> bool {
        let requests = self.0.borrow();
        let numbered = |request: &Request| {
            request.recording.as_ref().is_some_and(|recording| recording.number == number)
        };
        let found = requests.iter().find(|(_, request)| numbered(request));
        let flow = found.and_then(|(_, request)| request.flow.clone());
        drop(requests);
        flow.as_ref().map(FlowRef::cancel).is_some()
    }

    /// What the steps of a request have done so far.
    pub(super) fn steps(&self, number: u64) -> Option<Recorded> {
        let requests = self.0.borrow();
        let mut recordings = requests.iter().filter_map(|(_, request)| request.recording.as_ref());
        recordings.find(|it| it.number == number).map(|recording| recording.steps.recorded())
    }

    pub(super) fn list(&self) -> Vec<InFlightRequest> {
        let now = clock::now();
        let requests = self.0.borrow();
        requests.iter().filter_map(|(_, request)| request.look(now)).collect()
    }
}

impl Request {
    fn number(&self) -> u64 {
        self.recording.as_ref().map_or(0, |recording| recording.number)
    }

    fn look(&self, now: Time) -> Option<InFlightRequest> {
        let parts = || self.parts.iter().filter(|part| part.is_valid());
        let undo = parts().find(|part| part.is_undo());
        let flow = undo.or(self.flow.as_ref()).or_else(|| parts().next())?;
        let state = if undo.is_some() { RequestState::Undoing } else { RequestState::Running };
        Some(InFlightRequest {
            number: self.number(),
            function: self.function.clone(),
            user: self.caller.user().map(User::local_id).map(str::to_owned),
            age: now.saturating_since(self.arrived),
            state,
            stack: flow.stack(),
            flow: flow.address(),
        })
    }
}

impl Listed {
    /// The request has a flow, or has it no longer.
    pub(super) fn set_flow(&self, flow: Option<FlowRef>) {
        self.change(|request| mem::replace(&mut request.flow, flow));
    }

    /// This flow is a part of the one of the request.
    pub(super) fn add_part(&self, part: FlowRef) {
        let mut requests = self.requests.0.borrow_mut();
        let Some(request) = requests.get_mut(self.index) else { return };
        let over: Vec<FlowRef> = request.parts.extract_if(.., |part| !part.is_valid()).collect();
        request.parts.push(part);
        // dropped when nothing is borrowed: they may be the last references to their flows
        drop(requests);
        drop(over);
    }

    /// Cancels the flow of the request, after this returned. Its parts go on.
    pub(super) fn cancel(&self) {
        let requests = self.requests.0.borrow();
        let flow = requests.get(self.index).and_then(|request| request.flow.clone());
        drop(requests);
        if let Some(flow) = flow {
            flow.cancel();
        }
    }

    fn change(&self, change: impl FnOnce(&mut Request) -> Option<FlowRef>) {
        let before = self.requests.0.borrow_mut().get_mut(self.index).and_then(change);
        // dropped when nothing is borrowed: it may be the last reference to its flow
        drop(before);
    }
}

impl fmt::Debug for LocalRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalRequests").field(&self.0.borrow().len()).finish()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        // dropped when nothing is borrowed: it may be the last reference to its flow
        let request = self.requests.0.borrow_mut().try_remove(self.index);
        debug_assert!(request.is_some(), "a request is listed once");
    }
}
