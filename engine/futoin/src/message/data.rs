//! Values of type `data` in typed handlers.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};

/// Bytes, which a message in JSON has as padded base64 (RFC 4648 §4): the type `data` of FTN3.
///
/// ```
/// use asyncsteps_futoin::message::Data;
///
/// let blob: Data = serde_json::from_str(r#""AQID""#)?;
/// assert_eq!(blob.0, [1, 2, 3]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[expect(clippy::exhaustive_structs, reason = "it is its bytes")]
pub struct Data(pub Vec<u8>);

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(DataVisitor)
    }
}

struct DataVisitor;

impl Visitor<'_> for DataVisitor {
    type Value = Data;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("base64 text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Data, E> {
        STANDARD.decode(text).map(Data).map_err(E::custom)
    }
}
