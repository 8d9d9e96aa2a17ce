//! The bank on another node.

use asyncsteps::executor::Invoker;
use asyncsteps::{ConfigError, Executor, TypedCall, TypedCallError, TypedClient};

use super::Bank;
use super::error::BankError;
use super::functions::{Authorize, Capture, Moved, Refund};
use super::ledger::Answer;

/// The bank of another node, called as the shop itself. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RemoteBank {
    client: TypedClient,
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
        // it hosts nothing: it calls every function
        let executor = Executor::builder().invoker(invoker).build()?;
        Ok(Self { client: executor.client_as_system() })
    }

    async fn authorize(&self, key: &str, customer: &str, amount: i64) -> Answer {
        let (key, customer) = (key.to_owned(), customer.to_owned());
        self.call(Authorize { key, customer, amount: amount as f64 }).await
    }

    async fn capture(&self, key: &str) -> Answer {
        self.call(Capture { key: key.to_owned() }).await
    }

    async fn refund(&self, key: &str) -> Answer {
        self.call(Refund { key: key.to_owned() }).await
    }

    async fn call<C>(&self, call: C) -> Answer
    where
        C: TypedCall<Result = Moved, Errors = BankError>,
    {
        match self.client.call(call).await {
            Ok(moved) => Ok(moved.amount),
            Err(TypedCallError::Declared(error)) => Err(error),
            // whatever else went wrong, the call may have been carried out
            Err(TypedCallError::Other(error)) => {
                let function = C::FUNCTION;
                tracing::warn!(function, %error, "the bank of another node does not answer");
                Err(BankError::Unavailable)
            }
        }
    }
}
