//! The input of a step, for its undo after a crash.

use std::rc::Rc;

use asyncsteps_core::{Args, Arguments, Error, codes};

/// The input of a step, read from the records whenever it is asked for.
pub(super) type Taken = Rc<dyn Fn() -> Result<Args, Error>>;

/// The input of a step, in its type.
pub(super) fn take<A: 'static>(taken: Option<&Taken>) -> Result<A, Error> {
    let taken = taken.ok_or_else(|| {
        let info = "what the step took is not recorded, and its undo or its locks need it";
        Error::unexpected(info)
    })?;
    let (value,) = <(A,)>::from_args(taken()?)
        .map_err(|mismatch| Error::caused_by(codes::INTERNAL_ERROR, mismatch))?;
    Ok(value)
}
