//! The timers of a flow: time limits (FTN12 §2.2.2 `setTimeout`) and waits for a point in time.

use std::cmp::Reverse;
use std::time::Duration;

use smallvec::SmallVec;

use crate::slot::{SlotId, index};
use crate::time::Time;

/// The armed timers of a flow, in a binary heap: the next one to expire comes first.
#[derive(Default)]
pub(crate) struct Timers {
    heap: SmallVec<[StepTimer; 1]>,
    /// The position in the heap of each timer, by its id; of a free id, any number.
    positions: SmallVec<[u32; 4]>,
    free: SmallVec<[SlotId; 4]>,
    /// How many timers were armed.
    armed: u64,
}

/// A timer of the step at this depth of the strand in this slot.
#[derive(Clone, Copy)]
pub(crate) struct StepTimer {
    pub(crate) at: Time,
    /// The declared limit in nanoseconds; less may be left of it when the timer is armed.
    limit: u64,
    pub(crate) strand: u32,
    pub(crate) depth: u32,
    pub(crate) purpose: Purpose,
    /// Set when the timer is armed.
    pub(crate) id: SlotId,
    /// Which timer of the flow it is, set when it is armed.
    number: u64,
}

/// The timers of one step, one for each purpose.
#[derive(Clone, Copy, Default)]
pub(crate) struct StepTimers([Option<SlotId>; 3]);

/// The purpose of a timer; of two timers of a step, waking up comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// The step completes.
    WakeUp,
    /// `Timeout` is raised in the innermost step.
    Limit,
    /// Everything inside of the step is cancelled, then `Timeout` is raised at the step itself.
    HardLimit,
}

impl StepTimers {
    pub(crate) fn has(self, purpose: Purpose) -> bool {
        self.0[purpose as usize].is_some()
    }

    pub(crate) fn of(&mut self, purpose: Purpose) -> &mut Option<SlotId> {
        &mut self.0[purpose as usize]
    }

    /// The timers that are armed.
    pub(crate) fn armed(self) -> impl Iterator<Item = SlotId> {
        self.0.into_iter().flatten()
    }
}

impl StepTimer {
    /// A timer that is not armed yet.
    pub(crate) fn new(
        at: Time,
        limit: Duration,
        (strand, depth): (u32, u32),
        purpose: Purpose,
    ) -> Self {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Self { at, limit, strand, depth, purpose, id: SlotId::new(0), number: 0 }
    }

    /// The time limit as it was declared; zero for a timer that wakes a step up.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_nanos(self.limit)
    }

    /// Of the timers that expire together the innermost comes first, and of these the one that was armed first.
    fn order(&self) -> (Time, Reverse<u32>, Purpose, u64) {
        (self.at, Reverse(self.depth), self.purpose, self.number)
    }
}

impl Timers {
    /// When the next timer expires.
    pub(crate) fn earliest(&self) -> Option<Time> {
        self.heap.first().map(|timer| timer.at)
    }

    /// When the first time limit of a step expires.
    pub(crate) fn limit(&self, of: StepTimers) -> Option<Time> {
        let limits = [Purpose::Limit, Purpose::HardLimit];
        limits.into_iter().filter_map(|purpose| self.time(of, purpose)).min()
    }

    /// When a step wakes up.
    pub(crate) fn wake_up(&self, of: StepTimers) -> Option<Time> {
        self.time(of, Purpose::WakeUp)
    }

    fn time(&self, of: StepTimers, purpose: Purpose) -> Option<Time> {
        let id = of.0[purpose as usize]?;
        let position = self.positions.get(id.slot())?;
        self.heap.get(*position as usize).map(|timer| timer.at)
    }

    /// Arms a timer and returns its id.
    pub(crate) fn insert(&mut self, timer: StepTimer) -> SlotId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.positions.push(0);
            SlotId::new(self.positions.len() - 1)
        });
        self.armed += 1;
        self.heap.push(StepTimer { id, number: self.armed, ..timer });
        self.sift_up(self.heap.len() - 1);
        id
    }

    /// Disarms a timer.
    pub(crate) fn remove(&mut self, id: SlotId) {
        let position = self.positions[id.slot()] as usize;
        let timer = self.heap.swap_remove(position);
        self.free.push(timer.id);
        if position < self.heap.len() {
            // the last timer is at this position now, and may belong above or below it
            self.sift_down(position);
            self.sift_up(position);
        }
    }

    /// The next timer that has expired.
    pub(crate) fn expired(&self, now: Time) -> Option<StepTimer> {
        self.heap.first().filter(|timer| timer.at <= now).copied()
    }

    fn sift_up(&mut self, mut position: usize) {
        while position > 0 {
            let parent = (position - 1) / 2;
            if self.heap[parent].order() <= self.heap[position].order() {
                break;
            }
            self.swap(parent, position);
            position = parent;
        }
        self.record_position(position);
    }

    fn sift_down(&mut self, mut position: usize) {
        loop {
            let children = [2 * position + 1, 2 * position + 2];
            let children = children.into_iter().filter(|child| *child < self.heap.len());
            let first = children.min_by_key(|child| self.heap[*child].order());
            let Some(child) =
                first.filter(|child| self.heap[*child].order() < self.heap[position].order())
            else {
                break;
            };
            self.swap(child, position);
            position = child;
        }
        self.record_position(position);
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        self.record_position(one);
        self.record_position(other);
    }

    fn record_position(&mut self, position: usize) {
        self.positions[self.heap[position].id.slot()] = index(position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_epoch(Duration::from_millis(ms))
    }

    fn timer(ms: u64, depth: u32, purpose: Purpose) -> StepTimer {
        StepTimer::new(at(ms), Duration::ZERO, (0, depth), purpose)
    }

    fn pop_expired(timers: &mut Timers, ms: u64) -> Option<StepTimer> {
        let expired = timers.expired(at(ms))?;
        timers.remove(expired.id);
        Some(expired)
    }

    #[test]
    fn timers_expire_in_order_also_if_others_were_removed() {
        let mut timers = Timers::default();
        let mut armed: Vec<(u64, SlotId)> = Vec::new();
        // every number below 997 once, in an order that looks random
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

    #[test]
    fn of_equal_timers_the_one_that_was_armed_first_comes_first() {
        let mut timers = Timers::default();
        let mut armed = Vec::new();
        for strand in 0..50 {
            let ms = if strand % 7 == 0 { 1 } else { 5 };
            let timer = StepTimer::new(at(ms), Duration::ZERO, (strand, 1), Purpose::WakeUp);
            armed.push(timers.insert(timer));
            if strand % 5 == 4 {
                timers.remove(armed.remove(armed.len() / 2));
            }
        }
        let left = armed.iter().map(|id| timers.heap[timers.positions[id.slot()] as usize].strand);
        let (first, then): (Vec<u32>, Vec<u32>) = left.partition(|strand| strand % 7 == 0);
        let popped = std::iter::from_fn(|| pop_expired(&mut timers, 5).map(|timer| timer.strand));
        assert_eq!(popped.collect::<Vec<_>>(), [first, then].concat());
    }
}
