//! Free slots, and the quarantine before a slot is used again.
//!
//! Foreign code identifies a handle by its pointer alone, and may use it late: the longer a slot stays
//! unused, the later such a call is still found out.

use std::collections::VecDeque;

/// Quarantine, in slots, for steps and roots that ended normally.
const ENDED: usize = 1024;

/// Quarantine, in slots, for steps that ended without the answer they waited for.
///
/// Both together bound the quarantine of a thread to about three and a half megabytes, which it
/// reaches only after that many such steps.
const UNANSWERED: usize = 8192;

/// How a slot was used, which decides its quarantine.
#[derive(Clone, Copy)]
pub(crate) enum Use {
    /// The handle ended when its callback returned. No pointer to it is kept: no quarantine.
    Brief,
    Ended,
    /// Foreign code may still try to complete the step.
    Unanswered,
}

/// Free slots.
pub(crate) struct SlotPool<T: 'static> {
    /// Without quarantine. The one used last, which is in the cache, is taken first.
    ready: Vec<&'static T>,
    /// In quarantine, the oldest first.
    ended: VecDeque<&'static T>,
    unanswered: VecDeque<&'static T>,
}

impl<T> SlotPool<T> {
    pub(crate) const fn new() -> Self {
        Self { ready: Vec::new(), ended: VecDeque::new(), unanswered: VecDeque::new() }
    }

    /// A slot that can be used; `None` if new ones have to be made.
    pub(crate) fn take(&mut self) -> Option<&'static T> {
        self.ready.pop().or_else(|| self.after_quarantine())
    }

    fn after_quarantine(&mut self) -> Option<&'static T> {
        let queues = [(&mut self.ended, ENDED), (&mut self.unanswered, UNANSWERED)];
        queues.into_iter().find_map(
            |(queue, quarantine)| {
                if queue.len() > quarantine { queue.pop_front() } else { None }
            },
        )
    }

    pub(crate) fn give(&mut self, slot: &'static T, after: Use) {
        match after {
            Use::Brief => self.ready.push(slot),
            Use::Ended => self.ended.push_back(slot),
            Use::Unanswered => self.unanswered.push_back(slot),
        }
    }

    /// Adds slots that were never used.
    pub(crate) fn fill(&mut self, slots: impl Iterator<Item = &'static T>) {
        self.ready.extend(slots);
    }

    /// Takes over the slots of another pool.
    pub(crate) fn join(&mut self, other: &mut Self) {
        self.ready.append(&mut other.ready);
        self.ended.append(&mut other.ended);
        self.unanswered.append(&mut other.unanswered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Different slots.
    fn slots() -> impl Iterator<Item = &'static u8> {
        static SLOTS: [u8; UNANSWERED + 1] = [0; UNANSWERED + 1];
        SLOTS.iter()
    }

    #[test]
    fn brief_uses_share_one_slot_and_others_wait_in_quarantine() {
        for (after, quarantine) in [(Use::Ended, ENDED), (Use::Unanswered, UNANSWERED)] {
            let (mut pool, mut slots) = (SlotPool::new(), slots());
            let first = slots.next().unwrap();
            pool.give(first, Use::Brief);
            assert!(std::ptr::eq(pool.take().unwrap(), first));
            pool.give(first, after);
            slots.by_ref().take(quarantine - 1).for_each(|slot| pool.give(slot, after));
            assert_eq!(pool.take(), None, "all are in quarantine");
            pool.give(slots.next().unwrap(), after);
            assert!(std::ptr::eq(pool.take().unwrap(), first));
            assert_eq!(pool.take(), None);
        }
    }

    #[test]
    fn slots_of_another_thread_stay_in_quarantine() {
        let (mut pool, mut left, mut slots) = (SlotPool::new(), SlotPool::new(), slots());
        slots.by_ref().take(ENDED).for_each(|slot| left.give(slot, Use::Ended));
        left.fill(slots.take(2));
        pool.join(&mut left);
        assert!(left.take().is_none());
        assert!(pool.take().is_some() && pool.take().is_some());
        assert_eq!(pool.take(), None);
    }
}
