//! Objects by key: a key takes memory while it is used.

use std::sync::{Arc, Weak};

use dashmap::{DashMap, Entry};

/// A table of objects. An object [forgets](Self::forget) its key when it is dropped.
#[derive(Debug)]
pub(super) struct KeyTable<T>(DashMap<Arc<str>, Weak<T>>);

impl<T> KeyTable<T> {
    pub(super) fn new() -> Self {
        Self(DashMap::new())
    }

    /// The object of a key; made if there is none.
    pub(super) fn get(&self, key: &str, make: impl FnOnce(Arc<str>) -> T) -> Arc<T> {
        if let Some(object) = self.0.get(key).and_then(|object| object.upgrade()) {
            return object;
        }
        match self.0.entry(Arc::from(key)) {
            Entry::Vacant(free) => {
                let object = Arc::new(make(Arc::clone(free.key())));
                free.insert(Arc::downgrade(&object));
                object
            }
            Entry::Occupied(mut taken) => taken.get().upgrade().unwrap_or_else(|| {
                let object = Arc::new(make(Arc::clone(taken.key())));
                taken.insert(Arc::downgrade(&object));
                object
            }),
        }
    }

    /// Removes the key of an object that is gone, unless another object has the key by now.
    pub(super) fn forget(&self, key: &str) {
        self.0.remove_if(key, |_, object| object.strong_count() == 0);
    }

    /// All objects in use, in the order of their keys. They are collected first, because dropping the last handle of one while
    /// the table is locked would lock it again.
    pub(super) fn all(&self) -> Vec<Arc<T>> {
        let objects = self.0.iter();
        let objects = objects.filter_map(|it| Some((Arc::clone(it.key()), it.upgrade()?)));
        let mut objects: Vec<_> = objects.collect();
        objects.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        objects.into_iter().map(|(_, object)| object).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Object<'a>(Arc<str>, &'a KeyTable<Self>);

    impl Drop for Object<'_> {
        fn drop(&mut self) {
            self.1.forget(&self.0);
        }
    }

    #[test]
    fn a_key_is_there_while_its_object_is() {
        let keys = Box::leak(Box::new(KeyTable::new()));
        let get = |key| keys.get(key, |key| Object(key, keys));
        let (one, same, other) = (get("a"), get("a"), get("b"));
        assert!(Arc::ptr_eq(&one, &same) && !Arc::ptr_eq(&one, &other));
        drop((one, other));
        assert_eq!(keys.all().len(), 1);
        drop(same);
        assert_eq!(keys.0.len(), 0);
    }

    #[test]
    fn an_object_that_goes_late_leaves_its_successor_alone() {
        let keys = Box::leak(Box::new(KeyTable::new()));
        let get = |key| keys.get(key, |key| Object(key, keys));
        let (one, two) = (get("a"), Arc::new(Object(Arc::from("a"), keys)));
        drop(two);
        assert_eq!(keys.all().len(), 1);
        drop(one);
        assert_eq!(keys.0.len(), 0);
    }
}
