//! Orders in the database.

use std::collections::BTreeMap;
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
    /// The name of this order among those of its customer, so that a repeated one is known.
    pub key: Option<String>,
}

/// An order as it was placed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Order {
    /// Its number.
    pub order: i64,
    /// Who placed it.
    pub customer: String,
    /// What was bought, by SKU.
    pub items: Vec<SoldItem>,
    /// In cents.
    pub total: i64,
}

/// A line of an order.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SoldItem {
    /// The product.
    pub sku: String,
    /// Units.
    pub qty: i64,
    /// The price of one unit at that time, in cents.
    pub price: i64,
}

/// Number and total of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// Its number.
    pub order: i64,
    /// In cents.
    pub total: i64,
}

impl asyncsteps::Arg for Summary {}

/// Writes an order, or gives the first answer to its key.
pub(super) fn place(db: &Connection, new: &NewOrder) -> Result<Summary, StoreError> {
    if let Some(placed) = placed(db, new)? {
        return Ok(placed);
    }
    let mut take = db.prepare_cached(
        "UPDATE product SET stock = stock - ?2 WHERE sku = ?1 AND stock >= ?2 RETURNING price",
    )?;
    let mut sold = Vec::with_capacity(new.items.len());
    for (sku, qty) in &new.items {
        let price = take.query_row(params![&**sku, qty], |row| row.get(0)).optional()?;
        let price: i64 = price.ok_or_else(|| StoreError::OutOfStock(Arc::clone(sku)))?;
        sold.push((sku, qty, price));
    }
    let total = sold.iter().map(|(_, qty, price)| *qty * price).sum();
    let mut insert = db.prepare_cached("INSERT INTO orders (customer, total) VALUES (?1, ?2)")?;
    let order = insert.insert(params![new.customer, total])?;
    let mut line = db.prepare_cached(
        "INSERT INTO order_item (order_id, sku, qty, price) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for (sku, qty, price) in sold {
        line.execute(params![order, &**sku, qty, price])?;
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
