//! What a loop has to call and when: callbacks by time, futures by name.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use super::remote::WakeFuture;
use crate::time::Time;

pub(super) type Task = Box<dyn FnOnce()>;

/// A future with what wakes it.
pub(super) struct Spawned {
    pub(super) future: Pin<Box<dyn Future<Output = ()>>>,
    pub(super) wake: Arc<WakeFuture>,
}

impl Spawned {
    pub(super) fn new(future: impl Future<Output = ()> + 'static, wake: Arc<WakeFuture>) -> Self {
        Self { future: Box::pin(future), wake }
    }
}

/// Names an entry of a [`Queue`]; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// In the order of time; those of the same time in the order in which they were scheduled.
    Task(Time, u64),
    Future(u64),
}

/// What was taken out of a [`Queue`]; whoever took it drops it when nothing is borrowed any more.
#[must_use = "its destructor may call the loop"]
pub(super) enum Entry {
    Task(#[expect(dead_code, reason = "kept to be dropped")] Task),
    Future(#[expect(dead_code, reason = "kept to be dropped")] Spawned),
}

/// The entries of a loop.
#[derive(Default)]
pub(super) struct Queue {
    tasks: BTreeMap<(Time, u64), Task>,
    /// `None` while it is being polled.
    futures: BTreeMap<u64, Option<Spawned>>,
    numbers: u64,
}

impl Queue {
    pub(super) fn add_task(&mut self, at: Time, task: Task) -> Key {
        let number = self.number();
        self.tasks.insert((at, number), task);
        Key::Task(at, number)
    }

    /// Reserves the name of a future, as if it was being polled.
    pub(super) fn add_future(&mut self) -> u64 {
        let number = self.number();
        self.futures.insert(number, None);
        number
    }

    /// The next callback that is due, of those that were scheduled before the number `limit`.
    pub(super) fn take_due(&mut self, now: Time, limit: u64) -> Option<Task> {
        let mut due = self.tasks.range(..=(now, u64::MAX));
        let key = *due.find(|((_, number), _)| *number < limit)?.0;
        self.tasks.remove(&key)
    }

    /// A future to poll; `None` if it is over or cancelled.
    pub(super) fn take_future(&mut self, number: u64) -> Option<Spawned> {
        self.futures.get_mut(&number)?.take()
    }

    /// Keeps a pending future; gives it back if it was cancelled while it was being polled.
    pub(super) fn put_back(&mut self, number: u64, spawned: Spawned) -> Option<Entry> {
        match self.futures.get_mut(&number) {
            Some(place) => place.replace(spawned).map(Entry::Future),
            None => Some(Entry::Future(spawned)),
        }
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Entry> {
        match key {
            Key::Task(at, number) => self.tasks.remove(&(at, number)).map(Entry::Task),
            Key::Future(number) => self.futures.remove(&number)?.map(Entry::Future),
        }
    }

    /// Takes everything out.
    pub(super) fn take_all(&mut self) -> Vec<Entry> {
        let tasks = std::mem::take(&mut self.tasks).into_values().map(Entry::Task);
        let futures = std::mem::take(&mut self.futures).into_values().flatten();
        tasks.chain(futures.map(Entry::Future)).collect()
    }

    pub(super) fn contains(&self, key: Key) -> bool {
        match key {
            Key::Task(at, number) => self.tasks.contains_key(&(at, number)),
            Key::Future(number) => self.futures.contains_key(&number),
        }
    }

    /// When the first callback is due.
    pub(super) fn earliest(&self) -> Option<Time> {
        self.tasks.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.futures.is_empty()
    }

    /// The number that the next entry gets.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers
    }

    fn number(&mut self) -> u64 {
        let number = self.numbers;
        self.numbers += 1;
        number
    }
}
