//! What can be sold now: the stock in the database less what is reserved.
//!
//! A reservation is owned. Whoever drops it without [`Reservation::sell`] gives the units back, so
//! that a cancelled request cannot leak them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The units of each SKU that nobody reserved; shared by all arbiters and the database thread.
///
/// A SKU is here once it was loaded. It stays: there are as many as products.
#[derive(Clone, Debug, Default)]
pub struct Shelf(Arc<Mutex<HashMap<Arc<str>, i64>>>);

impl Shelf {
    /// Whether the SKU was loaded.
    #[must_use]
    pub fn knows(&self, sku: &str) -> bool {
        self.lock().contains_key(sku)
    }

    /// Takes over the stock of a SKU, unless it is known: then the shelf knows better.
    pub fn load(&self, sku: &Arc<str>, stock: i64) {
        self.lock().entry(Arc::clone(sku)).or_insert(stock);
    }

    /// Adds units.
    pub fn put(&self, sku: &Arc<str>, count: i64) {
        *self.lock().entry(Arc::clone(sku)).or_insert(0) += count;
    }

    /// Takes units off the shelf; `None`, and nothing taken, if there are not enough.
    #[must_use]
    pub fn reserve(&self, sku: &Arc<str>, qty: i64) -> Option<Reservation> {
        let mut shelf = self.lock();
        let free = shelf.get_mut(sku)?;
        if *free < qty {
            return None;
        }
        *free -= qty;
        Some(Reservation { shelf: self.clone(), sku: Arc::clone(sku), qty })
    }

    /// The lock is held for a look-up only, and nothing in it can panic.
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Units that are neither on the shelf nor sold.
#[derive(Debug)]
#[must_use = "dropping it gives the units back"]
pub struct Reservation {
    shelf: Shelf,
    sku: Arc<str>,
    qty: i64,
}

impl Reservation {
    /// The SKU.
    #[must_use]
    pub fn sku(&self) -> &Arc<str> {
        &self.sku
    }

    /// How many units.
    #[must_use]
    pub fn qty(&self) -> i64 {
        self.qty
    }

    /// The units are sold: they do not come back.
    pub fn sell(mut self) {
        self.qty = 0;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.qty > 0 {
            self.shelf.put(&self.sku, self.qty);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_reservations_come_back_and_sold_ones_do_not() {
        let (shelf, apple) = (Shelf::default(), Arc::<str>::from("apple"));
        assert!(shelf.reserve(&apple, 1).is_none(), "an unknown SKU");
        shelf.load(&apple, 3);
        shelf.load(&apple, 100);
        let two = shelf.reserve(&apple, 2).expect("three are there");
        assert!(shelf.reserve(&apple, 2).is_none());
        drop(two);
        shelf.reserve(&apple, 3).expect("all came back").sell();
        assert!(shelf.reserve(&apple, 1).is_none());
        shelf.put(&apple, 1);
        assert!(shelf.reserve(&apple, 1).is_some());
    }
}
