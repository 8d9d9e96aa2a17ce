//! Why the bank refuses a call.

use crate::store::StoreError;

/// Why the bank refuses a call, or does not answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BankError {
    /// The customer's credit does not cover the amount.
    #[error("the payment was declined")]
    Declined,
    /// The payment was refunded before this call came.
    #[error("the payment was refunded")]
    Refunded,
    /// The key belongs to a payment of another customer or amount.
    #[error("the key belongs to another payment")]
    KeyReused,
    /// There is no payment with this key.
    #[error("there is no payment with this key")]
    UnknownPayment,
    /// The amount is no whole number of cents.
    #[error("the amount is no whole number of cents")]
    NoAmount,
    /// The call or its answer was lost: it may have been carried out.
    #[error("the bank does not answer")]
    Unavailable,
    /// The database failed.
    #[error("the books of the bank cannot be read or written")]
    Store(#[from] StoreError),
}

impl BankError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable)
    }
}
