//! Mistakes in plans, which are errors of the builder with their place.

use std::any::Any;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};

use asyncsteps_core::{Error, codes};

use crate::recorder::WrongSteps;

/// A mistake in a plan, for the one who wrote it.
#[derive(Clone, Debug)]
pub(crate) struct Mistake {
    pub(crate) source: &'static Location<'static>,
    pub(crate) what: String,
}

/// Ends the building of a plan with a mistake of the caller.
pub(super) fn mistaken(source: &'static Location<'static>, what: &str) -> ! {
    resume_unwind(Box::new(Mistake { source, what: what.to_owned() }))
}

impl Mistake {
    /// The result of `define`, unless it panics or reports a mistake.
    pub(super) fn catch<T>(
        source: &'static Location<'static>,
        define: impl FnOnce() -> T,
    ) -> Result<T, Self> {
        catch_unwind(AssertUnwindSafe(define)).map_err(|panic| {
            let mistake = panic.downcast::<Self>().map(|mistake| *mistake);
            mistake.unwrap_or_else(|panic| Self { source, what: text_of(&*panic) })
        })
    }

    /// The mistake in steps that a request defines.
    pub(super) fn into_error(self) -> Error {
        let text = format!("{}: {}", self.source, self.what);
        Error::with_info(codes::INTERNAL_ERROR, text.clone()).with_cause(WrongSteps(text))
    }
}

/// The text of a panic.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the handler panics: {}", text.unwrap_or("without a message"))
}
