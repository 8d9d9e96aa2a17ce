//! Which requests are sent, as customers of the shop and its bank would send them. The shop moves their
//! money, with each order: to move it is no call of customers, so they ask for their balances only.

use std::cmp;

use asyncsteps_core::sim::Random;
use serde_json::{Value, json};

use crate::client::Answer;

/// The price of each product, in cents.
pub(crate) const PRICE: i64 = 250;

/// The most orders that a customer is shown.
pub(crate) const LISTED: usize = 100;

/// Products; the first ones are asked for most.
const SKUS: usize = 50;

/// Orders that a customer places, on average: fewer than a list shows.
const ORDERS_OF_CUSTOMER: f64 = 40.0;

/// How many of the requests are orders.
const ORDERS: f64 = 0.35;

/// Orders that later requests name.
const REMEMBERED: usize = 1000;

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Order(Order),
    Stock { sku: String },
    Get { order: f64 },
    List { customer: String },
    Restock { sku: String, count: i64 },
    Balance { customer: String },
}

/// An order of a customer, who names it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Order {
    pub(crate) customer: String,
    pub(crate) key: String,
    /// Products and their units, each product once.
    pub(crate) items: Vec<(String, i64)>,
}

impl Call {
    /// The whole name of the function.
    pub(crate) fn function(&self) -> &'static str {
        match self {
            Self::Order(_) => "demo.shop:1.0:order",
            Self::Stock { .. } => "demo.shop:1.0:stock",
            Self::Get { .. } => "demo.shop:1.0:get",
            Self::List { .. } => "demo.shop:1.0:list",
            Self::Restock { .. } => "demo.shop:1.0:restock",
            Self::Balance { .. } => "demo.bank:1.0:balance",
        }
    }

    /// Its parameters.
    pub(crate) fn params(&self) -> Value {
        match self {
            Self::Order(Order { customer, key, items }) => {
                let items: Vec<Value> =
                    items.iter().map(|(sku, qty)| json!({ "sku": sku, "qty": qty })).collect();
                json!({ "customer": customer, "items": items, "key": key })
            }
            Self::Stock { sku } => json!({ "sku": sku }),
            Self::Get { order } => json!({ "order": order }),
            Self::List { customer } => json!({ "customer": customer, "limit": LISTED }),
            Self::Balance { customer } => json!({ "customer": customer }),
            Self::Restock { sku, count } => json!({ "sku": sku, "count": count, "price": PRICE }),
        }
    }
}

/// The next calls of customers.
pub(crate) struct Mix {
    random: Random,
    run: String,
    customers: usize,
    has_bank: bool,
    /// Keys of orders are numbered.
    next_key: u64,
    /// Orders that were placed, a part of them.
    orders: Vec<f64>,
}

impl Mix {
    /// About `requests` requests of a run with this name, to a shop that may have a bank.
    pub(crate) fn new(run: &str, seed: u64, requests: f64, has_bank: bool) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number of customers, above zero"
        )]
        let customers = (requests * ORDERS / ORDERS_OF_CUSTOMER).ceil() as usize;
        Self {
            random: Random::new(seed),
            run: run.to_owned(),
            customers: cmp::max(customers, 1),
            has_bank,
            next_key: 0,
            orders: Vec::new(),
        }
    }

    /// The products of a run.
    pub(crate) fn skus(run: &str) -> impl Iterator<Item = String> {
        (0..SKUS).map(move |number| sku(run, number))
    }

    /// The next call.
    pub(crate) fn next(&mut self) -> Call {
        match self.random.below(100) {
            ..35 => self.order(),
            35..47 if !self.orders.is_empty() => {
                let order = self.random.below(self.orders.len());
                Call::Get { order: self.orders[order] }
            }
            35..77 => Call::Stock { sku: self.sku() },
            77..82 => Call::Restock { sku: self.sku(), count: 10 },
            82..92 if self.has_bank => Call::Balance { customer: self.customer() },
            _ => Call::List { customer: self.customer() },
        }
    }

    /// Remembers an answer for later requests.
    pub(crate) fn learn(&mut self, call: &Call, answer: &Answer) {
        let (Call::Order(_), Answer::Result(result)) = (call, answer) else { return };
        let Some(order) = result["order"].as_f64() else { return };
        if self.orders.len() < REMEMBERED {
            self.orders.push(order);
        } else {
            self.orders[self.random.below(REMEMBERED)] = order;
        }
    }

    /// One to three products, a few units of each.
    fn order(&mut self) -> Call {
        let mut items: Vec<(String, i64)> = Vec::new();
        for _ in 0..=self.random.below(3) {
            let (sku, qty) = (self.sku(), if self.random.one_in(4) { 2 } else { 1 });
            match items.iter_mut().find(|item| item.0 == sku) {
                Some(item) => item.1 += qty,
                None => items.push((sku, qty)),
            }
        }
        Call::Order(Order { customer: self.customer(), key: self.key(), items })
    }

    /// A product; half of the times one of the first five.
    fn sku(&mut self) -> String {
        let among = if self.random.one_in(2) { 5 } else { SKUS };
        let number = self.random.below(among);
        sku(&self.run, number)
    }

    fn customer(&mut self) -> String {
        format!("load-{}-{}", self.run, self.random.below(self.customers))
    }

    fn key(&mut self) -> String {
        self.next_key += 1;
        format!("load-{}-{}", self.run, self.next_key)
    }
}

fn sku(run: &str, number: usize) -> String {
    format!("load-{run}-{number}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn the_mix_has_its_shares_and_names_what_is_there() {
        let mut mix = Mix::new("run", 0, 10_000.0, true);
        let mut calls = BTreeMap::new();
        for number in 0..10_000 {
            let call = mix.next();
            *calls.entry(call.function()).or_insert(0) += 1;
            if let Call::Get { order } = &call {
                assert!(*order < f64::from(number), "{order} was placed");
            }
            mix.learn(&call, &Answer::Result(json!({ "order": number })));
        }
        let share = |function| calls[function] / 100;
        assert_eq!(calls.len(), 6);
        assert!((33..38).contains(&share("demo.shop:1.0:order")), "{calls:?}");
        assert!((10..14).contains(&share("demo.shop:1.0:get")), "{calls:?}");
        assert!((4..7).contains(&share("demo.shop:1.0:restock")), "{calls:?}");
        assert!((8..12).contains(&share("demo.bank:1.0:balance")), "{calls:?}");
    }

    #[test]
    fn a_shop_without_a_bank_is_asked_for_no_balance() {
        let mut mix = Mix::new("run", 0, 1_000.0, false);
        assert!((0..1_000).all(|_| !matches!(mix.next(), Call::Balance { .. })));
    }
}
