//! Names and versions of FTN3: `iface:major.minor:func` and its parts.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Longest `f` or `iface:version` taken, in bytes: four times the longest name of any published
/// FutoIn interface. It bounds every error text that repeats a name.
const MAX_NAME: usize = 256;

/// Most digits in one part of a version, so that it always fits `u32`.
const MAX_VERSION_DIGITS: usize = 9;

/// A version `major.minor`, compared as numbers: 1.10 is newer than 1.2 (FTN3 §2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Incompatible with any other major version.
    pub major: u32,
    /// Serves each lower minor version of the same major.
    pub minor: u32,
}

impl Version {
    /// A version by its two numbers.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Whether an implementation of this version may serve a call of `requested` (FTN6 §1).
    #[must_use]
    pub fn serves(self, requested: Self) -> Compatibility {
        if self.major != requested.major {
            Compatibility::OtherMajor
        } else if self.minor < requested.minor {
            Compatibility::TooOld
        } else {
            Compatibility::Served
        }
    }
}

impl FromStr for Version {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let (major, minor) = split_once(text, b'.').ok_or(NameError::Version)?;
        Ok(Self { major: version_part(major)?, minor: version_part(minor)? })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

fn version_part(text: &str) -> Result<u32, NameError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || text.len() > MAX_VERSION_DIGITS {
        return Err(NameError::Version);
    }
    text.parse().map_err(|_| NameError::Version)
}

/// The result of [`Version::serves`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "comparing two versions has three outcomes")]
pub enum Compatibility {
    /// Same major, and the minor is the requested one or newer.
    Served,
    /// Same major, but an older minor than requested.
    TooOld,
    /// Another major version.
    OtherMajor,
}

/// An interface and its version, written `iface:major.minor`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IfaceVer {
    iface: Box<str>,
    version: Version,
}

impl IfaceVer {
    /// Pairs an interface name with a version.
    ///
    /// # Errors
    /// [`NameError::Iface`] unless `iface` follows FTN3 §2.2.1: two or more parts joined by dots,
    /// each a lower-case letter followed by lower-case letters and digits.
    pub fn new(iface: &str, version: Version) -> Result<Self, NameError> {
        if iface.len() > MAX_NAME || !is_iface(iface) {
            return Err(NameError::Iface);
        }
        Ok(Self { iface: iface.into(), version })
    }

    /// The interface's name.
    #[must_use]
    pub fn iface(&self) -> &str {
        &self.iface
    }

    /// The interface's version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }
}

impl FromStr for IfaceVer {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let (iface, version) = split_once(text, b':').ok_or(NameError::Parts)?;
        Self::new(iface, version.parse()?)
    }
}

impl fmt::Display for IfaceVer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.iface, self.version)
    }
}

/// The function a request calls, `iface:major.minor:func` (FTN3 §1.6, field `f`).
///
/// The parts are split, not looked up: an interface or function of this name need not exist. Cheap to
/// clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FunctionName {
    text: Arc<str>,
    iface_len: usize,
    func_start: usize,
    version: Version,
}

impl FunctionName {
    /// The interface's name.
    #[must_use]
    pub fn iface(&self) -> &str {
        self.text.get(..self.iface_len).unwrap_or_default()
    }

    /// The version asked for.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The function's name.
    #[must_use]
    pub fn func(&self) -> &str {
        self.text.get(self.func_start..).unwrap_or_default()
    }

    /// The name as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl From<FunctionName> for Arc<str> {
    fn from(name: FunctionName) -> Self {
        name.text
    }
}

impl FromStr for FunctionName {
    type Err = NameError;

    /// # Errors
    /// [`NameError::Parts`] unless there are three parts, 256 bytes in all at most;
    /// [`NameError::Version`] if the middle one is not a version; [`NameError::Iface`] or
    /// [`NameError::Function`] if one of the others cannot be such a name (FTN3 §1.6).
    fn from_str(text: &str) -> Result<Self, NameError> {
        let (iface, rest) = split_once(text, b':').ok_or(NameError::Parts)?;
        let (version, func) = split_once(rest, b':').ok_or(NameError::Parts)?;
        if func.bytes().any(|byte| byte == b':') || text.len() > MAX_NAME {
            return Err(NameError::Parts);
        }
        let version = version.parse()?;
        // other than in a definition one word is enough
        if !are_words(iface) {
            return Err(NameError::Iface);
        }
        if !is_function(func) {
            return Err(NameError::Function);
        }
        let (iface_len, func_start) = (iface.len(), text.len() - func.len());
        Ok(Self { iface_len, func_start, version, text: text.into() })
    }
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why a text is not a name of FTN3.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The number of parts between colons is wrong, or the whole is too long.
    #[error("wrong number of parts")]
    Parts,
    /// Not an interface name (FTN3 §2.2.1).
    #[error("not an interface name, which has two words at least, such as `acme.shop`")]
    Iface,
    /// Not a function name (FTN3 §2.2.2).
    #[error("not a function name")]
    Function,
    /// Not `major.minor` in decimal digits.
    #[error("not a version")]
    Version,
}

