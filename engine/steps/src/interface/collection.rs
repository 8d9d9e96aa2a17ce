//! The collections that loops iterate over (FTN12 §2.2.4 `forEach`).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

#[cfg(doc)]
use crate::stack::AsyncSteps;

/// A collection that [`AsyncSteps::for_each`] iterates over: lists yield index and value, maps key
/// and value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no collection that a loop can own",
    label = "neither a list, nor a map, nor an array",
    note = "collect an iterator into a `Vec` first, and give a borrowed collection away or clone it"
)]
pub trait Collection {
    /// `usize`, or the key of a map.
    type Key;
    /// The values.
    type Value;
    /// Yields all entries by value.
    fn entries(self) -> impl Iterator<Item = (Self::Key, Self::Value)> + 'static;
}

macro_rules! list {
    ($([$($generic:tt)*] $List:ty),+) => { $(
        impl<$($generic)*> Collection for $List {
            type Key = usize;
            type Value = T;

            fn entries(self) -> impl Iterator<Item = (usize, T)> + 'static {
                self.into_iter().enumerate()
            }
        }
    )+ };
}

list!([T: 'static] Vec<T>, [T: 'static] VecDeque<T>, [T: 'static, const N: usize] [T; N]);

impl<K: 'static, V: 'static> Collection for BTreeMap<K, V> {
    type Key = K;
    type Value = V;

    fn entries(self) -> impl Iterator<Item = (K, V)> + 'static {
        self.into_iter()
    }
}

impl<K: 'static, V: 'static, S: 'static> Collection for HashMap<K, V, S> {
    type Key = K;
    type Value = V;

    fn entries(self) -> impl Iterator<Item = (K, V)> + 'static {
        self.into_iter()
    }
}

/// A shared list, read without copying it.
impl<T: Clone + 'static> Collection for Arc<[T]> {
    type Key = usize;
    type Value = T;

    fn entries(self) -> impl Iterator<Item = (usize, T)> + 'static {
        (0..self.len()).map(move |index| (index, self[index].clone()))
    }
}
