//! The business logic of `demo.shop:1.0`, one template per function.
//!
//! `order` shows what AsyncSteps are for: it reserves the items in parallel branches, each under
//! the mutex of its SKU, gives back what was reserved if a branch fails, and then writes the order
//! in one transaction. Whatever ends the request early, the reservations come back, because the
//! flow owns them.
//!
//! An order that was answered with an error is not stored: while it waits to be written it belongs
//! to its request, see [`Pending`]. What remains is the moment of writing: a request that ends
//! just then cannot know. For that a customer gives the order a key, and asks again: calls with the
//! same key take turns, and all get the first answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use asyncsteps::{Added, Arguments, AsyncSteps, Error, Parallel, Template, codes};
use asyncsteps_actors::sync::Mutex;
use asyncsteps_executor::iface::{FunctionName, Source};
use asyncsteps_executor::{Functions, RequestSteps};
use serde::Deserialize;
use serde_json::json;

use crate::shelf::{Basket, Shelf};
use crate::store::{NewOrder, Order, Pending, Store, StoreError, Summary};

/// Errors of the interface.
const OUT_OF_STOCK: &str = "OutOfStock";
const UNKNOWN_SKU: &str = "UnknownSku";
const UNKNOWN_ORDER: &str = "UnknownOrder";
const KEY_REUSED: &str = "KeyReused";

/// The definition of the shop's interface.
#[must_use]
pub fn definitions() -> Source {
    let text = include_str!("../ifaces/demo.shop-1.0-iface.json");
    Source::texts([("demo.shop-1.0-iface.json", text)])
}

/// Whether a function changes nothing, so that links and images may call it.
#[must_use]
pub fn is_read(function: &FunctionName) -> bool {
    matches!(function.func(), "ping" | "stock" | "get" | "list")
}

/// What the functions of the shop work on.
#[derive(Clone, Debug)]
pub struct Shop {
    store: Store,
    shelf: Shelf,
    /// One lock per SKU: orders for the same one get it in the order in which they came.
    skus: Mutex,
    /// One lock per key of an order.
    keys: Mutex,
}

impl Shop {
    /// A shop that keeps its products and orders in `store`.
    #[must_use]
    pub fn new(store: Store) -> Self {
        let skus = Mutex::named("sku", Default::default());
        let keys = Mutex::named("order key", Default::default());
        Self { store, shelf: Shelf::default(), skus, keys }
    }

    /// Gives the templates of all functions.
    pub fn define(&self, functions: &mut Functions) {
        functions
            .add("restock", &self.restock())
            .add("stock", &self.stock())
            .add("order", &self.order())
            .add("get", &self.get())
            .add("list", &self.list());
    }

    fn restock(&self) -> Template {
        let store = self.store.clone();
        Template::build(|asi| {
            asi.add(move |asi, ()| {
                let sku: String = asi.param("sku")?;
                let (count, price) = (asi.param("count")?, asi.param("price")?);
                ask(asi, store.restock(sku.into(), count, price)).named("write");
                asi.add(|asi, stock: i64| asi.reply(json!({ "stock": stock })));
                Ok(())
            });
        })
    }

    fn stock(&self) -> Template {
        let store = self.store.clone();
        Template::build(|asi| {
            asi.add(move |asi, ()| {
                let sku: String = asi.param("sku")?;
                ask(asi, store.stock(sku.as_str().into())).named("read");
                asi.add(move |asi, stock: Option<i64>| match stock {
                    Some(stock) => asi.reply(json!({ "stock": stock })),
                    None => asi.error(UNKNOWN_SKU, sku),
                });
                Ok(())
            });
        })
    }

    fn order(&self) -> Template {
        let shop = self.clone();
        Template::build(|asi| {
            asi.add(move |asi, ()| {
                let order: NewOrder = asi.params::<Wanted>()?.into();
                let (shop, order) = (shop.clone(), Arc::new(order));
                match &order.key {
                    None => shop.sell(asi, &order),
                    Some(key) => {
                        // a key has no space, so that the pair is told by the first one
                        let lock = shop.keys.key(format!("{key} {}", order.customer));
                        asi.sync(&lock, move |asi, ()| shop.sell_once(asi, order))
                            .named("one at a time");
                    }
                }
                Ok(())
            })
            .named("order");
        })
    }

    /// Sells what was not sold under the same key before.
    fn sell_once(self, asi: &mut AsyncSteps, order: Arc<NewOrder>) {
        ask(asi, self.store.placed(Arc::clone(&order))).named("look for the key");
        asi.add(move |asi, placed: Option<Summary>| match placed {
            Some(first) => asi.reply(first),
            None => {
                self.sell(asi, &order);
                Ok(())
            }
        });
    }

