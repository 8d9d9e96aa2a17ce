//! The shelf, `demo.shelf:1.0`: what orders in flight have reserved, an entity for each SKU.
//!
//! The stock is in the database and nowhere else. An order reserves its units before it is paid, so that of two orders
//! for the last unit one is refused at once, in whichever processes they are; the transaction that writes an order
//! decides. An order gives its units back when it is written, and whenever it ends before. Should that get lost, the
//! entity forgets them by itself: every 15 minutes, it forgets what was reserved before the last time.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::mem;
use std::time::Duration;

use asyncsteps::durable::Durable;
use asyncsteps::durable::entity::{Entity, EntityCx as _, Message};
use asyncsteps::{BodyResult, Code, Cx, Functions, Service, TypedCall};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::store::Store;

/// How long a reservation is kept at least, and half of how long at the most: longer than an order takes.
const ROUND: Duration = Duration::from_secs(15 * 60);

/// How many orders may have units of a SKU reserved at once: the state of an entity may have 64 KiB, and each of them
/// takes 40 bytes. Of more orders than that the transaction alone decides.
const ORDERS: usize = 1000;

/// The shelf, which reads the stock from the database.
#[derive(Debug)]
pub struct Shelf {
    store: Store,
}

impl Service for Shelf {
    type Errors = ShelfError;
}

impl Entity for Shelf {
    type State = Reservations;
}

/// What orders have reserved of one SKU: units by the id of the request that orders.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Reservations {
    /// In this round.
    new: BTreeMap<String, i64>,
    /// In the last round: they are forgotten at the end of this one.
    old: BTreeMap<String, i64>,
    /// A message will end this round. There are no rounds while nothing is reserved.
    ends: bool,
}

/// Why units are not reserved. The text for callers names the product.
#[derive(Debug, thiserror::Error, Code)]
#[non_exhaustive]
pub enum ShelfError {
    /// There is no such product.
    #[error("{0}")]
    #[code(public)]
    UnknownSku(String),
    /// There are not enough units of this product beyond the reserved ones.
    #[error("{0}")]
    #[code(public)]
    OutOfStock(String),
}

/// The parameters of `reserve`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Reserve {
    pub(crate) sku: String,
    pub(crate) order: String,
    pub(crate) qty: i64,
}

/// The parameters of `release`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Release {
    pub(crate) sku: String,
    pub(crate) order: String,
}

/// The parameters of `reserved` and `expire`.
#[derive(Debug, Deserialize, JsonSchema)]
struct ReservedOf {
    sku: String,
}

/// The result of all of them.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Reserved {
    #[schemars(range(min = 0))]
    reserved: i64,
}

impl TypedCall for Reserve {
    const FUNCTION: &'static str = "demo.shelf:1.0:reserve";
    type Result = Reserved;
    type Errors = ShelfError;
}

impl TypedCall for Release {
    const FUNCTION: &'static str = "demo.shelf:1.0:release";
    type Result = Reserved;
    type Errors = Infallible;
}

impl Shelf {
    /// The shelf in front of the products in `store`.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Says what handles each function. The reservations are in the journal of `durable`, and all processes on that
    /// share one shelf.
    pub fn define(functions: &mut Functions<Self>, durable: &Durable) {
        durable
            .entity(functions, "sku")
            .on("reserve", Self::reserve)
            .on("release", Self::release)
            .on("expire", Self::expire)
            .reads("reserved", Self::reserved);
    }

    async fn reserve(cx: &Cx<Self, Reserve>) -> BodyResult<Reserved> {
        let Reserve { sku, order, qty } = &*cx.params;
        let (entity, held) = (cx.entity(), cx.entity().get());
        if held.has(order) {
            return Ok(held.reserved());
        }
        if cx.free(sku, &held, *qty).await? < *qty {
            return Err(ShelfError::OutOfStock(sku.clone()).into());
        }
        if held.all().count() >= ORDERS {
            return Ok(held.reserved());
        }
        if !held.ends {
            entity.send(end_of_round()?)?;
        }
        Ok(entity.change(|held| {
            held.ends = true;
            held.new.insert(order.clone(), *qty);
            held.reserved()
        })?)
    }

    /// How many units are neither sold nor reserved, as far as it matters to an order that wants so many.
    async fn free(&self, sku: &str, held: &Reservations, wanted: i64) -> BodyResult<i64> {
        let unknown = || ShelfError::UnknownSku(sku.to_owned());
        let free = self.store.stock(sku).await?.ok_or_else(unknown)? - held.units();
        if free >= wanted {
            return Ok(free);
        }
        // an order that is written has its units out of stock, and gives them back only then: they count once
        Ok(self.store.free(sku, held.all()).await?.ok_or_else(unknown)?)
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn release(cx: &Cx<Self, Release>) -> BodyResult<Reserved> {
        let (entity, held) = (cx.entity(), cx.entity().get());
        if !held.has(&cx.params.order) {
            return Ok(held.reserved());
        }
        Ok(entity.change(|held| {
            held.new.remove(&cx.params.order);
            held.old.remove(&cx.params.order);
            held.reserved()
        })?)
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn expire(cx: &Cx<Self, ReservedOf>) -> BodyResult<()> {
        let lost = cx.entity().change(|held| {
            let lost = mem::replace(&mut held.old, mem::take(&mut held.new));
            held.ends = !held.old.is_empty();
            lost
        })?;
        if !lost.is_empty() {
            tracing::warn!(sku = cx.params.sku, ?lost, "orders have not given their units back");
        }
        if cx.entity().get().ends {
            cx.entity().send(end_of_round()?)?;
        }
        Ok(())
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn reserved(cx: &Cx<Self, ReservedOf>) -> BodyResult<Reserved> {
        Ok(cx.entity().get().reserved())
    }
}

fn end_of_round() -> BodyResult<Message> {
    Ok(Message::new("expire", json!({}))?.after(ROUND))
}

impl Reservations {
    fn has(&self, order: &str) -> bool {
        self.new.contains_key(order) || self.old.contains_key(order)
    }

    fn all(&self) -> impl Iterator<Item = (&String, &i64)> {
        self.new.iter().chain(&self.old)
    }

    fn units(&self) -> i64 {
        self.all().map(|(_, qty)| qty).sum()
    }

    fn reserved(&self) -> Reserved {
        Reserved { reserved: self.units() }
    }
}
