//! A flow that was submitted to another arbiter, seen from both sides.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use actix::dev::channel::{AddressReceiver, channel};
use actix::{Addr, ArbiterHandle};
use asyncsteps_core::{Arguments, Error, Execution, Outcome, Time, codes};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Span;

use super::gone;
use crate::clock;
use crate::drain::DrainGuard;
use crate::flow::{self, Cancel, FlowActor, FlowEnd, FlowOwner, IntoFlow};
use crate::span::{FlowSpan, trace_started};
use crate::trace::{self, TraceParent};

/// A flow on another arbiter: a future with its result, for any thread. Dropping it cancels the flow.
///
/// It fails with DefenseRejected if the pool is closing, and with InternalError if the arbiter ends
/// before the flow.
///
/// # Cancel safety
/// Polling may stop at any time; the result stays until it is taken.
#[derive(derive_more::Debug)]
#[debug("RemoteFlow {{ .. }}")]
#[must_use = "dropping it cancels the flow; `detach` it to let it run"]
pub struct RemoteFlow<A = ()> {
    state: RemoteState<A>,
    of: PhantomData<fn() -> A>,
}

enum RemoteState<A> {
    Refused(Option<Error>),
    Runs(RemoteHandle<A>),
}

struct RemoteHandle<A> {
    outcome: oneshot::Receiver<Result<A, Error>>,
    address: Addr<FlowActor>,
    detached: bool,
}

impl<A> RemoteFlow<A> {
    pub(super) fn refused(error: Error) -> Self {
        Self { state: RemoteState::Refused(Some(error)), of: PhantomData }
    }

    /// Cancels the flow (FTN12 §2.2.3 `cancel`) by a [`Cancel`] message. A flow that has ended stays
    /// as it ended; one that has not begun runs no step.
    pub fn cancel(&self) {
        if let RemoteState::Runs(remote) = &self.state {
            remote.cancel();
        }
    }

    /// The address of the flow's actor; `None` if the flow was refused. It can be used before the flow
    /// begins.
    #[must_use]
    pub fn address(&self) -> Option<Addr<FlowActor>> {
        match &self.state {
            RemoteState::Refused(_) => None,
            RemoteState::Runs(remote) => Some(remote.address.clone()),
        }
    }

    /// Lets the flow run to its end without this.
    pub fn detach(mut self) {
        if let RemoteState::Runs(remote) = &mut self.state {
            remote.detached = true;
        }
    }
}

impl<A: Arguments + Send> RemoteFlow<A> {
    pub(super) fn start(
        arbiter: &ArbiterHandle,
        job: impl IntoFlow + Send + 'static,
        counted: DrainGuard,
    ) -> Self {
        let own = job.limit().map(|limit| clock::now() + limit);
        // each arbiter has its own epoch
        let deadline = flow::earliest(own).map(clock::instant);
        let (reply, outcome) = oneshot::channel();
        let (sender, messages) = channel(flow::CAPACITY);
        let trace = trace::current();
        let span = FlowSpan::start(trace);
        let job = RemoteJob { make: job, reply, deadline, span, trace, counted };
        // false if the arbiter is gone: then the reply is dropped, which notifies the caller
        let _: bool = arbiter.spawn_fn(move || job.begin(messages));
        let remote = RemoteHandle { outcome, address: Addr::new(sender), detached: false };
        Self { state: RemoteState::Runs(remote), of: PhantomData }
    }
}

impl<A> RemoteHandle<A> {
    #[expect(clippy::disallowed_methods, reason = "a full mailbox must not refuse a cancel")]
    fn cancel(&self) {
        self.address.do_send(Cancel);
    }
}

impl<A> Drop for RemoteHandle<A> {
    fn drop(&mut self) {
        if !self.detached {
            self.cancel();
        }
    }
}

impl<A: Arguments + Send> Future for RemoteFlow<A> {
    /// The typed result of the flow, or the error that ended it.
    type Output = Result<A, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.state {
            RemoteState::Refused(error) => Poll::Ready(Err(error.take().unwrap_or_else(gone))),
            RemoteState::Runs(remote) => {
                let told = Pin::new(&mut remote.outcome).poll(cx);
                remote.detached |= told.is_ready();
                told.map(|told| told.unwrap_or_else(|_| Err(gone())))
            }
        }
    }
}

/// A flow on its way to its arbiter.
struct RemoteJob<A, F> {
    make: F,
    reply: oneshot::Sender<Result<A, Error>>,
    deadline: Option<Instant>,
    span: FlowSpan,
    trace: Option<TraceParent>,
    counted: DrainGuard,
}

impl<A: Arguments + Send, F: IntoFlow> RemoteJob<A, F> {
    /// Makes the flow and its actor; messages that came before are handled before its first turn.
    fn begin(self, messages: AddressReceiver<FlowActor>) {
        let Self { make, reply, deadline, span, trace, mut counted } = self;
        #[cfg(feature = "ffi")]
        crate::ffi::register();
        let made = catch_unwind(AssertUnwindSafe(|| span.span().in_scope(|| make.into_flow())));
        let Ok(mut flow) = made else {
            tracing::error!(parent: span.span(), "the function that makes a flow panicked");
            counted.finish();
            drop(counted);
            let error = Error::with_info(codes::INTERNAL_ERROR, "the flow was not made");
            // the caller may be gone
            let _ = reply.send(Err(error));
            return;
        };
        let deadline = deadline.map(clock::time);
        trace_started(&mut flow, || (trace, Some(span.span().clone())));
        let owner = RemoteOwner { reply: Some(reply), deadline, span, trace };
        flow::spawn(FlowActor::new(flow.execute()), Box::new(owner), Some(messages));
        counted.hand_over();
    }
}

/// The owner of a submitted flow: it sends the outcome back.
struct RemoteOwner<A> {
    reply: Option<oneshot::Sender<Result<A, Error>>>,
    deadline: Option<Time>,
    span: FlowSpan,
    trace: Option<TraceParent>,
}

impl<A: Arguments> FlowOwner for Box<RemoteOwner<A>> {
    fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    fn span(&self) -> Option<&Span> {
        Some(self.span.span())
    }

    fn trace(&self) -> Option<TraceParent> {
        self.trace
    }

    fn ended(&mut self, _: &mut Execution, end: FlowEnd) -> Option<Outcome> {
        self.span.ended(end.as_str());
        let result = end.into_outcome().into_result();
        if let Some(reply) = self.reply.take() {
            // a caller that detached the flow does not listen
            let _ = reply.send(result);
        }
        None
    }
}
