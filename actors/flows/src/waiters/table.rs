//! The steps that wait, by their keys.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use asyncsteps::Completion;

/// The steps that wait for a value under a key.
pub(super) struct Table<K, V> {
    name: &'static str,
    max: usize,
    waiting: Mutex<HashMap<K, Waiting<V>>>,
}

/// A step that waits.
struct Waiting<V> {
    step: Completion,
    value: Arc<Value<V>>,
}

/// The value on its way to its step.
pub(super) struct Value<V>(Mutex<Option<V>>);

/// The entry of a step, until this is dropped.
pub(super) struct Registered<K: Eq + Hash, V> {
    table: Weak<Table<K, V>>,
    key: K,
    value: Arc<Value<V>>,
}

/// Why a step does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Full,
    Taken,
}

impl<K: Eq + Hash, V> Table<K, V> {
    pub(super) fn new(name: &'static str, max: usize) -> Self {
        Self { name, max, waiting: Mutex::default() }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn len(&self) -> usize {
        guarded(&self.waiting).len()
    }

    /// Enters a step, which waits for a completion and then takes its value.
    pub(super) fn register(
        self: &Arc<Self>,
        key: K,
        value: &Arc<Value<V>>,
        step: Completion,
    ) -> Result<Registered<K, V>, Refused>
    where
        K: Clone,
    {
        let mut waiting = guarded(&self.waiting);
        let is_full = waiting.len() >= self.max;
        let Entry::Vacant(entry) = waiting.entry(key.clone()) else { return Err(Refused::Taken) };
        if is_full {
            return Err(Refused::Full);
        }
        let value = Arc::clone(value);
        entry.insert(Waiting { step, value: Arc::clone(&value) });
        Ok(Registered { table: Arc::downgrade(self), key, value })
    }

    pub(super) fn complete<Q>(&self, key: &Q, value: V) -> Result<(), V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        // not locked while the step is woken, because that runs foreign code
        let removed = guarded(&self.waiting).remove(key);
        let Some(waiting) = removed else { return Err(value) };
        waiting.value.put(value);
        match waiting.step.success(()) {
            Ok(()) => Ok(()),
            Err(_) => waiting.value.take().map_or(Ok(()), Err),
        }
    }
}

impl<V> Value<V> {
    pub(super) fn none() -> Arc<Self> {
        Arc::new(Self(Mutex::new(None)))
    }

    pub(super) fn take(&self) -> Option<V> {
        guarded(&self.0).take()
    }

    fn put(&self, value: V) {
        *guarded(&self.0) = Some(value);
    }
}

impl<K: Eq + Hash, V> Drop for Registered<K, V> {
    fn drop(&mut self) {
        let Some(table) = self.table.upgrade() else { return };
        let mut waiting = guarded(&table.waiting);
        // the entry may be that of a step that waits for the same key by now
        let is_own = |waiting: &Waiting<V>| Arc::ptr_eq(&waiting.value, &self.value);
        let removed = waiting.get(&self.key).is_some_and(is_own).then(|| waiting.remove(&self.key));
        drop(waiting);
        drop(removed);
    }
}

/// Locks what is held for a moment.
fn guarded<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
