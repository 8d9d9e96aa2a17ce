//! Why the branches of a flow do not go on (FTN12 §1.7 `async_stack`).

use std::mem;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::types::Machine;
use crate::flow::{Awaitable, FlowId, Identity, Wait, WaitCause, WaitId, WaitReason};
use crate::location::StepLocation;
use crate::stack::{Activity, Frame, Strand, locations, outermost_first};
use crate::time::Time;

/// The wait of a branch.
enum Waited<'a> {
    Turn,
    External,
    Object(&'a dyn Awaitable),
    Future,
    Until(Time),
    Undo,
    End,
}

impl Machine {
    /// When the next timer expires.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Time> {
        // most flows have no timers at all
        if self.asi.cold.is_some() { self.earliest_timer() } else { None }
    }

    fn earliest_timer(&self) -> Option<Time> {
        let cold = self.asi.cold.as_ref()?;
        let timers = cold.timers.earliest();
        if cold.alarms.is_empty() {
            timers
        } else {
            timers.into_iter().chain(cold.alarms.earliest()).min()
        }
    }

    /// The branches that are not over and have no branches themselves, by their numbers.
    pub(crate) fn waits(&self, flow: FlowId) -> Vec<Wait> {
        let mut waits: Vec<Wait> =
            self.leaves().map(|(id, strand)| self.wait(flow, id, strand)).collect();
        waits.sort_by_key(|wait| wait.branch);
        waits
    }

    /// The kind of what each of these branches waits for, in no particular order.
    pub(crate) fn causes(&self) -> impl Iterator<Item = WaitCause> {
        self.leaves().map(|(_, strand)| self.waited(strand).cause())
    }

    /// The values of a type that steps in progress keep, with the branch and place of the step.
    pub(crate) fn kept<T: 'static>(&self) -> impl Iterator<Item = (u32, StepLocation, &T)> {
        self.asi.strands().flat_map(move |(_, strand)| {
            let frames = strand.open_frames();
            frames.flat_map(move |frame| {
                let values = self.asi.kept_by(frame);
                values.map(move |value| (strand.branch, frame.location(), value))
            })
        })
    }

    /// The branches that have not ended and have no branches themselves, and whether a time limit ends their wait.
    pub(super) fn limited_branches(&mut self) -> Vec<(Identity, bool)> {
        let flow = self.asi.flow_id();
        let branches = self.leaves().map(|(id, strand)| {
            let is_limited = self.asi.frames_of(id, strand).any(Frame::is_limited);
            (Identity { flow, branch: strand.branch }, is_limited)
        });
        branches.collect()
    }

    fn leaves(&self) -> impl Iterator<Item = (u32, &Strand)> {
        let strands = (!self.asi.done).then(|| self.asi.strands());
        let is_leaf = |strand: &Strand| !matches!(strand.top.activity(), Activity::Parallel(_));
        strands.into_iter().flatten().filter(move |(_, strand)| is_leaf(strand))
    }

    fn wait(&self, flow: FlowId, id: u32, strand: &Strand) -> Wait {
        let waited = self.waited(strand);
        let key = strand.top.wait.filter(|_| matches!(waited, Waited::External));
        let waiter = Identity { flow, branch: strand.branch };
        let contention =
            waited.object().and_then(|object| guarded(|| object.contention(waiter)).flatten());
        let limits = self.asi.frames_of(id, strand).filter_map(|frame| {
            let limit = self.limit(frame)?;
            Some((limit, frame.location()))
        });
        let limit = limits.min_by_key(|(limit, _)| *limit);
        Wait {
            branch: strand.branch,
            stack: outermost_first(locations(self.asi.frames_of(id, strand))),
            attempt: self
                .asi
                .frames_of(id, strand)
                .find_map(Frame::attempt)
                .map_or(1, NonZeroU32::get),
            id: key.map(|key| WaitId::new(flow, key)),
            reason: waited.reason(waiter),
            cause: waited.cause(),
            limit: limit.map(|(limit, _)| limit),
            limited_by: limit.map(|(_, step)| step),
            contention,
        }
    }

    fn limit(&self, frame: &Frame) -> Option<Time> {
        self.asi.cold.as_ref()?.timers.limit(frame.extras.as_ref()?.timers)
    }

    fn waited<'a>(&'a self, strand: &'a Strand) -> Waited<'a> {
        let top = &strand.top;
        let wake_up = || self.asi.cold.as_ref()?.timers.wake_up(top.extras.as_ref()?.timers);
        match top.activity() {
            _ if strand.runnable || !strand.top_waits() => Waited::Turn,
            Activity::Waiting(object) => Waited::Object(&**object),
            Activity::Polling(_) => Waited::Future,
            Activity::Undoing(_) => Waited::Undo,
            Activity::Plain
            | Activity::Holding(_)
            | Activity::Looping(_)
            | Activity::Retrying(_)
            | Activity::Parallel(_) => match (wake_up(), top.wait) {
                (Some(at), _) => Waited::Until(at),
                (None, Some(_)) => Waited::External,
                (None, None) => Waited::End,
            },
        }
    }
}

impl<'a> Waited<'a> {
    fn object(&self) -> Option<&'a dyn Awaitable> {
        if let Self::Object(object) = self { Some(*object) } else { None }
    }

    /// If the object panics when it describes itself, the other branches are still shown.
    fn reason(&self, waiter: Identity) -> WaitReason {
        match self {
            Self::Turn => WaitReason::Turn,
            Self::External => WaitReason::External,
            Self::Object(object) => {
                let text = guarded(|| object.describe(waiter));
                let panics = || "something that panics when it is described".to_owned();
                WaitReason::Object(text.unwrap_or_else(panics))
            }
            Self::Future => WaitReason::Future,
            Self::Until(at) => WaitReason::Until(*at),
            Self::Undo => WaitReason::Undo,
            Self::End => WaitReason::End,
        }
    }

    fn cause(&self) -> WaitCause {
        match self {
            Self::Turn => WaitCause::Turn,
            Self::External => WaitCause::External,
            Self::Object(object) => {
                WaitCause::Object(guarded(|| object.kind()).unwrap_or("object"))
            }
            Self::Future => WaitCause::Future,
            Self::Until(_) => WaitCause::Pause,
            Self::Undo => WaitCause::Undo,
            Self::End => WaitCause::End,
        }
    }
}

/// The report of an object; `None` if it panics.
fn guarded<R>(ask: impl FnOnce() -> R) -> Option<R> {
    // a payload may panic when it is dropped
    catch_unwind(AssertUnwindSafe(ask)).map_err(mem::forget).ok()
}
