//! Which requests are sent, as customers of the shop and the bank would send them.

use std::cmp;

use asyncsteps::sim::Random;

use super::calls::{Call, Order};
use super::client::Answer;

/// Products; the first ones are asked for most.
const SKUS: usize = 50;

/// Orders that a customer places, on average: fewer than a list shows.
const ORDERS_OF_CUSTOMER: f64 = 40.0;

/// Of a hundred requests, how many are of which kind; the rest is for the bank.
const STOCK: usize = 30;
const ORDER: usize = 35;
const GET: usize = 15;
const LIST: usize = 10;
const RESTOCK: usize = 4;

/// Orders and payments that later requests name.
const REMEMBERED: usize = 1000;

/// What customers do next.
pub(super) struct Mix {
    random: Random,
    run: String,
    customers: usize,
    /// Keys of orders and payments are numbered.
    next_key: u64,
    /// Orders that were placed, a part of them.
    orders: Vec<f64>,
    /// Payments that the bank holds.
    held: Vec<String>,
}

impl Mix {
    /// The requests of a run with this name, about so many.
    pub(super) fn new(run: &str, seed: u64, requests: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a number of customers, above zero"
        )]
        let customers = (requests * ORDER as f64 / 100.0 / ORDERS_OF_CUSTOMER).ceil() as usize;
        Self {
            random: Random::new(seed),
            run: run.to_owned(),
            customers: cmp::max(customers, 1),
            next_key: 0,
            orders: Vec::new(),
            held: Vec::new(),
        }
    }

    /// The products of a run.
    pub(super) fn skus(run: &str) -> impl Iterator<Item = String> {
        (0..SKUS).map(move |number| sku(run, number))
    }

    /// The next call.
    pub(super) fn next(&mut self) -> Call {
        let mut kind = self.random.below(100);
        let mut is = |share: usize| {
            let is = kind < share;
            kind = kind.saturating_sub(share);
            is
        };
        if is(STOCK) {
            Call::Stock { sku: self.sku() }
        } else if is(ORDER) {
            self.order()
        } else if is(GET) {
            match self.random.pick(&self.orders) {
                Some(order) => Call::Get { order: *order },
                None => Call::Stock { sku: self.sku() },
            }
        } else if is(LIST) {
            Call::List { customer: self.customer() }
        } else if is(RESTOCK) {
            Call::Restock { sku: self.sku(), count: 10 }
        } else {
            self.payment()
        }
    }

    /// What an answer says, for later requests.
    pub(super) fn learn(&mut self, call: &Call, answer: &Answer) {
        let Answer::Result(result) = answer else { return };
        match call {
            Call::Order(_) => {
                if let Some(order) = result["order"].as_f64() {
                    self.remember(order);
                }
            }
            Call::Authorize { key, .. } => self.held.push(key.clone()),
            Call::Stock { .. }
            | Call::Get { .. }
            | Call::List { .. }
            | Call::Restock { .. }
            | Call::Capture { .. }
            | Call::Refund { .. } => {}
        }
    }

    fn remember(&mut self, order: f64) {
        if self.orders.len() < REMEMBERED {
            self.orders.push(order);
        } else {
            let oldest = self.random.below(REMEMBERED);
            self.orders[oldest] = order;
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

    /// A payment of its own: it is authorized, then captured or refunded.
    fn payment(&mut self) -> Call {
        if self.random.one_in(2)
            && let Some(key) = self.held.pop()
        {
            return if self.random.one_in(4) {
                Call::Refund { key }
            } else {
                Call::Capture { key }
            };
        }
        let amount = 100 + i64::try_from(self.random.below(10_000)).unwrap_or(0);
        Call::Authorize { key: self.key(), customer: self.customer(), amount }
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
    use std::collections::{BTreeMap, HashSet};

    use serde_json::json;

    use super::*;

    #[test]
    fn the_mix_has_its_shares_and_names_what_is_there() {
        let mut mix = Mix::new("run", 0, 10_000.0);
        let (mut calls, mut held) = (BTreeMap::new(), HashSet::new());
        for number in 0..10_000 {
            let call = mix.next();
            *calls.entry(call.function()).or_insert(0) += 1;
            match &call {
                Call::Capture { key } | Call::Refund { key } => {
                    assert!(held.remove(key), "{key} is moved once");
                }
                Call::Get { order } => assert!(*order < f64::from(number)),
                Call::Authorize { key, .. } => assert!(held.insert(key.clone())),
                Call::Order(_) | Call::Stock { .. } | Call::List { .. } | Call::Restock { .. } => {}
            }
            mix.learn(&call, &Answer::Result(json!({ "order": number })));
        }
        let share = |function| calls[function] / 100;
        assert_eq!(calls.len(), 8);
        assert!((33..38).contains(&share("demo.shop:1.0:order")), "{calls:?}");
        assert!((13..17).contains(&share("demo.shop:1.0:get")), "{calls:?}");
        assert!((1..4).contains(&share("demo.bank:1.0:authorize")), "{calls:?}");
    }
}
