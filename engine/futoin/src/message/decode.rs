//! Bytes into the fields of a request: the one place that chooses how a coding is read.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::error::Category;

use super::binary::{self, BinaryValue, cbor, msgpack};
use super::coding::Coding;
use super::malformed::{Malformed, is_too_deep};

/// The fields of a request as they are read.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) f: Option<Value>,
    pub(super) p: Option<Params>,
    pub(super) rid: Option<Value>,
    pub(super) sec: Option<Value>,
    pub(super) obf: Option<Value>,
    pub(super) forcersp: Option<Value>,
    pub(super) unknown: Vec<(String, Value)>,
}

/// Parameters as they came.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Params {
    Json(Value),
    /// It becomes a JSON value once the declared types are known.
    Binary(BinaryValue),
}

impl Fields {
    /// Reads a message to its end.
    pub(super) fn read(coding: Coding, bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Self::default();
        let take = |name: Cow<'_, str>, value| fields.set(&name, value);
        match (coding, bytes.get(Coding::MARK..).unwrap_or_default()) {
            (Coding::Json, _) => fields.read_json(bytes)?,
            (Coding::MsgPack, map) => binary::read(msgpack::MsgpackTokens::new(map), take)?,
            (Coding::Cbor, map) => binary::read(cbor::CborTokens::new(map), take)?,
        }
        Ok(fields)
    }

    /// Takes a message that was read as JSON before, as part of another one.
    pub(super) fn of_json(message: Value) -> Result<Self, Malformed> {
        let Value::Object(message) = message else {
            return Err(Malformed::Json(NO_OBJECT.to_owned()));
        };
        let mut fields = Self::default();
        for (name, value) in message {
            fields.put(FieldName::from(&*name), value);
        }
        Ok(fields)
    }

    fn read_json(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        // Depth first: it needs no stack, and nothing is built for a message beyond the limit.
        if is_too_deep(bytes) {
            return Err(Malformed::Depth);
        }
        let text = str::from_utf8(bytes).map_err(|error| {
            Malformed::Json(format!("not UTF-8 from byte {}", error.valid_up_to()))
        })?;
        let mut json = serde_json::Deserializer::from_str(text);
        let read = DeserializeSeed::deserialize(self, &mut json).and_then(|()| json.end());
        read.map_err(|error| Malformed::Json(json_defect(&error)))
    }

    /// Sets a field of a binary coding.
    fn set(&mut self, name: &str, value: BinaryValue) {
        let key = FieldName::from(name);
        if let FieldName::P = key {
            self.p = Some(Params::Binary(value));
        } else {
            self.put(key, value.into_value());
        }
    }

    fn put(&mut self, key: FieldName, value: Value) {
        match key {
            FieldName::F => self.f = Some(value),
            FieldName::P => self.p = Some(Params::Json(value)),
            FieldName::Rid => self.rid = Some(value),
            FieldName::Sec => self.sec = Some(value),
            FieldName::Obf => self.obf = Some(value),
            FieldName::ForceRsp => self.forcersp = Some(value),
            FieldName::Unknown(name) => self.unknown.push((name, value)),
        }
    }
}

const NO_OBJECT: &str = "JSON, but not an object";

/// Why a text is no message. The parser's own words have no piece of the text, unless it is JSON.
fn json_defect(error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Data => NO_OBJECT.to_owned(),
        Category::Syntax | Category::Eof | Category::Io => format!("not JSON: {error}"),
    }
}

impl<'de> DeserializeSeed<'de> for &mut Fields {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Fields {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a FutoIn request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key()? {
            self.put(key, map.next_value()?);
        }
        Ok(())
    }
}

/// The name of a request field. Known names are not copied.
enum FieldName {
    F,
    P,
    Rid,
    Sec,
    Obf,
    ForceRsp,
    Unknown(String),
}

impl From<&str> for FieldName {
    fn from(name: &str) -> Self {
        match name {
            "f" => Self::F,
            "p" => Self::P,
            "rid" => Self::Rid,
            "sec" => Self::Sec,
            "obf" => Self::Obf,
            "forcersp" => Self::ForceRsp,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

impl<'de> Deserialize<'de> for FieldName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = FieldName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E>(self, name: &str) -> Result<FieldName, E> {
        Ok(FieldName::from(name))
    }
}