crate::debug_as_report!(NameError);

/// `some.iface` (FTN3 §2.2.1).
pub(crate) fn is_iface(text: &str) -> bool {
    text.contains('.') && are_words(text)
}

/// One or more words between dots.
fn are_words(text: &str) -> bool {
    text.as_bytes().split(|byte| *byte == b'.').all(|part| is_word(part, is_lower_or_digit))
}

/// `someFunc` (FTN3 §2.2.2).
pub(crate) fn is_function(text: &str) -> bool {
    is_word(text.as_bytes(), |byte| byte.is_ascii_alphanumeric())
}

/// `some_param` (FTN3 §2.2.3); fields of maps and result variables follow it too.
pub(crate) fn is_variable(text: &str) -> bool {
    is_word(text.as_bytes(), |byte| is_lower_or_digit(byte) || byte == b'_')
}

/// `SomeType` (FTN3 §2.1).
pub(super) fn is_type(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// `SomeError` or `SOME_ERROR`; not a mix of both.
pub(crate) fn is_error(text: &str) -> bool {
    let upper = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    is_type(text)
        || text.starts_with(|first: char| first.is_ascii_uppercase()) && text.bytes().all(upper)
}

/// `SomeConstraint`, an entry of `requires` (FTN3 §2.4).
pub(super) fn is_constraint(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn is_word(text: &[u8], rest: impl Fn(u8) -> bool) -> bool {
    text.first().is_some_and(u8::is_ascii_lowercase) && text.iter().copied().all(rest)
}

/// The text before and after the first `separator`. Names are short: a loop over their bytes takes a
/// quarter of what the search of `str` does.
fn split_once(text: &str, separator: u8) -> Option<(&str, &str)> {
    let at = text.bytes().position(|byte| byte == separator)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

fn is_lower_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(version("1.10") > version("1.2"));
        let implemented = version("1.2");
        for (requested, expected) in [
            ("1.1", Compatibility::Served),
            ("1.2", Compatibility::Served),
            ("1.3", Compatibility::TooOld),
            ("1.10", Compatibility::TooOld),
            ("2.0", Compatibility::OtherMajor),
            ("0.2", Compatibility::OtherMajor),
        ] {
            assert_eq!(implemented.serves(version(requested)), expected, "{requested}");
        }
    }

    #[test]
    fn a_bad_version_is_refused() {
        for text in
            ["", "1", ".", "1.", ".1", "1.2.3", "-1.0", "+1.0", "1.x", "9999999999.0", "1.²"]
        {
            assert_eq!(text.parse::<Version>(), Err(NameError::Version), "{text:?}");
        }
    }

    #[test]
    fn a_function_name_has_three_parts() {
        let name: FunctionName = "conform.main:1.10:echo".parse().unwrap();
        assert_eq!(
            (name.iface(), name.version(), name.func()),
            ("conform.main", Version::new(1, 10), "echo")
        );
        let long = format!("a.b:1.0:{}", "x".repeat(300));
        for text in ["", ":", "a.b:1.0", "a.b:1.0:f:g", &long] {
            assert_eq!(text.parse::<FunctionName>(), Err(NameError::Parts), "{text:?}");
        }
        for text in [":1.0:f", "../etc:1.0:f", "A.b:1.0:f", "a..b:1.0:f", "a.b :1.0:f"] {
            assert_eq!(text.parse::<FunctionName>(), Err(NameError::Iface), "{text:?}");
        }
        for text in ["a.b:1.0:", "a.b:1.0:F", "a.b:1.0:f-g", "a.b:1.0:f\n"] {
            assert_eq!(text.parse::<FunctionName>(), Err(NameError::Function), "{text:?}");
        }
        assert!("word:1.0:f".parse::<FunctionName>().is_ok());
        for text in ["::", "a.b:1:f", "a.b::f", "a.b:1.0.0:f", "a.b:one:f"] {
            assert_eq!(text.parse::<FunctionName>(), Err(NameError::Version), "{text:?}");
        }
    }

    #[test]
    fn each_kind_of_name_has_its_grammar() {
        fn check(is_valid: fn(&str) -> bool, good: &[&str], bad: &[&str]) {
            good.iter().for_each(|text| assert!(is_valid(text), "{text:?}"));
            bad.iter().for_each(|text| assert!(!is_valid(text), "{text:?}"));
        }
        let bad = ["", "a", "a.", ".a", "a..b", "A.b", "a.1b", "a.b-c", "a.b/../c"];
        check(is_iface, &["a.b", "a1.b2.c"], &bad);
        check(is_function, &["f", "someFunc2"], &["", "F", "1f", "some_func", "é"]);
        check(is_variable, &["a", "some_param2"], &["", "_a", "A", "aB", "a-b"]);
        check(is_type, &["T", "SomeType2"], &["", "t", "Some_Type", "1T"]);
        check(is_error, &["E", "MyError", "OTHER_ERROR_2"], &["", "myError", "My_Error", "_E"]);
        check(is_constraint, &["AllowAnonymous", "x1"], &["", "a b", "a.b", "é"]);
    }
}
