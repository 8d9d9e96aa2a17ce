//! The checks of a request that is stored before it is dispatched.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::caller::Caller;
use super::refused::Refused;

/// The check of the parameters of a function: the executor's, once it is built.
type Check = Box<
    dyn Fn(&str, Map<String, Value>, &Caller, CheckFor) -> Result<Map<String, Value>, Refused>
        + Send
        + Sync,
>;

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
    /// The parameters of a request as its function will get them, with defaults in place of what is left out. Before the
    /// executor is built, and when it is gone, they are returned as they are.
    ///
    /// # Errors
    /// What its caller would get: for the name of the function, the level of the caller (FTN3 §1.12), or parameters that
    /// the definition does not allow.
    pub fn check(
        &self,
        function: &str,
        params: Map<String, Value>,
        caller: &Caller,
    ) -> Result<Map<String, Value>, Refused> {
        self.checked(function, params, caller, CheckFor::Program)
    }

    /// The same for a request that a caller from outside wants to have stored: one to an
    /// [internal](super::Functions::internal) function is refused.
    ///
    /// # Errors
    /// What its caller would get.
    pub fn check_outside(
        &self,
        function: &str,
        params: Map<String, Value>,
        caller: &Caller,
    ) -> Result<Map<String, Value>, Refused> {
        self.checked(function, params, caller, CheckFor::Outside)
    }

    /// The [canonical form](asyncsteps_futoin::iface::Function::canonical_params) of parameters, by which the requests
    /// with one key are compared; `None` for parameters that the definition does not allow.
    #[must_use]
    pub fn canonical(
        &self,
        function: &str,
        params: Map<String, Value>,
        caller: &Caller,
    ) -> Option<Map<String, Value>> {
        self.checked(function, params, caller, CheckFor::Comparison).ok()
    }

    /// The executor is built.
    pub(super) fn set(
        &self,
        check: impl Fn(
            &str,
            Map<String, Value>,
            &Caller,
            CheckFor,
        ) -> Result<Map<String, Value>, Refused>
        + Send
        + Sync
        + 'static,
    ) {
        // an executor is built once
        let _ = self.0.set(Box::new(check));
    }

    fn checked(
        &self,
        function: &str,
        params: Map<String, Value>,
        caller: &Caller,
        wanted: CheckFor,
    ) -> Result<Map<String, Value>, Refused> {
        match self.0.get() {
            Some(check) => check(function, params, caller, wanted),
            None => Ok(params),
        }
    }
}
