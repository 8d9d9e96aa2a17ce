//! Timers of steps: time limits (FTN12 §2.2.2 `setTimeout`) and waits for a point in time.

use std::cmp::Reverse;
use std::mem;
use std::time::Duration;

use smallvec::SmallVec;

use super::drive::Next;
use super::level::{SlotId, index};
use super::{AsyncSteps, Outcome};
use crate::args::Args;
use crate::error::{Error, Fault};
use crate::place::Place;
use crate::time::Time;

/// The armed timers of a flow, in a binary heap: the next one to expire comes first.
#[derive(Default)]
pub(super) struct Timers {
    heap: SmallVec<[Timer; 1]>,
    /// Where in the heap each timer is, by its name; anything where the name is free.
    positions: SmallVec<[u32; 4]>,
    free: SmallVec<[SlotId; 4]>,
}

#[derive(Clone, Copy)]
struct Timer {
    at: Time,
    armed: Time,
    strand: u32,
    depth: u32,
    purpose: Purpose,
    id: SlotId,
}

/// The timers of one step, one for each purpose.
#[derive(Clone, Copy, Default)]
pub(crate) struct StepTimers([Option<SlotId>; 2]);

/// What happens when the time has come; of two timers of a step, waking up comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    /// The step completes.
    WakeUp,
    /// `Timeout` is raised.
    Limit,
}

impl StepTimers {
    pub(super) fn has_limit(self) -> bool {
        self.0[Purpose::Limit as usize].is_some()
    }

    fn of(&mut self, purpose: Purpose) -> &mut Option<SlotId> {
        &mut self.0[purpose as usize]
    }
}

impl Timer {
    /// A timer of the step at this strand and depth, not armed yet.
    fn new(at: Time, armed: Time, (strand, depth): (u32, u32), purpose: Purpose) -> Self {
        Self { at, armed, strand, depth, purpose, id: SlotId::new(0) }
    }

    /// Of those that expire together the innermost comes first.
    fn order(&self) -> (Time, Reverse<u32>, Purpose) {
        (self.at, Reverse(self.depth), self.purpose)
    }
}

impl Timers {
    /// When the next timer expires.
    pub(super) fn earliest(&self) -> Option<Time> {
        self.heap.first().map(|timer| timer.at)
    }

    /// When the time limit of a step expires.
    pub(super) fn limit(&self, of: StepTimers) -> Option<Time> {
        self.time(of, Purpose::Limit)
    }

    /// When a step wakes up.
    pub(super) fn wake_up(&self, of: StepTimers) -> Option<Time> {
        self.time(of, Purpose::WakeUp)
    }

    fn time(&self, of: StepTimers, purpose: Purpose) -> Option<Time> {
        let id = of.0[purpose as usize]?;
        let at = self.positions.get(id.slot())?;
        self.heap.get(*at as usize).map(|timer| timer.at)
    }

    /// Arms a timer, whose name is not chosen yet.
    fn insert(&mut self, timer: Timer) -> SlotId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.positions.push(0);
            SlotId::new(self.positions.len() - 1)
        });
        self.heap.push(Timer { id, ..timer });
        self.rise(self.heap.len() - 1);
        id
    }

    fn remove(&mut self, id: SlotId) {
        self.take(self.positions[id.slot()] as usize);
    }

    /// The next timer that has expired.
    fn expired(&self, now: Time) -> Option<Timer> {
        self.heap.first().filter(|timer| timer.at <= now).copied()
    }

    fn take(&mut self, at: usize) -> Timer {
        let timer = self.heap.swap_remove(at);
        self.free.push(timer.id);
        if at < self.heap.len() {
            // the last one took the place, and may belong above or below it
            self.sink(at);
            self.rise(at);
        }
        timer
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let above = (at - 1) / 2;
            if self.heap[above].order() <= self.heap[at].order() {
                break;
            }
            self.swap(above, at);
            at = above;
        }
        self.note(at);
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let below =
                [2 * at + 1, 2 * at + 2].into_iter().filter(|below| *below < self.heap.len());
            let first = below.min_by_key(|below| self.heap[*below].order());
            let Some(first) =
                first.filter(|first| self.heap[*first].order() < self.heap[at].order())
            else {
                break;
            };
            self.swap(first, at);
            at = first;
        }
        self.note(at);
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        self.note(one);
        self.note(other);
    }

    fn note(&mut self, at: usize) {
        self.positions[self.heap[at].id.slot()] = index(at);
    }
}

impl AsyncSteps {
    /// Limits the time of the running step, replacing an earlier limit.
    pub(super) fn arm_limit(&mut self, after: Duration) {
        self.arm_timer(self.now + after, Purpose::Limit);
    }

