//! The universal binary interface (FTN12 §2.7) of flows on arbiters, with the feature `ffi`.
//!
//! Every flow on an arbiter gives out its [`binary`](Binary::binary) interface, and a step of a
//! template can be a callback of another language ([`BinaryStep`]), so that a function of the
//! Executor can be written in C or Python. There is nothing to set up: the arbiter is found when
//! foreign code asks for its event loop. The example `serve` of `asyncsteps-executor` shows it.
//!
//! - `sched_immediate` and `sched_deferred` call back on the arbiter, with its time.
//! - `newInstance` makes a flow as [`spawn_flow`](crate::flow::spawn_flow) does: it inherits the
//!   deadline of the flow that executes it, and a host counts and ends it.
//! - A [`Mutex`](crate::sync::Mutex) or another lock is known to foreign steps by a [`SyncPointer`].
//!
//! A flow on a `LocalSet` that is no arbiter has no event loop to give out.

use std::sync::Arc;
use std::task::{Context, Poll};

use asyncsteps::tool::AsyncTool;
use asyncsteps::{Execution, Flow, Outcome, Time};
use tracing::Span;

#[doc(inline)]
pub use asyncsteps_ffi::{Binary, BinaryStep, BinarySync, SyncPointer, Value, Values, abi, wrap};
use asyncsteps_ffi::{Host, Stop};

use crate::clock::Clock;
use crate::flow::{End, Hosted, Owner, cancel_now, earliest, host_later};
use crate::tool::{ArbiterTool, Remote};

/// Has foreign code find its arbiter.
pub(crate) fn provide() {
    asyncsteps_ffi::provide_hosts(|| {
        let remote = ArbiterTool::current().remote()?;
        Some(Arc::new(ArbiterHost { remote, clock: Clock::of_arbiter() }))
    });
}

/// An arbiter as the binary interface wants it.
#[derive(Debug)]
struct ArbiterHost {
    remote: Remote,
    clock: Clock,
}

impl Host for ArbiterHost {
    fn is_same_thread(&self) -> bool {
        self.remote.is_same_thread()
    }

    /// Other threads see the time pass also while a test has stopped it.
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn post(&self, task: Box<dyn FnOnce() + Send>) {
        // an arbiter that is gone drops the task
        let _ = self.remote.immediate(|_| task());
    }

    fn defer_until(&self, at: Time, task: Box<dyn FnOnce()>) -> Stop {
        let tool = ArbiterTool::current();
        let handle = tool.deferred(at.saturating_since(self.clock.now()), task);
        Box::new(move || tool.cancel(&handle))
    }

    fn run(&self, flow: Flow, over: Box<dyn FnOnce(Outcome)>) -> Stop {
        let asker = Asker { over: Some(over), deadline: earliest(None), span: Span::current() };
        match host_later(flow, Box::new(asker)) {
            Hosted::Ended(_) => Box::new(|| ()),
            Hosted::Task(stage, task, _) => Box::new(move || {
                task.abort();
                cancel_now(&stage);
            }),
        }
    }
}

/// The owner of a flow that foreign code executed.
struct Asker {
    over: Option<Box<dyn FnOnce(Outcome)>>,
    deadline: Option<Time>,
    span: Span,
}

impl Owner for Box<Asker> {
    /// Foreign code cancels the task itself.
    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    fn span(&self) -> Option<&Span> {
        Some(&self.span)
    }

    fn ended(&mut self, _: &mut Execution, end: End) -> Option<Outcome> {
        if let Some(over) = self.over.take() {
            over(end.into_outcome());
        }
        None
    }
}
