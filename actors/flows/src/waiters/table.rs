//! The steps that wait, by their keys.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use asyncsteps_core::{Completion, SendArguments};

/// The steps that wait for a value under a key.
pub(super) struct Table<K, V> {
    name: &'static str,
    max: usize,
    waiting: Mutex<Waiting<K>>,
    values: PhantomData<fn(V)>,
}

/// The steps that wait, and how many did before.
struct Waiting<K> {
    steps: HashMap<K, (u64, Completion)>,
    numbers: u64,
}

/// The entry of a step, until this is dropped.
pub(super) struct Registered<K: Eq + Hash, V> {
    table: Weak<Table<K, V>>,
    key: K,
    number: u64,
}

/// Why a step does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Full,
    Taken,
}

impl<K: Eq + Hash, V> Table<K, V> {
    pub(super) fn new(name: &'static str, max: usize) -> Self {
        let waiting = Waiting { steps: HashMap::new(), numbers: 0 };
        Self { name, max, waiting: Mutex::new(waiting), values: PhantomData }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn len(&self) -> usize {
        self.waiting().steps.len()
    }

    /// Enters a step, which waits for a completion with its value.
    pub(super) fn register(
        self: &Arc<Self>,
        key: K,
        step: Completion,
    ) -> Result<Registered<K, V>, Refused>
    where
        K: Clone,
    {
        let mut waiting = self.waiting();
        let Waiting { steps, numbers } = &mut *waiting;
        let is_full = steps.len() >= self.max;
        let Entry::Vacant(entry) = steps.entry(key.clone()) else { return Err(Refused::Taken) };
        if is_full {
            return Err(Refused::Full);
        }
        *numbers += 1;
        entry.insert((*numbers, step));
        Ok(Registered { table: Arc::downgrade(self), key, number: *numbers })
    }

    pub(super) fn complete<Q>(&self, key: &Q, value: V) -> Result<(), V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
        V: SendArguments,
    {
        // not locked while the step is woken, because that runs foreign code
        let removed = self.waiting().steps.remove(key);
        match removed {
            Some((_, step)) => step.try_success(value),
            None => Err(value),
        }
    }

    /// Locks what is held for a moment.
    fn waiting(&self) -> MutexGuard<'_, Waiting<K>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, V> Drop for Registered<K, V> {
    fn drop(&mut self) {
        let Some(table) = self.table.upgrade() else { return };
        let mut waiting = table.waiting();
        // the entry may be that of a step that waits for the same key by now
        let is_own = waiting.steps.get(&self.key).is_some_and(|(number, _)| *number == self.number);
        let removed = if is_own { waiting.steps.remove(&self.key) } else { None };
        drop(waiting);
        drop(removed);
    }
}
