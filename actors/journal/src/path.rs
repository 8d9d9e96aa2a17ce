//! Where in a flow something happened.

use std::borrow::Borrow;
use std::fmt::{self, Write};
use std::iter;
use std::str::FromStr;
use std::sync::Arc;

use minicbor::data::Type;
use minicbor::{Decode, Decoder, Encode, Encoder};

/// The place of a step in its flow: the template, then the names of steps from the outside in, each
/// with the iteration, key or branch that it is in. Two steps of a flow never share one, and it stays
/// the same when steps run in another order or others are added beside it.
///
/// Its text has a mark before each part: `/` a step, `!` an attempt of it, `#` an iteration, `@` a key, `|` a branch,
/// and `~` for the undo of the step before it. Marks, `%` and control characters inside of names are written as `%` and
/// two hexadecimal digits for each byte, so different paths have different texts.
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
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Debug)]
#[debug("{_0:?}")]
pub struct Path(Arc<str>);

/// One part of a [`Path`]; `T` is a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathPart<T = String> {
    /// The template: the first part, and only that.
    Template(T),
    /// A step, by its name.
    Step(T),
    /// The number of the attempt of the step before it, if that has steps inside and there are
    /// several.
    Attempt(u32),
    /// The number of the iteration of the loop before it, from 0.
    Iteration(u64),
    /// The item of the collection before it that has this key.
    Key(T),
    /// The branch of the parallel step before it that has this key.
    Branch(T),
    /// The undo of the step before it.
    Undo,
}

const MARKS: [char; 6] = ['/', '!', '#', '@', '|', '~'];

/// Room for the parts that are put behind a path: most names are shorter.
const USUAL_PARTS: usize = 32;

impl<T: AsRef<str>> PathPart<T> {
    /// Writes it behind the text of the outer parts; nothing for a template.
    fn write(&self, text: &mut String) {
        // a string can always be written to
        let _ = match self {
            Self::Template(_) => Ok(()),
            Self::Step(name) => named(text, '/', name),
            Self::Attempt(number) => write!(text, "!{number}"),
            Self::Iteration(index) => write!(text, "#{index}"),
            Self::Key(key) => named(text, '@', key),
            Self::Branch(key) => named(text, '|', key),
            Self::Undo => text.write_char('~'),
        };
    }
}

fn named(text: &mut String, mark: char, name: &impl AsRef<str>) -> fmt::Result {
    text.push(mark);
    escape(text, name.as_ref());
    Ok(())
}

impl Path {
    /// The flow of a template as a whole.
    #[must_use]
    pub fn template(name: &str) -> Self {
        let mut text = String::new();
        escape(&mut text, name);
        Self(text.into())
    }

    /// A step inside.
    #[must_use]
    pub fn step(&self, name: &str) -> Self {
        self.inside([PathPart::Step(name)])
    }

    /// An attempt of this step with steps inside, from 1.
    #[must_use]
    pub fn attempt(&self, number: u32) -> Self {
        self.inside([PathPart::Attempt::<&str>(number)])
    }

    /// An iteration of this loop, from 0.
    #[must_use]
    pub fn iteration(&self, index: u64) -> Self {
        self.inside([PathPart::Iteration::<&str>(index)])
    }

    /// The item of this collection that has the key.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.inside([PathPart::Key(key)])
    }

    /// A branch of this parallel step.
    #[must_use]
    pub fn branch(&self, key: &str) -> Self {
        self.inside([PathPart::Branch(key)])
    }

    /// The undo of this step.
    #[must_use]
    pub fn undo(&self) -> Self {
        self.inside([PathPart::Undo::<&str>])
    }

    /// The path further inside by all of these parts: one text is made, and not one for each part. A
    /// path has one template, so another one among the parts is left out.
    #[must_use]
    pub fn inside<T: AsRef<str>>(&self, parts: impl IntoIterator<Item = PathPart<T>>) -> Self {
        let mut text = String::with_capacity(self.0.len() + USUAL_PARTS);
        text.push_str(&self.0);
        for part in parts {
            part.write(&mut text);
        }
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

    /// The texts of the paths that it is within, from the outside in and with itself: each with the rest behind it.
    pub fn outer(&self) -> impl Iterator<Item = (&str, &str)> {
        let ends = self.0.match_indices(MARKS).map(|(end, _)| end);
        ends.chain([self.0.len()]).map(|end| self.0.split_at(end))
    }

    /// Whether it is, or is inside of, what undoes a step.
    #[must_use]
    pub fn is_of_undo(&self) -> bool {
        self.0.contains('~')
    }

    /// Whether it is an item of a collection, and not a step in one.
    #[must_use]
    pub fn is_item(&self) -> bool {
        self.0.rfind(MARKS).is_some_and(|at| self.0[at..].starts_with('@'))
    }

    /// Its parts, from the outside in.
    pub fn parts(&self) -> impl Iterator<Item = PathPart> + '_ {
        // the text was checked when it was read
        split(&self.0).filter_map(|(mark, text)| part(mark, text).ok())
    }
}

