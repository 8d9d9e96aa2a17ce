//! CBOR (RFC 8949).

use std::borrow::Cow;

use minicbor::data::Type;
use minicbor::decode::Error;
use minicbor::{Decoder, Encoder};
use serde_json::Number;

use super::sink::Sink;
use super::token::{Token, Tokenizer, float};
use crate::message::malformed::Malformed;

/// Reads CBOR, also of indefinite lengths; tags and unassigned simple values are refused.
pub(crate) struct CborTokens<'a> {
    decoder: Decoder<'a>,
}

impl<'a> CborTokens<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { decoder: Decoder::new(bytes) }
    }

    fn half(&mut self) -> Result<f64, Error> {
        let at = self.decoder.position() + 1;
        let bytes = self.decoder.input().get(at..at + 2).ok_or_else(Error::end_of_input)?;
        self.decoder.set_position(at + 2);
        Ok(half(bytes.iter().fold(0, |bits, byte| bits << 8 | u16::from(*byte))))
    }

    fn next(&mut self) -> Result<Option<Token<'a>>, Error> {
        let decoder = &mut self.decoder;
        Ok(Some(match decoder.datatype()? {
            Type::Null => {
                decoder.null()?;
                Token::Null
            }
            Type::Undefined => {
                decoder.undefined()?;
                Token::Null
            }
            Type::Bool => Token::Bool(decoder.bool()?),
            Type::U8 | Type::U16 | Type::U32 | Type::U64 => Token::Number(decoder.u64()?.into()),
            Type::I8 | Type::I16 | Type::I32 | Type::I64 | Type::Int => {
                // no value holds a lower one
                return Ok(i64::try_from(decoder.int()?).ok().map(|it| Token::Number(it.into())));
            }
            Type::F16 => return Ok(float(self.half()?).ok()),
            Type::F32 => return Ok(float(decoder.f32()?.into()).ok()),
            Type::F64 => return Ok(float(decoder.f64()?).ok()),
            Type::String => Token::Text(Cow::Borrowed(decoder.str()?)),
            Type::Bytes => Token::Bytes(Cow::Borrowed(decoder.bytes()?)),
            Type::StringIndef => {
                Token::Text(Cow::Owned(decoder.str_iter()?.collect::<Result<_, _>>()?))
            }
            Type::BytesIndef => {
                let chunks: Vec<&[u8]> = decoder.bytes_iter()?.collect::<Result<_, _>>()?;
                Token::Bytes(Cow::Owned(chunks.concat()))
            }
            Type::Array | Type::ArrayIndef => Token::List(decoder.array()?),
            Type::Map | Type::MapIndef => Token::Map(decoder.map()?),
            Type::Break => {
                decoder.set_position(decoder.position() + 1);
                Token::End
            }
            Type::Tag | Type::Simple | Type::Unknown(_) => return Ok(None),
        }))
    }
}

/// A number of 16 bits (IEEE 754, binary16).
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction * f64::powi(2.0, -24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (fraction + 1024.0) * f64::powi(2.0, exponent - 25),
    };
    if bits >> 15 == 0 { size } else { -size }
}

impl<'a> Tokenizer<'a> for CborTokens<'a> {
    fn token(&mut self) -> Result<Token<'a>, Malformed> {
        self.next().ok().flatten().ok_or(Malformed::Syntax)
    }

    fn is_empty(&self) -> bool {
        self.decoder.position() == self.decoder.input().len()
    }
}

/// Writes CBOR in its shortest forms, with definite lengths.
pub(crate) struct CborWriter<'a>(pub(crate) &'a mut Vec<u8>);

impl CborWriter<'_> {
    fn write<E>(
        &mut self,
        put: impl for<'e, 'v> FnOnce(&'e mut Encoder<&'v mut Vec<u8>>) -> Result<(), E>,
    ) {
        let result = put(&mut Encoder::new(self.0));
        debug_assert!(result.is_ok(), "a vector takes all bytes");
    }
}

impl Sink for CborWriter<'_> {
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
