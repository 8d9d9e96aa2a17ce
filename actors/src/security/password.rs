//! Passwords as they are kept: Argon2 hashes in PHC strings.

use std::sync::{Arc, LazyLock};

use argon2::{Argon2, PasswordHasher, PasswordVerifier, password_hash::phc::PasswordHash as Phc};

use super::Secret;

/// The hash of a password, such as `$argon2id$v=19$m=19456,t=2,p=1$...`.
///
/// To make or check one costs tens of milliseconds and megabytes, on purpose: do it on a thread
/// that has nothing else to do. [`SecurityProvider`](super::SecurityProvider) tells how.
#[derive(Debug, Clone)]
pub struct PasswordHash(Arc<Phc>);

impl PasswordHash {
    /// Hashes a password with a random salt and the parameters that OWASP recommends.
    ///
    /// # Errors
    /// If the operating system has no random bytes.
    pub fn new(password: &Secret) -> Result<Self, PasswordHashError> {
        Self::with(&Argon2::default(), password)
    }

    fn with(argon2: &Argon2<'_>, password: &Secret) -> Result<Self, PasswordHashError> {
        let hash = argon2.hash_password(password.expose().as_bytes());
        Ok(Self(Arc::new(hash.map_err(|_| PasswordHashError)?)))
    }

    /// Reads a PHC string.
    ///
    /// # Errors
    /// Unless it has a hash of Argon2.
    pub fn parse(phc: &str) -> Result<Self, PasswordHashError> {
        let hash = Phc::new(phc).map_err(|_| PasswordHashError)?;
        let is_whole = hash.algorithm.as_str().starts_with("argon2") && hash.hash.is_some();
        if is_whole { Ok(Self(Arc::new(hash))) } else { Err(PasswordHashError) }
    }

    /// Whether this is the hash of `password`, by the parameters in the hash.
    #[must_use]
    pub fn verify(&self, password: &Secret) -> bool {
        Argon2::default().verify_password(password.expose().as_bytes(), &*self.0).is_ok()
    }

    /// With parameters that are quick even in a debug build.
    #[cfg(test)]
    pub(super) fn quick(password: &str) -> Self {
        let params = argon2::Params::new(argon2::Params::MIN_M_COST, 1, 1, None).unwrap();
        let argon2 = Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
        Self::with(&argon2, &Secret::new(password)).unwrap()
    }

    /// A hash to check the password of an unknown user against, which costs as much as that of a
    /// known one.
    pub(super) fn of_nobody() -> Self {
        static NOBODY: LazyLock<Option<PasswordHash>> = LazyLock::new(|| {
            let salt = "bm9ib2R5IGlzIGhlcmU";
            let hash = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
            PasswordHash::parse(&format!("$argon2id$v=19$m=19456,t=2,p=1${salt}${hash}")).ok()
        });
        NOBODY.clone().expect("the string above is one of PHC")
    }
}

impl std::fmt::Display for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A password could not be hashed, or a text is no hash of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an Argon2 hash in a PHC string")]
#[non_exhaustive]
pub struct PasswordHashError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_fits_its_password_only() {
        let hash = PasswordHash::quick("pässword");
        let again = PasswordHash::parse(&hash.to_string()).unwrap();
        for hash in [&hash, &again] {
            assert!(hash.verify(&Secret::new("pässword")), "{hash}");
            assert!(!hash.verify(&Secret::new("password")));
            assert!(!hash.verify(&Secret::new("")));
        }
        let other = PasswordHash::quick("pässword");
        assert_ne!(other.to_string(), hash.to_string(), "each has its salt");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "pass",
            "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ",
            "$scrypt$ln=16,r=8,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
            "$2b$12$abcdefghijklmnopqrstuv",
        ] {
            assert!(PasswordHash::parse(text).is_err(), "{text:?}");
        }
        assert!(!PasswordHash::of_nobody().verify(&Secret::new("")));
    }
}