    /// Has the running step complete at a point in time, replacing an earlier one.
    pub(super) fn arm_wake_up(&mut self, at: Time) {
        self.arm_timer(at, Purpose::WakeUp);
    }

    fn arm_timer(&mut self, at: Time, purpose: Purpose) {
        let (strand, depth, armed) = (self.active(), self.strand.depth(), self.now);
        let before = self.strand.top.rare().timers.of(purpose).take();
        let timers = &mut self.more().timers;
        if let Some(before) = before {
            timers.remove(before);
        }
        let id = timers.insert(Timer::new(at, armed, (strand, depth), purpose));
        *self.strand.top.rare().timers.of(purpose) = Some(id);
    }

    pub(super) fn disarm_timers(&mut self) {
        let Some(rare) = &mut self.strand.top.rare else { return };
        let armed = mem::take(&mut rare.timers);
        if let Some(more) = &mut self.more {
            for id in armed.0.into_iter().flatten() {
                more.timers.remove(id);
            }
        }
    }

    /// Wakes up or fails the step of each timer that expired; gives the end of the flow if that ended
    /// it. What was sent to a step before counts.
    pub(super) fn expire_timers(&mut self) -> Option<Outcome> {
        while !self.is_cancelled()
            && let Some(more) = &mut self.more
            && let Some(timer) = more.timers.expired(self.now)
        {
            if !self.activate(timer.strand) {
                self.remove_timer(timer.id);
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
                    let place = self.take_timer(timer);
                    let limit = timer.at.saturating_since(timer.armed);
                    self.unwind(Fault::Error(Error::timeout(limit, place)))
                }),
            };
            if let Next::Failed(error) = next {
                return Some(Outcome::Error(error));
            }
        }
        None
    }

    /// Disarms a timer that expired; gives the place of its step.
    fn take_timer(&mut self, timer: Timer) -> Place {
        self.remove_timer(timer.id);
        let frames = &mut self.strand.frames;
        let step = frames.get_mut(timer.depth as usize).unwrap_or(&mut self.strand.top);
        *step.rare().timers.of(timer.purpose) = None;
        step.place
    }

    fn remove_timer(&mut self, id: SlotId) {
        if let Some(more) = &mut self.more {
            more.timers.remove(id);
        }
    }

    /// Whether the step at this depth waits without sub-steps: otherwise they complete it.
    fn is_innermost(&self, depth: u32) -> bool {
        self.strand.depth() == depth && self.strand.top_waits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_epoch(Duration::from_millis(ms))
    }

    fn timer(ms: u64, depth: u32, purpose: Purpose) -> Timer {
        Timer::new(at(ms), at(0), (0, depth), purpose)
    }

    fn pop_expired(timers: &mut Timers, ms: u64) -> Option<Timer> {
        let expired = timers.expired(at(ms))?;
        timers.remove(expired.id);
        Some(expired)
    }

    #[test]
    fn timers_expire_in_order_whatever_was_removed_between() {
        let mut timers = Timers::default();
        let mut armed: Vec<(u64, SlotId)> = Vec::new();
        // a walk through the numbers up to 997 that looks like chance
        for n in 1..500u64 {
            let ms = n * 37 % 997;
            armed.push((ms, timers.insert(timer(ms, 0, Purpose::Limit))));
            if n % 3 == 0 {
                let (_, id) = armed.swap_remove(usize::try_from(ms).unwrap() % armed.len());
                timers.remove(id);
            }
        }
        let mut expected: Vec<u64> = armed.iter().map(|(ms, _)| *ms).collect();
        expected.sort_unstable();
        assert_eq!(timers.earliest(), expected.first().map(|ms| at(*ms)));
        assert!(timers.expired(at(0)).is_none());
        let popped = std::iter::from_fn(|| pop_expired(&mut timers, 1000).map(|timer| timer.at));
        assert_eq!(popped.collect::<Vec<_>>(), expected.into_iter().map(at).collect::<Vec<_>>());
        assert_eq!(timers.earliest(), None);
    }

    #[test]
    fn of_those_that_expire_together_the_innermost_comes_first_and_wakes_up_first() {
        let mut timers = Timers::default();
        for (depth, purpose) in [(0, Purpose::WakeUp), (1, Purpose::Limit), (1, Purpose::WakeUp)] {
            timers.insert(timer(5, depth, purpose));
        }
        let popped = std::iter::from_fn(|| pop_expired(&mut timers, 5));
        let popped: Vec<_> = popped.map(|timer| (timer.depth, timer.purpose as usize)).collect();
        assert_eq!(popped, [(1, 0), (1, 1), (0, 0)]);
    }
}
