//! The requests and answers of callers of `demo.shop:1.0`, as types, and the errors that they see.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use asyncsteps::iface::{FunctionName, Source};
use asyncsteps::{Code, Emits, Error, codes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::store::{NewOrder, StoreError, Summary};

/// The definitions of the interfaces of shop and shelf.
#[must_use]
pub fn definitions() -> Source {
    Source::texts([
        ("demo.shop-1.0-iface.json", include_str!("../ifaces/demo.shop-1.0-iface.json")),
        ("demo.shelf-1.0-iface.json", include_str!("../ifaces/demo.shelf-1.0-iface.json")),
    ])
}

/// Whether a function changes nothing, so that links and images may call it.
#[must_use]
pub fn is_read(function: &FunctionName) -> bool {
    matches!(function.func(), "ping" | "stock" | "get" | "list" | "audit")
}

/// The HTTP status of an error of the shop where it is called by URL, unless it is the usual one.
#[must_use]
pub fn status_of(code: &str) -> Option<u16> {
    match code {
        "OutOfStock" | "KeyReused" => Some(409),
        "BankUnavailable" | "ShelfUnavailable" => Some(503),
        _ => None,
    }
}

/// Why the shop refuses a call, beside [what the shelf refuses](crate::shelf::ShelfError). The text for callers names
/// the order.
#[derive(Debug, thiserror::Error, Code)]
#[non_exhaustive]
pub enum ShopError {
    /// There is no such order.
    #[error("{0}")]
    #[code(public)]
    UnknownOrder(f64),
    /// The bank declined the payment.
    #[error("the bank declined the payment")]
    Declined,
    /// The bank does not answer.
    #[error("the bank does not answer")]
    BankUnavailable,
    /// The shelf does not answer, such as while another process has it that does not give it back.
    #[error("the shelf does not answer")]
    ShelfUnavailable(#[source] Error),
}

impl ShopError {
    /// Whether another attempt may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::BankUnavailable | Self::ShelfUnavailable(_))
    }
}

impl Code for StoreError {
    const CODES: &'static [&'static str] = &["OutOfStock", "KeyReused"];

    fn code(&self) -> &'static str {
        match self {
            Self::OutOfStock(_) => "OutOfStock",
            Self::KeyReused => "KeyReused",
            Self::Full | Self::GivenUp => codes::DEFENSE_REJECTED,
            Self::Sqlite(_) | Self::Thread(_) | Self::Closed => codes::INTERNAL_ERROR,
        }
    }

    fn info(&self) -> Option<String> {
        match self {
            Self::OutOfStock(sku) => Some(sku.to_string()),
            Self::Full => Some("Database queue limit".to_owned()),
            Self::GivenUp => Some(
                "The payment was given up, such as for an equal order: repeat the order".to_owned(),
            ),
            Self::KeyReused | Self::Sqlite(_) | Self::Thread(_) | Self::Closed => None,
        }
    }
}

/// The parameters of `restock`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Restock {
    pub(crate) sku: String,
    pub(crate) count: i64,
    pub(crate) price: Option<i64>,
}

/// The parameters of `stock`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct StockOf {
    pub(crate) sku: String,
}

/// The result of `restock` and `stock`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Stock {
    #[schemars(range(min = 0))]
    pub(crate) stock: i64,
}

/// The parameters of `order`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(from = "SentOrder")]
pub(crate) struct Ordered(#[schemars(with = "SentOrder")] Arc<NewOrder>);

impl Ordered {
    /// SKUs and their units.
    pub(crate) fn items(&self) -> impl Iterator<Item = (Arc<str>, i64)> {
        self.0.items.iter().map(|(sku, qty)| (Arc::clone(sku), *qty))
    }
}

/// How far an order is.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OrderStep {
    Reserved,
    Paid,
}

/// What `order` emits.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct OrderEvent {
    pub(crate) step: OrderStep,
    /// Of what is reserved.
    pub(crate) sku: Option<Arc<str>>,
}

impl Emits for Ordered {
    type Event = OrderEvent;
}

impl Deref for Ordered {
    type Target = Arc<NewOrder>;

    fn deref(&self) -> &Arc<NewOrder> {
        &self.0
    }
}

/// The same as callers send it.
#[derive(Debug, Deserialize, JsonSchema)]
struct SentOrder {
    customer: String,
    items: Vec<Item>,
    key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Item {
    sku: String,
    qty: i64,
}

impl From<SentOrder> for Ordered {
    /// Each SKU once, however often the customer named it.
    fn from(SentOrder { customer, items: wanted, key }: SentOrder) -> Self {
        let mut items = BTreeMap::new();
        for Item { sku, qty } in wanted {
            *items.entry(sku.into()).or_insert(0) += qty;
        }
        Self(Arc::new(NewOrder { customer, items, key }))
    }
}

/// The parameters of `get`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OrderOf {
    pub(crate) order: f64,
}

/// The parameters of `list`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OrdersOf {
    pub(crate) customer: String,
    pub(crate) limit: u32,
}

/// The result of `list`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Orders {
    pub(crate) orders: Vec<Summary>,
}

#[cfg(test)]
mod tests {
    use asyncsteps::iface::{Definition, Loader};

    use crate::bank;

    /// What a caller gets whose durable request is not decided in its time: otherwise it is InternalError, and a
    /// client without a key orders again.
    #[test]
    fn durable_functions_say_that_their_outcome_may_be_unknown() {
        let mut loader = Loader::new([super::definitions(), bank::definitions()]);
        let mut loaded =
            |id: &str| loader.load(&id.parse().expect("a name")).expect("a definition");
        let throws = |definition: &Definition, function: &str| {
            definition.function(function).is_some_and(|it| it.throws("OutcomeUnknown"))
        };
        assert!(throws(&loaded("demo.shop:1.0"), "order"));
        assert!(throws(&loaded("demo.bank:1.0"), "capture"));
    }
}
