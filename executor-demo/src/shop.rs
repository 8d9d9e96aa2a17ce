//! The business logic of `demo.shop:1.0`.
//!
//! `order` shows what AsyncSteps are for. It reserves the items in parallel branches, each on the shelf
//! of its SKU; the bank holds the money and pays it to the shop; and one transaction writes the order.
//! Whatever ends the request before, the units and the money go back, because reservations and payment
//! are undone.
//!
//! With a journal orders are durable: they go on after a crash behind the records of their steps. A
//! step that may have had its effect without a record runs again with the same key, which changes
//! nothing.
//!
//! A caller gets `BankUnavailable` in time if the bank does not answer, however long it takes to undo the order: a durable
//! one is undone as soon as the bank is back.
//!
//! The transaction decides: an order that was answered with an error is not stored, unless its request ended just then,
//! which it cannot know. The payment is kept then, with the order. With a journal the transaction commits the request:
//! no cancel and no limit ends it once that has begun. A customer who wants to ask again after a lost answer assigns
//! the order a key: calls with the same key take turns, and all get the first answer.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps::durable::Durable;
use asyncsteps::sync::Mutex;
use asyncsteps::{
    BodyResult, Cx, Error, Functions, Retry, Returns, Service, Steps, TypedCallError, UndoPolicy,
};
use futures_util::future::join_all;
use tokio::time::sleep;

use crate::interface::{
    OrderEvent, OrderOf, OrderStep, Ordered, Orders, OrdersOf, Restock, ShopError, Stock, StockOf,
};
use crate::number::whole;
use crate::payments::{CALL, PAUSE, Payments, again, not_repaid, until_repaid};
use crate::shelf::{Release, Reserve, ShelfError};
use crate::store::{Order, Store, StoreError, Summary};

/// The shop, on which its functions work.
#[derive(Debug)]
pub struct Shop {
    store: Store,
    payments: Payments,
    /// One lock per key of an order.
    keys: Mutex,
}

impl Service for Shop {
    type Errors = (ShopError, ShelfError, StoreError);
}

impl Shop {
    /// A shop that keeps its products and orders in `store`, and is paid at `payments`. Its executor hosts a
    /// [`Shelf`](crate::shelf::Shelf), too.
    #[must_use]
    pub fn new(store: Store, payments: Payments) -> Self {
        Self { store, payments, keys: Mutex::named("order key", Default::default()) }
    }

    /// Its lock, for metrics and the console.
    #[must_use]
    pub fn keys(&self) -> &Mutex {
        &self.keys
    }

    /// Says what handles each function. With a journal orders are durable. Callers of `order` wait `within` at the most.
    pub fn define(functions: &mut Functions<Self>, durable: Option<&Durable>, within: Duration) {
        let order = move |steps: &Steps<_, _>| Self::order(steps, within);
        functions
            .on("restock", Self::restock)
            .on("stock", Self::stock)
            .on("get", Self::get)
            .on("list", Self::list)
            .tool("stock", "How many units of a product are not sold")
            .tool(
                "order",
                "Buys all items for a customer or none of them. Repeat it with the same key if its outcome is unknown",
            )
            .tool("get", "An order with its items and prices")
            .tool("list", "The last orders of a customer, the newest first");
        match durable {
            Some(durable) => _ = durable.on(functions, "order", order),
            None => _ = functions.on("order", order),
        }
        functions.emits::<Ordered>("order");
    }

    async fn restock(cx: &Cx<Self, Restock>) -> BodyResult<Stock> {
        let Restock { sku, count, price } = &*cx.params;
        Ok(Stock { stock: cx.store.restock(sku, *count, *price).await? })
    }

    async fn stock(cx: &Cx<Self, StockOf>) -> BodyResult<Stock> {
        Ok(Stock { stock: cx.stock_of(&cx.params.sku).await? })
    }

