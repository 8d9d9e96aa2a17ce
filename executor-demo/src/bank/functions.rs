//! The functions of `demo.bank:1.0`.

use asyncsteps::durable::Durable;
use asyncsteps::iface::Source;
use asyncsteps::{BodyResult, Code, Cx, Functions, Returns, Service, Steps, codes};
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

#[derive(Debug, Deserialize, JsonSchema)]
struct Authorize {
    key: String,
    customer: String,
    amount: f64,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct PaymentOf {
    key: String,
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

fn capture(steps: &Steps<Bank, PaymentOf>) -> Returns<Moved> {
    // the books know the key of the payment, so it may run again
    steps
        .run("capture", async |cx, ()| Ok(Moved { amount: cx.capture(&cx.params.key).await? }))
        .recorded()
        .returns()
}

async fn refund(cx: &Cx<Bank, PaymentOf>) -> BodyResult<Moved> {
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
}
