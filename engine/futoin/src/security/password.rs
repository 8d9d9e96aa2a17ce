//! Stored passwords: Argon2 hashes in PHC strings.

use std::mem;
use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ctutils::CtEq as _;

use super::credentials::Secret;

/// The hash of a password, such as `$argon2id$v=19$m=19456,t=2,p=1$...`.
///
/// Making or checking one takes tens of milliseconds and megabytes, on purpose: do it on a thread of
/// its own, with [`AuthOutcome::compute`](super::AuthOutcome::compute).
#[derive(Debug, Clone)]
pub struct PasswordHash(Arc<Parsed>);

#[derive(Debug)]
struct Parsed {
    /// The whole string.
    phc: Box<str>,
    /// By the parameters of the hash.
    argon2: Argon2<'static>,
    salt: Box<[u8]>,
    hash: Box<[u8]>,
}

/// Bytes of a salt.
const SALT: RangeInclusive<usize> = 8..=48;

/// Bytes of a hash.
const HASH: RangeInclusive<usize> = 10..=64;

impl PasswordHash {
    /// Hashes a password with a random salt and the parameters that OWASP recommends.
    ///
    /// # Errors
    /// If the operating system has no random bytes.
    pub fn new(password: &Secret) -> Result<Self, PasswordHashError> {
        Self::with(Params::default(), password)
    }

    fn with(params: Params, password: &Secret) -> Result<Self, PasswordHashError> {
        let (algorithm, version) = (Algorithm::default(), Version::default());
        let costs = format!("m={},t={},p={}", params.m_cost(), params.t_cost(), params.p_cost());
        let argon2 = Argon2::new(algorithm, version, params);
        let (mut salt, mut hash) = ([0; 16], [0; 32]);
        getrandom::fill(&mut salt).map_err(|_| PasswordHashError)?;
        let hashed = argon2.hash_password_into(password.expose().as_bytes(), &salt, &mut hash);
        hashed.map_err(|_| PasswordHashError)?;
        let (salt, hash) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(hash));
        let phc = format!("${algorithm}$v={}${costs}${salt}${hash}", u32::from(version));
        Self::parse(&phc)
    }

    /// Reads a PHC string.
    ///
    /// # Errors
    /// Unless it has a hash of Argon2, its salt, and the costs `m`, `t` and `p`.
    pub fn parse(phc: &str) -> Result<Self, PasswordHashError> {
        Parsed::read(phc).map(|parsed| Self(Arc::new(parsed))).ok_or(PasswordHashError)
    }

    /// Whether this is the hash of `password`, by the parameters in the hash.
    #[must_use]
    pub fn verify(&self, password: &Secret) -> bool {
        let Parsed { argon2, salt, hash, .. } = &*self.0;
        let mut memory = HashMemory::take(argon2.params().block_count());
        let mut computed = [0; *HASH.end()];
        let computed = &mut computed[..hash.len()];
        let password = password.expose().as_bytes();
        let done = argon2.hash_password_into_with_memory(password, salt, computed, &mut memory.0);
        // compared in constant time
        done.is_ok() && computed.ct_eq(hash).to_bool()
    }

    /// With parameters that are quick even in a debug build.
    #[cfg(test)]
    fn quick(password: &str) -> Self {
        let params = Params::new(Params::MIN_M_COST, 1, 1, None).unwrap();
        Self::with(params, &Secret::new(password)).unwrap()
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

impl Parsed {
    fn read(phc: &str) -> Option<Self> {
        let mut fields = phc.strip_prefix('$')?.split('$');
        let algorithm: Algorithm = fields.next()?.parse().ok()?;
        let mut costs = fields.next()?;
        let version = match costs.strip_prefix("v=") {
            Some(version) => {
                costs = fields.next()?;
                Version::try_from(version.parse::<u32>().ok()?).ok()?
            }
            // as of hashes from before there were versions
            None => Version::V0x10,
        };
        let mut costs = costs.split(',');
        let mut cost = |name| costs.next()?.strip_prefix(name)?.parse().ok();
        let params = Params::new(cost("m=")?, cost("t=")?, cost("p=")?, None).ok()?;
        let mut bytes = |lengths: RangeInclusive<usize>| {
            let bytes = STANDARD_NO_PAD.decode(fields.next()?).ok()?;
            lengths.contains(&bytes.len()).then(|| bytes.into_boxed_slice())
        };
        let (salt, hash) = (bytes(SALT)?, bytes(HASH)?);
        if costs.next().is_some() || fields.next().is_some() {
            return None;
        }
        let argon2 = Argon2::new(algorithm, version, params);
        Some(Self { phc: phc.into(), argon2, salt, hash })
    }
}

impl std::fmt::Display for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.phc)
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
    fn hashes_of_the_reference_implementation_are_read() {
        // its own tests have them, and its first version wrote none
        for hash in [
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            "$argon2i$m=256,t=2,p=1$c29tZXNhbHQ$/U3YPXYsSb3q9XxHvc0MLxur+GP960kN9j7emXX8zwY",
        ] {
            let read = PasswordHash::parse(hash).unwrap();
            assert!(read.verify(&Secret::new("password")), "{hash}");
            assert!(!read.verify(&Secret::new("Password")), "{hash}");
            assert_eq!(read.to_string(), hash);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "pass",
            "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ",
            "$argon2id$v=19$m=8,t=1,p=1$$AAAAAAAAAAAAAAAAAAAAAA",
            "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$",
            "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA$",
            "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAA",
            "$argon2id$v=19$m=8,t=1,p=1,data=AAAA$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
            "$argon2id$v=19$m=8,t=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
            "$argon2id$v=19$m=1,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
            "$argon2id$v=20$m=8,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
            "$argon2$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
            "argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
            "$scrypt$ln=16,r=8,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
            "$2b$12$abcdefghijklmnopqrstuv",
        ] {
            assert!(PasswordHash::parse(text).is_err(), "{text:?}");
        }
        assert!(!PasswordHash::dummy().verify(&Secret::new("")));
    }
}
