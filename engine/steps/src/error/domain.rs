//! Errors of a domain, whose codes callers of a service see (FTN3 §1.9).

use std::error::Error as StdError;

/// An error type of a domain, each value of which has an error code of FTN3 §1.9.
///
/// A step raises such an error with `?`, like any other. A typed service lists the type; then the
/// error has its code when the step ends, also below other errors
/// ([`source`](StdError::source)), and [`Error::find`](crate::Error::find) gives the value back.
///
/// `#[derive(Code)]` of the feature `macros` makes each variant a code; by hand:
///
/// ```
/// use std::fmt;
/// use asyncsteps::{Code, Error};
///
/// #[derive(Debug)]
/// enum BankError {
///     Unreachable(std::io::Error),
///     Declined,
/// }
///
/// impl fmt::Display for BankError {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         f.write_str("the bank did not pay")
///     }
/// }
///
/// impl std::error::Error for BankError {}
///
/// impl Code for BankError {
///     const CODES: &'static [&'static str] = &["BankUnavailable", "CardDeclined"];
///
///     fn code(&self) -> &'static str {
///         match self {
///             Self::Unreachable(_) => "BankUnavailable",
///             Self::Declined => "CardDeclined",
///         }
///     }
/// }
///
/// let error = Error::caused_by("InternalError", BankError::Declined).coded::<BankError>();
/// assert_eq!((error.code(), error.info()), ("CardDeclined", None));
/// assert!(matches!(error.find(), Some(BankError::Declined)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no error codes",
    note = "derive `asyncsteps::Code` for it, or write `impl asyncsteps::Code for {Self}`"
)]
pub trait Code: StdError + 'static {
    /// Every code that [`code`](Self::code) gives, to be compared with what a definition declares.
    const CODES: &'static [&'static str];

    /// The code of this error.
    fn code(&self) -> &'static str;

    /// What callers may read of this error, its `edesc`; none by default, because texts of errors
    /// are written for logs.
    fn info(&self) -> Option<String> {
        None
    }

    /// The error of which this code says all, for a host that has recorded the code of an error and nothing of its
    /// value. `#[derive(Code)]` gives variants without fields whose code no other variant has; by default there
    /// is none.
    #[must_use]
    fn of_code(_code: &str) -> Option<Box<dyn StdError + Send + Sync>> {
        None
    }
}

/// A list of error types of a domain: `()`, one type, or a tuple of up to eight.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of errors with codes",
    note = "write `()`, a type that derives `asyncsteps::Code`, or a tuple of such types"
)]
pub trait Codes: 'static {
    /// The codes of all errors of these types.
    #[must_use]
    fn all() -> Vec<&'static str>;

    /// Code and information for callers of an error, if it has one of these types itself.
    #[must_use]
    fn of(error: &(dyn StdError + 'static)) -> Option<(&'static str, Option<String>)>;

    /// The error of which this code says all, see [`Code::of_code`].
    #[must_use]
    fn of_code(code: &str) -> Option<Box<dyn StdError + Send + Sync>>;
}

impl<E: Code> Codes for E {
    fn all() -> Vec<&'static str> {
        E::CODES.to_vec()
    }

    fn of(error: &(dyn StdError + 'static)) -> Option<(&'static str, Option<String>)> {
        error.downcast_ref::<E>().map(|error| (error.code(), error.info()))
    }

    fn of_code(code: &str) -> Option<Box<dyn StdError + Send + Sync>> {
        <E as Code>::of_code(code)
    }
}

impl Codes for () {
    fn all() -> Vec<&'static str> {
        Vec::new()
    }

    fn of(_: &(dyn StdError + 'static)) -> Option<(&'static str, Option<String>)> {
        None
    }

    fn of_code(_: &str) -> Option<Box<dyn StdError + Send + Sync>> {
        None
    }
}

macro_rules! lists {
    ($($E:ident),+) => {
        impl<$($E: Code),+> Codes for ($($E,)+) {
            fn all() -> Vec<&'static str> {
                [$($E::CODES),+].concat()
            }

            fn of(error: &(dyn StdError + 'static)) -> Option<(&'static str, Option<String>)> {
                None$(.or_else(|| <$E as Codes>::of(error)))+
            }

            fn of_code(code: &str) -> Option<Box<dyn StdError + Send + Sync>> {
                None$(.or_else(|| <$E as Codes>::of_code(code)))+
            }
        }
    };
}

lists!(A);
lists!(A, B);
lists!(A, B, C);
lists!(A, B, C, D);
lists!(A, B, C, D, E);
lists!(A, B, C, D, E, F);
lists!(A, B, C, D, E, F, G);
lists!(A, B, C, D, E, F, G, H);
