//! What the shop and the bank have to have after a run, and whether they have it.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use serde_json::Value;

use super::calls::{Call, Order, PRICE};
use super::client::Answer;

/// What is known of a run.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// Per product, the units that were put on the shelf less those that were sold.
    stock: BTreeMap<String, Units>,
    /// Per customer, the orders that were placed, with their totals.
    orders: BTreeMap<String, BTreeSet<Placed>>,
    /// Calls without an answer that tells what became of them.
    unknown: Vec<Call>,
    /// Payments that the bank holds.
    held: BTreeSet<String>,
    bank: Option<Money>,
}

/// Units of a product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Units {
    known: i64,
    /// Restocked by calls without an answer: they may be there, or a part of them.
    perhaps: i64,
}

/// An order: its number and its total, in cents.
pub(super) type Placed = (i64, i64);

/// What the bank has, in cents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Money {
    pub(super) shop: i64,
    pub(super) held: i64,
}

impl Books {
    /// The books before a run: these products have so many units, and the bank has this; `None` where
    /// there is no bank.
    pub(super) fn new(skus: impl Iterator<Item = String>, units: i64, bank: Option<Money>) -> Self {
        let stock = skus.map(|sku| (sku, Units { known: units, perhaps: 0 })).collect();
        let (orders, unknown, held) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        Self { stock, orders, unknown, held, bank }
    }

    /// Notes what became of a call.
    pub(super) fn record(&mut self, call: Call, answer: &Answer) {
        match answer {
            Answer::Result(result) => self.carried_out(call, result),
            Answer::Error(code) if is_refusal(code) => {}
            Answer::Error(_) | Answer::None(_) => match call {
                Call::Restock { sku, count } => self.units(sku).perhaps += count,
                Call::Order(_)
                | Call::Authorize { .. }
                | Call::Capture { .. }
                | Call::Refund { .. } => {
                    self.unknown.push(call);
                }
                Call::Stock { .. } | Call::Get { .. } | Call::List { .. } => {}
            },
        }
    }

    /// Calls to make so that nothing is unknown and nothing is held any more, from now on.
    pub(super) fn unsettled(&mut self) -> Vec<Call> {
        let mut calls = mem::take(&mut self.unknown);
        for call in &mut calls {
            // it may have been carried out, and nothing is to be held
            if let Call::Authorize { key, .. } = call {
                *call = Call::Refund { key: mem::take(key) };
            }
        }
        let moving: BTreeSet<&String> = calls.iter().filter_map(payment_of).collect();
        let held = self.held.iter().filter(|key| !moving.contains(key));
        let refunds: Vec<Call> = held.map(|key| Call::Refund { key: key.clone() }).collect();
        calls.extend(refunds);
        calls
    }

    /// The products, with what is known of their units.
    pub(super) fn stock(&self) -> impl Iterator<Item = (&str, Units)> {
        self.stock.iter().map(|(sku, units)| (&**sku, *units))
    }

    /// The customers who have placed orders, and these.
    pub(super) fn orders(&self) -> impl Iterator<Item = (&str, &BTreeSet<Placed>)> {
        self.orders.iter().map(|(customer, orders)| (&**customer, orders))
    }

    /// What the bank has to have; `None` where there is none.
    pub(super) fn bank(&self) -> Option<Money> {
        self.bank
    }

    fn carried_out(&mut self, call: Call, result: &Value) {
        match call {
            Call::Order(order) => self.placed(order, result),
            Call::Restock { sku, count } => self.units(sku).known += count,
            Call::Authorize { key, amount, .. } => {
                self.held.insert(key);
                self.money(|bank| bank.held += amount);
            }
            Call::Capture { key } => {
                let amount = whole(&result["amount"]).unwrap_or(0);
                self.held.remove(&key);
                self.money(|bank| {
                    bank.held -= amount;
                    bank.shop += amount;
                });
            }
            Call::Refund { key } => {
                let amount = whole(&result["amount"]).unwrap_or(0);
                if self.held.remove(&key) {
                    self.money(|bank| bank.held -= amount);
                }
            }
            Call::Stock { .. } | Call::Get { .. } | Call::List { .. } => {}
        }
    }

    fn placed(&mut self, order: Order, result: &Value) {
        let total = order.items.iter().map(|item| item.1 * PRICE).sum();
        let number = whole(&result["order"]).unwrap_or(0);
        self.orders.entry(order.customer).or_default().insert((number, total));
        for (sku, qty) in order.items {
            self.units(sku).known -= qty;
        }
        self.money(|bank| bank.shop += total);
    }

    fn units(&mut self, sku: String) -> &mut Units {
        self.stock.entry(sku).or_default()
    }

    fn money(&mut self, change: impl FnOnce(&mut Money)) {
        if let Some(bank) = &mut self.bank {
            change(bank);
        }
    }
}

impl Units {
    /// Whether so many units may be left.
    pub(super) fn allow(self, stock: i64) -> bool {
        (self.known..=self.known + self.perhaps).contains(&stock)
    }
}

