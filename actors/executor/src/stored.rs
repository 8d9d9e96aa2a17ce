//! Results of steps as hosts store them: bytes.

use std::rc::Rc;

use asyncsteps_core::Error;
use minicbor_serde::Serializer;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A result of a step as its host stores it: CBOR (RFC 8949) by serde, with the names of fields.
pub type Stored = Rc<[u8]>;

/// How the result of a step becomes bytes that the host stores, and back.
#[derive(derive_more::Debug)]
#[debug("Codec")]
pub struct Codec<T> {
    /// Writes a result.
    pub write: fn(&T) -> Result<Stored, Error>,
    /// Reads it.
    pub read: fn(&Stored) -> Result<T, Error>,
}

/// How CBOR writes an empty list.
const EMPTY_LIST: u8 = 0x80;

impl<T: DeserializeOwned> Codec<T> {
    /// For results of steps.
    #[must_use]
    pub fn of_results() -> Self
    where
        T: Serialize,
    {
        Self { write, ..Self::of_others() }
    }

    /// For values that others write, such as the values of signals.
    #[must_use]
    pub fn of_others() -> Self {
        Self { write: |_| Err(internal("values of others are not written here")), read }
    }
}

/// The bytes of a value that is read again as the same type.
///
/// serde calls both `()` and the null of JSON a unit, and a reader of JSON takes an empty list for a list. So a value
/// with a unit in it is read back here, to find out which of the two its type has.
fn write<T: Serialize + DeserializeOwned>(value: &T) -> Result<Stored, Error> {
    let lists = write_as(value, false)?;
    if !lists.contains(&EMPTY_LIST) {
        return Ok(lists);
    }
    let nulls = write_as(value, true)?;
    let again = read::<T>(&nulls).and_then(|value| write_as(&value, false));
    Ok(if again.is_ok_and(|again| again == lists) { nulls } else { lists })
}

fn write_as<T: Serialize>(value: &T, unit_is_null: bool) -> Result<Stored, Error> {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::new(&mut bytes);
    serializer.serialize_unit_as_null(unit_is_null);
    let written = value.serialize(&mut serializer);
    written.map_err(|error| internal(&format!("a value cannot be written: {error}")))?;
    Ok(bytes.into())
}

fn read<T: DeserializeOwned>(stored: &Stored) -> Result<T, Error> {
    minicbor_serde::from_slice(stored)
        .map_err(|error| internal(&format!("a value is not of the type that is read: {error}")))
}

fn internal(what: &str) -> Error {
    Error::unexpected(what.to_owned())
}

impl<T> Clone for Codec<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Codec<T> {}
