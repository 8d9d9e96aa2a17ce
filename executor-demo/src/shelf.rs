//! The reservations of orders in flight.
//!
//! The stock is in the database and nowhere else. An order reserves its units while it gathers
//! them, so that of two orders for the last unit one is refused at once; the transaction that
//! writes an order decides.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::interface::ShopError;

/// The reserved units of each SKU; shared by all arbiters. SKUs without any are not in it.
#[derive(Clone, Debug, Default)]
pub struct Shelf(Arc<Mutex<HashMap<Arc<str>, i64>>>);

impl Shelf {
    /// An empty basket.
    pub fn basket(&self) -> Basket {
        Basket(Arc::new(HeldUnits { shelf: self.clone(), units: Mutex::default() }))
    }
}

/// The units that one order has reserved. Dropping it returns them, so that whatever ends a request
/// cannot leak them.
#[derive(Debug)]
#[must_use = "dropping it gives the units back"]
pub struct Basket(Arc<HeldUnits>);

#[derive(Debug)]
struct HeldUnits {
    shelf: Shelf,
    units: Mutex<Vec<(Arc<str>, i64)>>,
}

impl Basket {
    /// Reserves units.
    ///
    /// # Errors
    /// [`ShopError::OutOfStock`] if fewer units are in stock than are reserved and wanted together.
    pub fn reserve(&self, sku: &Arc<str>, qty: i64, stock: i64) -> Result<(), ShopError> {
        let mut shelf = self.0.shelf.0.lock();
        let reserved = shelf.get(sku).copied().unwrap_or(0);
        if stock - reserved < qty {
            return Err(ShopError::OutOfStock(sku.to_string()));
        }
        shelf.insert(Arc::clone(sku), reserved + qty);
        self.0.units.lock().push((Arc::clone(sku), qty));
        Ok(())
    }

    /// The returned function returns all units when it is called, unless the basket is gone by then: so
    /// it can wait for its turn without keeping them.
    pub fn given_back(&self) -> impl FnOnce() + Send + 'static {
        let held = Arc::downgrade(&self.0);
        move || {
            if let Some(held) = held.upgrade() {
                held.give_back();
            }
        }
    }

    /// Returns all units: they are sold, or not wanted.
    pub fn give_back(&self) {
        self.0.give_back();
    }
}

impl HeldUnits {
    fn give_back(&self) {
        let mut shelf = self.shelf.0.lock();
        for (sku, qty) in self.units.lock().drain(..) {
            let reserved = shelf.get(&sku).copied().unwrap_or(0) - qty;
            match reserved > 0 {
                true => shelf.insert(sku, reserved),
                false => shelf.remove(&sku),
            };
        }
    }
}

impl Drop for HeldUnits {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_basket_holds_no_other_one_gets() {
        let (shelf, apple) = (Shelf::default(), Arc::<str>::from("apple"));
        let (one, other) = (shelf.basket(), shelf.basket());
        assert!(one.reserve(&apple, 2, 3).is_ok());
        let refused = other.reserve(&apple, 2, 3);
        assert!(
            matches!(&refused, Err(ShopError::OutOfStock(sku)) if sku == "apple"),
            "{refused:?}"
        );
        assert!(other.reserve(&apple, 1, 3).is_ok());
        drop(one);
        assert!(other.reserve(&apple, 3, 3).is_err());
        other.give_back();
        assert!(other.reserve(&apple, 3, 3).is_ok());
        other.give_back();
        drop(other);
        assert!(shelf.0.lock().is_empty());
    }
}
