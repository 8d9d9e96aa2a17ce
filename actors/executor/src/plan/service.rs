//! The service whose functions are plans: their shared state, and the errors that their callers
//! see.

use std::error::Error as _;
use std::iter;

use asyncsteps_core::{Codes, StepError};

use crate::stored::ErrorsOfService;

/// The state that the functions of an interface share, and the errors that their callers see.
///
/// ```
/// use asyncsteps_executor::Service;
///
/// struct Payments { currency: String }
///
/// impl Service for Payments {
///     type Errors = ();
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no service",
    label = "not a `Service`",
    note = "write `impl Service for {Self} {{ type Errors = (MyError,); }}` with the errors whose codes \
            callers see, or `type Errors = ();`"
)]
pub trait Service: Send + Sync + 'static {
    /// The errors whose codes callers see: types that derive [`Code`](asyncsteps_core::Code), as a tuple.
    /// Any other error is InternalError for the caller, and its text goes to the log only.
    type Errors: Codes;
}

/// For functions that share nothing.
impl Service for () {
    type Errors = ();
}

/// The error of a body, with the code that its type has for the service.
pub(crate) fn coded<S: Service>(raised: StepError) -> StepError {
    raised.into_error().coded::<S::Errors>().into()
}

/// How errors of the service are recorded, and made again.
pub(crate) fn errors_of<S: Service>() -> ErrorsOfService {
    ErrorsOfService {
        record: |error| {
            iter::successors(error.source(), |error| (**error).source()).find_map(S::Errors::record)
        },
        recall: S::Errors::recall,
    }
}
