//! The requests whose flows wait on an arbiter.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use actix::Addr;
use asyncsteps::Time;
use asyncsteps_actors::clock;
use asyncsteps_actors::flow::{FlowActor, FlowRef, Stack};
use asyncsteps_futoin::iface::FunctionName;
use slab::Slab;

use super::caller::Caller;
use crate::security::User;

/// A request whose flow waits; given by [`Executor::in_flight`](super::Executor::in_flight).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InFlightRequest {
    /// The function as the caller named it.
    pub function: FunctionName,
    /// The local id of the user; `None` for an anonymous caller.
    pub user: Option<String>,
    /// The time since the request arrived.
    pub age: Duration,
    /// Where its flow is, and what it waits for.
    pub stack: Stack,
    /// The address of its flow, which takes messages from any thread, such as
    /// [`Cancel`](asyncsteps_actors::flow::Cancel).
    pub flow: Addr<FlowActor>,
}

impl fmt::Display for InFlightRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_deref().unwrap_or("anonymous");
        write!(f, "{} for {user}, {:?} old: {}", self.function, self.age, self.stack.one_line())
    }
}

/// The requests of one executor whose flows wait on one arbiter.
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
    flow: FlowRef,
}

impl LocalRequests {
    /// Adds a request whose flow waits.
    pub(super) fn add(
        self: &Rc<Self>,
        function: FunctionName,
        caller: Caller,
        arrived: Time,
        flow: FlowRef,
    ) -> Listed {
        let index = self.0.borrow_mut().insert(Request { function, caller, arrived, flow });
        Listed { requests: Rc::clone(self), index }
    }

    /// Cancels all of them, after this returned.
    pub(super) fn cancel_all(&self) {
        let flows: Vec<FlowRef> =
            self.0.borrow().iter().map(|(_, request)| request.flow.clone()).collect();
        flows.iter().for_each(FlowRef::cancel);
    }

    pub(super) fn list(&self) -> Vec<InFlightRequest> {
        let now = clock::now();
        let requests = self.0.borrow();
        requests.iter().map(|(_, request)| request.look(now)).collect()
    }
}

impl Request {
    fn look(&self, now: Time) -> InFlightRequest {
        InFlightRequest {
            function: self.function.clone(),
            user: self.caller.user().map(User::local_id).map(str::to_owned),
            age: now.saturating_since(self.arrived),
            stack: self.flow.stack(),
            flow: self.flow.address(),
        }
    }
}

impl Listed {
    /// Cancels the flow of the request, after this returned.
    pub(super) fn cancel(&self) {
        let flow = self.requests.0.borrow().get(self.index).map(|request| request.flow.clone());
        if let Some(flow) = flow {
            flow.cancel();
        }
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
