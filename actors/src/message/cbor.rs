//! CBOR (RFC 8949).

use std::borrow::Cow;

use minicbor::{
    Decoder, Encoder,
    data::{Int, Token as Cbor},
};
use serde_json::Number;

use super::{
    binary::{Sink, Token, Tokenizer, float},
    fields::Malformed,
};

/// Reads CBOR, also of indefinite lengths; tags and unassigned simple values are refused.
pub(super) struct Tokens<'a> {
    decoder: Decoder<'a>,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { decoder: Decoder::new(bytes) }
    }

    fn next(&mut self) -> Result<Cbor<'a>, Malformed> {
        self.decoder.decode().map_err(|_| Malformed::Syntax)
    }

    /// A text in chunks, after its first byte.
    fn text(&mut self) -> Result<Token<'a>, Malformed> {
        let mut whole = String::new();
        loop {
            let token = self.next()?;
            if let Cbor::String(chunk) = token {
                whole.push_str(chunk);
            } else if token == Cbor::Break {
                return Ok(Token::Text(Cow::Owned(whole)));
            } else {
                return Err(Malformed::Syntax);
            }
        }
    }

    /// A byte string in chunks, after its first byte.
    fn bytes(&mut self) -> Result<Token<'a>, Malformed> {
        let mut whole = Vec::new();
        loop {
            let token = self.next()?;
            if let Cbor::Bytes(chunk) = token {
                whole.extend_from_slice(chunk);
            } else if token == Cbor::Break {
                return Ok(Token::Bytes(Cow::Owned(whole)));
            } else {
                return Err(Malformed::Syntax);
            }
        }
    }
}

/// A negative integer below 64 bits becomes a float, as JSON has it.
fn integer(number: Int) -> Number {
    if let Ok(number) = i64::try_from(number) {
        return number.into();
    }
    let wide = i128::from(number);
    let parsed = wide.to_string().parse::<f64>().ok();
    parsed.and_then(Number::from_f64).unwrap_or_else(|| 0.into())
}

impl<'a> Tokenizer<'a> for Tokens<'a> {
    fn token(&mut self) -> Result<Token<'a>, Malformed> {
        let number = |number: Number| Ok(Token::Number(number));
        match self.next()? {
            Cbor::Null | Cbor::Undefined => Ok(Token::Null),
            Cbor::Bool(flag) => Ok(Token::Bool(flag)),
            Cbor::U8(value) => number(value.into()),
            Cbor::U16(value) => number(value.into()),
            Cbor::U32(value) => number(value.into()),
            Cbor::U64(value) => number(value.into()),
            Cbor::I8(value) => number(value.into()),
            Cbor::I16(value) => number(value.into()),
            Cbor::I32(value) => number(value.into()),
            Cbor::I64(value) => number(value.into()),
            Cbor::Int(value) => number(integer(value)),
            Cbor::F16(value) | Cbor::F32(value) => float(value.into()),
            Cbor::F64(value) => float(value),
            Cbor::String(text) => Ok(Token::Text(Cow::Borrowed(text))),
            Cbor::Bytes(bytes) => Ok(Token::Bytes(Cow::Borrowed(bytes))),
            Cbor::BeginString => self.text(),
            Cbor::BeginBytes => self.bytes(),
            Cbor::Array(length) => Ok(Token::List(Some(length))),
            Cbor::BeginArray => Ok(Token::List(None)),
            Cbor::Map(length) => Ok(Token::Map(Some(length))),
            Cbor::BeginMap => Ok(Token::Map(None)),
            Cbor::Break => Ok(Token::End),
            Cbor::Tag(_) | Cbor::Simple(_) => Err(Malformed::Syntax),
        }
    }

    fn is_empty(&self) -> bool {
        self.decoder.position() == self.decoder.input().len()
    }
}

/// Writes CBOR in its shortest forms, with definite lengths.
pub(super) struct Writer<'a>(pub(super) &'a mut Vec<u8>);

impl Writer<'_> {
    fn write<E>(
        &mut self,
        put: impl for<'e, 'v> FnOnce(&'e mut Encoder<&'v mut Vec<u8>>) -> Result<(), E>,
    ) {
        let result = put(&mut Encoder::new(self.0));
        debug_assert!(result.is_ok(), "a vector takes all bytes");
    }
}

impl Sink for Writer<'_> {
    fn null(&mut self) {
        self.write(|to| to.null().map(drop));
    }

    fn bool(&mut self, flag: bool) {
        self.write(|to| to.bool(flag).map(drop));
    }

    fn number(&mut self, number: &Number) {
        if let Some(number) = number.as_u64() {
            self.write(|to| to.u64(number).map(drop));
        } else if let Some(number) = number.as_i64() {
            self.write(|to| to.i64(number).map(drop));
        } else {
            self.write(|to| to.f64(number.as_f64().unwrap_or_default()).map(drop));
        }
    }

    fn text(&mut self, text: &str) {
        self.write(|to| to.str(text).map(drop));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.write(|to| to.bytes(bytes).map(drop));
    }

    fn list(&mut self, items: usize) {
        self.write(|to| to.array(items as u64).map(drop));
    }

    fn map(&mut self, pairs: usize) {
        self.write(|to| to.map(pairs as u64).map(drop));
    }
}
