//! Why the branches of a flow do not go on (FTN12 §1.7 `async_stack`).

use std::mem;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::types::Machine;
use crate::flow::{Awaitable, FlowId, Identity, Wait, WaitId, WaitReason};
use crate::stack::{Activity, Frame, Strand, locations, outermost_first};
use crate::time::Time;

impl Machine {
    /// When the next timer expires.
    pub(crate) fn deadline(&self) -> Option<Time> {
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
        if self.asi.done {
            return Vec::new();
        }
        let strands = self.asi.strands();
        let leaves =
            strands.filter(|(_, strand)| !matches!(strand.top.activity(), Activity::Parallel(_)));
        let mut waits: Vec<Wait> = leaves.map(|(id, strand)| self.wait(flow, id, strand)).collect();
        waits.sort_by_key(|wait| wait.branch);
        waits
    }

    fn wait(&self, flow: FlowId, id: u32, strand: &Strand) -> Wait {
        let reason = self.reason(strand);
        let key = strand.top.wait.filter(|_| reason == WaitReason::External);
        Wait {
            branch: strand.branch,
            stack: outermost_first(locations(self.asi.frames_of(id, strand))),
            attempt: self
                .asi
                .frames_of(id, strand)
                .find_map(Frame::attempt)
                .map_or(1, NonZeroU32::get),
            id: key.map(|key| WaitId::new(flow, key)),
            reason,
            limit: self.asi.frames_of(id, strand).filter_map(|frame| self.limit(frame)).min(),
        }
    }

    fn limit(&self, frame: &Frame) -> Option<Time> {
        self.asi.cold.as_ref()?.timers.limit(frame.extras.as_ref()?.timers)
    }

    fn reason(&self, strand: &Strand) -> WaitReason {
        let top = &strand.top;
        let wake_up = || self.asi.cold.as_ref()?.timers.wake_up(top.extras.as_ref()?.timers);
        match top.activity() {
            _ if strand.runnable || !strand.top_waits() => WaitReason::Turn,
            Activity::Waiting(object) => {
                let waiter = self.asi.id.map(|flow| Identity { flow, branch: strand.branch });
                WaitReason::Object(waiter.map_or_else(String::new, |id| describe(&**object, id)))
            }
            Activity::Polling(_) => WaitReason::Future,
            Activity::Undoing(_) => WaitReason::Undo,
            Activity::Plain
            | Activity::Holding(_)
            | Activity::Looping(_)
            | Activity::Parallel(_) => match (wake_up(), top.wait) {
                (Some(at), _) => WaitReason::Until(at),
                (None, Some(_)) => WaitReason::External,
                (None, None) => WaitReason::End,
            },
        }
    }
}

/// The text of what a branch waits for. If it panics, the other branches are still shown.
fn describe(object: &dyn Awaitable, waiter: Identity) -> String {
    let text = catch_unwind(AssertUnwindSafe(|| object.describe(waiter)));
    text.unwrap_or_else(|payload| {
        // a payload may panic when it is dropped
        mem::forget(payload);
        "something that panics when it is described".to_owned()
    })
}
