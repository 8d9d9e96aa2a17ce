//! Security levels.

use std::fmt;
use std::str::FromStr;

use crate::refusal::Refusal;

/// FTN3 §1.9.1: the caller is known, but not well enough for this call.
pub const PLEASE_REAUTH: &str = "PleaseReauth";

/// How well a caller is known, lowest first (FTN8 §2.12). It is no access control (FTN3 §1.12): the function
/// itself answers `Unauthorized` to users who may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[expect(clippy::exhaustive_enums, reason = "FTN8 names them all, and they are compared")]
pub enum SecurityLevel {
    /// Not authenticated.
    #[default]
    Anonymous,
    /// May read private data.
    Info,
    /// May do what does no serious harm.
    SafeOps,
    /// May do what can do serious harm.
    PrivilegedOps,
    /// May do the most sensitive things, such as changing a password.
    ExceptionalOps,
    /// A call inside of the service.
    System,
}

impl SecurityLevel {
    const ALL: [Self; 6] = [
        Self::Anonymous,
        Self::Info,
        Self::SafeOps,
        Self::PrivilegedOps,
        Self::ExceptionalOps,
        Self::System,
    ];

    /// The name in definitions and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "Anonymous",
            Self::Info => "Info",
            Self::SafeOps => "SafeOps",
            Self::PrivilegedOps => "PrivilegedOps",
            Self::ExceptionalOps => "ExceptionalOps",
            Self::System => "System",
        }
    }

    /// Whether a caller of this level may call what needs `required` (FTN3 §1.12).
    ///
    /// # Errors
    /// PleaseReauth with the name of the required level.
    pub fn check(self, required: Self) -> Result<(), Refusal> {
        if self >= required { Ok(()) } else { Err(Refusal::new(PLEASE_REAUTH, required.name())) }
    }
}

impl fmt::Display for SecurityLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SecurityLevel {
    type Err = UnknownLevel;

    fn from_str(name: &str) -> Result<Self, UnknownLevel> {
        Self::ALL.into_iter().find(|level| level.name() == name).ok_or(UnknownLevel)
    }
}

/// The name is not one of a security level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a security level of FTN8")]
#[non_exhaustive]
pub struct UnknownLevel;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered() {
        assert!(SecurityLevel::ALL.is_sorted());
        for (have, level) in SecurityLevel::ALL.into_iter().enumerate() {
            assert_eq!(level.name().parse(), Ok(level));
            for (need, required) in SecurityLevel::ALL.into_iter().enumerate() {
                assert_eq!(level.check(required).is_ok(), have >= need);
            }
        }
        assert_eq!("safeops".parse::<SecurityLevel>(), Err(UnknownLevel));
        let denied = SecurityLevel::SafeOps.check(SecurityLevel::PrivilegedOps).unwrap_err();
        assert_eq!(
            (denied.code(), denied.to_string()),
            ("PleaseReauth", "PrivilegedOps".to_owned())
        );
    }
}
