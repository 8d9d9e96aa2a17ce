//! Why an interface definition was refused.

use std::{fmt, io};

use super::name::{IfaceVer, Version};

/// A definition that cannot be used: its file, the position there, and the rule it breaks.
///
/// Printed as `file: /json/pointer: rule`, for example
/// `a.b-1.0-iface.json: /funcs/echo/params/n/type: unknown type Foo`.
pub struct LoadError {
    file: String,
    pointer: String,
    rule: Rule,
}

impl LoadError {
    pub(super) fn new(file: &str, pointer: String, rule: Rule) -> Self {
        Self { file: file.to_owned(), pointer, rule }
    }

    /// The file, with its folder if it has one.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The position in the file as a JSON Pointer (RFC 6901); empty for the file as a whole.
    #[must_use]
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// The rule broken.
    #[must_use]
    pub fn rule(&self) -> &Rule {
        &self.rule
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if !self.pointer.is_empty() {
            write!(f, "{}: ", self.pointer)?;
        }
        write!(f, "{}", self.rule)
    }
}

crate::debug_as_report!(LoadError);

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.rule)
    }
}

/// The rules that a definition can break. Revisions of FTN3 add rules, so there will be more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Rule {
    /// No source has the file `{iface}-{version}-iface.json`.
    #[error("{0} is in no source")]
    NotFound(IfaceVer),
    /// The file is there, but reading it failed.
    #[error("cannot be read")]
    Unreadable(#[source] io::Error),
    /// The file has more than this number of bytes.
    #[error("larger than {0} bytes")]
    TooLarge(u64),
    /// The text is not JSON, repeats a field, or is nested beyond the parser's limit.
    #[error("is not JSON")]
    Syntax(#[source] serde_json::Error),
    /// `iface` and `version` differ from the file's name (FTN3 §2.5).
    #[error("defines {0} under a file name for another interface")]
    OtherInterface(String),

    /// A value of the wrong form, or a name that breaks its grammar (FTN3 §2.1, §2.2).
    #[error("must be {0}")]
    Expected(&'static str),
    /// A required field is absent (FTN3 §2.1).
    #[error("has no {0}")]
    Missing(&'static str),
    /// A field that the schema does not have at this position (FTN3 §2.1).
    #[error("is not a field FTN3 knows here")]
    UnknownField,
    /// A list without duplicates has an entry twice (FTN3 §2.1).
    #[error("is listed twice")]
    Repeated,

    /// `ftn3rev` is newer than the revision that is implemented here (FTN3 §2.6).
    #[error("FTN3 revision {0} is not supported, 1.0 to 1.9 are")]
    Revision(Version),
    /// A feature is newer than the file's own `ftn3rev` (FTN3 §2.6).
    #[error("{feature} needs ftn3rev {since}")]
    NewerFeature {
        /// The feature.
        feature: &'static str,
        /// The revision that brought it.
        since: Version,
    },

    /// Neither a standard type nor one defined, inherited or imported (FTN3 §1.8).
    #[error("unknown type {0}")]
    UnknownType(String),
    /// A custom type is based on itself or contains itself; the chain of names.
    #[error("type contains itself: {0}")]
    RecursiveType(String),
    /// Custom types are nested deeper than this number.
    #[error("types are nested more than {0} deep")]
    TypeDepth(usize),
    /// A constraint that the base type does not have (FTN3 §1.8.1).
    #[error("{constraint} does not apply to {base}")]
    Inapplicable {
        /// The constraint's field.
        constraint: &'static str,
        /// The standard type it was put on.
        base: &'static str,
    },
    /// `min` above `max`, or `minlen` above `maxlen`, after the bases' limits were added.
    #[error("the lower limit is above the upper one")]
    EmptyRange,
    /// `regex` cannot be compiled; why.
    #[error("is not a supported ECMAScript regular expression: {0}")]
    Regex(String),
    /// The default would be refused as a value; null never is (FTN3 §1.8.2).
    #[error("the default is not of the parameter's type")]
    Default,
    /// A function without a result throws errors, which no caller would get (FTN3 §1.1).
    #[error("throws without a result, so the caller could not see it")]
    ThrowsWithoutResult,

    /// A definition inherits or imports itself; the chain of names.
    #[error("refers to itself: {0}")]
    Cycle(String),
    /// The chain of `inherit` and `imports` is longer than this number of files.
    #[error("inherits or imports more than {0} levels deep")]
    ChainDepth(usize),
    /// Only versions with the same major merge (FTN3 §2.7).
    #[error("imports {0} in versions {1} and {2}, which are incompatible")]
    IncompatibleImports(String, Version, Version),
    /// A type of this name comes from that interface already (FTN3 §1.8.1).
    #[error("type is already defined by {0}")]
    TypeRedefined(IfaceVer),
    /// Every inherited or imported constraint must be repeated (FTN3 §2.4).
    #[error("lacks the constraint {0} of {1}")]
    LostConstraint(String, IfaceVer),
    /// A function of that interface was redeclared and not only extended (FTN3 §2.3).
    #[error("differs from {0}: {1}")]
    NotAnExtension(IfaceVer, Difference),
}

/// The change of a redeclared function that FTN3 §2.3 does not allow: it may only be extended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Difference {
    /// Inherited parameters come first and in their order.
    #[error("parameter {0} is missing or out of order")]
    ParameterOrder(String),
    /// The type must be the same, by name.
    #[error("parameter {0} has another type")]
    ParameterType(String),
    /// Callers of the base may leave it out.
    #[error("parameter {0} lost its default")]
    LostDefault(String),
    /// Callers of the base cannot send it.
    #[error("the added parameter {0} has no default")]
    AddedWithoutDefault(String),
    /// Callers of the base expect it.
    #[error("result variable {0} is missing or has another type")]
    Result(String),
    /// One is a type, the other a map of variables or nothing.
    #[error("the result has another form")]
    ResultForm,
    /// `rawupload`, `rawresult` or `seclvl` differs.
    #[error("the flag {0} was changed")]
    Flag(&'static str),
}
