//! The bank on another node.

use asyncsteps::executor::Invoker;
use asyncsteps::{ConfigError, Error, Executor};
use serde_json::{Value, json};

use super::Bank;
use super::error::BankError;
use super::functions::Moved;
use super::ledger::Answer;

/// The bank of another node, called as the shop itself. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RemoteBank {
    /// It hosts nothing: it calls every function.
    calls: Executor,
}

/// The bank as the shop reaches it.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum BankLink {
    /// In this process.
    Here(Bank),
    /// On another node.
    Node(RemoteBank),
}

impl BankLink {
    pub(crate) async fn authorize(&self, key: &str, customer: &str, amount: i64) -> Answer {
        match self {
            Self::Here(bank) => bank.authorize(key, customer, amount).await,
            Self::Node(bank) => bank.authorize(key, customer, amount).await,
        }
    }

    pub(crate) async fn capture(&self, key: &str) -> Answer {
        match self {
            Self::Here(bank) => bank.capture(key).await,
            Self::Node(bank) => bank.capture(key).await,
        }
    }

    pub(crate) async fn refund(&self, key: &str) -> Answer {
        match self {
            Self::Here(bank) => bank.refund(key).await,
            Self::Node(bank) => bank.refund(key).await,
        }
    }
}

impl From<Bank> for BankLink {
    fn from(bank: Bank) -> Self {
        Self::Here(bank)
    }
}

impl RemoteBank {
    /// The bank that this reaches.
    ///
    /// # Errors
    /// [`ConfigError`] if the executor that calls cannot be built.
    pub fn new(invoker: impl Invoker + 'static) -> Result<Self, ConfigError> {
        Ok(Self { calls: Executor::builder().invoker(invoker).build()? })
    }

    async fn authorize(&self, key: &str, customer: &str, amount: i64) -> Answer {
        let params = json!({ "key": key, "customer": customer, "amount": amount });
        self.call("demo.bank:1.0:authorize", params).await
    }

    async fn capture(&self, key: &str) -> Answer {
        self.call("demo.bank:1.0:capture", json!({ "key": key })).await
    }

    async fn refund(&self, key: &str) -> Answer {
        self.call("demo.bank:1.0:refund", json!({ "key": key })).await
    }

    async fn call(&self, function: &str, params: Value) -> Answer {
        let moved = self.calls.call_as_system::<Moved>(function, params).await;
        moved.map(|moved| moved.amount).map_err(|error| refusal(function, &error))
    }
}

/// The error of the bank. Whatever else went wrong, the call may have been carried out.
fn refusal(function: &str, error: &Error) -> BankError {
    match error.code() {
        "Declined" => BankError::Declined,
        "Refunded" => BankError::Refunded,
        "KeyReused" => BankError::KeyReused,
        "UnknownPayment" => BankError::UnknownPayment,
        _ => {
            tracing::warn!(function, %error, "the bank of another node does not answer");
            BankError::Unavailable
        }
    }
}
