//! A bank in the process: it holds money, takes it and gives it back, `demo.bank:1.0`.
//!
//! Each call names its payment by a key, so that any of them can be repeated: a repeated call gets
//! the first answer. A refund undoes whatever came before under its key, and refuses what comes
//! later, so that it is right to send although it is not known what became of the other calls.
//!
//! It can be slow and lose calls, as [`Conditions`] say, and then is what a remote bank is.

mod conditions;

use std::time::Duration;

use crate::store::{Balances, Denied, Pending, Store, StoreError};

pub use conditions::Conditions;

use conditions::{Fate, Line};

/// Why a call to the bank failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BankError {
    /// There is no answer: the call got lost, or its answer did.
    #[error("the bank cannot be reached")]
    Unreachable,
    /// The bank refuses.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The database of the bank failed.
    #[error("the database of the bank failed")]
    Store(#[from] StoreError),
}

impl BankError {
    /// Whether the same call may succeed if it is tried again.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable | Self::Store(StoreError::Full))
    }
}

/// A handle to the bank.
#[derive(Clone, Debug)]
pub struct Bank {
    store: Store,
    conditions: Conditions,
    line: Line,
}

impl Bank {
    /// A bank with its accounts in `store`.
    #[must_use]
    pub fn new(store: Store, conditions: Conditions) -> Self {
        let line = Line::new(&conditions);
        Self { store, conditions, line }
    }

    /// Holds money of a customer; gives the amount.
    ///
    /// # Errors
    /// [`Denied::Declined`] if there is no credit for it, [`Denied::Refunded`] if a refund came first,
    /// [`Denied::KeyReused`] if the key belongs to another payment.
    ///
    /// # Cancel safety
    /// Whether the money is held is unknown then, as with all calls of the bank: [refund](Self::refund)
    /// it.
    pub async fn authorize(
        &self,
        key: &str,
        customer: &str,
        amount: i64,
    ) -> Result<i64, BankError> {
        let (key, customer, credit) = (key.into(), customer.into(), self.conditions.credit);
        Ok(self.call(|store| store.authorize(key, customer, amount, credit)).await??)
    }

    /// Moves what a payment holds to the shop; gives the amount.
    ///
    /// # Errors
    /// [`Denied::UnknownPayment`] if nothing was held under the key, [`Denied::Refunded`] if it was
    /// given back.
    pub async fn capture(&self, key: &str) -> Result<i64, BankError> {
        Ok(self.call(|store| store.capture(key.into())).await??)
    }

    /// Gives back what a payment holds or has captured, and refuses what comes later under its key;
    /// gives the amount, 0 if there was none.
    ///
    /// # Errors
    /// [`BankError`] if the bank does not answer. It may be sent again until it does.
    pub async fn refund(&self, key: &str) -> Result<i64, BankError> {
        self.call(|store| store.refund(key.into())).await
    }

    /// Where the money is.
    ///
    /// # Errors
    /// [`BankError`] if the bank does not answer.
    pub async fn audit(&self) -> Result<Balances, BankError> {
        self.call(Store::balances).await
    }

    async fn call<T>(&self, work: impl FnOnce(&Store) -> Pending<T>) -> Result<T, BankError> {
        let fate = self.line.next();
        self.travel().await;
        if fate == Fate::NeverArrives {
            return Err(BankError::Unreachable);
        }
        let answer = work(&self.store).await;
        self.travel().await;
        if fate == Fate::AnswerLost {
            return Err(BankError::Unreachable);
        }
        Ok(answer?)
    }

    /// The way of a call to the bank, or of its answer back.
    async fn travel(&self) {
        let time = self.conditions.latency / 2;
        if time > Duration::ZERO {
            tokio::time::sleep(time).await;
        }
    }
}
