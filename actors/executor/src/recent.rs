//! Bounded memories of clients and passwords.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::mem;

/// A table that forgets the entry that was not used for longest.
///
/// It holds at most `capacity` entries, and never forgets one that is among the `capacity / 2`
/// used last: two generations, of which the older one is dropped when the younger one is full.
#[derive(Debug, Clone)]
pub(crate) struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    /// Of one generation.
    capacity: usize,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    /// A table of at most `capacity` entries; it holds two even if that is less.
    #[must_use]
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = (capacity / 2).max(1);
        Self { young: HashMap::new(), old: HashMap::new(), capacity }
    }

    /// The value of `key`, which is used now; made if there is none.
    pub(crate) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if self.young.len() >= self.capacity && !self.young.contains_key(&key) {
            let kept = self.old.remove(&key);
            self.old = mem::take(&mut self.young);
            return self.young.entry(key).or_insert_with(|| kept.unwrap_or_else(make));
        }
        let old = &mut self.old;
        match self.young.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => {
                let kept = old.remove(vacant.key());
                vacant.insert(kept.unwrap_or_else(make))
            }
        }
    }

    /// Forgets an entry.
    pub(crate) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.young.remove(key);
        self.old.remove(key);
    }

    /// The value of `key`, if it is not forgotten. To look does not count as use.
    #[must_use]
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.young.get(key).or_else(|| self.old.get(key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn len<K, V>(table: &Recent<K, V>) -> usize {
        table.young.len() + table.old.len()
    }

    #[test]
    fn a_value_is_kept_while_it_is_used() {
        let mut table = Recent::new(8);
        table.get_or_insert_with(0, || "kept");
        for key in 1..1000 {
            table.get_or_insert_with(key, || "other");
            assert_eq!(*table.get_or_insert_with(0, || "lost"), "kept");
            assert!(len(&table) <= 8);
        }
        assert_eq!(table.get(&0), Some(&"kept"));
        assert_eq!(table.get(&1), None);
    }

    proptest! {
    #[test]
        fn the_table_is_bounded_and_keeps_the_last(
            keys in prop::collection::vec(0_u8..40, 1..300), capacity in 0_usize..30,
        ) {
            let mut table = Recent::new(capacity);
            for (now, key) in keys.iter().enumerate() {
                table.get_or_insert_with(*key, || *key);
                prop_assert!(len(&table) <= capacity.max(2));
                let mut last: Vec<u8> = Vec::new();
                for key in keys[..=now].iter().rev() {
                    if !last.contains(key) {
                        last.push(*key);
                    }
                }
                for key in last.iter().take((capacity / 2).max(1)) {
                    let known = table.young.contains_key(key) || table.old.contains_key(key);
                    prop_assert!(known, "{} of {:?} is forgotten", key, last);
                }
            }
        }
    }
}
