//! Which requests are sent, as customers of the shop and its bank would send them. The shop moves their
//! money, with each order: to move it is no call of customers, so they ask for their balances only.

use std::cmp;

use asyncsteps::sim::Random;

use super::calls::{Call, Order};
use super::client::Answer;

/// Products; the first ones are asked for most.
const SKUS: usize = 50;

/// Orders that a customer places, on average: fewer than a list shows.
const ORDERS_OF_CUSTOMER: f64 = 40.0;

/// Of a hundred requests, how many are of which kind; the rest are lists.
const STOCK: usize = 30;
const ORDER: usize = 35;
const GET: usize = 12;
const RESTOCK: usize = 5;
const BALANCE: usize = 10;

/// Orders that later requests name.
const REMEMBERED: usize = 1000;

/// The next calls of customers.
pub(super) struct Mix {
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
    pub(super) fn new(run: &str, seed: u64, requests: f64, has_bank: bool) -> Self {
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
            has_bank,
            next_key: 0,
            orders: Vec::new(),
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
        } else if is(RESTOCK) {
            Call::Restock { sku: self.sku(), count: 10 }
        } else if is(BALANCE) && self.has_bank {
            Call::Balance { customer: self.customer() }
        } else {
            Call::List { customer: self.customer() }
        }
    }

    /// Remembers an answer for later requests.
    pub(super) fn learn(&mut self, call: &Call, answer: &Answer) {
        if let (Call::Order(_), Answer::Result(result)) = (call, answer)
            && let Some(order) = result["order"].as_f64()
        {
            self.remember(order);
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
        assert_eq!(calls.len(), Call::FUNCTIONS.len());
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