/// The payment that a call moves, which the bank holds.
fn payment_of(call: &Call) -> Option<&String> {
    match call {
        Call::Capture { key } | Call::Refund { key } => Some(key),
        Call::Order(_)
        | Call::Stock { .. }
        | Call::Get { .. }
        | Call::List { .. }
        | Call::Restock { .. }
        | Call::Authorize { .. } => None,
    }
}

/// Whether an error says that the call was not carried out.
fn is_refusal(code: &str) -> bool {
    const REFUSALS: [&str; 12] = [
        "OutOfStock",
        "UnknownSku",
        "UnknownOrder",
        "KeyReused",
        "Declined",
        "BankUnavailable",
        "Refunded",
        "UnknownPayment",
        "DefenseRejected",
        "InvalidRequest",
        "UnknownInterface",
        "SecurityError",
    ];
    REFUSALS.contains(&code)
}

/// A whole number, such as one of cents.
#[expect(clippy::cast_possible_truncation, reason = "whole numbers below 2^53 fit")]
pub(super) fn whole(number: &Value) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = number.as_f64()?;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use std::slice;

    use serde_json::json;

    use super::*;

    const BANK: Money = Money { shop: 1000, held: 0 };

    fn books() -> Books {
        Books::new(["a", "b"].map(str::to_owned).into_iter(), 100, Some(BANK))
    }

    fn order(key: &str) -> Call {
        let items = vec![("a".to_owned(), 2), ("b".to_owned(), 1)];
        Call::Order(Order { customer: "ann".to_owned(), key: key.to_owned(), items })
    }

    fn key(key: &str) -> String {
        key.to_owned()
    }

    #[test]
    fn an_order_takes_units_and_gives_money() {
        let mut books = books();
        books.record(order("1"), &Answer::Result(json!({ "order": 7, "total": 750 })));
        books.record(order("2"), &Answer::Error("OutOfStock".to_owned()));
        let stock: Vec<_> = books.stock().map(|(sku, units)| (sku, units.known)).collect();
        assert_eq!(stock, [("a", 98), ("b", 99)]);
        assert_eq!(books.bank(), Some(Money { shop: 1750, held: 0 }));
        let orders: Vec<_> = books.orders().collect();
        assert_eq!(orders, [("ann", &BTreeSet::from([(7, 750)]))]);
        assert_eq!(books.unsettled(), []);
    }

    #[test]
    fn what_is_unknown_is_asked_for_again() {
        let mut books = books();
        books.record(order("1"), &Answer::None("gone".to_owned()));
        books.record(order("2"), &Answer::Error("InternalError".to_owned()));
        let restock = Call::Restock { sku: key("a"), count: 10 };
        books.record(restock, &Answer::None("gone".to_owned()));
        let authorize = Call::Authorize { key: key("3"), customer: key("ann"), amount: 5 };
        books.record(authorize.clone(), &Answer::Error("Unavailable".to_owned()));
        let unsettled = books.unsettled();
        assert_eq!(unsettled, [order("1"), order("2"), Call::Refund { key: key("3") }]);
        assert_eq!(books.unsettled(), []);
        let (_, units) = books.stock().next().unwrap();
        assert!([100, 110].iter().all(|stock| units.allow(*stock)));
        assert!([99, 111].iter().all(|stock| !units.allow(*stock)));

        books.record(authorize, &Answer::Result(json!({ "amount": 5 })));
        assert_eq!(books.bank(), Some(Money { shop: 1000, held: 5 }));
        assert_eq!(books.unsettled(), [Call::Refund { key: key("3") }]);
        books.record(Call::Refund { key: key("3") }, &Answer::Result(json!({ "amount": 5 })));
        assert_eq!(books.bank(), Some(BANK));
        assert_eq!(books.unsettled(), []);
    }

    #[test]
    fn a_captured_payment_is_the_shops() {
        let mut books = books();
        let authorize = Call::Authorize { key: key("1"), customer: key("ann"), amount: 5 };
        books.record(authorize, &Answer::Result(json!({ "amount": 5 })));
        books.record(Call::Capture { key: key("1") }, &Answer::Result(json!({ "amount": 5 })));
        assert_eq!(books.bank(), Some(Money { shop: 1005, held: 0 }));
        assert_eq!(books.unsettled(), []);
    }

    #[test]
    fn a_capture_without_an_answer_is_repeated_and_not_refunded() {
        let mut books = books();
        let authorize = Call::Authorize { key: key("1"), customer: key("ann"), amount: 5 };
        books.record(authorize, &Answer::Result(json!({ "amount": 5 })));
        let capture = Call::Capture { key: key("1") };
        books.record(capture.clone(), &Answer::Error("Unavailable".to_owned()));
        assert_eq!(books.unsettled(), slice::from_ref(&capture));
        books.record(capture, &Answer::Result(json!({ "amount": 5 })));
        assert_eq!(books.bank(), Some(Money { shop: 1005, held: 0 }));
        assert_eq!(books.unsettled(), []);
    }
}
