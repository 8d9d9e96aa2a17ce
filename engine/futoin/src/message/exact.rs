//! JSON as values that are exact: what a value would alter or drop is noted, so that the message is refused.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use crate::iface::clipped;

/// Integers from here on may be read as `f64`.
const WIDE: f64 = i64::MAX as f64;

/// What is wrong with a message that can be read.
#[derive(Debug, Default)]
pub(super) struct Flaws {
    /// A key that is there twice, as far as its path is known, and the level of the map or list to which that goes.
    twice: Option<(String, usize)>,
    /// A number that may be an integer which was rounded.
    is_doubtful: bool,
}

impl Flaws {
    /// A map at this level has the key twice.
    #[cold]
    pub(super) fn twice(&mut self, level: usize, key: &str) {
        self.twice.get_or_insert_with(|| (clipped(key).to_owned(), level));
    }

    /// A value was read that has this place in a map or list at this level.
    pub(super) fn read(&mut self, level: usize, place: impl fmt::Display) {
        if let Some((path, at)) = &mut self.twice
            && *at == level + 1
        {
            (*path, *at) = (format!("{place}.{path}"), level);
        }
    }

    /// The refusal of the message, whose text this is if it is JSON.
    pub(super) fn refusal(self, text: &str) -> Option<String> {
        if let Some((path, _)) = self.twice {
            return Some(format!("Invalid message: duplicate key {path}"));
        }
        let number = self.is_doubtful.then(|| altered_integer(text)).flatten()?;
        Some(format!("Invalid message: the number {} cannot be kept exactly", clipped(&number)))
    }
}

/// Reads a JSON value that no [`Flaws`] have.
pub(crate) fn read(text: &str) -> Option<Value> {
    let mut flaws = Flaws::default();
    let mut json = serde_json::Deserializer::from_str(text);
    let value = ExactValue { flaws: &mut flaws, level: 0 }.deserialize(&mut json).ok()?;
    json.end().ok()?;
    flaws.refusal(text).is_none().then_some(value)
}

/// Reads a JSON value, and notes its flaws.
pub(super) struct ExactValue<'a> {
    pub(super) flaws: &'a mut Flaws,
    /// How many maps and lists are around it.
    pub(super) level: usize,
}

impl ExactValue<'_> {
    fn inner(&mut self) -> ExactValue<'_> {
        ExactValue { flaws: self.flaws, level: self.level + 1 }
    }
}

impl<'de> DeserializeSeed<'de> for ExactValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ExactValue<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        self.flaws.is_doubtful |= number.abs() >= WIDE;
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(self.inner())? {
            self.flaws.read(self.level, items.len());
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Value, A::Error> {
        let mut items = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(self.inner())?;
            self.flaws.read(self.level, &name);
            match items.entry(name) {
                Entry::Vacant(vacant) => _ = vacant.insert(value),
                Entry::Occupied(known) => self.flaws.twice(self.level, known.key()),
            }
        }
        Ok(Value::Object(items))
    }
}

/// The first integer in a JSON text that no value holds.
fn altered_integer(text: &str) -> Option<String> {
    let text = text.replace(r"\\", "").replace(r#"\""#, "");
    let is_part = |sign: char| matches!(sign, '-' | '+' | '.' | 'e' | 'E' | '0'..='9');
    let outside_strings = text.split('"').step_by(2);
    let mut numbers = outside_strings.flat_map(|part| part.split(|sign| !is_part(sign)));
    let is_altered = |number: &&str| {
        let is_held = number.parse::<u64>().is_ok() || number.parse::<i64>().is_ok();
        let is_integer = !is_held && !number.contains(['.', 'e', 'E']);
        is_integer && number.parse().is_ok_and(|read: f64| format!("{read:.0}") != *number)
    };
    numbers.find(is_altered).map(str::to_owned)
}
