//! One charge: the bank is asked with a limit per attempt, again with pauses, ten calls at once, one
//! charge per customer at a time; it is recorded, and refunded if anything ends it before.

use std::time::Duration;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::Retry;
use asyncsteps_executor::{Returns, Service, Steps};

use super::errors::{BankError, LedgerDown};
use super::world::{Bank, Charge, Charged, Ledger};

pub(crate) struct Payments {
    pub(crate) bank: Bank,
    pub(crate) ledger: Ledger,
    pub(crate) bank_calls: Mutex,
    pub(crate) customers: Mutex,
}

impl Service for Payments {
    type Errors = (BankError, LedgerDown);
}

impl Payments {
    pub(crate) fn charge(steps: &Steps<Self, Charge>) -> Returns<Charged> {
        steps.locked(|cx| cx.customers.key(&cx.params.customer));
        steps
            .run("bank", async |cx, ()| {
                let tx = cx.bank.charge(&cx.params.customer, cx.params.amount, cx.key()).await?;
                Ok((tx, cx.attempt()))
            })
            .timeout(Duration::from_millis(300))
            .limited(|cx| cx.bank_calls.clone())
            .retry(
                Retry::attempts(4).backoff(Duration::from_millis(50)).on(BankError::is_transient),
            )
            .undo(async |cx, _| Ok(cx.bank.refund(cx.key()).await?))
            .then("record", async |cx, (tx, attempts)| {
                let charge = cx.ledger.record(&cx.params.customer, cx.params.amount, tx).await?;
                Ok(Charged { charge, attempts })
            })
            .returns()
    }
}
