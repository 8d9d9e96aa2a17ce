//! The promise: an error of a domain has its code wherever it is raised, and shows no other text.

use std::error::Error as StdError;
use std::fmt;

use asyncsteps_core::{BodyResult, Code, Codes, Error, Flow, Retry, StepError, codes, run_to_end};

#[derive(Debug, Code)]
enum BankError {
    #[code("BankUnavailable")]
    Unreachable(std::io::Error),
    #[code("CardDeclined", public)]
    Declined {
        reason: &'static str,
    },
    #[code(public)]
    LimitReached,
    Broken,
    #[code("BankUnavailable")]
    Closed,
}

impl fmt::Display for BankError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declined { reason } => write!(f, "the card was refused: {reason}"),
            Self::LimitReached => f.write_str("the limit is reached"),
            Self::Unreachable(_) | Self::Broken | Self::Closed => f.write_str("a secret"),
        }
    }
}

impl StdError for BankError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        if let Self::Unreachable(cause) = self { Some(cause) } else { None }
    }
}

#[derive(Debug, Code)]
#[code("LedgerDown")]
struct LedgerError;

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret")
    }
}

impl StdError for LedgerError {}

/// An error of a layer between the bank and the step.
#[derive(Debug)]
struct Context(BankError);

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("while charging")
    }
}

impl StdError for Context {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

type Errors = (BankError, LedgerError);

/// The code and the text for callers of an error that a step raises.
fn seen(cause: impl StdError + Send + Sync + 'static) -> (String, Option<String>) {
    let error = Error::caused_by(codes::INTERNAL_ERROR, cause).coded::<Errors>();
    (error.code().to_owned(), error.info().map(str::to_owned))
}

fn is(code: &str, info: Option<&str>) -> (String, Option<String>) {
    (code.to_owned(), info.map(str::to_owned))
}

#[test]
fn each_variant_has_a_code_and_shows_what_it_allows() {
    assert_eq!(seen(BankError::Broken), is("Broken", None));
    assert_eq!(seen(BankError::Closed), is("BankUnavailable", None));
    let unreachable = BankError::Unreachable(std::io::Error::other("a secret"));
    assert_eq!(seen(unreachable), is("BankUnavailable", None));
    assert_eq!(seen(BankError::LimitReached), is("LimitReached", Some("the limit is reached")));
    let declined = BankError::Declined { reason: "funds" };
    assert_eq!(seen(declined), is("CardDeclined", Some("the card was refused: funds")));
    assert_eq!(seen(LedgerError), is("LedgerDown", None));
    assert_eq!(
        Errors::all(),
        ["BankUnavailable", "CardDeclined", "LimitReached", "Broken", "LedgerDown"],
    );
    assert!(<()>::all().is_empty());
}

#[derive(Debug, PartialEq, Code, thiserror::Error)]
#[expect(dead_code, reason = "no code and text makes some of them")]
enum Seen {
    #[error("the seats are gone")]
    SoldOut,
    #[error("{0}")]
    #[code("NoEvent", public)]
    NoSuchEvent(String),
    #[error("{seat}")]
    #[code(public)]
    Taken { seat: u32 },
    #[error("{0}")]
    Hidden(String),
    #[error("about {0}")]
    #[code(public)]
    Around(String),
    #[error("{0}")]
    #[code(public)]
    Two(String, u8),
    #[error("{0}")]
    #[code(public)]
    Other(Box<Self>),
    #[error("one")]
    #[code("Same")]
    One,
    #[error("another")]
    #[code("Same")]
    Another,
}

#[test]
fn a_caller_gets_the_error_that_code_and_text_determine() {
    let known = |code: &str, text: Option<&str>| {
        Seen::from_code(code, text).and_then(|error| error.downcast::<Seen>().ok()).map(|it| *it)
    };
    for error in [Seen::SoldOut, Seen::NoSuchEvent("ball".into()), Seen::Taken { seat: 7 }] {
        assert_eq!(known(error.code(), error.info().as_deref()), Some(error));
    }
    assert_eq!(known("SoldOut", Some("whatever it says")), Some(Seen::SoldOut));
    // a text that is missing, or is none of the type
    assert_eq!(known("NoEvent", None), None);
    assert_eq!(known("Taken", Some("seven")), None);
    for (code, text) in [
        ("Hidden", Some("x")), // callers do not see its text
        ("Around", Some("about x")),
        ("Two", Some("x")),
        ("Other", Some("x")),
        ("Same", None),
        ("Unknown", None),
    ] {
        assert_eq!(known(code, text), None, "{code}");
    }
}

#[test]
fn an_error_is_found_below_others_and_keeps_a_code_that_was_chosen() {
    assert_eq!(seen(Context(BankError::Broken)), is("Broken", None));
    assert_eq!(seen(Error::caused_by("X", LedgerError)), is("LedgerDown", None));
    assert_eq!(seen(std::io::Error::other("a secret")), is("InternalError", None));
    let context = anyhow::Error::new(Context(BankError::Broken)).context("while paying");
    let raised: StepError = context.into();
    assert_eq!(raised.into_error().coded::<Errors>().code(), "Broken");
    let text: StepError = String::from("a secret").into();
    assert_eq!(text.into_error().coded::<Errors>().code(), "InternalError");
    let chosen = Error::caused_by("Chosen", LedgerError).coded::<Errors>();
    assert_eq!(chosen.code(), "Chosen");
    let shared = Error::caused_by(codes::INTERNAL_ERROR, LedgerError);
    let coded = shared.clone().coded::<Errors>();
    assert_eq!((shared.code(), coded.code()), ("InternalError", "LedgerDown"));
    assert!(coded.find::<LedgerError>().is_some());
}

#[test]
fn the_value_comes_back_through_retries_and_handlers() {
    let is_transient = |error: &BankError| matches!(error, BankError::Closed);
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.run_with(async |run, ()| -> BodyResult<u32> {
            match run.attempt {
                1 | 2 => Err(Context(BankError::Closed))?,
                _ => Err(BankError::LimitReached)?,
            }
        })
        .retry(Retry::attempts(5).on(is_transient));
    })
    .on_error(|asi, error| match error.find() {
        Some(BankError::LimitReached) => asi.success(error.attempts().unwrap_or_default()),
        _ => Ok(()),
    });
    assert_eq!(run_to_end::<u32>(flow).expect("it recovers"), 3);
}