    fn order(steps: &Steps<Self, Ordered>, within: Duration) -> Returns<Summary> {
        // what is undone behind the answer waits for the bank, however long that is away
        steps.answer_within(within, || ShopError::BankUnavailable);
        steps.locked(|cx| Some(cx.keys.key(cx.params.full_key()?)));
        steps
            .run("look for the key", async |cx, ()| Ok(cx.store.placed(&cx.params).await?))
            .recorded()
            .unless_some()
            .then_each(
                "reserve all",
                |cx, ()| cx.params.items().collect(),
                |item| {
                    item.run("reserve one", Self::reserve)
                        .recorded_with_input()
                        .retry(often().on(ShopError::is_transient))
                        .undo_taking_with(until_released(), async |cx, (sku, _), _| {
                            Ok(Self::release(cx, sku, 1).await?)
                        })
                },
            )
            .then("open payment", async |cx, _| Ok(cx.payments.open(&cx.params, cx.key()).await?))
            .recorded()
            .undo_with(until_repaid(), async |cx, payment| {
                // others get the units, however long the bank is away; what fails here is undone behind this
                let _ = Self::release_all(cx, 1).await;
                cx.payments.undo(cx.key(), payment).await.map_err(not_repaid)
            })
            .then("authorize", async |cx, payment| cx.payments.authorize(&cx.params, payment).await)
            .recorded()
            .timeout(CALL)
            .limited(|cx| cx.payments.calls_for(&cx.params))
            .limited(|cx| cx.payments.calls.clone())
            .retry(again())
            .then("capture", async |cx, payment| {
                let payment = cx.payments.capture(payment).await?;
                Self::say(cx, OrderEvent { step: OrderStep::Paid, sku: None }).await;
                Ok(payment)
            })
            .recorded()
            .timeout(CALL)
            .limited(|cx| cx.payments.calls_for(&cx.params))
            .limited(|cx| cx.payments.calls.clone())
            .retry(again())
            .then("place order", async |cx, payment| {
                Ok(cx.store.place_order(&cx.params, payment.terms, cx.id()).await?)
            })
            .recorded()
            .commits()
            .then("clear the shelf", async |cx, placed| {
                if let Err(error) = Self::release_all(cx, ATTEMPTS).await {
                    // the shelf sees that the order is written, and forgets it later
                    tracing::warn!(%error, order = placed.order, "sold units are still reserved");
                }
                Ok(placed)
            })
            .repeatable()
            .returns()
    }

    async fn reserve(cx: &Cx<Self, Ordered>, (sku, qty): (Arc<str>, i64)) -> BodyResult<()> {
        let reserve = Reserve { sku: sku.to_string(), order: cx.id().to_owned(), qty };
        match cx.request().client().as_system().call(reserve).await {
            Ok(_) => {
                Self::say(cx, OrderEvent { step: OrderStep::Reserved, sku: Some(sku) }).await;
                Ok(())
            }
            Err(TypedCallError::Declared(refused)) => Err(refused.into()),
            Err(TypedCallError::Other(error)) => Err(ShopError::ShelfUnavailable(error).into()),
        }
    }

    /// Says how far the order is, which does not depend on that.
    async fn say(cx: &Cx<Self, Ordered>, event: OrderEvent) {
        if let Err(error) = cx.emit(&event).await {
            tracing::warn!(%error, ?event, "an order does not say how far it is");
        }
    }

    /// Gives back what the order has reserved of a product, in so many attempts.
    async fn release(cx: &Cx<Self, Ordered>, sku: &str, attempts: u32) -> Result<(), Error> {
        let client = cx.request().client().as_system();
        for attempt in 1.. {
            let release = Release { sku: sku.to_owned(), order: cx.id().to_owned() };
            match client.call(release).await {
                Ok(_) => break,
                Err(error) if attempt >= attempts => return Err(error.into_error()),
                Err(_) => sleep(PAUSE * attempt).await,
            }
        }
        Ok(())
    }

    /// The same of all products.
    async fn release_all(cx: &Cx<Self, Ordered>, attempts: u32) -> Result<(), Error> {
        let released =
            cx.params.items().map(async |(sku, _)| Self::release(cx, &sku, attempts).await);
        join_all(released).await.into_iter().collect()
    }

    async fn get(cx: &Cx<Self, OrderOf>) -> BodyResult<Order> {
        let unknown = ShopError::UnknownOrder(cx.params.order);
        let Some(order) = whole(cx.params.order) else { return Err(unknown.into()) };
        Ok(cx.store.order(order).await?.ok_or(unknown)?)
    }

    async fn list(cx: &Cx<Self, OrdersOf>) -> BodyResult<Orders> {
        Ok(Orders { orders: cx.store.orders_of(&cx.params.customer, cx.params.limit).await? })
    }

    async fn stock_of(&self, sku: &str) -> BodyResult<i64> {
        let stock = self.store.stock(sku).await?;
        Ok(stock.ok_or_else(|| ShelfError::UnknownSku(sku.to_owned()))?)
    }
}

/// How often the shelf is asked: for longer than it takes until another process has that of one that died.
fn often() -> Retry {
    Retry::attempts(ATTEMPTS).backoff(PAUSE).longest(CALL)
}

/// How often units are given back.
fn until_released() -> UndoPolicy {
    UndoPolicy::default().retry(often())
}

const ATTEMPTS: u32 = 20;
