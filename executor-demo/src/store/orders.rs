//! Orders in the database.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::StoreError;

/// An order that a customer wants to place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// Who places it.
    pub customer: String,
    /// Units by SKU.
    pub items: BTreeMap<Arc<str>, i64>,
    /// The name of this order among the orders of its customer, so that a repeated one is known.
    pub key: Option<String>,
}

impl NewOrder {
    /// Its key, made distinct from the keys of other customers.
    #[must_use]
    pub fn full_key(&self) -> Option<String> {
        // a key has no space, so that the first one ends it
        self.key.as_ref().map(|key| format!("{key} {}", self.customer))
    }
}

/// On what terms an order is placed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Terms {
    /// The price of each SKU, in cents.
    pub prices: HashMap<Arc<str>, i64>,
    /// The key of its payment, if it is paid for.
    pub payment: Option<String>,
}

impl Terms {
    /// The total of an order, in cents.
    #[must_use]
    pub fn total(&self, order: &NewOrder) -> i64 {
        order.items.iter().map(|(sku, qty)| self.price(sku) * qty).sum()
    }

    fn price(&self, sku: &str) -> i64 {
        self.prices.get(sku).copied().unwrap_or(0)
    }
}

/// An order as it was placed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Order {
    /// Its number.
    #[schemars(range(min = 1))]
    pub order: i64,
    /// Who placed it.
    #[schemars(length(min = 1, max = 128))]
    pub customer: String,
    /// The bought items, by SKU.
    pub items: Vec<SoldItem>,
    /// In cents.
    #[schemars(range(min = 0))]
    pub total: i64,
}

/// A line of an order.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct SoldItem {
    /// The product.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub sku: String,
    /// Units.
    #[schemars(range(min = 0))]
    pub qty: i64,
    /// The price of one unit at that time, in cents.
    #[schemars(range(min = 0, max = 100_000_000))]
    pub price: i64,
}

/// Number and total of an order.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub struct Summary {
    /// Its number.
    #[schemars(range(min = 1))]
    pub order: i64,
    /// In cents.
    #[schemars(range(min = 0))]
    pub total: i64,
}

/// Writes an order. `request` is the id of the request that places it.
pub(super) fn place(
    db: &Connection,
    new: &NewOrder,
    terms: &Terms,
    request: &str,
) -> Result<Summary, StoreError> {
    let mut take =
        db.prepare_cached("UPDATE product SET stock = stock - ?2 WHERE sku = ?1 AND stock >= ?2")?;
    for (sku, qty) in &new.items {
        if take.execute(params![&**sku, qty])? == 0 {
            return Err(StoreError::OutOfStock(Arc::clone(sku)));
        }
    }
    let total = terms.total(new);
    let mut insert =
        db.prepare_cached("INSERT INTO orders (customer, total, request) VALUES (?1, ?2, ?3)")?;
    let order = insert.insert(params![new.customer, total, request])?;
    let mut line = db.prepare_cached(
        "INSERT INTO order_item (order_id, sku, qty, price) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for (sku, qty) in &new.items {
        line.execute(params![order, &**sku, qty, terms.price(sku)])?;
    }
    if let Some(key) = &new.key {
        let mut keep = db.prepare_cached(
            "INSERT INTO order_key (customer, key, order_id) VALUES (?1, ?2, ?3)",
        )?;
        keep.execute(params![new.customer, key, order])?;
    }
    Ok(Summary { order, total })
}

/// The first answer to the key of an order.
pub(super) fn placed(db: &Connection, new: &NewOrder) -> Result<Option<Summary>, StoreError> {
    let Some(key) = &new.key else { return Ok(None) };
    let mut first = db.prepare_cached(
        "SELECT id, total FROM order_key JOIN orders ON id = order_id
         WHERE order_key.customer = ?1 AND key = ?2",
    )?;
    let first = first.query_row(params![new.customer, key], summary).optional()?;
    let Some(first) = first else { return Ok(None) };
    let items = items(db, first.order)?;
    let same = items.iter().map(|item| (item.sku.as_str(), item.qty));
    match same.eq(new.items.iter().map(|(sku, qty)| (&**sku, *qty))) {
        true => Ok(Some(first)),
        false => Err(StoreError::KeyReused),
    }
}

/// The order that this request has placed, if it has.
pub(super) fn placed_by(db: &Connection, request: &str) -> Result<Option<Summary>, StoreError> {
    let mut query = db.prepare_cached("SELECT id, total FROM orders WHERE request = ?1")?;
    Ok(query.query_row([request], summary).optional()?)
}

/// The prices of what an order has, as far as its products are known.
pub(super) fn prices(
    db: &Connection,
    order: &NewOrder,
) -> Result<HashMap<Arc<str>, i64>, StoreError> {
    let mut query = db.prepare_cached("SELECT price FROM product WHERE sku = ?1")?;
    let mut prices = HashMap::new();
    for sku in order.items.keys() {
        if let Some(price) = query.query_row([&**sku], |row| row.get(0)).optional()? {
            prices.insert(Arc::clone(sku), price);
        }
    }
    Ok(prices)
}

/// An order by its number.
pub(super) fn find(db: &Connection, order: i64) -> Result<Option<Order>, StoreError> {
    let mut head = db.prepare_cached("SELECT customer, total FROM orders WHERE id = ?1")?;
    let head = head.query_row([order], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((customer, total)) = head else { return Ok(None) };
    Ok(Some(Order { order, customer, items: items(db, order)?, total }))
}

/// The newest orders of a customer.
pub(super) fn newest(
    db: &Connection,
    customer: &str,
    limit: u32,
) -> Result<Vec<Summary>, StoreError> {
    let mut query = db.prepare_cached(
        "SELECT id, total FROM orders WHERE customer = ?1 ORDER BY id DESC LIMIT ?2",
    )?;
    Ok(query.query_map(params![customer, limit], summary)?.collect::<Result<_, _>>()?)
}

/// The lines of an order by SKU, in the order in which strings are compared.
fn items(db: &Connection, order: i64) -> Result<Vec<SoldItem>, StoreError> {
    let mut lines = db.prepare_cached(
        "SELECT sku, qty, price FROM order_item WHERE order_id = ?1 ORDER BY sku",
    )?;
    let line =
        |row: &Row<'_>| Ok(SoldItem { sku: row.get(0)?, qty: row.get(1)?, price: row.get(2)? });
    Ok(lines.query_map([order], line)?.collect::<Result<_, _>>()?)
}

fn summary(row: &Row<'_>) -> rusqlite::Result<Summary> {
    Ok(Summary { order: row.get(0)?, total: row.get(1)? })
}
