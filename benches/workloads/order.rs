//! An order like that of `executor-demo`, with a shelf in memory, a database and a bank that answer at once, called in
//! the process: as a plan, and as one body that does the same without locks, limits, attempts and undo.

use std::collections::HashMap;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::{self, PoisonError};
use std::time::Duration;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_actors::sync::mutex::Options;
use asyncsteps_core::{BodyResult, Retry};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Functions, Returns, Service, Steps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How long one call of the bank may take.
const CALL: Duration = Duration::from_secs(1);

#[derive(Deserialize, JsonSchema)]
struct Order {
    customer: String,
    items: Vec<Item>,
    key: String,
}

#[derive(Clone, Deserialize, JsonSchema)]
struct Item {
    sku: String,
    qty: i32,
}

#[derive(Clone, Serialize, Deserialize)]
struct Payment {
    key: String,
    amount: i32,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Summary {
    order: i32,
    total: i32,
}

struct Shop {
    /// The units that orders have reserved.
    shelf: sync::Mutex<HashMap<String, i32>>,
    skus: Mutex,
    keys: Mutex,
    calls: Mutex,
    calls_of_product: Mutex,
}

/// What one order has reserved.
struct Basket(sync::Mutex<Vec<Item>>);

impl Service for Shop {
    type Errors = ();
}

impl Shop {
    fn new() -> Self {
        let lock = |max| Mutex::new(Options { max, ..Options::default() });
        Self {
            shelf: sync::Mutex::default(),
            skus: lock(1),
            keys: lock(1),
            calls: lock(64),
            calls_of_product: lock(48),
        }
    }

    fn order(steps: &Steps<Self, Order>) -> Returns<Summary> {
        steps.locked(|cx| cx.keys.key(format!("{} {}", cx.params.key, cx.params.customer)));
        steps
            .run("look for the key", async |cx, ()| cx.placed(&cx.params.key).await)
            .recorded()
            .unless_some()
            .then_each(
                "reserve all",
                |cx, ()| cx.params.items.clone(),
                |item| {
                    item.run("reserve one", async |cx, item| {
                        cx.reserve(&Self::basket(cx), item).await
                    })
                    .recorded()
                    .locked_by(|cx, item| cx.skus.key(&item.sku))
                },
            )
            .then("open payment", async |cx, _| cx.open(&cx.params, cx.key()).await)
            .recorded()
            .undo(async |cx, _| {
                cx.give_back(&Self::basket(cx));
                Ok(())
            })
            .then("authorize", async |cx, payment| cx.pay(payment).await)
            .recorded()
            .timeout(CALL)
            .limited(|cx| cx.calls_of_product.key(&cx.params.items[0].sku))
            .limited(|cx| cx.calls.clone())
            .retry(Retry::attempts(4))
            .then("capture", async |cx, payment| cx.pay(payment).await)
            .recorded()
            .timeout(CALL)
            .limited(|cx| cx.calls_of_product.key(&cx.params.items[0].sku))
            .limited(|cx| cx.calls.clone())
            .retry(Retry::attempts(4))
            .then("place order", async |cx, payment| cx.place(&Self::basket(cx), &payment).await)
            .recorded()
            .commits()
            .returns()
    }

    async fn plain_order(cx: &Cx<Self, Order>) -> BodyResult<Summary> {
        if let Some(first) = cx.placed(&cx.params.key).await? {
            return Ok(first);
        }
        let basket = Basket(sync::Mutex::default());
        for item in &cx.params.items {
            cx.reserve(&basket, item.clone()).await?;
        }
        let payment = cx.pay(cx.open(&cx.params, cx.key()).await?).await?;
        cx.place(&basket, &cx.pay(payment).await?).await
    }

    fn basket(cx: &Cx<Self, Order>) -> Rc<Basket> {
        cx.state(|_| Basket(sync::Mutex::default()))
    }

    fn give_back(&self, basket: &Basket) {
        let mut shelf = lock(&self.shelf);
        for Item { sku, qty } in lock(&basket.0).drain(..) {
            *shelf.entry(sku).or_default() -= qty;
        }
    }
}

/// Its database and its bank.
#[expect(clippy::unused_async, reason = "those of the demo are awaited")]
impl Shop {
    async fn placed(&self, key: &str) -> BodyResult<Option<Summary>> {
        black_box(key);
        Ok(None)
    }

    async fn reserve(&self, basket: &Basket, item: Item) -> BodyResult<()> {
        *lock(&self.shelf).entry(item.sku.clone()).or_default() += item.qty;
        lock(&basket.0).push(item);
        Ok(())
    }

    async fn open(&self, order: &Order, step: &str) -> BodyResult<Payment> {
        let amount = order.items.iter().map(|item| item.qty * 100).sum();
        Ok(Payment { key: step.to_owned(), amount })
    }

    async fn pay(&self, payment: Payment) -> BodyResult<Payment> {
        Ok(black_box(payment))
    }

    async fn place(&self, basket: &Basket, payment: &Payment) -> BodyResult<Summary> {
        self.give_back(basket);
        Ok(Summary { order: 1, total: payment.amount })
    }
}

fn lock<T>(mutex: &sync::Mutex<T>) -> sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Orders by the plan.
pub(crate) fn as_plan(calls: u32) {
    run(calls, |functions| _ = functions.on("order", Shop::order));
}

/// Orders by one body.
pub(crate) fn as_one_body(calls: u32) {
    run(calls, |functions| _ = functions.on("order", Shop::plain_order));
}

fn run(calls: u32, define: impl FnOnce(&mut Functions<Shop>)) {
    actix_rt::System::new().block_on(async {
        let interface = Interface::new("acme.shop:1.0".parse().expect("a name"));
        let builder = Executor::builder().service(interface, Shop::new(), define);
        let executor = builder.build().expect("a right configuration");
        for _ in 0..calls {
            let items = json!([{ "sku": "apple", "qty": 1 }, { "sku": "pear", "qty": 2 }]);
            let order = json!({ "customer": "ann", "items": items, "key": "k1" });
            let answer = executor.call_as_system::<Value>("acme.shop:1.0:order", order).await;
            assert_eq!(answer.expect("it is placed")["total"], 300);
        }
    });
}