impl Borrow<str> for Path {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text is no [`Path`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no path, because of the part `{part}`")]
pub struct ParsePathError {
    /// The part that cannot be.
    part: String,
}

impl FromStr for Path {
    type Err = ParsePathError;

    fn from_str(text: &str) -> Result<Self, ParsePathError> {
        // each path has one text, or comparing texts would not compare paths
        let mut again = String::with_capacity(text.len());
        for (mark, name) in split(text) {
            let before = again.len();
            let is_right = part(mark, name).is_ok_and(|part| {
                if let PathPart::Template(name) = &part {
                    escape(&mut again, name);
                } else {
                    part.write(&mut again);
                }
                text.get(before..again.len()) == Some(&again[before..])
            });
            if !is_right {
                return Err(ParsePathError { part: name.to_owned() });
            }
        }
        if again.len() != text.len() {
            return Err(ParsePathError { part: text[again.len()..].to_owned() });
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

/// Whether a letter is written as it is.
fn is_plain(letter: char) -> bool {
    !MARKS.contains(&letter) && letter != '%' && !letter.is_control()
}

/// Writes a name, with the letters that mean something in a path as bytes.
fn escape(text: &mut String, name: &str) {
    // most names are plain, and each record has a path
    let is_usual =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'.' | b':' | b'-' | b'_');
    if name.bytes().all(is_usual) || name.chars().all(is_plain) {
        return text.push_str(name);
    }
    for letter in name.chars() {
        if is_plain(letter) {
            text.push(letter);
            continue;
        }
        for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
            // a string can always be written to
            let _ = write!(text, "%{byte:02X}");
        }
    }
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

fn part(mark: Option<char>, text: &str) -> Result<PathPart, ()> {
    let Some(mark) = mark else { return Ok(PathPart::Template(unescaped(text)?)) };
    Ok(match mark {
        '/' => PathPart::Step(unescaped(text)?),
        '@' => PathPart::Key(unescaped(text)?),
        '|' => PathPart::Branch(unescaped(text)?),
        '!' => PathPart::Attempt(text.parse().map_err(|_| ())?),
        '#' => PathPart::Iteration(text.parse().map_err(|_| ())?),
        '~' if text.is_empty() => PathPart::Undo,
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
            let parts: Vec<PathPart> = path.parts().collect();
            let name = || name.to_owned();
            let expected = [
                PathPart::Template(name()),
                PathPart::Step(name()),
                PathPart::Attempt(2),
                PathPart::Key(name()),
                PathPart::Iteration(7),
                PathPart::Branch(name()),
                PathPart::Undo,
            ];
            assert_eq!(parts, expected, "{path}");
            assert_eq!(path.as_str().parse(), Ok(path.clone()));
            assert!(path.as_str().chars().all(|letter| !letter.is_control()), "{path}");
        }
    }

    #[test]
    fn several_parts_at_once_make_the_path_that_each_alone_makes() {
        let order = Path::template("t");
        let parts = [
            PathPart::Step("a/b"),
            PathPart::Attempt(2),
            PathPart::Key("k"),
            PathPart::Branch("1"),
            PathPart::Undo,
        ];
        let one_by_one = order.step("a/b").attempt(2).key("k").branch("1").undo();
        assert_eq!(order.inside(parts), one_by_one);
        assert_eq!(order.inside::<&str>([]), order);
        assert_eq!(order.inside([PathPart::Template("x"), PathPart::Step("a")]), order.step("a"));
    }

    #[test]
    fn a_path_tells_whether_it_is_of_an_undo_or_of_an_item() {
        let step = Path::template("t~@").step("~").branch("@");
        assert!(!step.is_of_undo() && !step.is_item());
        assert!(step.undo().step("a").is_of_undo());
        assert!(step.key("a").is_item() && !step.key("a").step("b").is_item());
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
