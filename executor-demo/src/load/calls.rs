//! Calls of the shop and the bank.

use serde_json::{Value, json};

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Call {
    Order(Order),
    Stock { sku: String },
    Get { order: f64 },
    List { customer: String },
    Restock { sku: String, count: i64 },
    Balance { customer: String },
}

/// An order of a customer, who names it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Order {
    pub(super) customer: String,
    pub(super) key: String,
    /// Products and their units, each product once.
    pub(super) items: Vec<(String, i64)>,
}

/// The most orders that a customer is shown.
pub(super) const LISTED: usize = 100;

impl Call {
    /// All functions, by their whole names.
    pub(super) const FUNCTIONS: [&str; 6] = [
        "demo.shop:1.0:order",
        "demo.shop:1.0:stock",
        "demo.shop:1.0:get",
        "demo.shop:1.0:list",
        "demo.shop:1.0:restock",
        "demo.bank:1.0:balance",
    ];

    /// The whole name of the function.
    pub(super) fn function(&self) -> &'static str {
        Self::FUNCTIONS[match self {
            Self::Order(_) => 0,
            Self::Stock { .. } => 1,
            Self::Get { .. } => 2,
            Self::List { .. } => 3,
            Self::Restock { .. } => 4,
            Self::Balance { .. } => 5,
        }]
    }

    /// Its parameters.
    pub(super) fn params(&self) -> Value {
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

/// The price of each product, in cents.
pub(super) const PRICE: i64 = 250;
