//! What can go wrong, for both versions: the names are the codes that callers see.

use asyncsteps_core::Code;

#[derive(Debug, thiserror::Error, Code)]
pub(crate) enum BankError {
    #[error("the bank does not answer")]
    BankUnavailable,
    #[error("the card was declined")]
    CardDeclined,
}

impl BankError {
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::BankUnavailable)
    }
}

#[derive(Debug, thiserror::Error, Code)]
#[error("the ledger is down")]
pub(crate) struct LedgerDown;
