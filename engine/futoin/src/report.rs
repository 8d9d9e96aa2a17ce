//! The `Debug` output of errors of set-up: `main` prints it for an error that it returns.

use std::error::Error;
use std::fmt;

/// Implements `Debug` for error types as people read them: the text, and the texts of the causes.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_as_report {
    ($($Error:ty),+ $(,)?) => {$(
        impl ::std::fmt::Debug for $Error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::report::write(self, f)
            }
        }
    )+};
}

/// Writes an error and its causes in one line each.
///
/// # Errors
/// As the formatter.
pub fn write(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{error}")?;
    let mut cause = error.source();
    while let Some(next) = cause {
        write!(f, ": {next}")?;
        cause = next.source();
    }
    Ok(())
}