#[cfg(feature = "serde")]
mod recorded {
    use asyncsteps_core::{Code, Codes, RecordedError};

    #[derive(Debug, PartialEq, Code, serde::Serialize, serde::Deserialize)]
    enum Known {
        Plain,
        Full {
            number: u64,
            text: Option<String>,
        },
        Float(f64),
        #[serde(skip)]
        Skipped(u8),
    }

    impl std::fmt::Display for Known {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("known")
        }
    }

    impl std::error::Error for Known {}

    #[test]
    fn values_that_serde_knows_are_recorded_and_made_again() {
        type List = (super::LedgerError, Known);
        for error in
            [Known::Plain, Known::Full { number: u64::MAX, text: None }, Known::Float(0.1 + 0.2)]
        {
            let (recorded, why) = List::record(&error).expect("it is listed");
            assert!(why.is_none(), "{why:?}");
            let again = List::recall(&recorded).expect("it is known").expect("it is readable");
            assert_eq!(again.downcast_ref::<Known>(), Some(&error));
        }
        for error in [Known::Float(f64::INFINITY), Known::Skipped(1)] {
            let (recorded, why) = List::record(&error).expect("it is listed");
            assert_eq!(recorded, RecordedError { code: error.code().to_owned(), json: None });
            assert!(why.is_some(), "{error:?}");
            assert!(List::recall(&recorded).is_none());
        }
        let (ledger, why) = List::record(&super::LedgerError).expect("it is listed");
        assert_eq!((&*ledger.code, &ledger.json, why.is_some()), ("LedgerDown", &None, false));
        assert!(List::recall(&ledger).is_some_and(|again| again.is_ok()));
        let broken = RecordedError { code: "Full".to_owned(), json: Some("7".to_owned()) };
        assert!(List::recall(&broken).is_some_and(|again| again.is_err()));
    }
}
