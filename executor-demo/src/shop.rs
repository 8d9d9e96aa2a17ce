//! The business logic of `demo.shop:1.0`, one template per function.
//!
//! `order` shows what AsyncSteps are for: it reserves the items in parallel branches, each under
//! the mutex of its SKU, gives back what was reserved if a branch fails, and then writes the order
//! in one transaction. Whatever ends the request early, the reservations come back, because the
//! flow owns them.

use std::collections::BTreeMap;
use std::sync::Arc;

use asyncsteps::{AsyncSteps, Error, Parallel, StepResult, Template};
use asyncsteps_actors::executor::{Functions, RequestSteps};
use asyncsteps_actors::iface::Source;
use asyncsteps_actors::sync::Mutex;
use serde::Deserialize;
use serde_json::json;

use crate::shelf::{Reservation, Shelf};
use crate::store::{Order, Store, Summary};

/// Errors of the interface.
const OUT_OF_STOCK: &str = "OutOfStock";
const UNKNOWN_SKU: &str = "UnknownSku";
const UNKNOWN_ORDER: &str = "UnknownOrder";

/// The state variable with the reservations of an order.
const RESERVATIONS: &str = "reservations";

/// The definition of the shop's interface.
#[must_use]
pub fn definitions() -> Source {
    let text = include_str!("../ifaces/demo.shop-1.0-iface.json");
    Source::texts([("demo.shop-1.0-iface.json", text)])
}

/// What the functions of the shop work on.
#[derive(Clone, Debug)]
pub struct Shop {
    store: Store,
    shelf: Shelf,
    /// One lock per SKU.
    skus: Mutex,
}

