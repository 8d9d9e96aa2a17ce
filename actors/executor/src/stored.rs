//! What hosts store of steps: results, as bytes, and errors.

use std::error::Error as StdError;
use std::rc::Rc;

use asyncsteps_core::{Error, RecordedError};
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

/// How a host treats the body of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Its result is stored. It runs at least once.
    Recorded,
    /// Its result is stored. It runs at most once: if it is not known how it ended, the step fails.
    Once,
    /// Nothing is stored: it runs whenever the request is carried out.
    Repeatable,
    /// The host [carries out](crate::recorder::BodyEnd::Transacts) the work that its body returns, and stores the
    /// result in the same transaction: exactly once.
    Transacted,
    /// It has no body: the host [waits](crate::recorder::BodyEnd::Pauses).
    Wait,
    /// It is [not in the function any more](crate::Steps::retired): nothing is stored. It [can be
    /// undone](crate::plan::StepView::can_be_undone) if the application provided an undo.
    Retired,
}

/// How errors of a service are recorded, and made again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorsOfService {
    pub(crate) record: RecordError,
    pub(crate) recall: fn(&RecordedError) -> Option<Result<BoxError, BoxError>>,
}

impl ErrorsOfService {
    /// An error of a step again, of which this was recorded.
    pub(crate) fn recalled(
        &self,
        error: Error,
        recorded: Option<RecordedError>,
    ) -> Result<Error, BoxError> {
        let recorded =
            recorded.unwrap_or_else(|| RecordedError { code: error.code().to_owned(), json: None });
        match (self.recall)(&recorded).transpose()? {
            Some(cause) => Ok(error.with_cause(cause)),
            None => Ok(error),
        }
    }
}

type RecordError = fn(&Error) -> Option<(RecordedError, Option<BoxError>)>;

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

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
