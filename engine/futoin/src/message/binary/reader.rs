//! Messages from tokens.

use std::collections::BTreeMap;

use super::token::{Token, Tokenizer};
use super::value::BinaryValue;
use crate::message::exact::Flaws;
use crate::message::malformed::{MAX_DEPTH, Malformed};

/// Reads a message, which must be one map and nothing after it, and passes each field to `take`, which returns whether
/// it is new. Lists and maps grow as their items come, whatever length they claim.
pub(crate) fn read<'a>(
    tokens: impl Tokenizer<'a>,
    flaws: &mut Flaws,
    take: impl FnMut(&str, BinaryValue) -> bool,
) -> Result<(), Malformed> {
    let mut reader = ValueReader { tokens, flaws, depth: 0 };
    let Token::Map(length) = reader.tokens.token()? else {
        return Err(Malformed::Syntax);
    };
    reader.pairs(length, take)?;
    if reader.tokens.is_empty() { Ok(()) } else { Err(Malformed::Syntax) }
}

struct ValueReader<'f, T> {
    tokens: T,
    flaws: &'f mut Flaws,
    /// Lists and maps that are open.
    depth: usize,
}

impl<'a, T: Tokenizer<'a>> ValueReader<'_, T> {
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
                    let item = self.item(first)?;
                    self.flaws.read(self.depth, items.len());
                    items.push(item);
                }
                self.depth -= 1;
                BinaryValue::List(items)
            }
            Token::Map(length) => {
                let mut items = BTreeMap::new();
                self.pairs(length, |name, item| items.insert(name.to_owned(), item).is_none())?;
                BinaryValue::Map(items)
            }
            Token::End => return Err(Malformed::Syntax),
        })
    }

    fn pairs(
        &mut self,
        length: Option<u64>,
        mut take: impl FnMut(&str, BinaryValue) -> bool,
    ) -> Result<(), Malformed> {
        self.enter()?;
        let mut left = length;
        while let Some(name) = self.next_item(&mut left)? {
            let Token::Text(name) = name else {
                return Err(Malformed::Syntax);
            };
            let first = self.tokens.token()?;
            let item = self.item(first)?;
            self.flaws.read(self.depth, &name);
            if !take(&name, item) {
                self.flaws.twice(self.depth, &name);
            }
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