    fn sell(&self, asi: &mut AsyncSteps, order: &Arc<NewOrder>) {
        let basket = Arc::new(self.shelf.basket());
        let gathered = Arc::clone(&basket);
        asi.parallel(|branches| {
            for (sku, qty) in &order.items {
                self.reserve(branches, &basket, Arc::clone(sku), *qty);
            }
        })
        .on_error(move |_, _| gathered.give_back())
        .named("reserve all");
        let (store, order) = (self.store.clone(), Arc::clone(order));
        asi.add(move |asi, ()| {
            write(asi, &store, order, basket);
            asi.add(|asi, placed: Summary| asi.reply(placed));
        })
        .named("place order");
    }

    /// One branch: reserves units of one SKU under its mutex.
    fn reserve(&self, branches: &mut Parallel, basket: &Arc<Basket>, sku: Arc<str>, qty: i64) {
        let (store, basket) = (self.store.clone(), Arc::clone(basket));
        let lock = self.skus.key(&sku);
        branches
            .add(move |asi, ()| {
                asi.sync(&lock, move |asi, ()| {
                    ask(asi, store.stock(Arc::clone(&sku))).named("read");
                    asi.add(move |asi, stock: Option<i64>| match stock {
                        None => asi.error(UNKNOWN_SKU, sku.to_string()),
                        Some(stock) if basket.reserve(&sku, qty, stock) => Ok(()),
                        Some(_) => asi.error(OUT_OF_STOCK, sku.to_string()),
                    });
                });
            })
            .named("reserve one");
    }

    fn get(&self) -> Template {
        let store = self.store.clone();
        Template::build(|asi| {
            asi.add(move |asi, ()| {
                let order: f64 = asi.param("order")?;
                let Some(order) = whole(order) else {
                    return asi.error(UNKNOWN_ORDER, order.to_string());
                };
                ask(asi, store.order(order)).named("read");
                asi.add(move |asi, found: Option<Order>| match found {
                    Some(found) => asi.reply(found),
                    None => asi.error(UNKNOWN_ORDER, order.to_string()),
                });
                Ok(())
            });
        })
    }

    fn list(&self) -> Template {
        let store = self.store.clone();
        Template::build(|asi| {
            asi.add(move |asi, ()| {
                let (customer, limit) = (asi.param("customer")?, asi.param("limit")?);
                ask(asi, store.orders_of(customer, limit)).named("read");
                asi.add(|asi, orders: Vec<Summary>| asi.reply(json!({ "orders": orders })));
                Ok(())
            });
        })
    }
}

/// Adds a step that writes an order. Its reservations end when it is in the transaction, before the
/// stock that others read is less, or else with the step.
fn write(asi: &mut AsyncSteps, store: &Store, order: Arc<NewOrder>, basket: Arc<Basket>) {
    // the flow owns the basket, and not a job that may wait for longer
    let reserved = Arc::downgrade(&basket);
    let placed = store.place_order(order, move || {
        if let Some(basket) = reserved.upgrade() {
            basket.give_back();
        }
    });
    asi.await_(async move {
        let placed = placed.await.map_err(refusal);
        drop(basket);
        placed
    })
    .named("write");
}

/// Adds a step that waits for the database.
#[track_caller]
fn ask<T: Arguments>(asi: &mut AsyncSteps, pending: Pending<T>) -> Added<'_> {
    asi.await_(async { pending.await.map_err(refusal) })
}

/// What a caller is told.
fn refusal(error: StoreError) -> Error {
    match error {
        StoreError::OutOfStock(sku) => Error::with_info(OUT_OF_STOCK, sku.to_string()),
        StoreError::KeyReused => Error::new(KEY_REUSED),
        StoreError::Full => Error::with_info(codes::DEFENSE_REJECTED, "Database queue limit"),
        error @ (StoreError::Sqlite(_) | StoreError::Thread(_) | StoreError::Closed) => {
            Error::caused_by(codes::INTERNAL_ERROR, error)
        }
    }
}

/// A number of the interface as a row number; an order has a whole one.
fn whole(number: f64) -> Option<i64> {
    /// Up to here each whole number has a float of its own.
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
    (number.fract() == 0.0 && (0.0..=LARGEST).contains(&number)).then_some(number as i64)
}

/// The parameters of `order`.
#[derive(Debug, Deserialize)]
struct Wanted {
    customer: String,
    items: Vec<Item>,
    key: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Item {
    sku: String,
    qty: i64,
}

impl From<Wanted> for NewOrder {
    /// Each SKU once, however often the customer named it.
    fn from(Wanted { customer, items: wanted, key }: Wanted) -> Self {
        let mut items = BTreeMap::new();
        for Item { sku, qty } in wanted {
            *items.entry(sku.into()).or_insert(0) += qty;
        }
        Self { customer, items, key }
    }
}
