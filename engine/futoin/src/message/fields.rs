//! The fields of a request, whatever their coding.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::{
    binary::{self, Item},
    cbor,
    coding::Coding,
    msgpack,
    request::{Params, Refusal},
};

/// Deepest nesting of objects and lists in a message. Real messages stay below ten; at this depth
/// the recursion of parser, checker and destructor needs a few kilobytes of stack.
pub(super) const MAX_DEPTH: usize = 64;

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

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Malformed {
    /// They do not follow their coding.
    Syntax,
    /// Lists and maps are nested too deep.
    Depth,
}

impl Fields {
    /// Reads a message to its end.
    pub(super) fn read(coding: Coding, bytes: &[u8]) -> Result<Self, Refusal> {
        let mut fields = Self::default();
        let read = match (coding, bytes.get(Coding::MARK..).unwrap_or_default()) {
            (Coding::Json, _) => fields.read_json(bytes),
            (Coding::MsgPack, rest) => binary::read(msgpack::Tokens::new(rest), &mut fields),
            (Coding::Cbor, rest) => binary::read(cbor::Tokens::new(rest), &mut fields),
        };
        read.map(|()| fields).map_err(|malformed| Refusal::malformed(coding, malformed))
    }

    fn read_json(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        // Depth first: it needs no stack, and nothing is built for a message beyond the limit.
        if is_too_deep(bytes) {
            return Err(Malformed::Depth);
        }
        let text = str::from_utf8(bytes).map_err(|_| Malformed::Syntax)?;
        let mut json = serde_json::Deserializer::from_str(text);
        let read = DeserializeSeed::deserialize(self, &mut json).and_then(|()| json.end());
        read.map_err(|_| Malformed::Syntax)
    }

    /// Takes up a field of a binary coding.
    pub(super) fn set(&mut self, name: &str, item: Item) {
        let key = Key::from(name);
        if let Key::P = key {
            self.p = Some(Params::Binary(item));
        } else {
            self.put(key, item.into_value());
        }
    }

    fn put(&mut self, key: Key, value: Value) {
        match key {
            Key::F => self.f = Some(value),
            Key::P => self.p = Some(Params::Json(value)),
            Key::Rid => self.rid = Some(value),
            Key::Sec => self.sec = Some(value),
            Key::Obf => self.obf = Some(value),
            Key::ForceRsp => self.forcersp = Some(value),
            Key::Unknown(name) => self.unknown.push((name, value)),
        }
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

/// The name of a request field; the known ones are not copied.
enum Key {
    F,
    P,
    Rid,
    Sec,
    Obf,
    ForceRsp,
    Unknown(String),
}

impl From<&str> for Key {
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

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Key, E> {
        Ok(Key::from(name))
    }
}

/// Whether brackets outside strings are open more than [`MAX_DEPTH`] deep anywhere. It need not
/// know JSON: text that is not JSON is refused by the parser.
pub(crate) fn is_too_deep(bytes: &[u8]) -> bool {
    let opening = |byte: &&u8| matches!(byte, b'{' | b'[');
    if bytes.iter().filter(opening).count() <= MAX_DEPTH {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}
