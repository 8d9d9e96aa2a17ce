//! The states of keys on this node: a key takes memory while it is used.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::store::LockId;

/// A table of states.
pub(crate) struct StateTable<T>(Mutex<HashMap<LockId, Weak<T>>>);

impl<T> Default for StateTable<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> StateTable<T> {
    /// The state of a key; made if there is none.
    pub(crate) fn get(&self, id: &LockId, make: impl FnOnce() -> T) -> Arc<T> {
        let mut states = self.0.lock();
        if let Some(state) = states.get(id).and_then(Weak::upgrade) {
            return state;
        }
        if states.len() == states.capacity() {
            // keys that are not used any more, before there is room for more
            states.retain(|_, state| state.strong_count() > 0);
        }
        let state = Arc::new(make());
        states.insert(id.clone(), Arc::downgrade(&state));
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_not_used_take_no_memory() {
        let keys = StateTable::default();
        let id = |key: u32| LockId { name: "n", key: Arc::from(key.to_string()) };
        let kept = keys.get(&id(0), || 0);
        for key in 1..10_000 {
            assert_eq!(*keys.get(&id(key), || key), key);
        }
        assert!(Arc::ptr_eq(&kept, &keys.get(&id(0), || 1)));
        assert!(keys.0.lock().capacity() < 100);
    }
}
