//! The flow of a request on its arbiter: what the executor needs of a hosted flow.

use std::task::{Context, Poll};

use asyncsteps::{Canceller, Execution, Flow, Outcome, Time};
use asyncsteps_actors::flow::{End, Hosted, Owner, Stack, host};
use tracing::Span;

/// What a flow runs for: it limits the flow in time and is told how it ended.
pub(super) trait FlowOwner: Unpin + 'static {
    /// When the flow is cancelled; asked before each turn.
    fn deadline(&self) -> Option<Time>;

    /// The span that the flow runs in.
    fn span(&self) -> Option<&Span>;

    /// The flow ended; called once.
    fn ended(&mut self, execution: &mut Execution, end: FlowEnd) -> Option<Outcome>;
}

/// How a flow ended.
pub(super) enum FlowEnd {
    /// By itself.
    Done(Outcome),
    /// The deadline of its owner passed; where the flow was then.
    Expired(Stack),
    /// It was cancelled, or its arbiter ended.
    Cancelled,
}

/// A flow that waits on this arbiter.
#[derive(Clone)]
pub(super) struct FlowRef(Canceller);

impl FlowRef {
    /// Cancels the flow, after this returned.
    pub(super) fn cancel(&self) {
        self.0.cancel();
    }

    /// Where the flow is.
    #[expect(clippy::unused_self, reason = "until flows are actors")]
    pub(super) fn stack(&self) -> Stack {
        Stack::default()
    }
}

/// Runs the first turn of a flow; `None` if it ended in it.
pub(super) fn host_flow(flow: Flow, owner: impl FlowOwner) -> Option<FlowRef> {
    match host(flow, Adapter(owner)) {
        Hosted::Ended(_) => None,
        Hosted::Task(_, _, canceller) => Some(FlowRef(canceller)),
    }
}

struct Adapter<O>(O);

impl<O: FlowOwner> Owner for Adapter<O> {
    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn deadline(&self) -> Option<Time> {
        self.0.deadline()
    }

    fn span(&self) -> Option<&Span> {
        self.0.span()
    }

    fn ended(&mut self, execution: &mut Execution, end: End) -> Option<Outcome> {
        let end = match end {
            End::Flow(outcome) => FlowEnd::Done(outcome),
            End::Expired(stack) => FlowEnd::Expired(stack),
            End::Gone => FlowEnd::Cancelled,
        };
        self.0.ended(execution, end)
    }
}
