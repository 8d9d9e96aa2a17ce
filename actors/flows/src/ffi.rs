//! The universal binary interface (FTN12 §2.7) of flows on arbiters, with the feature `ffi`.
//!
//! Every flow on an arbiter provides its [`binary`](Binary::binary) interface, and a step of a
//! template can be a callback of another language ([`BinaryStep`]), so that a function of the
//! Executor can be written in C or Python. There is nothing to set up: the arbiter is found when
//! foreign code asks for its event loop. The example `serve` of `asyncsteps-executor` shows it.
//!
//! - `sched_immediate` and `sched_deferred` call back on the arbiter, with its time.
//! - `newInstance` makes a flow as [`spawn_flow`](crate::flow::spawn_flow) does: it inherits the
//!   deadline of the flow that executes it, and the pool of the arbiter counts and ends it.
//! - A [`Mutex`](crate::sync::Mutex) or another lock is known to foreign steps by a [`SyncPointer`].
//!
//! A flow on a `LocalSet` that is no arbiter has no event loop to provide.

use std::sync::Arc;
use std::thread::{self, ThreadId};

use actix_rt::{Arbiter, ArbiterHandle};
use asyncsteps_core::{Execution, Flow, Outcome, Time};
use tracing::Span;

#[doc(inline)]
pub use asyncsteps_ffi::{Binary, BinaryStep, BinarySync, SyncPointer, Value, Values, abi, wrap};
use asyncsteps_ffi::{EventLoop, Stop};

use crate::clock::Clock;
use crate::flow::{self, FlowActor, FlowEnd, FlowOwner, FlowRef, Spawned};
use crate::timer;

/// Lets foreign code find the arbiter that it runs on; the first call in the process counts.
pub(crate) fn register() {
    asyncsteps_ffi::register_event_loops(|| {
        let arbiter = Arbiter::try_current()?;
        let (thread, clock) = (thread::current().id(), Clock::of_arbiter());
        Some(Arc::new(ArbiterLoop { arbiter, thread, clock }))
    });
}

/// An arbiter as an event loop of the binary interface.
#[derive(Debug)]
struct ArbiterLoop {
    arbiter: ArbiterHandle,
    thread: ThreadId,
    clock: Clock,
}

impl EventLoop for ArbiterLoop {
    fn is_same_thread(&self) -> bool {
        self.thread == thread::current().id()
    }

    /// The clock of the process: it goes on even while a test has paused the clock of the arbiter.
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn post(&self, task: Box<dyn FnOnce() + Send>) {
        // an arbiter that is gone drops the task
        let _: bool = self.arbiter.spawn_fn(task);
    }

    fn defer_until(&self, at: Time, task: Box<dyn FnOnce()>) -> Stop {
        let deferred = actix_rt::spawn(async move {
            timer::sleep_until(at).await;
            task();
        });
        Box::new(move || deferred.abort())
    }

    fn run(&self, flow: Flow, over: Box<dyn FnOnce(Outcome)>) -> Stop {
        let (deadline, span) = (flow::earliest(None), Span::current());
        let owner = ForeignCaller { over: Some(over), deadline, span };
        let actor = FlowActor::new(flow.execute());
        let Spawned { cell, canceller, .. } = flow::spawn(actor, Box::new(owner), None);
        let flow = FlowRef::new(cell, canceller);
        Box::new(move || flow.abort())
    }
}

/// The owner of a flow that foreign code executed.
struct ForeignCaller {
    over: Option<Box<dyn FnOnce(Outcome)>>,
    deadline: Option<Time>,
    span: Span,
}

impl FlowOwner for Box<ForeignCaller> {
    fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    fn span(&self) -> Option<&Span> {
        Some(&self.span)
    }

    fn ended(&mut self, _: &mut Execution, end: FlowEnd) -> Option<Outcome> {
        if let Some(over) = self.over.take() {
            over(end.into_outcome());
        }
        None
    }
}
