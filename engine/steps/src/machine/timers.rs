//! Timers of steps that expire (FTN12 §2.2.2 `setTimeout`).

use std::mem;

use super::types::{Machine, Next};
use crate::args::Args;
use crate::error::{Error, StepFault};
use crate::flow::Outcome;
use crate::location::StepLocation;
use crate::replay::LimitTurn;
use crate::stack::{Expired, Frame, Purpose, StepTimer};

impl Machine {
    /// Wakes up or fails the step of each timer that expired; returns the end of the flow if that
    /// ended it. A message that was sent to a step before its timer is looked at counts.
    pub(super) fn expire_timers(&mut self) -> Option<Outcome> {
        while !self.is_cancelled()
            && let Some(cold) = &mut self.asi.cold
            && let Some(timer) = cold.timers.expired(self.asi.now)
        {
            if !self.activate(timer.strand) {
                self.asi.cold().timers.remove(timer.id);
                continue;
            }
            let next = match timer.purpose {
                Purpose::WakeUp if !self.is_innermost(timer.depth) => {
                    self.take_timer(timer);
                    Next::Wait
                }
                Purpose::WakeUp => self.receive_last().unwrap_or_else(|| {
                    self.take_timer(timer);
                    self.complete_waiting(Args::none())
                }),
                Purpose::Limit => self.receive_last().unwrap_or_else(|| {
                    let location = self.take_timer(timer);
                    let error = Error::timeout(timer.limit(), location);
                    self.note_expired(&error, timer);
                    self.unwind(StepFault::Error(error))
                }),
                Purpose::HardLimit if self.extend(timer) => Next::Wait,
                Purpose::HardLimit => self.receive_last().unwrap_or_else(|| self.cut(timer)),
            };
            if let Next::Failed(error) = next {
                return Some(Outcome::Error(error));
            }
        }
        None
    }

    /// Wakes the futures whose sleep has ended.
    #[inline]
    pub(super) fn wake_sleepers(&mut self) {
        if let Some(cold) = &mut self.asi.cold
            && !cold.alarms.is_empty()
        {
            cold.alarms.wake(self.asi.now);
        }
    }

    /// Notes whose limit an error is, for steps that are tried again.
    fn note_expired(&mut self, error: &Error, StepTimer { strand, depth, .. }: StepTimer) {
        let policies = self.asi.cold.as_mut().and_then(|cold| cold.policies.as_mut());
        if let Some(policies) = policies {
            policies.expired.retain(|expired| expired.strand != strand);
            policies.expired.push(Expired { error: error.clone(), strand, depth });
        }
    }

    /// Cancels everything inside of a step whose time limit expired, and raises `Timeout` at the
    /// step itself.
    fn cut(&mut self, timer: StepTimer) -> Next {
        self.cancel_inside(timer.depth);
        if self.frame(timer.depth).extras().ends_flow {
            self.asi.policy_state().leaves_undos = true;
        }
        let location = self.take_timer(timer);
        self.unwind(StepFault::Error(Error::timeout(timer.limit(), location)))
    }

    /// Arms a time limit again of which something is left, or whose end is too early.
    fn extend(&mut self, timer: StepTimer) -> bool {
        let StepTimer { strand, depth, purpose, .. } = timer;
        let extras = self.frame(depth).extras.as_ref();
        let limited = extras.and_then(|extras| extras.limited.clone());
        let Some((memory, limit)) = limited else { return false };
        let (of, now) = (timer.limit(), self.asi.now);
        let passes = LimitTurn::Passes(&mut || self.limited_branches());
        let left = memory.time_left(limit, of, now, passes);
        if left.is_zero() {
            return false;
        }
        self.take_timer(timer);
        let again = StepTimer::new(now + left, of, (strand, depth), purpose);
        let id = self.asi.cold().timers.insert(again);
        *self.frame(depth).extras().timers.of(purpose) = Some(id);
        true
    }

    /// The step at this depth of the strand that runs.
    fn frame(&mut self, depth: u32) -> &mut Frame {
        let strand = &mut self.asi.strand;
        strand.frames.get_mut(depth as usize).unwrap_or(&mut strand.top)
    }

    /// Disarms the timers of the step on top.
    pub(super) fn disarm_timers(&mut self) {
        let Some(extras) = &mut self.asi.strand.top.extras else { return };
        let timers = mem::take(&mut extras.timers);
        if let Some(cold) = &mut self.asi.cold {
            timers.armed().for_each(|id| cold.timers.remove(id));
        }
    }

    /// Disarms a timer that expired; returns the location of its step.
    fn take_timer(&mut self, timer: StepTimer) -> StepLocation {
        self.asi.cold().timers.remove(timer.id);
        let step = self.frame(timer.depth);
        *step.extras().timers.of(timer.purpose) = None;
        step.location()
    }

    /// Whether the step at this depth waits without sub-steps: otherwise they complete it.
    fn is_innermost(&self, depth: u32) -> bool {
        self.asi.strand.depth() == depth && self.asi.strand.top_waits()
    }
}
