//! MessagePack.

use std::borrow::Cow;

use rmp::{Marker, encode};
use serde_json::Number;

use super::sink::Sink;
use super::token::{Token, Tokenizer, float};
use crate::message::malformed::Malformed;

/// Reads MessagePack; extension types are refused.
pub(crate) struct MsgpackTokens<'a> {
    rest: &'a [u8],
}

impl<'a> MsgpackTokens<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed::Syntax)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed::Syntax)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Malformed::Syntax)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u64, Malformed> {
        self.array().map(|bytes| u8::from_be_bytes(bytes).into())
    }

    fn u16(&mut self) -> Result<u64, Malformed> {
        self.array().map(|bytes| u16::from_be_bytes(bytes).into())
    }

    fn u32(&mut self) -> Result<u64, Malformed> {
        self.array().map(|bytes| u32::from_be_bytes(bytes).into())
    }

    fn text(&mut self, length: u64) -> Result<Token<'a>, Malformed> {
        let text = str::from_utf8(self.take(length)?).map_err(|_| Malformed::Syntax)?;
        Ok(Token::Text(Cow::Borrowed(text)))
    }

    fn bytes(&mut self, length: u64) -> Result<Token<'a>, Malformed> {
        Ok(Token::Bytes(Cow::Borrowed(self.take(length)?)))
    }
}

impl<'a> Tokenizer<'a> for MsgpackTokens<'a> {
    fn token(&mut self) -> Result<Token<'a>, Malformed> {
        let number = |number: Number| Ok(Token::Number(number));
        let [first] = self.array()?;
        match Marker::from_u8(first) {
            Marker::Null => Ok(Token::Null),
            Marker::True => Ok(Token::Bool(true)),
            Marker::False => Ok(Token::Bool(false)),
            Marker::FixPos(value) => number(value.into()),
            Marker::FixNeg(value) => number(value.into()),
            Marker::U8 => number(self.u8()?.into()),
            Marker::U16 => number(self.u16()?.into()),
            Marker::U32 => number(self.u32()?.into()),
            Marker::U64 => number(u64::from_be_bytes(self.array()?).into()),
            Marker::I8 => number(i8::from_be_bytes(self.array()?).into()),
            Marker::I16 => number(i16::from_be_bytes(self.array()?).into()),
            Marker::I32 => number(i32::from_be_bytes(self.array()?).into()),
            Marker::I64 => number(i64::from_be_bytes(self.array()?).into()),
            Marker::F32 => float(f32::from_be_bytes(self.array()?).into()),
            Marker::F64 => float(f64::from_be_bytes(self.array()?)),
            Marker::FixStr(length) => self.text(length.into()),
            Marker::Str8 => self.u8().and_then(|length| self.text(length)),
            Marker::Str16 => self.u16().and_then(|length| self.text(length)),
            Marker::Str32 => self.u32().and_then(|length| self.text(length)),
            Marker::Bin8 => self.u8().and_then(|length| self.bytes(length)),
            Marker::Bin16 => self.u16().and_then(|length| self.bytes(length)),
            Marker::Bin32 => self.u32().and_then(|length| self.bytes(length)),
            Marker::FixArray(length) => Ok(Token::List(Some(length.into()))),
            Marker::Array16 => Ok(Token::List(Some(self.u16()?))),
            Marker::Array32 => Ok(Token::List(Some(self.u32()?))),
            Marker::FixMap(length) => Ok(Token::Map(Some(length.into()))),
            Marker::Map16 => Ok(Token::Map(Some(self.u16()?))),
            Marker::Map32 => Ok(Token::Map(Some(self.u32()?))),
            Marker::FixExt1
            | Marker::FixExt2
            | Marker::FixExt4
            | Marker::FixExt8
            | Marker::FixExt16
            | Marker::Ext8
            | Marker::Ext16
            | Marker::Ext32
            | Marker::Reserved => Err(Malformed::Syntax),
        }
    }

    fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Writes MessagePack in its shortest forms.
pub(crate) struct MsgpackWriter<'a>(pub(crate) &'a mut Vec<u8>);

/// A vector takes all bytes.
fn written<T, E>(result: Result<T, E>) {
    debug_assert!(result.is_ok(), "a vector takes all bytes");
}

/// No message is that long: a size limit comes first.
fn length(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

impl Sink for MsgpackWriter<'_> {
    fn null(&mut self) {
        written(encode::write_nil(self.0));
    }

    fn bool(&mut self, flag: bool) {
        written(encode::write_bool(self.0, flag));
    }

    fn number(&mut self, number: &Number) {
        if let Some(number) = number.as_u64() {
            written(encode::write_uint(self.0, number));
        } else if let Some(number) = number.as_i64() {
            written(encode::write_sint(self.0, number));
        } else {
            written(encode::write_f64(self.0, number.as_f64().unwrap_or_default()));
        }
    }

    fn text(&mut self, text: &str) {
        written(encode::write_str(self.0, text));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        written(encode::write_bin(self.0, bytes));
    }

    fn list(&mut self, items: usize) {
        written(encode::write_array_len(self.0, length(items)));
    }

    fn map(&mut self, pairs: usize) {
        written(encode::write_map_len(self.0, length(pairs)));
    }
}
