//! MessagePack.

use std::borrow::Cow;

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
        match first {
            0x00..=0x7f => number(first.into()),
            0x80..=0x8f => Ok(Token::Map(Some((first & 0x0f).into()))),
            0x90..=0x9f => Ok(Token::List(Some((first & 0x0f).into()))),
            0xa0..=0xbf => self.text((first & 0x1f).into()),
            0xc0 => Ok(Token::Null),
            0xc2 => Ok(Token::Bool(false)),
            0xc3 => Ok(Token::Bool(true)),
            0xc4 => self.u8().and_then(|length| self.bytes(length)),
            0xc5 => self.u16().and_then(|length| self.bytes(length)),
            0xc6 => self.u32().and_then(|length| self.bytes(length)),
            0xca => float(f32::from_be_bytes(self.array()?).into()),
            0xcb => float(f64::from_be_bytes(self.array()?)),
            0xcc => number(self.u8()?.into()),
            0xcd => number(self.u16()?.into()),
            0xce => number(self.u32()?.into()),
            0xcf => number(u64::from_be_bytes(self.array()?).into()),
            0xd0 => number(i8::from_be_bytes(self.array()?).into()),
            0xd1 => number(i16::from_be_bytes(self.array()?).into()),
            0xd2 => number(i32::from_be_bytes(self.array()?).into()),
            0xd3 => number(i64::from_be_bytes(self.array()?).into()),
            0xd9 => self.u8().and_then(|length| self.text(length)),
            0xda => self.u16().and_then(|length| self.text(length)),
            0xdb => self.u32().and_then(|length| self.text(length)),
            0xdc => Ok(Token::List(Some(self.u16()?))),
            0xdd => Ok(Token::List(Some(self.u32()?))),
            0xde => Ok(Token::Map(Some(self.u16()?))),
            0xdf => Ok(Token::Map(Some(self.u32()?))),
            0xe0..=0xff => number(i8::from_be_bytes([first]).into()),
            // reserved, and extensions
            0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => Err(Malformed::Syntax),
        }
    }

    fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Writes MessagePack in its shortest forms.
pub(crate) struct MsgpackWriter<'a>(pub(crate) &'a mut Vec<u8>);

impl MsgpackWriter<'_> {
    fn put<const N: usize>(&mut self, marker: u8, bytes: [u8; N]) {
        self.0.push(marker);
        self.0.extend_from_slice(&bytes);
    }

    /// Writes a length behind the marker of its size: `byte`, where there is one, `two` or `four`.
    fn length(&mut self, length: usize, byte: Option<u8>, two: u8, four: u8) {
        match (byte, u8::try_from(length), u16::try_from(length)) {
            (Some(marker), Ok(length), _) => self.put(marker, [length]),
            (_, _, Ok(length)) => self.put(two, length.to_be_bytes()),
            // no message is longer: a size limit comes first
            (_, _, Err(_)) => {
                self.put(four, u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
            }
        }
    }

    fn unsigned(&mut self, number: u64) {
        match (u8::try_from(number), u16::try_from(number), u32::try_from(number)) {
            (Ok(number @ ..=0x7f), ..) => self.0.push(number),
            (Ok(number), ..) => self.put(0xcc, [number]),
            (_, Ok(number), _) => self.put(0xcd, number.to_be_bytes()),
            (.., Ok(number)) => self.put(0xce, number.to_be_bytes()),
            (.., Err(_)) => self.put(0xcf, number.to_be_bytes()),
        }
    }

    fn negative(&mut self, number: i64) {
        match (i8::try_from(number), i16::try_from(number), i32::try_from(number)) {
            (Ok(number @ -32..), ..) => self.0.extend(number.to_be_bytes()),
            (Ok(number), ..) => self.put(0xd0, number.to_be_bytes()),
            (_, Ok(number), _) => self.put(0xd1, number.to_be_bytes()),
            (.., Ok(number)) => self.put(0xd2, number.to_be_bytes()),
            (.., Err(_)) => self.put(0xd3, number.to_be_bytes()),
        }
    }
}

impl Sink for MsgpackWriter<'_> {
    fn null(&mut self) {
        self.0.push(0xc0);
    }

    fn bool(&mut self, flag: bool) {
        self.0.push(0xc2 | u8::from(flag));
    }

    fn number(&mut self, number: &Number) {
        if let Some(number) = number.as_u64() {
            self.unsigned(number);
        } else if let Some(number) = number.as_i64() {
            self.negative(number);
        } else {
            self.put(0xcb, number.as_f64().unwrap_or_default().to_be_bytes());
        }
    }

    fn text(&mut self, text: &str) {
        match u8::try_from(text.len()) {
            Ok(length @ ..=31) => self.0.push(0xa0 | length),
            _ => self.length(text.len(), Some(0xd9), 0xda, 0xdb),
        }
        self.0.extend_from_slice(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len(), Some(0xc4), 0xc5, 0xc6);
        self.0.extend_from_slice(bytes);
    }

    fn list(&mut self, items: usize) {
        match u8::try_from(items) {
            Ok(items @ ..=15) => self.0.push(0x90 | items),
            _ => self.length(items, None, 0xdc, 0xdd),
        }
    }

    fn map(&mut self, pairs: usize) {
        match u8::try_from(pairs) {
            Ok(pairs @ ..=15) => self.0.push(0x80 | pairs),
            _ => self.length(pairs, None, 0xde, 0xdf),
        }
    }
}
