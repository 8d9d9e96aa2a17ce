//! The business logic of `demo.shop:1.0`.
//!
//! `order` shows what AsyncSteps are for. It reserves the items in parallel branches, each under the
//! mutex of its SKU; the bank holds the money and pays it to the shop; and one transaction writes the
//! order. Whatever ends the request before, the reservations come back, because the request owns them,
//! and the money goes back, because the payment is undone.
//!
//! With a journal orders are durable: they go on after a crash behind the records of their steps. A
//! step that may have had its effect without a record runs again with the same key, which changes
//! nothing.
//!
//! The transaction decides: an order that was answered with an error is not stored, unless its request ended just then,
//! which it cannot know. The payment is kept then, with the order. With a journal the transaction commits the request:
//! no cancel and no limit ends it once that has begun. A customer who wants to ask again after a lost answer assigns
//! the order a key: calls with the same key take turns, and all get the first answer.

use std::rc::Rc;
use std::sync::Arc;

use asyncsteps::durable::Durable;
use asyncsteps::sync::Mutex;
use asyncsteps::{BodyResult, Cx, Functions, Returns, Service, Steps};

use crate::interface::{OrderOf, Ordered, Orders, OrdersOf, Restock, ShopError, Stock, StockOf};
use crate::number::whole;
use crate::payments::{CALL, Payments, again, until_repaid};
use crate::shelf::{Basket, Shelf};
use crate::store::{Order, Store, StoreError, Summary};

/// The shop, on which its functions work.
#[derive(Debug)]
pub struct Shop {
    store: Store,
    payments: Payments,
    shelf: Shelf,
    /// One lock per SKU: orders for the same one get it in the order in which they came.
    skus: Mutex,
    /// One lock per key of an order.
    keys: Mutex,
}

impl Service for Shop {
    type Errors = (ShopError, StoreError);
}

impl Shop {
    /// A shop that keeps its products and orders in `store`, and is paid at `payments`.
    #[must_use]
    pub fn new(store: Store, payments: Payments) -> Self {
        let skus = Mutex::named("sku", Default::default());
        let keys = Mutex::named("order key", Default::default());
        Self { store, payments, shelf: Shelf::default(), skus, keys }
    }

    /// Its locks, for metrics and the console.
    #[must_use]
    pub fn locks(&self) -> [&Mutex; 2] {
        [&self.skus, &self.keys]
    }

    /// Says what handles each function. With a journal orders are durable.
    pub fn define(functions: &mut Functions<Self>, durable: Option<&Durable>) {
        functions
            .on("restock", Self::restock)
            .on("stock", Self::stock)
            .on("get", Self::get)
            .on("list", Self::list);
        match durable {
            Some(durable) => _ = durable.on(functions, "order", Self::order),
            None => _ = functions.on("order", Self::order),
        }
    }

    async fn restock(cx: &Cx<Self, Restock>) -> BodyResult<Stock> {
        let Restock { sku, count, price } = &*cx.params;
        Ok(Stock { stock: cx.store.restock(sku, *count, *price).await? })
    }

    async fn stock(cx: &Cx<Self, StockOf>) -> BodyResult<Stock> {
        Ok(Stock { stock: cx.stock_of(&cx.params.sku).await? })
    }

    fn order(steps: &Steps<Self, Ordered>) -> Returns<Summary> {
        steps.locked(|cx| Some(cx.keys.key(cx.params.full_key()?)));
        steps
            .run("look for the key", async |cx, ()| Ok(cx.store.placed(&cx.params).await?))
            .recorded()
            .unless_some()
            .then_each(
                "reserve all",
                |cx, ()| cx.params.items().collect(),
                |item| {
                    // recorded is that there were enough: after a crash nothing is reserved any more, and the
                    // transaction decides
                    item.run("reserve one", Self::reserve)
                        .recorded()
                        .locked_by(|cx, (sku, _)| cx.skus.key(sku))
                },
            )
            .then("open payment", async |cx, _| Ok(cx.payments.open(&cx.params, cx.key()).await?))
            .recorded()
            .undo_with(until_repaid(), async |cx, payment| {
                Self::basket(cx).give_back(); // others get the units, however long the bank is away
                Ok(cx.payments.undo(cx.key(), payment).await?)
            })
            .then("authorize", async |cx, payment| cx.payments.authorize(&cx.params, payment).await)
            .recorded()
            .timeout(CALL)
            .limited(|cx| cx.payments.calls_for(&cx.params))
            .limited(|cx| cx.payments.calls.clone())
            .retry(again())
            .then("capture", async |cx, payment| cx.payments.capture(payment).await)
            .recorded()
            .timeout(CALL)
            .limited(|cx| cx.payments.calls_for(&cx.params))
            .limited(|cx| cx.payments.calls.clone())
            .retry(again())
            .then("place order", async |cx, payment| {
                let written = Self::basket(cx).given_back();
                Ok(cx.store.place_order(&cx.params, payment.terms, cx.key(), written).await?)
            })
            .recorded()
            .commits()
            .returns()
    }

    async fn reserve(cx: &Cx<Self, Ordered>, (sku, qty): (Arc<str>, i64)) -> BodyResult<()> {
        Ok(Self::basket(cx).reserve(&sku, qty, cx.stock_of(&sku).await?)?)
    }

    /// The reservations of the order. The request drops them, whatever ends it.
    fn basket(cx: &Cx<Self, Ordered>) -> Rc<Basket> {
        cx.state(|shop| shop.shelf.basket())
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
        Ok(stock.ok_or_else(|| ShopError::UnknownSku(sku.to_owned()))?)
    }
}
