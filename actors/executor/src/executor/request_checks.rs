//! The checks of a request that is stored before it is dispatched.

use std::sync::{Arc, OnceLock};

use asyncsteps_futoin::message::Request;
use serde_json::{Map, Value};

use super::caller::Caller;
use super::refused::Refused;

/// The parameters of a request; `None` if nothing can be said of them.
type Checked = Result<Option<Map<String, Value>>, Refused>;

/// The check of a request: the executor's, once it is built.
type Check = Box<dyn Fn(Request, &Caller, CheckFor) -> Checked + Send + Sync>;

/// What a request is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckFor {
    /// The program itself.
    Program,
    /// A caller of the program.
    Outside,
    /// A comparison, which takes the canonical form.
    Comparison,
}

/// Checks requests as the executor that hosts a function will, for hosts that store requests before they
/// [dispatch](super::Executor::dispatch) them; see [`Functions::checks`](super::Functions::checks). Cheap to clone, and
/// it does not keep the executor.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("RequestChecks {{ built: {:?} }}", self.0.get().is_some())]
pub struct RequestChecks(Arc<OnceLock<Check>>);

impl RequestChecks {
    /// The parameters of a request as its function will get them, with defaults in place of what is left out; `None`
    /// before the executor is built, and when it is gone.
    ///
    /// # Errors
    /// What its caller would get: for the name of the function, the level of the caller (FTN3 §1.12), or parameters that
    /// the definition does not allow.
    pub fn check(
        &self,
        request: Request,
        caller: &Caller,
    ) -> Result<Option<Map<String, Value>>, Refused> {
        self.checked(request, caller, CheckFor::Program)
    }

    /// The same for a request that a caller from outside wants to have stored: one to an
    /// [internal](super::Functions::internal) function is refused.
    ///
    /// # Errors
    /// What its caller would get.
    pub fn check_outside(
        &self,
        request: Request,
        caller: &Caller,
    ) -> Result<Option<Map<String, Value>>, Refused> {
        self.checked(request, caller, CheckFor::Outside)
    }

    /// The [canonical form](asyncsteps_futoin::iface::Function::canonical_params) of the parameters of a request, by
    /// which requests with one key are compared; `None` if it would be refused, or its executor is not there.
    #[must_use]
    pub fn canonical(&self, request: Request, caller: &Caller) -> Option<Map<String, Value>> {
        self.checked(request, caller, CheckFor::Comparison).ok().flatten()
    }

    /// The executor is built.
    pub(super) fn set(
        &self,
        check: impl Fn(Request, &Caller, CheckFor) -> Checked + Send + Sync + 'static,
    ) {
        // an executor is built once
        let _ = self.0.set(Box::new(check));
    }

    fn checked(&self, request: Request, caller: &Caller, wanted: CheckFor) -> Checked {
        self.0.get().map_or(Ok(None), |check| check(request, caller, wanted))
    }
}
