//! The functions of `demo.bank:1.0`.

use std::error::Error;

use asyncsteps::durable::Durable;
use asyncsteps::iface::Source;
use asyncsteps::{BodyResult, Code, Cx, Functions, Returns, Service, Steps, TypedCall, codes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Bank;
use super::error::BankError;
use super::ledger::Audit;
use crate::number::whole;

/// The definition of the bank's interface.
#[must_use]
pub fn definitions() -> Source {
    let text = include_str!("../../ifaces/demo.bank-1.0-iface.json");
    Source::texts([("demo.bank-1.0-iface.json", text)])
}

impl Service for Bank {
    type Errors = BankError;
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Authorize {
    pub(super) key: String,
    pub(super) customer: String,
    pub(super) amount: f64,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Capture {
    pub(super) key: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Refund {
    pub(super) key: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct AccountOf {
    customer: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Balance {
    balance: i64,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub(super) struct Moved {
    #[schemars(range(min = 0, max = 9_007_199_254_740_992_i64))]
    pub(super) amount: i64,
}

impl TypedCall for Authorize {
    const FUNCTION: &'static str = "demo.bank:1.0:authorize";
    type Result = Moved;
    type Errors = BankError;
}

impl TypedCall for Capture {
    const FUNCTION: &'static str = "demo.bank:1.0:capture";
    type Result = Moved;
    type Errors = BankError;
}

impl TypedCall for Refund {
    const FUNCTION: &'static str = "demo.bank:1.0:refund";
    type Result = Moved;
    type Errors = BankError;
}

impl Bank {
    /// Says what handles each function. With a journal captures are durable.
    pub fn define(functions: &mut Functions<Self>, durable: Option<&Durable>) {
        functions
            .on("authorize", authorize)
            .on("refund", refund)
            .on("balance", balance)
            .on("audit", audit);
        match durable {
            Some(durable) => _ = durable.on(functions, "capture", capture),
            None => _ = functions.on("capture", capture),
        }
    }
}

async fn authorize(cx: &Cx<Bank, Authorize>) -> BodyResult<Moved> {
    let Authorize { key, customer, amount } = &*cx.params;
    let amount = whole(*amount).ok_or(BankError::NoAmount)?;
    Ok(Moved { amount: cx.authorize(key, customer, amount).await? })
}

fn capture(steps: &Steps<Bank, Capture>) -> Returns<Moved> {
    // the books know the key of the payment, so it may run again
    steps
        .run("capture", async |cx, ()| Ok(Moved { amount: cx.capture(&cx.params.key).await? }))
        .recorded()
        .returns()
}

async fn refund(cx: &Cx<Bank, Refund>) -> BodyResult<Moved> {
    Ok(Moved { amount: cx.refund(&cx.params.key).await? })
}

async fn balance(cx: &Cx<Bank, AccountOf>) -> BodyResult<Balance> {
    Ok(Balance { balance: Bank::balance(cx, &cx.params.customer).await? })
}

async fn audit(cx: &Cx<Bank, ()>) -> BodyResult<Audit> {
    Ok(Bank::audit(cx).await?)
}

impl Code for BankError {
    const CODES: &'static [&'static str] =
        &["Declined", "Refunded", "KeyReused", "UnknownPayment", "Unavailable"];

    fn code(&self) -> &'static str {
        match self {
            Self::Declined => "Declined",
            Self::Refunded => "Refunded",
            Self::KeyReused => "KeyReused",
            Self::UnknownPayment => "UnknownPayment",
            Self::Unavailable => "Unavailable",
            Self::NoAmount => codes::INVALID_REQUEST,
            Self::Store(_) => codes::INTERNAL_ERROR,
        }
    }

    fn from_code(code: &str, _: Option<&str>) -> Option<Box<dyn Error + Send + Sync>> {
        let known = [
            Self::Declined,
            Self::Refunded,
            Self::KeyReused,
            Self::UnknownPayment,
            Self::Unavailable,
        ];
        known.into_iter().find(|error| error.code() == code).map(Into::into)
    }
}
