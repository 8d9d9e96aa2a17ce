//! Values with the lifetime of a step (FTN12 §1.14, §2.2.2 `stack`).

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

use super::AsyncSteps;
use super::level::{Kind, SlotId};

/// Names a value made with [`AsyncSteps::stack`]: copy it into the closures of sub-steps.
///
/// The value is read with [`AsyncSteps::value`] or, where its absence would be a bug, by
/// indexing: `asi[total] += 1`.
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

/// The values of all steps in progress; those of one step are linked, the newest first.
#[derive(Default)]
pub(super) struct Values {
    slots: Vec<Slot>,
    free: Vec<SlotId>,
}

struct Slot {
    value: Option<Box<dyn Any>>,
    generation: u32,
    before: Option<SlotId>,
}

impl Values {
    /// Gives where the value is, and how often the slot was used before.
    fn insert(&mut self, value: Box<dyn Any>, before: Option<SlotId>) -> (SlotId, u32) {
        if let Some(id) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(id.slot())
        {
            slot.value = Some(value);
            slot.before = before;
            return (id, slot.generation);
        }
        self.slots.push(Slot { value: Some(value), generation: 0, before });
        (SlotId::new(self.slots.len() - 1), 0)
    }

    /// Takes the newest value of a step; gives the value and the one made before it.
    fn remove(&mut self, id: SlotId) -> (Option<Box<dyn Any>>, Option<SlotId>) {
        let Some(slot) = self.slots.get_mut(id.slot()) else { return (None, None) };
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id);
        (slot.value.take(), slot.before.take())
    }

    fn slot<T>(&self, name: Stack<T>) -> Option<&Slot> {
        self.slots.get(name.id.slot()).filter(|slot| slot.generation == name.generation)
    }
}

impl AsyncSteps {
    /// Keeps a value as long as this step and its sub-steps live (FTN12 §1.14).
    ///
    /// In a loop body the value lives until the iteration ends. Values of a step are dropped once,
    /// in reverse order, whatever ends the step; no value outlives its flow.
    ///
    /// ```
    /// # use asyncsteps::Flow;
    /// let mut flow = Flow::new();
    /// flow.add(|asi, ()| {
    ///     let total = asi.stack(0);
    ///     asi.repeat(4, move |asi, i| asi[total] += i);
    ///     asi.add(move |asi, ()| asi.success(asi[total]));
    /// });
    /// assert_eq!(asyncsteps::run_to_end::<usize>(flow).unwrap(), 6);
    /// ```
    pub fn stack<T: 'static>(&mut self, value: T) -> Stack<T> {
        let before = self.strand.top.values();
        let (id, generation) = self.more().values.insert(Box::new(value), before);
        self.strand.top.rare().values = Some(id);
        Stack { id, generation, of: PhantomData }
    }

    /// Keeps a value as long as this step and its sub-steps live, without a name: the cheapest way
    /// to own a lock. It is dropped after the values made with [`stack`](Self::stack).
    pub fn hold<T: 'static>(&mut self, value: T) {
        match self.strand.top.kind {
            Kind::Step => self.strand.top.kind = Kind::Holding(Box::new(value)),
            Kind::Holding(_)
            | Kind::Waiting(_)
            | Kind::Loop(_)
            | Kind::Parallel(_)
            | Kind::Await(_) => {
                self.stack(value);
            }
        }
    }

    /// Reads a value made with [`stack`](Self::stack); `None` after its step ended.
    #[must_use]
    pub fn value<T: 'static>(&self, name: Stack<T>) -> Option<&T> {
        let slot = self.more.as_ref()?.values.slot(name)?;
        slot.value.as_ref()?.downcast_ref()
    }

    /// Changes a value made with [`stack`](Self::stack); `None` after its step ended.
    #[must_use]
    pub fn value_mut<T: 'static>(&mut self, name: Stack<T>) -> Option<&mut T> {
        let values = &mut self.more.as_mut()?.values;
        values.slot(name)?;
        values.slots.get_mut(name.id.slot())?.value.as_mut()?.downcast_mut()
    }

    /// The values of one step, the newest first.
    pub(super) fn values_of(&self, newest: Option<SlotId>) -> impl Iterator<Item = &dyn Any> {
        let mut next = newest;
        std::iter::from_fn(move || {
            let slot = self.more.as_ref()?.values.slots.get(next?.slot())?;
            next = slot.before;
            slot.value.as_deref()
        })
    }

    /// Drops the values of the innermost step, the newest first.
    pub(super) fn drop_values(&mut self) {
        while let Some(id) = self.strand.top.values() {
            let (value, before) = self.more().values.remove(id);
            self.strand.top.rare().values = before;
            drop(value);
        }
    }
}

impl<T: 'static> std::ops::Index<Stack<T>> for AsyncSteps {
    type Output = T;

    /// # Panics
    /// After the step of the value ended; inside a step that becomes an `InternalError`.
    fn index(&self, name: Stack<T>) -> &T {
        match self.value(name) {
            Some(value) => value,
            None => panic!("a value made with `stack` was used after its step ended"),
        }
    }
}

impl<T: 'static> std::ops::IndexMut<Stack<T>> for AsyncSteps {
    fn index_mut(&mut self, name: Stack<T>) -> &mut T {
        match self.value_mut(name) {
            Some(value) => value,
            None => panic!("a value made with `stack` was used after its step ended"),
        }
    }
}
