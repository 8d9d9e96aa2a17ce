//! The queue of a loop (FTN12 §2.6): callbacks by time, futures by number.

use std::collections::BTreeMap;
use std::task::Wake;

use super::futures::{FutureKey, Futures, Spawned};
use crate::time::Time;

pub(super) type Task = Box<dyn FnOnce()>;

/// Names a callback or a future of a [`LoopQueue`]; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LoopKey {
    /// In the order of time, then in the order in which they were scheduled.
    Task(Time, u64),
    Future(FutureKey),
}

/// A value that was taken out of a [`LoopQueue`], to be dropped when the queue is not borrowed any
/// more.
#[must_use = "its destructor may call the loop"]
pub(super) enum Removed {
    Task(#[expect(dead_code, reason = "kept to be dropped")] Task),
    Future(#[expect(dead_code, reason = "kept to be dropped")] Spawned),
}

/// The callbacks and futures of a loop.
pub(super) struct LoopQueue<W> {
    tasks: BTreeMap<(Time, u64), Task>,
    pub(super) futures: Futures<W>,
    /// The next number to be assigned.
    next_number: u64,
}

impl<W> Default for LoopQueue<W> {
    fn default() -> Self {
        Self { tasks: BTreeMap::new(), futures: Futures::default(), next_number: 0 }
    }
}

impl<W: Wake + Send + Sync + 'static> LoopQueue<W> {
    pub(super) fn add_task(&mut self, at: Time, task: Task) -> LoopKey {
        let number = self.number();
        self.tasks.insert((at, number), task);
        LoopKey::Task(at, number)
    }

    /// Keeps a future; returns its key and what wakes it, which is made for a new slot.
    pub(super) fn add_future(
        &mut self,
        future: Spawned,
        make: impl FnOnce(usize) -> W,
    ) -> (FutureKey, &W) {
        let number = self.number();
        self.futures.add(number, future, make)
    }

    /// The next due callback among the ones scheduled before the number `limit`.
    pub(super) fn take_due(&mut self, now: Time, limit: u64) -> Option<Task> {
        if self.tasks.is_empty() {
            return None;
        }
        let mut due = self.tasks.range(..=(now, u64::MAX));
        let key = *due.find(|((_, number), _)| *number < limit)?.0;
        self.tasks.remove(&key)
    }

    pub(super) fn remove(&mut self, key: LoopKey) -> Option<Removed> {
        match key {
            LoopKey::Task(at, number) => self.tasks.remove(&(at, number)).map(Removed::Task),
            LoopKey::Future(key) => self.futures.remove(key).map(Removed::Future),
        }
    }

    /// Takes everything out.
    pub(super) fn take_all(&mut self) -> Vec<Removed> {
        let tasks = std::mem::take(&mut self.tasks).into_values().map(Removed::Task);
        tasks.chain(self.futures.take_all().map(Removed::Future)).collect()
    }

    pub(super) fn contains(&self, key: LoopKey) -> bool {
        match key {
            LoopKey::Task(at, number) => self.tasks.contains_key(&(at, number)),
            LoopKey::Future(key) => self.futures.contains(key),
        }
    }

    /// When the first callback is due.
    pub(super) fn earliest(&self) -> Option<Time> {
        self.tasks.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.futures.is_empty()
    }

    /// The number that the next callback or future gets.
    pub(super) fn next_number(&self) -> u64 {
        self.next_number
    }

    fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }
}