impl Shop {
    /// A shop that keeps its products and orders in `store`.
    ///
    /// # Panics
    /// Outside of an actix arbiter: the locks of the SKUs are an actor.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store, shelf: Shelf::default(), skus: Mutex::new(Default::default()) }
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
        let shop = self.clone();
        Template::build(|asi| {
            asi.add(move |asi, ()| {
                let sku: Arc<str> = asi.param::<String>("sku")?.into();
                let (count, price) = (asi.param("count")?, asi.param("price")?);
                let shop = shop.clone();
                asi.sync(&shop.skus.key(Arc::clone(&sku)), move |asi, ()| {
                    // a SKU that is on the shelf before it is restocked is not counted twice
                    shop.load(asi, &sku);
                    asi.add(move |asi, ()| shop.put(asi, sku, count, price));
                })
                .named("restock");
                asi.add(|asi, stock: i64| asi.reply(json!({ "stock": stock })));
                Ok(())
            });
        })
    }

    fn put(&self, asi: &mut AsyncSteps, sku: Arc<str>, count: i64, price: Option<i64>) {
        let (shelf, unit) = (self.shelf.clone(), Arc::clone(&sku));
        asi.await_(self.store.restock(sku, count, price, move || shelf.put(&unit, count)))
            .named("write");
    }

    fn stock(&self) -> Template {
        let store = self.store.clone();
        Template::build(|asi| {
            asi.add(move |asi, ()| {
                let sku: String = asi.param("sku")?;
                asi.await_(store.stock(sku.as_str().into())).named("read");
                asi.add(move |asi, stock: Option<i64>| match stock {
                    Some(stock) => asi.reply(json!({ "stock": stock })),
                    None => asi.error(UNKNOWN_SKU, sku),
                });
                Ok(())
            });
        })
    }

    fn order(&self) -> Template {
        let (reserving, writing) = (self.clone(), self.clone());
        Template::build(|asi| {
            asi.add(move |asi, ()| {
                let wanted: Wanted = asi.params()?;
                asi.state_mut().set(RESERVATIONS, Vec::<Reservation>::new());
                let giving_back = reserving.clone();
                asi.parallel(|branches| {
                    for (sku, qty) in wanted.by_sku() {
                        reserving.reserve(branches, sku, qty);
                    }
                })
                .on_error(move |asi, error| giving_back.give_back(asi, error))
                .named("reserve");
                Ok(())
            })
            .named("reserve all");
            asi.add(move |asi, ()| {
                let customer = asi.param("customer")?;
                let reservations = take_reservations(asi);
                asi.await_(writing.store.place_order(customer, reservations)).named("write");
                asi.add(|asi, placed: Summary| asi.reply(placed));
                Ok(())
            })
            .named("place order");
        })
    }

    /// One branch: reserves units of one SKU under its mutex.
    fn reserve(&self, branches: &mut Parallel, sku: Arc<str>, qty: i64) {
        let shop = self.clone();
        let lock = self.skus.key(Arc::clone(&sku));
        branches
            .add(move |asi, ()| {
                asi.sync(&lock, move |asi, ()| {
                    shop.load(asi, &sku);
                    asi.add(move |asi, ()| match shop.take(asi, &sku, qty) {
                        Ok(()) => Ok(()),
                        Err(code) => asi.error(code, sku.to_string()),
                    });
                });
            })
            .named("reserve one");
    }

    /// Takes units off the shelf for the running order.
    fn take(&self, asi: &mut AsyncSteps, sku: &Arc<str>, qty: i64) -> Result<(), &'static str> {
        if !self.shelf.knows(sku) {
            return Err(UNKNOWN_SKU);
        }
        let reservation = self.shelf.reserve(sku, qty).ok_or(OUT_OF_STOCK)?;
        if let Some(reservations) = asi.state_mut().get_mut::<Vec<Reservation>>(RESERVATIONS) {
            reservations.push(reservation);
        }
        Ok(())
    }

    /// Replaces the failed reserving by steps that give back what was reserved, each under the
    /// mutex of its SKU, and then fail as the reserving did.
    fn give_back(&self, asi: &mut AsyncSteps, error: &Error) {
        for reservation in take_reservations(asi) {
            let lock = self.skus.key(Arc::clone(reservation.sku()));
            asi.sync(&lock, move |_, ()| drop(reservation)).named("give back");
        }
        let error = error.clone();
        asi.add(move |_, ()| -> StepResult { Err(error)? });
    }

    /// Adds a step that puts a SKU on the shelf if it is in the database and not there yet; the
    /// running step has to hold its mutex.
    fn load(&self, asi: &mut AsyncSteps, sku: &Arc<str>) {
        if self.shelf.knows(sku) {
            return;
        }
        let (shelf, sku) = (self.shelf.clone(), Arc::clone(sku));
        asi.await_(self.store.stock(Arc::clone(&sku))).named("load");
        asi.add(move |_, stock: Option<i64>| {
            if let Some(stock) = stock {
                shelf.load(&sku, stock);
            }
        });
    }

    fn get(&self) -> Template {
        let store = self.store.clone();
        Template::build(|asi| {
            asi.add(move |asi, ()| {
                let order: f64 = asi.param("order")?;
                let Some(order) = whole(order) else {
                    return asi.error(UNKNOWN_ORDER, order.to_string());
                };
                asi.await_(store.order(order)).named("read");
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
                asi.await_(store.orders_of(customer, limit)).named("read");
                asi.add(|asi, orders: Vec<Summary>| asi.reply(json!({ "orders": orders })));
                Ok(())
            });
        })
    }
}

fn take_reservations(asi: &mut AsyncSteps) -> Vec<Reservation> {
    asi.state_mut().take(RESERVATIONS).unwrap_or_default()
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
    items: Vec<Item>,
}

#[derive(Debug, Deserialize)]
struct Item {
    sku: String,
    qty: i64,
}

impl Wanted {
    /// Each SKU once, however often the customer named it.
    fn by_sku(self) -> BTreeMap<Arc<str>, i64> {
        let mut wanted = BTreeMap::new();
        for Item { sku, qty } in self.items {
            *wanted.entry(sku.into()).or_insert(0) += qty;
        }
        wanted
    }
}
