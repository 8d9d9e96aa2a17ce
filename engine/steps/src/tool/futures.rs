//! The futures of a loop (FTN12 §2.6), in slots.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// A future that a loop polls to its end.
pub(super) type Spawned = Pin<Box<dyn Future<Output = ()>>>;

/// Names a future of a loop; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FutureKey {
    pub(super) slot: usize,
    /// Distinguishes the future from others that had the slot.
    number: u64,
}

/// The futures of a loop; `W` wakes the future in a slot.
///
/// A slot keeps what wakes it. So a waker that outlives its future wakes the next one, which is polled
/// once more than needed.
pub(super) struct Futures<W> {
    slots: Vec<FutureSlot<W>>,
    free: Vec<usize>,
    /// The slots that were to be polled while they were being polled.
    missed: Vec<usize>,
}

struct FutureSlot<W> {
    /// The number of the future; `None` if the slot is free.
    number: Option<u64>,
    /// `None` while it is being polled.
    future: Option<Spawned>,
    wake: Arc<W>,
    /// `wake` as futures get it; `None` while one is being polled.
    waker: Option<Waker>,
}

/// A future that is being polled, and what wakes it.
pub(super) struct Polled {
    pub(super) key: FutureKey,
    pub(super) future: Spawned,
    pub(super) waker: Waker,
}

impl<W> Default for Futures<W> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), missed: Vec::new() }
    }
}

impl<W: Wake + Send + Sync + 'static> Futures<W> {
    /// Keeps the future of this number; returns its key and what wakes it, which is made for a new
    /// slot.
    pub(super) fn add(
        &mut self,
        number: u64,
        future: Spawned,
        make: impl FnOnce(usize) -> W,
    ) -> (FutureKey, &W) {
        let slot = self.free.pop().unwrap_or_else(|| {
            let slot = self.slots.len();
            let (number, future, wake) = (None, None, Arc::new(make(slot)));
            self.slots.push(FutureSlot { number, future, wake, waker: None });
            slot
        });
        let entry = &mut self.slots[slot];
        (entry.number, entry.future) = (Some(number), Some(future));
        (FutureKey { slot, number }, &entry.wake)
    }

    /// Takes a future to poll it, after `reset` of what wakes its slot; `None` if it has ended, or
    /// is cancelled or being polled.
    #[inline]
    pub(super) fn take(&mut self, slot: usize, reset: impl FnOnce(&W)) -> Option<Polled> {
        let entry = self.slots.get_mut(slot)?;
        reset(&entry.wake);
        let number = entry.number?;
        let Some(future) = entry.future.take() else {
            self.missed.push(slot);
            return None;
        };
        let waker = entry.waker.take().unwrap_or_else(|| Waker::from(Arc::clone(&entry.wake)));
        Some(Polled { key: FutureKey { slot, number }, future, waker })
    }

    /// Keeps a pending future; returns it if it was cancelled while it was being polled.
    pub(super) fn put_back(&mut self, polled: Polled) -> Option<Spawned> {
        let Polled { key, future, waker } = polled;
        let Some(slot) = self.slot(key) else { return Some(future) };
        slot.waker = Some(waker);
        slot.future.replace(future)
    }

    /// Whether the slot was woken while its future was being polled, and a round inside of that poll has
    /// taken the wake-up.
    #[inline]
    pub(super) fn was_missed(&mut self, slot: usize) -> bool {
        !self.missed.is_empty() && self.forget_missed(slot)
    }

    #[cold]
    fn forget_missed(&mut self, slot: usize) -> bool {
        let before = self.missed.len();
        self.missed.retain(|missed| *missed != slot);
        self.missed.len() < before
    }

    /// Forgets a future that has been polled to its end; returns it to be dropped.
    pub(super) fn end(&mut self, polled: Polled) -> Spawned {
        let Polled { key, future, waker } = polled;
        if let Some(slot) = self.slot(key) {
            slot.waker = Some(waker);
            self.remove(key);
        }
        future
    }

    /// Forgets a future; returns it if it is not being polled.
    pub(super) fn remove(&mut self, key: FutureKey) -> Option<Spawned> {
        let slot = self.slot(key)?;
        slot.number = None;
        let future = slot.future.take();
        self.free.push(key.slot);
        future
    }

    /// Takes all futures out.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Spawned> + use<W> {
        self.free.clear();
        self.missed.clear();
        mem::take(&mut self.slots).into_iter().filter_map(|slot| slot.future)
    }

    pub(super) fn contains(&self, key: FutureKey) -> bool {
        self.slots.get(key.slot).is_some_and(|slot| slot.number == Some(key.number))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.len() == self.free.len()
    }

    #[inline]
    fn slot(&mut self, key: FutureKey) -> Option<&mut FutureSlot<W>> {
        self.slots.get_mut(key.slot).filter(|slot| slot.number == Some(key.number))
    }
}
