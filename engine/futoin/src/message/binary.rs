//! What the binary codings have in common: values with byte strings, how they are built from
//! tokens and written according to declared types.

use std::{borrow::Cow, collections::BTreeMap};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Number, Value};

use super::fields::{Fields, MAX_DEPTH, Malformed};
use crate::iface::{Function, Kind};

/// A value as a binary coding has it: one of JSON, or a byte string.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Self>),
    Map(BTreeMap<String, Self>),
}

impl Item {
    /// The value in JSON's terms: byte strings become base64 text.
    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(flag) => Value::Bool(flag),
            Self::Number(number) => Value::Number(number),
            Self::Text(text) => Value::String(text),
            Self::Bytes(bytes) => Value::String(STANDARD.encode(bytes)),
            Self::List(items) => items.into_iter().map(Self::into_value).collect(),
            Self::Map(items) => {
                Value::Object(items.into_iter().map(|(k, v)| (k, v.into_value())).collect())
            }
        }
    }

    /// Whether byte strings are where the type has `data` or anything at all, and text is not where it
    /// has `data`: once all is JSON, nobody could tell one from the other. Of the rest of the type
    /// only the shape is looked at.
    pub(super) fn fits(&self, kind: Kind<'_>) -> bool {
        kind.alternatives().any(|kind| match self {
            Self::Bytes(_) => kind.is_data() || kind.is_any(),
            Self::Text(_) => !kind.is_data(),
            Self::List(items) => {
                let element = kind.element();
                kind.has_lists()
                    && element.is_none_or(|kind| items.iter().all(|item| item.fits(kind)))
            }
            Self::Map(items) => {
                let fits = |(name, item): (&String, &Self)| {
                    kind.field(name).is_none_or(|kind| item.fits(kind))
                };
                kind.has_maps() && items.iter().all(fits)
            }
            Self::Null | Self::Bool(_) | Self::Number(_) => true,
        })
    }
}

/// The next piece of a message.
#[derive(Debug)]
pub(super) enum Token<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    /// So many items follow, or all up to `End`.
    List(Option<u64>),
    /// So many pairs follow, or all up to `End`.
    Map(Option<u64>),
    End,
}

/// A message in pieces, none of which is larger than what is left of the message.
pub(super) trait Tokenizer<'a> {
    fn token(&mut self) -> Result<Token<'a>, Malformed>;

    /// Whether the message was read to its end.
    fn is_empty(&self) -> bool;
}

/// A number of JSON; it has no NaN and no infinity.
pub(super) fn float<'a>(number: f64) -> Result<Token<'a>, Malformed> {
    Number::from_f64(number).map(Token::Number).ok_or(Malformed::Syntax)
}

/// Reads a message that must be one map and nothing after it. Lists and maps grow as their items
/// come, whatever length they claim.
pub(super) fn read<'a>(tokens: impl Tokenizer<'a>, fields: &mut Fields) -> Result<(), Malformed> {
    let mut reader = Reader { tokens, depth: 0 };
    let Token::Map(length) = reader.tokens.token()? else {
        return Err(Malformed::Syntax);
    };
    reader.pairs(length, |name, item| fields.set(&name, item))?;
    if reader.tokens.is_empty() { Ok(()) } else { Err(Malformed::Syntax) }
}

struct Reader<T> {
    tokens: T,
    /// Lists and maps that are open.
    depth: usize,
}

impl<'a, T: Tokenizer<'a>> Reader<T> {
    fn item(&mut self, first: Token<'a>) -> Result<Item, Malformed> {
        Ok(match first {
            Token::Null => Item::Null,
            Token::Bool(flag) => Item::Bool(flag),
            Token::Number(number) => Item::Number(number),
            Token::Text(text) => Item::Text(text.into_owned()),
            Token::Bytes(bytes) => Item::Bytes(bytes.into_owned()),
            Token::List(length) => {
                let mut items = Vec::new();
                self.enter()?;
                let mut left = length;
                while let Some(first) = self.element(&mut left)? {
                    items.push(self.item(first)?);
                }
                self.depth -= 1;
                Item::List(items)
            }
            Token::Map(length) => {
                let mut items = BTreeMap::new();
                self.pairs(length, |name, item| drop(items.insert(name.into_owned(), item)))?;
                Item::Map(items)
            }
            Token::End => return Err(Malformed::Syntax),
        })
    }

    fn pairs(
        &mut self,
        length: Option<u64>,
        mut take: impl FnMut(Cow<'a, str>, Item),
    ) -> Result<(), Malformed> {
        self.enter()?;
        let mut left = length;
        while let Some(name) = self.element(&mut left)? {
            let Token::Text(name) = name else {
                return Err(Malformed::Syntax);
            };
            let first = self.tokens.token()?;
            take(name, self.item(first)?);
        }
        self.depth -= 1;
        Ok(())
    }

    fn enter(&mut self) -> Result<(), Malformed> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(Malformed::Depth) } else { Ok(()) }
    }

    /// The first token of the next item, unless there is none.
    fn element(&mut self, left: &mut Option<u64>) -> Result<Option<Token<'a>>, Malformed> {
        match left {
            Some(0) => return Ok(None),
            Some(left) => *left -= 1,
            None => {}
        }
        let token = self.tokens.token()?;
        let ended = left.is_none() && matches!(token, Token::End);
        Ok(if ended { None } else { Some(token) })
    }
}

/// Where a message is written in a binary coding.
pub(super) trait Sink {
    fn null(&mut self);
    fn bool(&mut self, flag: bool);
    fn number(&mut self, number: &Number);
    fn text(&mut self, text: &str);
    fn bytes(&mut self, bytes: &[u8]);
    /// So many items follow.
    fn list(&mut self, length: usize);
    /// So many pairs follow.
    fn map(&mut self, length: usize);
}

/// Writes a value; base64 text becomes a byte string where the type is `data`.
pub(super) fn write(sink: &mut impl Sink, value: &Value, kind: Option<Kind<'_>>) {
    let kind = kind.and_then(|kind| kind.chosen(value));
    match value {
        Value::Null => sink.null(),
        Value::Bool(flag) => sink.bool(*flag),
        Value::Number(number) => sink.number(number),
        Value::String(text) => match data(text, kind) {
            Some(bytes) => sink.bytes(&bytes),
            None => sink.text(text),
        },
        Value::Array(items) => {
            sink.list(items.len());
            let kind = kind.and_then(Kind::element);
            items.iter().for_each(|item| write(sink, item, kind));
        }
        Value::Object(map) => {
            sink.map(map.len());
            for (name, item) in map {
                sink.text(name);
                write(sink, item, kind.and_then(|kind| kind.field(name)));
            }
        }
    }
}

/// Writes the result of `function`.
pub(super) fn write_result(sink: &mut impl Sink, result: &Value, function: Option<&Function>) {
    let Value::Object(variables) = result else {
        return write(sink, result, function.and_then(Function::result_kind));
    };
    let Some(function) = function.filter(|function| function.result_kind().is_none()) else {
        return write(sink, result, function.and_then(Function::result_kind));
    };
    sink.map(variables.len());
    for (name, value) in variables {
        sink.text(name);
        write(sink, value, function.variable_kind(name));
    }
}

/// The bytes a text stands for if its type is `data`.
pub(super) fn data(text: &str, kind: Option<Kind<'_>>) -> Option<Vec<u8>> {
    kind.filter(|kind| kind.is_data()).and_then(|_| STANDARD.decode(text).ok())
}
