//! What is written to rows, and read from them: sealed if the application has keys.

use std::borrow::Cow;

use crate::error::{Error, Refused};
use crate::id::{RecordId, Uid};
#[cfg(feature = "encryption")]
use crate::keys::Keys;
use crate::path::Path;
use crate::request::ReadSchedule;
use crate::value::Value;

/// How sealed bytes begin; all others begin as a list of CBOR. The length of the key's id follows, the id, the nonce,
/// the text and its tag.
pub(crate) const SEALED: u8 = 1;

/// Seals and opens what rows have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seal {
    keys: Option<Keys>,
}

/// There are no keys without the feature.
#[cfg(not(feature = "encryption"))]
#[derive(Clone, Copy, Debug)]
enum Keys {}

#[cfg(not(feature = "encryption"))]
impl Keys {
    const fn seal(self, _: &Place<'_>, _: &[u8]) -> Result<Vec<u8>, Refused> {
        match self {}
    }

    const fn open(self, _: &Place<'_>, _: SealedBytes<'_>) -> Result<Vec<u8>, String> {
        match self {}
    }

    const fn refuse_plain(self) -> bool {
        match self {}
    }
}

#[cfg(feature = "encryption")]
impl From<Option<Keys>> for Seal {
    fn from(keys: Option<Keys>) -> Self {
        Self { keys }
    }
}

/// Where something is stored.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(feature = "encryption"),
    expect(dead_code, reason = "a key authenticates all of it")
)]
pub(crate) enum Place<'a> {
    /// A record of a flow.
    Record { flow: Uid, id: RecordId, kind: u8, path: &'a Path },
    /// The value of a signal.
    Signal { flow: Uid, id: Uid, name: &'a str },
    /// A schedule.
    Schedule { name: &'a str },
}

/// Sealed bytes, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SealedBytes<'a> {
    /// The id of the key.
    pub(crate) id: &'a str,
    #[cfg_attr(not(feature = "encryption"), expect(dead_code, reason = "there is no key"))]
    pub(crate) rest: &'a [u8],
}

#[cfg(feature = "encryption")]
impl Place<'_> {
    /// For what a key is derived.
    pub(crate) fn domain(&self) -> Vec<u8> {
        match self {
            Self::Record { flow, .. } | Self::Signal { flow, .. } => {
                [b"asyncsteps flow ".as_slice(), flow.as_bytes()].concat()
            }
            Self::Schedule { .. } => b"asyncsteps schedules".to_vec(),
        }
    }

    /// The place within that. Only its last part has any length.
    pub(crate) fn authenticated(&self) -> Vec<u8> {
        match self {
            Self::Record { id, kind, path, .. } => {
                let number = [id.epoch.get().to_be_bytes(), id.sequence.to_be_bytes()].concat();
                [b"record".as_slice(), &number, &[*kind], path.as_str().as_bytes()].concat()
            }
            Self::Signal { id, name, .. } => {
                [b"signal".as_slice(), id.as_bytes(), name.as_bytes()].concat()
            }
            Self::Schedule { name } => name.as_bytes().to_vec(),
        }
    }
}

impl Seal {
    /// The bytes to store.
    pub(crate) fn seal(&self, place: &Place<'_>, plain: Vec<u8>) -> Result<Vec<u8>, Refused> {
        match &self.keys {
            Some(keys) => keys.seal(place, &plain),
            None => Ok(plain),
        }
    }

    /// The bytes that were stored, or why they cannot be read.
    pub(crate) fn open<'b>(
        &self,
        place: &Place<'_>,
        stored: &'b [u8],
    ) -> Result<Cow<'b, [u8]>, String> {
        match (&self.keys, SealedBytes::of(stored)) {
            (Some(keys), Some(sealed)) => keys.open(place, sealed).map(Cow::Owned),
            (None, Some(sealed)) => Err(sealed.unknown_key()),
            (Some(keys), None) if keys.refuse_plain() => Err("it is not sealed".to_owned()),
            (_, None) => Ok(stored.into()),
        }
    }

    /// A value as it is stored.
    pub(crate) fn seal_value(&self, place: &Place<'_>, value: &Value) -> Result<Vec<u8>, Refused> {
        let mut bytes = Vec::with_capacity(value.len() + 8);
        let written = minicbor::encode(value, &mut bytes);
        debug_assert!(written.is_ok(), "a vector takes all bytes");
        self.seal(place, bytes)
    }

    /// A value that was stored.
    pub(crate) fn open_value(&self, place: &Place<'_>, stored: &[u8]) -> Result<Value, Error> {
        let value = self
            .open(place, stored)
            .and_then(|bytes| minicbor::decode(&bytes).map_err(|error| error.to_string()));
        value.map_err(|reason| {
            let what = match place {
                Place::Record { flow, id, .. } => format!("record {} of flow {flow}", id.sequence),
                Place::Signal { flow, name, .. } => format!("the signal `{name}` of flow {flow}"),
                Place::Schedule { name } => format!("the schedule `{name}`"),
            };
            Error::UnknownValue { what, reason }
        })
    }

    /// A schedule that was stored.
    pub(crate) fn open_schedule(&self, name: String, stored: &[u8]) -> ReadSchedule {
        let value = self.open_value(&Place::Schedule { name: &name }, stored);
        ReadSchedule { name, value: value.map_err(|error| error.to_string()) }
    }
}

impl<'a> SealedBytes<'a> {
    fn of(stored: &'a [u8]) -> Option<Self> {
        let (length, rest) = stored.strip_prefix(&[SEALED])?.split_first()?;
        let (id, rest) = rest.split_at_checked(usize::from(*length))?;
        Some(Self { id: str::from_utf8(id).ok()?, rest })
    }

    pub(crate) fn unknown_key(&self) -> String {
        format!("it is sealed with the key `{}`, which this program does not have", self.id)
    }
}
