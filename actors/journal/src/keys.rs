//! The keys of the application that seal what is recorded.

use std::fmt;
use std::sync::Arc;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac::{self, HMAC_SHA256};

use crate::error::Refused;
use crate::sealed::{Place, SEALED, SealedBytes};

/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// The most characters of a key's id.
const LONGEST_ID: usize = 64;

/// Keys of the application, with which a journal seals what it records: each storage has them in its options. The first
/// one seals, and all of them open, so a key is replaced by putting a new one before it. What was stored before there
/// were keys is read as it is, unless it is [refused](Self::only_sealed).
///
/// Records, signals' values and stored schedules are sealed as a whole, each with AES-256-GCM, a random nonce, and a key
/// of its flow that HMAC-SHA256 derives from the application's. The id of the key is stored beside it. Its place (flow,
/// number, step, kind) is authenticated with it, so what was moved to another place does not open. What does not open
/// is an error that names the record and the key, and a request with such a record is paused.
///
/// Not sealed are names (of functions, steps, items of `each_by`, signals, schedules, operators), the local ids of
/// users, callers and their keys, tags, times, sizes, and reasons for which a request waits.
///
/// ```
/// use asyncsteps_journal::Keys;
///
/// # fn secret(_: &str) -> [u8; 32] { [7; 32] }
/// // from this year's key on; records of last year are still opened
/// let keys = Keys::new([("2026", &secret("2026")), ("2025", &secret("2025"))])?;
/// # Ok::<(), asyncsteps_journal::InvalidKeys>(())
/// ```
#[derive(Clone)]
pub struct Keys {
    keys: Arc<[Key]>,
    only_sealed: bool,
}

struct Key {
    id: String,
    /// Keys of flows are derived from it.
    root: hmac::Key,
}

/// No [`Keys`] are made of these.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKeys {
    /// There is none.
    #[error("there is no key to seal with")]
    NoKey,
    /// An id has no characters, too many, or other ones.
    #[error("`{0}` is no id of a key: it needs 1 to {LONGEST_ID} printable ASCII characters")]
    Id(String),
    /// A key is not as long as it has to be.
    #[error("the key `{id}` has {length} bytes, and needs {KEY_BYTES}")]
    Length {
        /// The id of the key.
        id: String,
        /// How many bytes it has.
        length: usize,
    },
    /// Two keys have the same id.
    #[error("there are two keys `{0}`")]
    Twice(String),
}

impl Keys {
    /// These keys, each with an id and 32 random bytes.
    ///
    /// # Errors
    /// If there is none, if an id is no name of 1 to 64 printable ASCII characters or there twice, or if a key has
    /// another length.
    pub fn new<'a, K>(keys: impl IntoIterator<Item = (&'a str, &'a K)>) -> Result<Self, InvalidKeys>
    where
        K: AsRef<[u8]> + ?Sized + 'a,
    {
        let mut known: Vec<Key> = Vec::new();
        for (id, bytes) in keys {
            let (id, bytes) = (id.to_owned(), bytes.as_ref());
            let is_id = (1..=LONGEST_ID).contains(&id.len())
                && id.bytes().all(|letter| matches!(letter, b' '..=b'~'));
            if !is_id {
                return Err(InvalidKeys::Id(id));
            }
            if bytes.len() != KEY_BYTES {
                return Err(InvalidKeys::Length { id, length: bytes.len() });
            }
            if known.iter().any(|other| other.id == id) {
                return Err(InvalidKeys::Twice(id));
            }
            known.push(Key { id, root: hmac::Key::new(HMAC_SHA256, bytes) });
        }
        if known.is_empty() {
            return Err(InvalidKeys::NoKey);
        }
        Ok(Self { keys: known.into(), only_sealed: false })
    }

    /// What is not sealed is not read either: for when nothing is left from the time before there were keys. Without
    /// this, who can write to the storage can put something else there that is not sealed.
    #[must_use]
    pub fn only_sealed(self) -> Self {
        Self { only_sealed: true, ..self }
    }

    /// Whether what is not sealed is refused.
    pub(crate) const fn refuse_plain(&self) -> bool {
        self.only_sealed
    }

    pub(crate) fn seal(&self, place: &Place<'_>, plain: &[u8]) -> Result<Vec<u8>, Refused> {
        let key = &self.keys[0];
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| Refused::NotSealed)?;
        let mut sealed = vec![SEALED, u8::try_from(key.id.len()).map_err(|_| Refused::NotSealed)?];
        sealed.extend_from_slice(key.id.as_bytes());
        sealed.extend_from_slice(&nonce);
        let mut text = plain.to_vec();
        let (cipher, aad) = (key.cipher(place), Aad::from(place.authenticated()));
        cipher
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut text)
            .map_err(|_| Refused::NotSealed)?;
        sealed.append(&mut text);
        Ok(sealed)
    }

    pub(crate) fn open(
        &self,
        place: &Place<'_>,
        sealed: SealedBytes<'_>,
    ) -> Result<Vec<u8>, String> {
        let SealedBytes { id, rest } = sealed;
        let key = self.keys.iter().find(|key| key.id == id);
        let key = key.ok_or_else(|| sealed.unknown_key())?;
        let wrong = || {
            format!(
                "it was changed or moved since the key `{id}` sealed it, or that is another key now"
            )
        };
        let (nonce, text) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(wrong)?;
        let mut text = text.to_vec();
        let (nonce, aad) = (Nonce::assume_unique_for_key(*nonce), Aad::from(place.authenticated()));
        let plain =
            key.cipher(place).open_in_place(nonce, aad, &mut text).map_err(|_| wrong())?.len();
        text.truncate(plain);
        Ok(text)
    }
}

impl Key {
    /// The cipher of a flow, or of schedules: with keys of their own, random nonces do not meet.
    fn cipher(&self, place: &Place<'_>) -> LessSafeKey {
        let derived = hmac::sign(&self.root, &place.domain());
        match UnboundKey::new(&AES_256_GCM, derived.as_ref()) {
            Ok(key) => LessSafeKey::new(key),
            Err(error) => unreachable!("SHA-256 has as many bytes as the key: {error}"),
        }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.id)).finish()
    }
}
