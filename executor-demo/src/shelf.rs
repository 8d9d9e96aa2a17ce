//! What orders in flight have reserved.
//!
//! The stock is in the database and nowhere else. An order reserves its units while it gathers
//! them, so that of two orders for the last unit one is told at once; the transaction that writes
//! an order decides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The reserved units of each SKU; shared by all arbiters. SKUs without any are not in it.
#[derive(Clone, Debug, Default)]
pub struct Shelf(Arc<Mutex<HashMap<Arc<str>, i64>>>);

impl Shelf {
    /// An empty basket.
    pub fn basket(&self) -> Basket {
        Basket { shelf: self.clone(), held: Mutex::default() }
    }
}

/// The units that one order has reserved. Dropping it gives them back, so that whatever ends a
/// request cannot leak them.
#[derive(Debug)]
#[must_use = "dropping it gives the units back"]
pub struct Basket {
    shelf: Shelf,
    held: Mutex<Vec<(Arc<str>, i64)>>,
}

impl Basket {
    /// Reserves units if the stock has as many beyond those that are reserved; tells whether it
    /// did.
    #[must_use]
    pub fn reserve(&self, sku: &Arc<str>, qty: i64, stock: i64) -> bool {
        let mut shelf = lock(&self.shelf.0);
        let reserved = shelf.get(sku).copied().unwrap_or(0);
        if stock - reserved < qty {
            return false;
        }
        shelf.insert(Arc::clone(sku), reserved + qty);
        lock(&self.held).push((Arc::clone(sku), qty));
        true
    }

    /// Gives all units back when it is called, unless the basket is gone by then: so it can wait for its
    /// turn without keeping them.
    pub fn given_back(self: &Arc<Self>) -> impl FnOnce() + Send + 'static {
        let basket = Arc::downgrade(self);
        move || {
            if let Some(basket) = basket.upgrade() {
                basket.give_back();
            }
        }
    }

    /// Gives all units back: they are sold, or not wanted.
    pub fn give_back(&self) {
        let mut shelf = lock(&self.shelf.0);
        for (sku, qty) in lock(&self.held).drain(..) {
            let reserved = shelf.get(&sku).copied().unwrap_or(0) - qty;
            match reserved > 0 {
                true => shelf.insert(sku, reserved),
                false => shelf.remove(&sku),
            };
        }
    }
}

impl Drop for Basket {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The locks are held for a look-up only, and nothing in it can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_basket_holds_no_other_one_gets() {
        let (shelf, apple) = (Shelf::default(), Arc::<str>::from("apple"));
        let (one, other) = (shelf.basket(), shelf.basket());
        assert!(one.reserve(&apple, 2, 3));
        assert!(!other.reserve(&apple, 2, 3));
        assert!(other.reserve(&apple, 1, 3));
        drop(one);
        assert!(!other.reserve(&apple, 3, 3));
        other.give_back();
        assert!(other.reserve(&apple, 3, 3));
        other.give_back();
        drop(other);
        assert!(lock(&shelf.0).is_empty());
    }
}
