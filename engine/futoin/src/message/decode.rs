//! Bytes into the fields of a request: the one place that chooses how a coding is read.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value};

use super::binary::{self, BinaryValue, cbor, msgpack};
use super::coding::Coding;
use super::exact::{ExactValue, Flaws};
use super::malformed::{Malformed, is_too_deep};
use super::refused::{NO_PARAMS, TOO_DEEP, invalid};
use crate::refusal::Refusal;

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
    /// Why the message is refused, although it can be read.
    pub(super) flaw: Option<String>,
}

/// How many unknown fields are compared for duplicates: more than an answer has, which has `e`, `edesc` and `r`.
const COMPARED: usize = 8;

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
        let (mut fields, mut flaws) = (Self::default(), Flaws::default());
        let take = |name: &str, value| fields.set(name, value);
        let mut text = "";
        match (coding, bytes.get(Coding::MARK..).unwrap_or_default()) {
            (Coding::Json, _) => {
                let read = FieldsOfJson { fields: &mut fields, flaws: &mut flaws };
                ((), text) = read_json(bytes, read)?;
            }
            (Coding::MsgPack, map) => {
                binary::read(msgpack::MsgpackTokens::new(map), &mut flaws, take)?;
            }
            (Coding::Cbor, map) => binary::read(cbor::CborTokens::new(map), &mut flaws, take)?,
        }
        fields.flaw = flaws.refusal(text);
        Ok(fields)
    }

    /// Takes a message that was read as JSON before, as part of another one.
    pub(super) fn of_json(message: Value) -> Result<Self, Malformed> {
        let Value::Object(message) = message else {
            return Err(Malformed::Json(NO_OBJECT.to_owned()));
        };
        let mut fields = Self::default();
        for (name, value) in message {
            fields.put(&name, value);
        }
        Ok(fields)
    }

    /// Sets a field of a binary coding; whether it is new.
    fn set(&mut self, name: &str, value: BinaryValue) -> bool {
        match name {
            "p" => self.p.replace(Params::Binary(value)).is_none(),
            _ => self.put(name, value.into_value()),
        }
    }

    /// Sets a field; whether it is new.
    fn put(&mut self, name: &str, value: Value) -> bool {
        let field = match name {
            "f" => &mut self.f,
            "p" => return self.p.replace(Params::Json(value)).is_none(),
            "rid" => &mut self.rid,
            "sec" => &mut self.sec,
            "obf" => &mut self.obf,
            "forcersp" => &mut self.forcersp,
            _ => {
                let is_new = self.unknown.iter().take(COMPARED).all(|(known, _)| known != name);
                self.unknown.push((name.to_owned(), value));
                return is_new;
            }
        };
        field.replace(value).is_none()
    }
}

/// Reads the parameters of a call that is no message, such as the body of a request for the URL of a function.
pub(super) fn read_params(bytes: &[u8]) -> Result<Map<String, Value>, Refusal> {
    let mut flaws = Flaws::default();
    let read = read_json(bytes, ExactValue { flaws: &mut flaws, level: 0 });
    match read.map(|(params, text)| (params, flaws.refusal(text))) {
        Ok((_, Some(flaw))) => Err(invalid(flaw)),
        Ok((Value::Object(params), None)) => Ok(params),
        Ok(_) => Err(invalid(NO_PARAMS)),
        Err(Malformed::Depth) => Err(invalid(TOO_DEEP)),
        Err(Malformed::Json(defect)) => Err(invalid(format!("Invalid body: {defect}"))),
        Err(Malformed::Syntax) => Err(invalid("Invalid body")),
    }
}

/// Reads a JSON text to its end; returns the text too.
fn read_json<'a, T>(
    bytes: &'a [u8],
    seed: impl DeserializeSeed<'a, Value = T>,
) -> Result<(T, &'a str), Malformed> {
    // Depth first: it needs no stack, and nothing is built for a message beyond the limit.
    if is_too_deep(bytes) {
        return Err(Malformed::Depth);
    }
    let text = str::from_utf8(bytes)
        .map_err(|error| Malformed::Json(format!("not UTF-8 from byte {}", error.valid_up_to())))?;
    let mut json = serde_json::Deserializer::from_str(text);
    let read = seed.deserialize(&mut json).and_then(|read| json.end().map(|()| read));
    read.map(|read| (read, text)).map_err(|error| Malformed::Json(json_defect(&error)))
}

const NO_OBJECT: &str = "JSON, but not an object";

/// Why a text is no message. The parser's own words have no piece of the text, unless it is JSON.
fn json_defect(error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Data => NO_OBJECT.to_owned(),
        Category::Syntax | Category::Eof | Category::Io => format!("not JSON: {error}"),
    }
}

/// Reads the fields of a message of JSON.
struct FieldsOfJson<'a> {
    fields: &'a mut Fields,
    flaws: &'a mut Flaws,
}

impl<'de> DeserializeSeed<'de> for FieldsOfJson<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldsOfJson<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a FutoIn request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { fields, flaws } = self;
        while let Some(name) = map.next_key_seed(FieldName)? {
            let value = map.next_value_seed(ExactValue { flaws, level: 1 })?;
            flaws.read(0, &name);
            if !fields.put(&name, value) {
                flaws.twice(0, &name);
            }
        }
        Ok(())
    }
}

/// Reads the name of a field, which is copied only if it has escapes.
struct FieldName;

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de> Visitor<'de> for FieldName {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }
}
