//! Stored passwords: Argon2 hashes in PHC strings.

use std::mem;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use argon2::password_hash::phc::{Output, PasswordHash as Phc};
use argon2::{Algorithm, Argon2, Block, Params, PasswordHasher, Version};

use super::credentials::Secret;

/// The hash of a password, such as `$argon2id$v=19$m=19456,t=2,p=1$...`.
///
/// Making or checking one takes tens of milliseconds and megabytes, on purpose: do it on a thread of
/// its own, with [`AuthOutcome::compute`](super::AuthOutcome::compute).
#[derive(Debug, Clone)]
pub struct PasswordHash(Arc<Parsed>);

#[derive(Debug)]
struct Parsed {
    phc: Phc,
    /// By the parameters of the hash.
    argon2: Argon2<'static>,
}

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
        Self::parsed(hash.map_err(|_| PasswordHashError)?).ok_or(PasswordHashError)
    }

    /// Reads a PHC string.
    ///
    /// # Errors
    /// Unless it has a hash of Argon2.
    pub fn parse(phc: &str) -> Result<Self, PasswordHashError> {
        Phc::new(phc).ok().and_then(Self::parsed).ok_or(PasswordHashError)
    }

    /// `None` unless all is there.
    fn parsed(phc: Phc) -> Option<Self> {
        let algorithm = Algorithm::try_from(phc.algorithm.as_str()).ok()?;
        let version = phc.version.map_or_else(|| Ok(Version::default()), Version::try_from).ok()?;
        let argon2 = Argon2::new(algorithm, version, Params::try_from(&phc).ok()?);
        let is_whole = phc.salt.is_some() && phc.hash.is_some();
        is_whole.then(|| Self(Arc::new(Parsed { phc, argon2 })))
    }

    /// Whether this is the hash of `password`, by the parameters in the hash.
    #[must_use]
    pub fn verify(&self, password: &Secret) -> bool {
        let Parsed { phc, argon2 } = &*self.0;
        let (Some(salt), Some(hash)) = (&phc.salt, &phc.hash) else { return false };
        let mut memory = HashMemory::take(argon2.params().block_count());
        let mut computed = [0; Output::MAX_LENGTH];
        let computed = &mut computed[..hash.len()];
        let password = password.expose().as_bytes();
        let done = argon2.hash_password_into_with_memory(password, salt, computed, &mut memory.0);
        // compared in constant time
        done.is_ok() && Output::new(computed).is_ok_and(|computed| computed == *hash)
    }

    /// With parameters that are quick even in a debug build.
    #[cfg(test)]
    fn quick(password: &str) -> Self {
        let params = Params::new(Params::MIN_M_COST, 1, 1, None).unwrap();
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        Self::with(&argon2, &Secret::new(password)).unwrap()
    }

    /// A hash that no password matches, for users that do not exist: checking a password against it
    /// takes as long as for a known user, so that the time does not reveal which users exist.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "the text is constant and tested")]
    pub fn dummy() -> Self {
        static HASH: LazyLock<Option<PasswordHash>> = LazyLock::new(|| {
            let salt = "bm9ib2R5IGlzIGhlcmU";
            let hash = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
            PasswordHash::parse(&format!("$argon2id$v=19$m=19456,t=2,p=1${salt}${hash}")).ok()
        });
        HASH.clone().expect("the string above is one of PHC")
    }
}

impl std::fmt::Display for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.phc.fmt(f)
    }
}

/// The memory of a hash. It is kept for the next one, because an allocator may keep such a block for
/// each thread that ever freed one.
struct HashMemory(Vec<Block>);

static IDLE: Mutex<Vec<Vec<Block>>> = Mutex::new(Vec::new());

/// How many blocks are kept: as many as there are processors. The number is read once, because the
/// system reads files for it.
static MOST: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from));

fn idle() -> MutexGuard<'static, Vec<Vec<Block>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HashMemory {
    fn take(blocks: usize) -> Self {
        let mut memory = idle().pop().unwrap_or_default();
        memory.resize(blocks, Block::default());
        Self(memory)
    }
}

impl Drop for HashMemory {
    fn drop(&mut self) {
        let mut idle = idle();
        if idle.len() < *MOST {
            idle.push(mem::take(&mut self.0));
        }
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
        assert!(!PasswordHash::dummy().verify(&Secret::new("")));
    }
}
