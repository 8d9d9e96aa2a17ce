//! Values with the lifetime of a step (FTN12 §1.14, §2.2.2 `stack`).

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

use crate::slot::SlotId;

/// Names a value made with [`AsyncSteps::stack`](crate::AsyncSteps::stack): copy it into the
/// closures of sub-steps (FTN12 §1.14).
///
/// The value is read with [`AsyncSteps::value`](crate::AsyncSteps::value) or, where its absence
/// would be a bug, by indexing: `asi[total] += 1`.
pub struct Stack<T> {
    id: SlotId,
    generation: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Stack<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Stack<T> {}

impl<T> fmt::Debug for Stack<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stack({})", self.id.slot())
    }
}

/// The values of all steps in progress; the values of one step are linked, the newest first.
#[derive(Default)]
pub(crate) struct StepValues {
    slots: Vec<ValueSlot>,
    free: Vec<SlotId>,
}

struct ValueSlot {
    value: Option<Box<dyn Any>>,
    /// How often the slot was used before.
    generation: u32,
    /// The value of the same step that was made before this one.
    older: Option<SlotId>,
    lifetime: Lifetime,
}

/// How long a value lives if its step is cancelled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// As long as the step.
    Step,
    /// Until everything inside of the step is undone: a lock.
    Undone,
}

impl StepValues {
    /// Keeps a value of a step whose newest value was `older`.
    pub(crate) fn insert<T: 'static>(
        &mut self,
        value: T,
        older: Option<SlotId>,
        lifetime: Lifetime,
    ) -> (SlotId, Stack<T>) {
        let (id, generation) = self.insert_boxed(Box::new(value), older, lifetime);
        (id, Stack { id, generation, of: PhantomData })
    }

    /// Keeps a value that has no name; returns its slot and the slot's generation.
    pub(crate) fn insert_boxed(
        &mut self,
        value: Box<dyn Any>,
        older: Option<SlotId>,
        lifetime: Lifetime,
    ) -> (SlotId, u32) {
        let value = Some(value);
        match self.free.pop() {
            Some(id) => {
                let slot = &mut self.slots[id.slot()];
                slot.value = value;
                slot.older = older;
                slot.lifetime = lifetime;
                (id, slot.generation)
            }
            None => {
                self.slots.push(ValueSlot { value, generation: 0, older, lifetime });
                (SlotId::new(self.slots.len() - 1), 0)
            }
        }
    }

    /// Makes a value the oldest one of the step that has `newest`.
    pub(crate) fn link_oldest(&mut self, newest: SlotId, oldest: SlotId) {
        let mut next = newest;
        while let Some(slot) = self.slots.get_mut(next.slot()) {
            match slot.older {
                Some(older) => next = older,
                None => {
                    slot.older = Some(oldest);
                    return;
                }
            }
        }
    }

    /// Takes the newest value of a step; returns the value and the id of the one made before it.
    pub(crate) fn remove(&mut self, id: SlotId) -> (Option<Box<dyn Any>>, Option<SlotId>) {
        let Some(slot) = self.slots.get_mut(id.slot()) else { return (None, None) };
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id);
        (slot.value.take(), slot.older.take())
    }

    /// Takes the locks among the values of one step, the newest first.
    pub(crate) fn take_locks(&mut self, newest: Option<SlotId>, locks: &mut Vec<Box<dyn Any>>) {
        let mut next = newest;
        while let Some(slot) = next.and_then(|id| self.slots.get_mut(id.slot())) {
            if slot.lifetime == Lifetime::Undone {
                locks.extend(slot.value.take());
            }
            next = slot.older;
        }
    }

    pub(crate) fn get<T: 'static>(&self, name: Stack<T>) -> Option<&T> {
        let slot = self.slots.get(name.id.slot())?;
        let is_same = slot.generation == name.generation;
        slot.value.as_ref().filter(|_| is_same)?.downcast_ref()
    }

    pub(crate) fn get_mut<T: 'static>(&mut self, name: Stack<T>) -> Option<&mut T> {
        let slot = self.slots.get_mut(name.id.slot())?;
        let is_same = slot.generation == name.generation;
        slot.value.as_mut().filter(|_| is_same)?.downcast_mut()
    }

    /// The values of one step, the newest first.
    pub(crate) fn linked(&self, newest: Option<SlotId>) -> impl Iterator<Item = &dyn Any> {
        let mut next = newest;
        std::iter::from_fn(move || {
            let slot = self.slots.get(next?.slot())?;
            next = slot.older;
            slot.value.as_deref()
        })
    }
}
