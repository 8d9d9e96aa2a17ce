//! Errors of a domain, whose codes callers of a service see (FTN3 §1.9).

use std::convert::Infallible;
use std::error::Error as StdError;

/// An error type of a domain, each value of which has an error code of FTN3 §1.9.
///
/// A step raises such an error with `?`, like any other. A typed service lists the type; then the
/// error has its code when the step ends, also below other errors ([`source`](StdError::source)),
/// and [`Error::find`](crate::Error::find) returns the value.
///
/// `#[derive(Code)]` of the feature `macros` makes each variant a code; by hand:
///
/// ```
/// use std::fmt;
/// use asyncsteps_core::{Code, Error};
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
    /// Every code that [`code`](Self::code) can return, to be compared with what a definition
    /// declares.
    const CODES: &'static [&'static str];

    /// The code of this error.
    fn code(&self) -> &'static str;

    /// The text of this error for callers, its `edesc`; none by default, because texts of errors
    /// are written for logs.
    fn info(&self) -> Option<String> {
        None
    }

    /// The value of this error as JSON, for a host that records errors, such as a journal of durable requests. `None`
    /// if errors of this type are not recorded, which is the default.
    ///
    /// `#[derive(Code)]` writes the value of a type without parameters that is `Serialize` and `DeserializeOwned`, if
    /// the feature `serde` is on.
    ///
    /// # Errors
    /// If the value cannot be written, or not be read again.
    fn to_json(&self) -> Option<Result<String, BoxError>> {
        None
    }

    /// The error with the value that [`to_json`](Self::to_json) has written, possibly by an earlier version of the
    /// program. `None` if errors of this type are not recorded.
    ///
    /// # Errors
    /// If the type has no such value.
    #[must_use]
    fn from_json(_json: &str) -> Option<Result<BoxError, BoxError>> {
        None
    }

    /// The error that code and text for callers determine, for callers, and for a host that has recorded the code of an
    /// error and not its value; by default there is none.
    ///
    /// `#[derive(Code)]` returns variants whose code no other variant has, without fields, or with one field that is all of
    /// a text for callers: a `String`, `bool`, `char` or number with `#[error("{0}")]` and `#[code(public)]`.
    #[must_use]
    fn from_code(_code: &str, _info: Option<&str>) -> Option<BoxError> {
        None
    }
}

type BoxError = Box<dyn StdError + Send + Sync>;

/// A host's record of an error of a domain, to make it again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an error of a domain has a code and a value")]
pub struct RecordedError {
    /// Its code, which may differ from the code of the flow's error.
    pub code: String,
    /// Its value, if it is recorded, see [`Code::to_json`].
    pub json: Option<String>,
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

    /// The host's record of an error, if it has one of these types itself, and why its value is left out.
    #[must_use]
    fn record(error: &(dyn StdError + 'static)) -> Option<(RecordedError, Option<BoxError>)>;

    /// The error that was recorded: by its value, or else by its code, see [`Code::from_code`].
    ///
    /// # Errors
    /// If the type with this code cannot read the value.
    fn recall(recorded: &RecordedError) -> Option<Result<BoxError, BoxError>>;
}

/// What a function without errors declares.
impl Code for Infallible {
    const CODES: &'static [&'static str] = &[];

    fn code(&self) -> &'static str {
        match *self {}
    }
}

impl<E: Code> Codes for E {
    fn all() -> Vec<&'static str> {
        E::CODES.to_vec()
    }

    fn of(error: &(dyn StdError + 'static)) -> Option<(&'static str, Option<String>)> {
        error.downcast_ref::<E>().map(|error| (error.code(), error.info()))
    }

    fn record(error: &(dyn StdError + 'static)) -> Option<(RecordedError, Option<BoxError>)> {
        let error = error.downcast_ref::<E>()?;
        let (json, why) = match error.to_json() {
            None => (None, None),
            Some(Ok(json)) => (Some(json), None),
            Some(Err(why)) => (None, Some(why)),
        };
        Some((RecordedError { code: error.code().to_owned(), json }, why))
    }

    fn recall(RecordedError { code, json }: &RecordedError) -> Option<Result<BoxError, BoxError>> {
        if !E::CODES.contains(&&**code) {
            return None;
        }
        let read = json.as_ref().and_then(|json| E::from_json(json));
        read.or_else(|| E::from_code(code, None).map(Ok))
    }
}

impl Codes for () {
    fn all() -> Vec<&'static str> {
        Vec::new()
    }

    fn of(_: &(dyn StdError + 'static)) -> Option<(&'static str, Option<String>)> {
        None
    }

    fn record(_: &(dyn StdError + 'static)) -> Option<(RecordedError, Option<BoxError>)> {
        None
    }

    fn recall(_: &RecordedError) -> Option<Result<BoxError, BoxError>> {
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

            fn record(
                error: &(dyn StdError + 'static),
            ) -> Option<(RecordedError, Option<BoxError>)> {
                None$(.or_else(|| <$E as Codes>::record(error)))+
            }

            fn recall(recorded: &RecordedError) -> Option<Result<BoxError, BoxError>> {
                None$(.or_else(|| <$E as Codes>::recall(recorded)))+
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
