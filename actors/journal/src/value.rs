//! Values as bytes.

use minicbor::bytes::ByteVec;
use minicbor::encode::Write;
use minicbor::{Decode, Encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::VALUE_BYTES;

/// A value of the application, as bytes with their coding.
///
/// The coding is CBOR (RFC 8949) through serde. It names fields, so that a program with a new optional
/// field reads what an older one wrote. Other than JSON it has bytes, floats without a decimal text,
/// NaN, and keys of maps that are no texts; other than the compact binary codings it can be read
/// without the type, by a console or a command line.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Value {
    /// The coding, by its number: 1 is CBOR.
    #[n(0)]
    coding: u8,
    #[n(1)]
    bytes: ByteVec,
}

const CBOR: u8 = 1;

/// How CBOR writes an empty list.
const EMPTY_LIST: u8 = 0x80;

/// How a unit of serde is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    List,
    Null,
}

/// A value cannot be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// It has more than [`VALUE_BYTES`] bytes.
    #[error("a value has more than {VALUE_BYTES} bytes")]
    TooLarge,
    /// Its type cannot be written.
    #[error("a value cannot be written: {0}")]
    NotWritten(String),
    /// The bytes are no value of the type.
    #[error("a value is not of the type that is read: {0}")]
    NotRead(String),
    /// A later program wrote it in a coding that this one does not have.
    #[error("a value has the coding {0}, which this program does not know")]
    UnknownCoding(u8),
}

impl Value {
    /// The bytes of a value.
    ///
    /// # Errors
    /// If it is larger than [`VALUE_BYTES`], or its type cannot be written.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, ValueError> {
        Self::write(value, Unit::List)
    }

    /// The bytes of a value of JSON, or of one that is read as such: with a null where serde has a unit.
    ///
    /// # Errors
    /// The errors of [`encode`](Self::encode).
    pub fn encode_json<T: Serialize + ?Sized>(value: &T) -> Result<Self, ValueError> {
        Self::write(value, Unit::Null)
    }

    /// The bytes of a value that is read again as the same type.
    ///
    /// serde calls both `()` and the null of JSON a unit, and a reader of JSON takes an empty list for a
    /// list. So a value with a unit in it is read back here, to find out which of the two its type has.
    ///
    /// # Errors
    /// The errors of [`encode`](Self::encode).
    pub fn encode_result<T>(value: &T) -> Result<Self, ValueError>
    where
        T: Serialize + DeserializeOwned,
    {
        let lists = Self::encode(value)?;
        if !lists.bytes.contains(&EMPTY_LIST) {
            return Ok(lists);
        }
        let nulls = Self::encode_json(value)?;
        let read = nulls.decode::<T>().ok().and_then(|read| Self::encode(&read).ok());
        Ok(if read.as_ref() == Some(&lists) { nulls } else { lists })
    }

    fn write<T: Serialize + ?Sized>(value: &T, unit: Unit) -> Result<Self, ValueError> {
        let mut bytes = BoundedBytes::default();
        let mut serializer = minicbor_serde::Serializer::new(&mut bytes);
        serializer.serialize_unit_as_null(unit == Unit::Null);
        let written = value.serialize(&mut serializer);
        if bytes.is_full {
            return Err(ValueError::TooLarge);
        }
        written.map_err(|error| ValueError::NotWritten(error.to_string()))?;
        Ok(Self { coding: CBOR, bytes: bytes.written.into() })
    }

    /// The value of the bytes.
    ///
    /// # Errors
    /// If it is of another type, or of a coding that this program does not know.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ValueError> {
        minicbor_serde::from_slice(self.cbor()?)
            .map_err(|error| ValueError::NotRead(error.to_string()))
    }

    /// A value whose CBOR was written elsewhere.
    ///
    /// # Errors
    /// If it is larger than [`VALUE_BYTES`].
    pub fn of_cbor(bytes: &[u8]) -> Result<Self, ValueError> {
        if bytes.len() > VALUE_BYTES {
            return Err(ValueError::TooLarge);
        }
        Ok(Self { coding: CBOR, bytes: bytes.to_vec().into() })
    }

    /// Its CBOR.
    ///
    /// # Errors
    /// If it is of another coding.
    pub fn cbor(&self) -> Result<&[u8], ValueError> {
        if self.coding != CBOR {
            return Err(ValueError::UnknownCoding(self.coding));
        }
        Ok(&self.bytes)
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has no bytes; a value that was encoded has some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Takes as many bytes as a value may have: one that is too large costs no more memory than that.
#[derive(Default)]
struct BoundedBytes {
    written: Vec<u8>,
    is_full: bool,
}

/// There is no room for more.
#[derive(Debug, thiserror::Error)]
#[error("a value is too large")]
struct Full;

impl Write for BoundedBytes {
    type Error = Full;

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if self.written.len() + bytes.len() > VALUE_BYTES {
            self.is_full = true;
            return Err(Full);
        }
        self.written.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[test]
    fn what_json_cannot_keep_is_read_back() {
        let numbers = (f64::INFINITY, u64::MAX, i64::MIN);
        assert_eq!(Value::encode(&numbers).unwrap().decode(), Ok(numbers));
        let value = (BTreeMap::from([((1, 'a'), b"x".to_vec())]), Some(()), None::<u8>);
        let read = Value::encode(&value).unwrap().decode();
        assert_eq!(read, Ok(value));
    }

    #[test]
    fn results_are_read_back_with_each_null_and_each_unit() {
        fn check<T>(value: T)
        where
            T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
        {
            let read = Value::encode_result(&value).unwrap().decode();
            assert_eq!(read, Ok(value));
        }
        use serde_json::{Value as Json, json};
        check(Json::Null);
        check(json!([null, [], {}, { "key": null, "items": [[], null] }]));
        check(BTreeMap::from([("a", 1)].map(|(name, number)| (name.to_owned(), json!(number)))));
        check(vec![Json::Null, json!([])]);
        check((json!(null), None::<Json>, Some(3), Vec::<u8>::new()));
        check(Vec::<Json>::new());
        check(());
        check(vec![(), ()]);
        check((Some(()), None::<()>, String::new()));
        check(vec![0x80u8]);
        check("\u{80}\u{0}".to_owned());
    }

    #[test]
    fn a_new_field_with_a_default_reads_old_values() {
        #[derive(Serialize)]
        struct Old {
            id: u32,
            gone: String,
        }
        #[derive(Deserialize)]
        struct New {
            id: u32,
            #[serde(default)]
            note: Option<String>,
        }
        let old = Old { id: 7, gone: "x".to_owned() };
        let new: New = Value::encode(&old).unwrap().decode().unwrap();
        assert_eq!((new.id, new.note), (7, None));
    }

    #[test]
    fn the_limit_counts_bytes_and_other_types_are_told() {
        let fits = "x".repeat(VALUE_BYTES - 3);
        assert_eq!(Value::encode(&fits).unwrap().len(), VALUE_BYTES);
        assert_eq!(Value::encode(&format!("{fits}x")), Err(ValueError::TooLarge));
        let number = Value::encode(&7).unwrap();
        assert!(matches!(number.decode::<String>(), Err(ValueError::NotRead(_))));
        let later = Value { coding: 9, ..number };
        assert_eq!(later.decode::<u8>(), Err(ValueError::UnknownCoding(9)));
    }
}
