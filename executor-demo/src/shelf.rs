//! The shelf, `demo.shelf:1.0`: what orders in flight have reserved, an entity for each SKU.
//!
//! The stock is in the database and nowhere else. An order reserves its units before it is paid, so that of two orders
//! for the last unit one is refused at once, in whichever processes they are; the transaction that writes an order
//! decides. An order gives its units back when it is written, and whenever it ends before. Should that get lost, its
//! reservation ends by itself.

use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use asyncsteps::durable::Durable;
use asyncsteps::durable::entity::{
    Entity, EntityCx as _, NotReserved, ReservationRules, Reservations,
};
use asyncsteps::{BodyResult, Code, Cx, Functions, Service, TypedCall};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::store::Store;

/// A reservation lasts longer than an order takes. Of a SKU there are 1,000 at the most, because the state of an entity may
/// have 64 KiB; of more orders than that the transaction alone decides. Ended ones are not remembered: one that comes too
/// late ends by itself.
const RULES: ReservationRules =
    ReservationRules::new(Duration::from_secs(30 * 60)).at_most(1000).remembers(0);

/// The shelf, which reads the stock from the database.
#[derive(Debug)]
pub struct Shelf {
    store: Store,
}

impl Service for Shelf {
    type Errors = ShelfError;
}

/// The state of a SKU is what orders have reserved of it: their keys are the ids of the requests that order.
impl Entity for Shelf {
    type State = Reservations;
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

/// The parameters of `reserved`.
#[derive(Debug, Deserialize, JsonSchema)]
struct ReservedOf {
    #[expect(dead_code, reason = "it is the key of the entity")]
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
            .reads("reserved", Self::reserved);
    }

    async fn reserve(cx: &Cx<Self, Reserve>) -> BodyResult<Reserved> {
        let Reserve { sku, order, qty } = &*cx.params;
        let (held, now) = (cx.entity().get(), cx.entity().now());
        if held.has(order, now) {
            return Ok(reserved(&held, now));
        }
        let all = held.units(now) + cx.free(sku, &held, *qty, now).await?;
        cx.entity().change(|held| match held.take(order, *qty, all, &RULES, now) {
            Ok(()) | Err(NotReserved::TooMany(_)) => Ok(reserved(held, now)),
            Err(NotReserved::TooFew { .. } | _) => Err(ShelfError::OutOfStock(sku.clone()).into()),
        })?
    }

    /// How many units are neither sold nor reserved, as far as it matters to an order that wants so many.
    async fn free(
        &self,
        sku: &str,
        held: &Reservations,
        wanted: i64,
        now: SystemTime,
    ) -> BodyResult<i64> {
        let unknown = || ShelfError::UnknownSku(sku.to_owned());
        let free = self.store.stock(sku).await?.ok_or_else(unknown)? - held.units(now);
        if free >= wanted {
            return Ok(free);
        }
        // an order that is written has its units out of stock, and gives them back only then: they count once
        Ok(self.store.free(sku, held.all(now)).await?.ok_or_else(unknown)?)
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn release(cx: &Cx<Self, Release>) -> BodyResult<Reserved> {
        let (entity, now) = (cx.entity(), cx.entity().now());
        if !entity.get().has(&cx.params.order, now) {
            return Ok(reserved(&entity.get(), now));
        }
        Ok(entity.change(|held| {
            held.give_back(&cx.params.order, &RULES, now);
            reserved(held, now)
        })?)
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn reserved(cx: &Cx<Self, ReservedOf>) -> BodyResult<Reserved> {
        Ok(reserved(&cx.entity().get(), cx.entity().now()))
    }
}

fn reserved(held: &Reservations, now: SystemTime) -> Reserved {
    Reserved { reserved: held.units(now) }
}
