//! The pieces of a message in a binary coding.

use std::borrow::Cow;

use serde_json::Number;

use crate::message::malformed::Malformed;

/// The next piece of a message.
#[derive(Debug)]
pub(crate) enum Token<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    /// This number of items follows, or all up to `End`.
    List(Option<u64>),
    /// This number of pairs follows, or all up to `End`.
    Map(Option<u64>),
    End,
}

/// A message in pieces, none of which is larger than the rest of the message.
pub(crate) trait Tokenizer<'a> {
    fn token(&mut self) -> Result<Token<'a>, Malformed>;

    /// Whether the message is read to its end.
    fn is_empty(&self) -> bool;
}

/// A number of JSON, which has neither NaN nor infinity.
pub(crate) fn float<'a>(number: f64) -> Result<Token<'a>, Malformed> {
    Number::from_f64(number).map(Token::Number).ok_or(Malformed::Syntax)
}
