//! What is written to rows, and read from them: sealed if the application has keys.

use std::borrow::Cow;

use crate::error::{Error, Refused};
#[cfg(feature = "encryption")]
use crate::keys::Keys;
use crate::request::ReadSchedule;
use crate::sealed::{Place, SealedBytes};
use crate::value::Value;

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
                Place::Event { flow, path, .. } => format!("an event of {path} in flow {flow}"),
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
