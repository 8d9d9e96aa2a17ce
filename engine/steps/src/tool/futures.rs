//! The futures of a loop (FTN12 §2.6), by number.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;

/// A future, `W`, which wakes it, and the same as a waker.
pub(super) struct Spawned<W> {
    pub(super) future: Pin<Box<dyn Future<Output = ()>>>,
    pub(super) wake: Arc<W>,
    pub(super) waker: Waker,
}

/// Names a future of a loop; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FutureKey {
    slot: usize,
    /// Tells the future from others that had the slot.
    number: u64,
}

/// The futures of a loop.
pub(super) struct Futures<W> {
    /// `None` is a free slot.
    slots: Vec<Option<Slot<W>>>,
    free: Vec<usize>,
}

struct Slot<W> {
    number: u64,
    /// `None` while it is being polled.
    spawned: Option<Spawned<W>>,
}

impl<W> Default for Futures<W> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<W> Futures<W> {
    /// Keeps the future of this number, which is made with its key.
    pub(super) fn add(
        &mut self,
        number: u64,
        make: impl FnOnce(FutureKey) -> Spawned<W>,
    ) -> FutureKey {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let key = FutureKey { slot, number };
        self.slots[slot] = Some(Slot { number, spawned: Some(make(key)) });
        key
    }

    /// Takes a future to poll it; `None` if it is over or cancelled.
    pub(super) fn take(&mut self, key: FutureKey) -> Option<Spawned<W>> {
        self.slot(key)?.spawned.take()
    }

    /// Keeps a pending future; gives it back if it was cancelled while it was being polled.
    pub(super) fn put_back(&mut self, key: FutureKey, spawned: Spawned<W>) -> Option<Spawned<W>> {
        match self.slot(key) {
            Some(slot) => slot.spawned.replace(spawned),
            None => Some(spawned),
        }
    }

    /// Forgets a future; gives it if it is not being polled.
    pub(super) fn remove(&mut self, key: FutureKey) -> Option<Spawned<W>> {
        self.slot(key)?;
        self.free.push(key.slot);
        self.slots[key.slot].take()?.spawned
    }

    /// Takes all futures out.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Spawned<W>> + use<W> {
        self.free.clear();
        mem::take(&mut self.slots).into_iter().filter_map(|slot| slot?.spawned)
    }

    pub(super) fn contains(&self, key: FutureKey) -> bool {
        let slot = self.slots.get(key.slot).and_then(Option::as_ref);
        slot.is_some_and(|slot| slot.number == key.number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.len() == self.free.len()
    }

    #[inline]
    fn slot(&mut self, key: FutureKey) -> Option<&mut Slot<W>> {
        self.slots.get_mut(key.slot)?.as_mut().filter(|slot| slot.number == key.number)
    }
}
