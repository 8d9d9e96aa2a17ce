//! Where in a flow something happened.

use std::fmt;
use std::iter;
use std::str::FromStr;
use std::sync::Arc;

use minicbor::data::Type;
use minicbor::{Decode, Decoder, Encode, Encoder};

/// The place of a step in its flow: the template, then the names of steps from the outside in, each
/// with the iteration, key or branch that it is in. Two steps of a flow never share one, and it stays
/// the same when steps run in another order or others are added beside it.
///
/// Its text has a mark before each part: `/` a step, `!` an attempt of it, `#` an iteration, `@` a key,
/// `|` a branch, and `~` for the undo of what is before it. Marks, `%` and control characters inside of names are
/// written as `%` and two hexadecimal digits for each byte, so different paths have different texts.
///
/// ```
/// use asyncsteps_journal::Path;
///
/// let order = Path::template("demo.shop:order");
/// let label = order.step("items").key("sku/1").step("print").branch("label");
/// assert_eq!(label.as_str(), "demo.shop:order/items@sku%2F1/print|label");
/// assert_eq!(label.as_str().parse(), Ok(label.clone()));
/// assert!(label.is_within(&order.step("items")));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Arc<str>);

/// One part of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The template: the first part, and only that.
    Template(String),
    /// A step, by its name.
    Step(String),
    /// The so many-th attempt of the step before it, if that has steps inside and there are several.
    Attempt(u32),
    /// The so many-th iteration of the loop before it, from 0.
    Iteration(u64),
    /// The item of the collection before it that has this key.
    Key(String),
    /// The branch of the parallel step before it that has this key.
    Branch(String),
    /// What undoes the step before it.
    Undo,
}

const MARKS: [char; 6] = ['/', '!', '#', '@', '|', '~'];

impl Path {
    /// The flow of a template as a whole.
    #[must_use]
    pub fn template(name: &str) -> Self {
        Self(escaped(name).collect::<String>().into())
    }

    /// A step inside.
    #[must_use]
    pub fn step(&self, name: &str) -> Self {
        self.with('/', name)
    }

    /// An attempt of this step with steps inside, from 1.
    #[must_use]
    pub fn attempt(&self, number: u32) -> Self {
        self.with('!', &number.to_string())
    }

    /// An iteration of this loop, from 0.
    #[must_use]
    pub fn iteration(&self, index: u64) -> Self {
        self.with('#', &index.to_string())
    }

    /// The item of this collection that has the key.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.with('@', key)
    }

    /// A branch of this parallel step.
    #[must_use]
    pub fn branch(&self, key: &str) -> Self {
        self.with('|', key)
    }

    /// What undoes this step.
    #[must_use]
    pub fn undo(&self) -> Self {
        self.with('~', "")
    }

    fn with(&self, mark: char, name: &str) -> Self {
        let mut text = String::with_capacity(self.0.len() + mark.len_utf8() + name.len());
        text.push_str(&self.0);
        text.push(mark);
        text.extend(escaped(name));
        Self(text.into())
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is `outer`, or somewhere inside of it.
    #[must_use]
    pub fn is_within(&self, outer: &Self) -> bool {
        let rest = self.0.strip_prefix(outer.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(MARKS))
    }

    /// Its parts, from the outside in.
    pub fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        // the text was checked when it was read
        split(&self.0).filter_map(|(mark, text)| part(mark, text).ok())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A text is no [`Path`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no path, because of the part `{part}`")]
pub struct NotPath {
    /// The part that cannot be.
    part: String,
}

impl FromStr for Path {
    type Err = NotPath;

    fn from_str(text: &str) -> Result<Self, NotPath> {
        let wrong = |text: &str| NotPath { part: text.to_owned() };
        for (mark, text) in split(text) {
            let part = part(mark, text).map_err(|()| wrong(text))?;
            // each path has one text, or comparing texts would not compare paths
            let again: String = match part {
                Part::Template(name) | Part::Step(name) | Part::Key(name) | Part::Branch(name) => {
                    escaped(&name).collect()
                }
                Part::Attempt(number) => number.to_string(),
                Part::Iteration(index) => index.to_string(),
                Part::Undo => String::new(),
            };
            if again != text {
                return Err(wrong(text));
            }
        }
        Ok(Self(text.into()))
    }
}

impl<C> Encode<C> for Path {
    fn encode<W: minicbor::encode::Write>(
        &self,
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.str(self.as_str())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Path {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        if decoder.datatype()? != Type::String {
            return Err(minicbor::decode::Error::message("a path is a text"));
        }
        decoder.str()?.parse().map_err(minicbor::decode::Error::message)
    }
}

/// The characters of a name, with those that mean something in a path written as bytes.
fn escaped(name: &str) -> impl Iterator<Item = char> + '_ {
    name.chars().flat_map(|letter| {
        let mut bytes = [0; 4];
        let is_special = MARKS.contains(&letter) || letter == '%' || letter.is_control();
        let special = if is_special { letter.encode_utf8(&mut bytes).len() } else { 0 };
        let digits = bytes.into_iter().take(special).flat_map(|byte| {
            let digit = |half: u8| char::from(b"0123456789ABCDEF"[usize::from(half)]);
            ['%', digit(byte >> 4), digit(byte & 15)]
        });
        digits.chain((!is_special).then_some(letter))
    })
}

/// The name that was escaped.
fn unescaped(text: &str) -> Result<String, ()> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).ok_or(())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| ())?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| ())
}

