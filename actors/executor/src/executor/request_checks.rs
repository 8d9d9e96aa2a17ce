//! The checks of a request that is stored before it is dispatched.

use std::sync::{Arc, OnceLock};

use asyncsteps_futoin::message::Request;

use super::caller::Caller;
use super::refused::Refused;

/// The check of a request: the executor's, once it is built.
type Check = Box<dyn Fn(Request, &Caller, Sender) -> Result<(), Refused> + Send + Sync>;

/// Where a request that is to be stored comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// The program itself.
    Program,
    /// A caller of the program.
    Outside,
}

/// Checks requests as the executor that hosts a function will, for hosts that store requests before they
/// [dispatch](super::Executor::dispatch) them; see [`Functions::checks`](super::Functions::checks). Cheap to clone, and
/// it does not keep the executor.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("RequestChecks {{ built: {:?} }}", self.0.get().is_some())]
pub struct RequestChecks(Arc<OnceLock<Check>>);

impl RequestChecks {
    /// Whether a request would be refused: for the name of its function, the level of the caller (FTN3 §1.12), or
    /// parameters that the definition does not allow. Before the executor is built, and when it is gone, nothing is.
    ///
    /// # Errors
    /// What its caller would get.
    pub fn check(&self, request: Request, caller: &Caller) -> Result<(), Refused> {
        self.checked(request, caller, Sender::Program)
    }

    /// The same for a request that a caller from outside wants to have stored: one to an
    /// [internal](super::Functions::internal) function is refused.
    ///
    /// # Errors
    /// What its caller would get.
    pub fn check_outside(&self, request: Request, caller: &Caller) -> Result<(), Refused> {
        self.checked(request, caller, Sender::Outside)
    }

    /// The executor is built.
    pub(super) fn set(
        &self,
        check: impl Fn(Request, &Caller, Sender) -> Result<(), Refused> + Send + Sync + 'static,
    ) {
        // an executor is built once
        let _ = self.0.set(Box::new(check));
    }

    fn checked(&self, request: Request, caller: &Caller, sender: Sender) -> Result<(), Refused> {
        self.0.get().map_or(Ok(()), |check| check(request, caller, sender))
    }
}
