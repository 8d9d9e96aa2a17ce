//! A memory of passwords that were right a short time ago.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::clock::Clock;
use parking_lot::Mutex;

use super::{MacAlgorithm, MacKey, PasswordHash, Secret};
use crate::recent::Recent;

/// The limits of a [`PasswordMemory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing else to choose")]
pub struct MemoryOptions {
    /// How long a password is remembered after its hash was computed; zero for not at all.
    pub time: Duration,
    /// How many passwords are remembered; the least recently used ones are forgotten.
    pub passwords: usize,
}

impl Default for MemoryOptions {
    /// Ten minutes, because most sessions have a request in that time, and 10,000 passwords, which take
    /// two megabytes.
    fn default() -> Self {
        Self { time: Duration::from_secs(600), passwords: 10_000 }
    }
}

/// Remembers which passwords fitted which hashes, so that a client that shows its password with each
/// message is not slowed down by its hash each time, and does not wait behind a flood of wrong ones.
///
/// A password is kept as a message authentication code with a random key of this process, together
/// with its hash: when the hash of a user changes, the old password is wrong at once. A cheap handle;
/// clones share the memory.
///
/// ```
/// use asyncsteps_executor::security::{PasswordHash, PasswordMemory, Secret};
///
/// let hash = PasswordHash::new(&Secret::new("open sesame"))?;
/// let memory = PasswordMemory::default();
/// let password = Secret::new("open sesame");
/// assert!(!memory.knows(&hash, &password));
/// assert!(memory.verify(&hash, &password)); // slow
/// assert!(memory.knows(&hash, &password));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("PasswordMemory {{ time: {:?}, .. }}", self.0.time)]
pub struct PasswordMemory(Arc<Inner>);

struct Inner {
    /// `None` if the system had no random bytes: then nothing is remembered.
    key: Option<MacKey>,
    time: Duration,
    clock: Clock,
    /// When each password is forgotten, on that clock, by its code.
    known: Mutex<Recent<String, Duration>>,
}

impl PasswordMemory {
    /// An empty memory.
    #[must_use]
    pub fn new(options: MemoryOptions) -> Self {
        let mut key = [0; 32];
        let key = getrandom::fill(&mut key).is_ok().then(|| MacKey::new(&key));
        let MemoryOptions { time, passwords } = options;
        let known = Mutex::new(Recent::new(passwords));
        Self(Arc::new(Inner { key, time, clock: Clock::start(), known }))
    }

    /// Whether `password` was found to fit `hash` lately, without computing the hash.
    #[must_use]
    pub fn knows(&self, hash: &PasswordHash, password: &Secret) -> bool {
        let Some(code) = self.code(hash, password) else { return false };
        let now = self.0.clock.elapsed();
        self.0.known.lock().get(&code).is_some_and(|until| now < *until)
    }

    /// [Verifies](PasswordHash::verify) a password, and remembers it if it is right; as slow as
    /// computing the hash.
    #[must_use]
    pub fn verify(&self, hash: &PasswordHash, password: &Secret) -> bool {
        let is_right = hash.verify(password);
        if is_right && let Some(code) = self.code(hash, password) {
            let until = self.0.clock.elapsed().saturating_add(self.0.time);
            *self.0.known.lock().get_or_insert_with(code, || until) = until;
        }
        is_right
    }

    fn code(&self, hash: &PasswordHash, password: &Secret) -> Option<String> {
        // the text of a hash has no line ends
        let base = format!("{hash}\n{}", password.expose());
        self.0.key.as_ref().map(|key| key.sign(MacAlgorithm::Sha256, base.as_bytes()))
    }
}

impl Default for PasswordMemory {
    fn default() -> Self {
        Self::new(MemoryOptions::default())
    }
}