/// The parts of a text: each with its mark, the first one without.
fn split(text: &str) -> impl Iterator<Item = (Option<char>, &str)> {
    let mut rest = Some((None, text));
    iter::from_fn(move || {
        let (mark, text) = rest.take()?;
        let end = text.find(MARKS).unwrap_or(text.len());
        let (part, after) = text.split_at(end);
        let mut letters = after.chars();
        rest = letters.next().map(|mark| (Some(mark), letters.as_str()));
        Some((mark, part))
    })
}

fn part(mark: Option<char>, text: &str) -> Result<Part, ()> {
    let Some(mark) = mark else { return Ok(Part::Template(unescaped(text)?)) };
    Ok(match mark {
        '/' => Part::Step(unescaped(text)?),
        '@' => Part::Key(unescaped(text)?),
        '|' => Part::Branch(unescaped(text)?),
        '!' => Part::Attempt(text.parse().map_err(|_| ())?),
        '#' => Part::Iteration(text.parse().map_err(|_| ())?),
        '~' if text.is_empty() => Part::Undo,
        _ => return Err(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_read_back() {
        let names = ["", "a", "a/b", "#1", "100%", "%2F", "a|b~c@d", "ä\n\u{0}\u{85}", "😀"];
        for name in names {
            let path = Path::template(name)
                .step(name)
                .attempt(2)
                .key(name)
                .iteration(7)
                .branch(name)
                .undo();
            let parts: Vec<Part> = path.parts().collect();
            let name = || name.to_owned();
            let expected = [
                Part::Template(name()),
                Part::Step(name()),
                Part::Attempt(2),
                Part::Key(name()),
                Part::Iteration(7),
                Part::Branch(name()),
                Part::Undo,
            ];
            assert_eq!(parts, expected, "{path}");
            assert_eq!(path.as_str().parse(), Ok(path.clone()));
            assert!(path.as_str().chars().all(|letter| !letter.is_control()), "{path}");
        }
    }

    #[test]
    fn a_text_that_no_path_has_is_refused() {
        let texts = [
            "t/a%", "t/a%2", "t!x", "t!01", "t/%2f", "t/%41", "t/%FF", "t/%+1", "t#", "t#-1",
            "t#01", "t~x", "t/\n",
        ];
        for text in texts {
            assert!(text.parse::<Path>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn within_is_by_parts_and_not_by_letters() {
        let outer = Path::template("t").step("pay");
        assert!(outer.is_within(&outer));
        assert!(outer.step("a").is_within(&outer));
        assert!(outer.undo().is_within(&outer));
        assert!(!Path::template("t").step("payment").is_within(&outer));
        assert!(!Path::template("t").is_within(&outer));
    }
}
