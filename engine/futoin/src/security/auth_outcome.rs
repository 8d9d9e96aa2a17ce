//! Verdicts of a provider.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use super::user::User;
use crate::message::SignedFields;
use crate::refusal::Refusal;

/// The outcome of an authentication: the answer of a [`SecurityProvider`](super::SecurityProvider).
#[derive(derive_more::Debug)]
#[expect(clippy::exhaustive_enums, reason = "an executor must know what to do")]
pub enum AuthOutcome {
    /// It is known at once.
    Known(Result<Grant, Refusal>),
    /// Work for a thread that may block.
    #[debug("Compute(..)")]
    Compute(Box<dyn FnOnce() -> Result<Grant, Refusal> + Send>),
    /// The outcome from another service, awaited on the thread of the request. Dropping the future
    /// abandons it.
    #[debug("Wait(..)")]
    Wait(Pin<Box<dyn Future<Output = Result<Grant, Refusal>>>>),
}

impl AuthOutcome {
    /// Work for a thread that may block.
    #[must_use]
    pub fn compute(work: impl FnOnce() -> Result<Grant, Refusal> + Send + 'static) -> Self {
        Self::Compute(Box::new(work))
    }

    /// A verdict to wait for.
    #[must_use]
    pub fn wait(verdict: impl Future<Output = Result<Grant, Refusal>> + 'static) -> Self {
        Self::Wait(Box::pin(verdict))
    }
}

/// A caller whose credentials are right.
#[derive(Debug, Clone)]
pub struct Grant {
    user: User,
    signer: Option<Arc<dyn Signer>>,
}

impl Grant {
    /// For a request that was not signed.
    #[must_use]
    pub fn new(user: User) -> Self {
        Self { user, signer: None }
    }

    /// For a signed request: its answer must be signed with the same key and algorithm (FTN8
    /// §2.11.3).
    #[must_use]
    pub fn signed(user: User, signer: Arc<dyn Signer>) -> Self {
        Self { user, signer: Some(signer) }
    }

    /// The user who calls.
    #[must_use]
    pub fn user(&self) -> &User {
        &self.user
    }

    /// The signer of the answer; `None` if the answer is not signed.
    #[must_use]
    pub fn signer(&self) -> Option<&Arc<dyn Signer>> {
        self.signer.as_ref()
    }
}

/// Signs the answer to a signed request.
pub trait Signer: fmt::Debug + Send + Sync {
    /// The field `sec` of the answer. It must be quick.
    fn sign(&self, answer: &SignedFields<'_>) -> String;
}
