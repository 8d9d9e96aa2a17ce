//! The expected state of shop and bank after a run.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use serde_json::Value;

use super::calls::{Call, Order, PRICE};
use super::client::Answer;
use crate::number;

/// The known facts of a run.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// Per product, the units that were put on the shelf less the sold ones.
    stock: BTreeMap<String, Units>,
    /// Per customer, the orders that were placed, with their totals.
    orders: BTreeMap<String, BTreeSet<Placed>>,
    /// Orders without an answer that says what became of them.
    unknown: Vec<Order>,
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

/// The money of the bank, in cents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Money {
    pub(super) shop: i64,
    pub(super) held: i64,
}

impl Books {
    /// The books before a run: these products have `units` units each, and the bank has this; `None`
    /// where there is no bank.
    pub(super) fn new(skus: impl Iterator<Item = String>, units: i64, bank: Option<Money>) -> Self {
        let stock = skus.map(|sku| (sku, Units { known: units, perhaps: 0 })).collect();
        Self { stock, orders: BTreeMap::new(), unknown: Vec::new(), bank }
    }

    /// Notes what became of a call.
    pub(super) fn record(&mut self, call: Call, answer: &Answer) {
        match (call, answer) {
            (Call::Order(order), Answer::Result(result)) => self.placed(order, result),
            (Call::Restock { sku, count }, Answer::Result(_)) => self.units(sku).known += count,
            (
                Call::Stock { .. } | Call::Get { .. } | Call::List { .. } | Call::Balance { .. },
                _,
            ) => {}
            (_, Answer::Error(code)) if is_refusal(code) => {}
            (Call::Order(order), _) => self.unknown.push(order),
            (Call::Restock { sku, count }, _) => self.units(sku).perhaps += count,
        }
    }

    /// Orders of which it is not known whether they were placed, to be repeated; from now on they are
    /// forgotten.
    pub(super) fn take_unknown(&mut self) -> Vec<Order> {
        mem::take(&mut self.unknown)
    }

    /// The products, with the known numbers of their units.
    pub(super) fn stock(&self) -> impl Iterator<Item = (&str, Units)> {
        self.stock.iter().map(|(sku, units)| (&**sku, *units))
    }

    /// The customers who have placed orders, and these.
    pub(super) fn orders(&self) -> impl Iterator<Item = (&str, &BTreeSet<Placed>)> {
        self.orders.iter().map(|(customer, orders)| (&**customer, orders))
    }

    /// The expected money of the bank; `None` where there is none.
    pub(super) fn bank(&self) -> Option<Money> {
        self.bank
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
    pub(super) fn allow(self, stock: i64) -> bool {
        (self.known..=self.known + self.perhaps).contains(&stock)
    }
}

/// Whether an error says that the call was not carried out.
fn is_refusal(code: &str) -> bool {
    const REFUSALS: [&str; 9] = [
        "OutOfStock",
        "UnknownSku",
        "KeyReused",
        "Declined",
        "BankUnavailable",
        "DefenseRejected",
        "InvalidRequest",
        "UnknownInterface",
        "SecurityError",
    ];
    REFUSALS.contains(&code)
}

/// A whole number, such as one of cents; a balance may be negative.
pub(super) fn whole(value: &Value) -> Option<i64> {
    let value = value.as_f64()?;
    let size = number::whole(value.abs())?;
    Some(if value < 0.0 { -size } else { size })
}

#[cfg(test)]
mod tests {
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
        assert_eq!(books.take_unknown(), []);
    }

    #[test]
    fn what_is_unknown_is_asked_for_again() {
        let mut books = books();
        books.record(order("1"), &Answer::None("gone".to_owned()));
        books.record(order("2"), &Answer::Error("InternalError".to_owned()));
        let restock = Call::Restock { sku: "a".to_owned(), count: 10 };
        books.record(restock, &Answer::None("gone".to_owned()));
        let unknown: Vec<Call> = books.take_unknown().into_iter().map(Call::Order).collect();
        assert_eq!(unknown, [order("1"), order("2")]);
        assert_eq!(books.take_unknown(), []);
        let (_, units) = books.stock().next().expect("a product");
        assert!([100, 110].iter().all(|stock| units.allow(*stock)));
        assert!([99, 111].iter().all(|stock| !units.allow(*stock)));
        assert_eq!(books.bank(), Some(BANK));
    }
}
