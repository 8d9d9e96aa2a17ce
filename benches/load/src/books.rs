//! The expected state of shop and bank after a run.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::client::Answer;
use crate::mix::{Call, Order, PRICE};

/// The known facts of a run.
#[derive(Debug, Default)]
pub(crate) struct Books {
    /// Per product, the units that were put on the shelf less the sold ones.
    pub(crate) stock: BTreeMap<String, Units>,
    /// Per customer, the orders that were placed.
    pub(crate) orders: BTreeMap<String, BTreeSet<Placed>>,
    /// Orders without an answer that says what became of them, to be repeated.
    pub(crate) unknown: Vec<Order>,
    /// The expected money of the bank; `None` where there is none.
    pub(crate) bank: Option<Money>,
}

/// Units of a product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Units {
    known: i64,
    /// Restocked by calls without an answer: they may be there, or a part of them.
    perhaps: i64,
}

/// An order: its number and its total, in cents.
pub(crate) type Placed = (i64, i64);

/// The money of the bank, in cents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Money {
    pub(crate) shop: i64,
    pub(crate) held: i64,
}

impl Books {
    /// The books before a run: these products have `units` units each, and the bank has this.
    pub(crate) fn new(
        skus: impl IntoIterator<Item = String>,
        units: i64,
        bank: Option<Money>,
    ) -> Self {
        let units = Units { known: units, perhaps: 0 };
        let stock = skus.into_iter().map(|sku| (sku, units)).collect();
        Self { stock, bank, ..Self::default() }
    }

    /// Notes what became of a call.
    pub(crate) fn record(&mut self, call: Call, answer: &Answer) {
        match (call, answer) {
            (Call::Order(order), Answer::Result(result)) => self.placed(order, result),
            (Call::Restock { sku, count }, Answer::Result(_)) => self.units(sku).known += count,
            (_, Answer::Error(code)) if REFUSALS.contains(&&**code) => {}
            (Call::Order(order), _) => self.unknown.push(order),
            (Call::Restock { sku, count }, _) => self.units(sku).perhaps += count,
            (
                Call::Stock { .. } | Call::Get { .. } | Call::List { .. } | Call::Balance { .. },
                _,
            ) => {}
        }
    }

    fn placed(&mut self, order: Order, result: &Value) {
        let total = order.items.iter().map(|item| item.1 * PRICE).sum();
        let number = whole(&result["order"]).unwrap_or(0);
        self.orders.entry(order.customer).or_default().insert((number, total));
        for (sku, qty) in order.items {
            self.units(sku).known -= qty;
        }
        if let Some(bank) = &mut self.bank {
            bank.shop += total;
        }
    }

    fn units(&mut self, sku: String) -> &mut Units {
        self.stock.entry(sku).or_default()
    }
}

impl Units {
    /// Whether `stock` units may be left.
    pub(crate) fn allow(self, stock: i64) -> bool {
        (self.known..=self.known + self.perhaps).contains(&stock)
    }
}

/// Errors that say that the call was not carried out.
const REFUSALS: [&str; 10] = [
    "OutOfStock",
    "UnknownSku",
    "KeyReused",
    "Declined",
    "BankUnavailable",
    "ShelfUnavailable",
    "DefenseRejected",
    "InvalidRequest",
    "UnknownInterface",
    "SecurityError",
];

/// A whole number that a float represents exactly, such as one of cents; a balance may be negative.
pub(crate) fn whole(value: &Value) -> Option<i64> {
    /// Up to this number each whole number has a float of its own.
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    let number = value.as_f64()?;
    #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
    (number.fract() == 0.0 && number.abs() <= LARGEST).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const BANK: Money = Money { shop: 1000, held: 0 };

    fn books() -> Books {
        Books::new(["a", "b"].map(str::to_owned), 100, Some(BANK))
    }

    fn order(key: &str) -> Call {
        let items = vec![("a".to_owned(), 2), ("b".to_owned(), 1)];
        Call::Order(Order { customer: "ann".to_owned(), key: key.to_owned(), items })
    }

    #[test]
    fn an_order_takes_units_and_gives_money() {
        let mut books = books();
        books.record(order("1"), &Answer::Result(json!({ "order": 7, "total": 750 })));
        books.record(order("2"), &Answer::Error("OutOfStock".to_owned()));
        let stock: Vec<_> = books.stock.iter().map(|(sku, units)| (&**sku, units.known)).collect();
        assert_eq!(stock, [("a", 98), ("b", 99)]);
        assert_eq!(books.bank, Some(Money { shop: 1750, held: 0 }));
        assert_eq!(books.orders, BTreeMap::from([("ann".to_owned(), BTreeSet::from([(7, 750)]))]));
        assert_eq!(books.unknown, []);
    }

    #[test]
    fn what_is_unknown_is_asked_for_again() {
        let mut books = books();
        books.record(order("1"), &Answer::None("gone".to_owned()));
        books.record(order("2"), &Answer::Error("InternalError".to_owned()));
        let restock = Call::Restock { sku: "a".to_owned(), count: 10 };
        books.record(restock, &Answer::None("gone".to_owned()));
        let unknown: Vec<Call> = books.unknown.into_iter().map(Call::Order).collect();
        assert_eq!(unknown, [order("1"), order("2")]);
        let units = books.stock["a"];
        assert!([100, 110].iter().all(|stock| units.allow(*stock)));
        assert!([99, 111].iter().all(|stock| !units.allow(*stock)));
        assert_eq!(books.bank, Some(BANK));
    }
}
