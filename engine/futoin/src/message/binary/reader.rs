//! Messages from tokens.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::token::{Token, Tokenizer};
use super::value::BinaryValue;
use crate::message::malformed::{MAX_DEPTH, Malformed};

/// Reads a message, which must be one map and nothing after it, and passes each field to `take`.
/// Lists and maps grow as their items come, whatever length they claim.
pub(crate) fn read<'a>(
    tokens: impl Tokenizer<'a>,
    take: impl FnMut(Cow<'a, str>, BinaryValue),
) -> Result<(), Malformed> {
    let mut reader = ValueReader { tokens, depth: 0 };
    let Token::Map(length) = reader.tokens.token()? else {
        return Err(Malformed::Syntax);
    };
    reader.pairs(length, take)?;
    if reader.tokens.is_empty() { Ok(()) } else { Err(Malformed::Syntax) }
}

struct ValueReader<T> {
    tokens: T,
    /// Lists and maps that are open.
    depth: usize,
}

impl<'a, T: Tokenizer<'a>> ValueReader<T> {
    fn item(&mut self, first: Token<'a>) -> Result<BinaryValue, Malformed> {
        Ok(match first {
            Token::Null => BinaryValue::Null,
            Token::Bool(flag) => BinaryValue::Bool(flag),
            Token::Number(number) => BinaryValue::Number(number),
            Token::Text(text) => BinaryValue::Text(text.into_owned()),
            Token::Bytes(bytes) => BinaryValue::Bytes(bytes.into_owned()),
            Token::List(length) => {
                let mut items = Vec::new();
                self.enter()?;
                let mut left = length;
                while let Some(first) = self.next_item(&mut left)? {
                    items.push(self.item(first)?);
                }
                self.depth -= 1;
                BinaryValue::List(items)
            }
            Token::Map(length) => {
                let mut items = BTreeMap::new();
                self.pairs(length, |name, item| drop(items.insert(name.into_owned(), item)))?;
                BinaryValue::Map(items)
            }
            Token::End => return Err(Malformed::Syntax),
        })
    }

    fn pairs(
        &mut self,
        length: Option<u64>,
        mut take: impl FnMut(Cow<'a, str>, BinaryValue),
    ) -> Result<(), Malformed> {
        self.enter()?;
        let mut left = length;
        while let Some(name) = self.next_item(&mut left)? {
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
    fn next_item(&mut self, left: &mut Option<u64>) -> Result<Option<Token<'a>>, Malformed> {
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
