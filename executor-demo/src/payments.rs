//! The shop's side of payments: how the bank is called, and how a payment is undone.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps::random;
use asyncsteps::sync::Mutex;
use asyncsteps::sync::mutex::Options;
use asyncsteps::{BodyResult, Error, Retry, StepError, Undo, UndoPolicy, codes};
use serde::{Deserialize, Serialize};

use crate::bank::{BankError, BankLink};
use crate::interface::ShopError;
use crate::store::{NewOrder, Store, StoreError, Terms};

/// How long one call of the bank may take.
pub(crate) const CALL: Duration = Duration::from_secs(1);

/// Calls of the bank at once, of all orders: as many as the database writes together.
const CALLS: u32 = 64;

/// The same of orders for one product, so that one that everyone wants leaves some to the others.
const CALLS_OF_PRODUCT: u32 = 48;

/// The pause before a call is repeated, which doubles each time.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// Where orders are paid. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Payments {
    pub(crate) store: Store,
    /// The name of this process among those on the database.
    pub(crate) instance: Arc<str>,
    /// Without a bank orders are not paid.
    bank: Option<BankLink>,
    pub(crate) calls: Mutex,
    /// Under the SKU of a product.
    pub(crate) calls_of_product: Mutex,
}

/// A payment, with the terms of its order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Payment {
    amount: i64,
    pub(crate) terms: Terms,
}

/// Why a payment was not paid back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RefundError {
    #[error("the bank did not pay back")]
    Bank(#[from] BankError),
    #[error("what is owed is not known")]
    Store(#[from] StoreError),
}

impl Payments {
    /// Orders are paid at `bank`, and `store` keeps the state of their payments. Each `Payments` is a process of its
    /// own to the others on the store.
    ///
    /// # Panics
    /// If the system provides no random bytes.
    #[must_use]
    pub fn new(store: Store, bank: Option<impl Into<BankLink>>) -> Self {
        let bank = bank.map(Into::into);
        let calls = Mutex::named("bank", Options { max: CALLS, ..Options::default() });
        let of_product = Options { max: CALLS_OF_PRODUCT, ..Options::default() };
        let calls_of_product = Mutex::named("bank for sku", of_product);
        Self { store, instance: random::id().into(), bank, calls, calls_of_product }
    }

    /// Limits the calls of the bank for orders of one product, the first that they name.
    pub(crate) fn calls_for(&self, order: &NewOrder) -> Mutex {
        self.calls_of_product.key(order.items.keys().next().map_or("", |sku| sku))
    }

    /// Opens the payment of an order, at the prices of now. `step` is the idempotency key of the step.
    pub(crate) async fn open(
        &self,
        order: &Arc<NewOrder>,
        step: &str,
    ) -> Result<Payment, StoreError> {
        let prices = self.store.prices(order).await?;
        let mut terms = Terms { prices, payment: None };
        let amount = terms.total(order);
        if self.bank.is_some() {
            let key = self.store.open_payment(order, amount, &self.instance, step).await?;
            terms.payment = Some(key);
        }
        Ok(Payment { amount, terms })
    }

    /// Makes the bank hold the amount of a payment.
    pub(crate) async fn authorize(
        &self,
        order: &NewOrder,
        payment: Payment,
    ) -> BodyResult<Payment> {
        if let Some((bank, key)) = self.at_bank(&payment) {
            let held = bank.authorize(key, &order.customer, payment.amount).await;
            held.map_err(refusal)?;
        }
        Ok(payment)
    }

    /// Makes the bank pay the held amount to the shop.
    pub(crate) async fn capture(&self, payment: Payment) -> BodyResult<Payment> {
        if let Some((bank, key)) = self.at_bank(&payment) {
            bank.capture(key).await.map_err(refusal)?;
        }
        Ok(payment)
    }

    /// Pays back what a step with this idempotency key has opened, unless the order was placed. A payment
    /// that was not opened owes nothing.
    pub(crate) async fn undo(
        &self,
        step: &str,
        payment: Undo<&Payment>,
    ) -> Result<(), RefundError> {
        let key = match payment {
            Undo::Done(Payment { terms, .. }) => terms.payment.clone(),
            Undo::Unknown => match self.store.payment_of_step(step) {
                Some(payment) => payment.await?,
                // a step that was cut while it waited for the database has opened none; one that was cut just then is
                // paid back when this process has ended
                None => None,
            },
        };
        match key {
            Some(key) => self.pay_back(&key).await,
            None => Ok(()),
        }
    }

    /// Gives a payment up and pays it back, unless its order was placed. It may be done any number of times,
    /// and by several processes: the bank refunds a key once.
    pub(crate) async fn pay_back(&self, key: &str) -> Result<(), RefundError> {
        if let Some(bank) = &self.bank
            && self.store.give_up_payment(key).await?
        {
            bank.refund(key).await?;
            self.store.payment_repaid(key).await?;
        }
        Ok(())
    }

    fn at_bank<'a>(&'a self, payment: &'a Payment) -> Option<(&'a BankLink, &'a str)> {
        self.bank.as_ref().zip(payment.terms.payment.as_deref())
    }
}

/// The error of an order for an error of the bank. An error that only a shop that breaks the rules
/// can get goes to the log.
fn refusal(error: BankError) -> StepError {
    match error {
        BankError::Declined => ShopError::Declined.into(),
        BankError::Unavailable => ShopError::BankUnavailable.into(),
        BankError::Refunded
        | BankError::KeyReused
        | BankError::NoAmount
        | BankError::UnknownPayment
        | BankError::Store(_) => error.into(),
    }
}

/// How often a call of the bank is tried.
pub(crate) fn again() -> Retry {
    Retry::attempts(4).backoff(PAUSE).jitter().on(ShopError::is_transient)
}

/// The error of an undo. Its code says that the bank is away, so that a durable order is undone when it is back.
pub(crate) fn not_repaid(error: RefundError) -> StepError {
    match error {
        RefundError::Bank(BankError::Unavailable) => {
            Error::caused_by(codes::COMM_ERROR, error).into()
        }
        RefundError::Bank(_) | RefundError::Store(_) => error.into(),
    }
}

/// How often a payment is paid back until something else looks after it: the journal of a durable order, or a
/// [round](Payments::look_after_payments).
pub(crate) fn until_repaid() -> UndoPolicy {
    let retry = Retry::attempts(20).backoff(PAUSE).longest(CALL);
    UndoPolicy::default().timeout(CALL * 10).retry(retry)
}
