//! Where a flow is and what it waits for (FTN12 §1.7 `async_stack`), for consoles and logs.

use std::fmt;
use std::sync::Arc;

use super::level::{Frame, Kind, Strand};
use super::lineage::steps;
use super::{AsyncSteps, Callback, Execution, FlowId, Identity, WaitId};
use crate::completion::Completion;
use crate::place::Place;
use crate::time::Time;

/// A branch of a flow that is not over, and why it does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// The parallel branch, 0 for the root.
    pub branch: u32,
    /// The steps in progress, those around the parallel steps included, outermost first.
    pub stack: Vec<Place>,
    /// What would let it go on.
    pub reason: WaitReason,
    /// The name of the wait, to complete it with [`Execution::complete`]; for a step that waits for a
    /// completion from outside.
    pub id: Option<WaitId>,
    /// When the nearest time limit of a step around it expires.
    pub limit: Option<Time>,
}

/// What a branch of a flow waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitReason {
    /// Nothing: it goes on in the flow's next turn.
    Turn,
    /// A completion from outside (FTN12 §1.3).
    External,
    /// Something that describes itself, such as a lock and the place in its queue (FTN12 §1.11).
    Object(String),
    /// A future (FTN12 §1.13).
    Future,
    /// A point in time.
    Until(Time),
    /// Nothing but the end of a time limit or a cancel.
    End,
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn => f.write_str("its turn"),
            Self::External => f.write_str("a completion from outside"),
            Self::Object(what) => f.write_str(what),
            Self::Future => f.write_str("a future"),
            Self::Until(at) => write!(f, "the time {:?}", at.since_epoch()),
            Self::End => f.write_str("a time limit or a cancel"),
        }
    }
}

/// Something that steps wait for, and that can say so better than by its place in the source.
pub trait Awaitable {
    /// What `who` waits for, such as "mutex `stock`, place 2 of 5".
    fn describe(&self, who: Identity) -> String;
}

impl Execution {
    /// The branches of the flow that are not over, and why each of them does not go on, in the
    /// order of their making.
    #[must_use]
    pub fn waits(&mut self) -> Vec<Wait> {
        if self.asi.done {
            return Vec::new();
        }
        let flow = self.id();
        let mut waits: Vec<Wait> = self.asi.leaves(flow).collect();
        waits.sort_by_key(|wait| wait.branch);
        waits
    }

    /// When the flow had its last turn; a flow of one branch waits since then.
    #[must_use]
    pub fn last_turn(&self) -> Time {
        self.asi.now
    }
}

impl AsyncSteps {
    /// [`wait_external`](Self::wait_external) for an object that can describe what the step waits
    /// for, see [`Execution::waits`].
    pub fn wait_external_for(&mut self, object: Arc<dyn Awaitable>) -> Completion {
        // so that the description can tell who asks
        let _ = self.flow_id();
        let completion = self.wait_external();
        if self.callback == Callback::Body && matches!(self.strand.top.kind, Kind::Step) {
            self.strand.top.kind = Kind::Waiting(object);
        }
        completion
    }

    /// The places of the steps in progress, outermost first (FTN12 §1.7 `async_stack`).
    #[must_use]
    pub fn async_stack(&self) -> Vec<Place> {
        outermost_first(self.places())
    }

    fn leaves(&self, flow: FlowId) -> impl Iterator<Item = Wait> {
        let is_leaf = |strand: &&Strand| !matches!(strand.top.kind, Kind::Parallel(_));
        self.strands().filter(move |(_, strand)| is_leaf(strand)).map(move |(at, strand)| {
            let around = || self.frames_of(at, strand);
            let reason = self.reason(strand);
            let key = strand.top.wait.filter(|_| reason == WaitReason::External);
            Wait {
                branch: strand.branch,
                stack: outermost_first(steps(around())),
                id: key.map(|key| WaitId::new(flow, key)),
                reason,
                limit: around().filter_map(|frame| self.limit(frame)).min(),
            }
        })
    }

    fn limit(&self, frame: &Frame) -> Option<Time> {
        self.more.as_ref()?.timers.limit(frame.rare.as_ref()?.timers)
    }

    fn reason(&self, strand: &Strand) -> WaitReason {
        let top = &strand.top;
        let wake_up = || self.more.as_ref()?.timers.wake_up(top.rare.as_ref()?.timers);
        match &top.kind {
            _ if strand.runnable || !strand.top_waits() => WaitReason::Turn,
            Kind::Waiting(object) => WaitReason::Object(self.id.map_or_else(String::new, |flow| {
                object.describe(Identity { flow, branch: strand.branch })
            })),
            Kind::Await(_) => WaitReason::Future,
            Kind::Step | Kind::Holding(_) | Kind::Loop(_) | Kind::Parallel(_) => {
                match (wake_up(), top.wait) {
                    (Some(at), _) => WaitReason::Until(at),
                    (None, Some(_)) => WaitReason::External,
                    (None, None) => WaitReason::End,
                }
            }
        }
    }
}

/// The places of steps that come from the innermost outwards, outermost first.
fn outermost_first(places: impl Iterator<Item = Place>) -> Vec<Place> {
    let mut places: Vec<Place> = places.collect();
    places.reverse();
    places
}
