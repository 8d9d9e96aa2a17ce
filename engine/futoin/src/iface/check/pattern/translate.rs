//! ECMAScript's patterns without flags in the syntax of `regex` and `fancy-regex`.

use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

use super::units::unit;

const DIGIT: &str = "0-9";
const WORD: &str = "0-9A-Za-z_";
/// WhiteSpace and LineTerminator of ECMAScript (§12.2, §12.3).
const SPACE: &str =
    r"\t-\r\x20\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}";
const NO_LINE: &str = r"[^\n\r\x{2028}\x{2029}]";

/// A pattern translated.
#[derive(Debug)]
pub(crate) struct Translated {
    pub(crate) pattern: String,
    /// Whether `regex` knows all of it.
    pub(crate) is_regular: bool,
}

/// Translates a pattern that ECMAScript accepts.
pub(crate) fn translate(pattern: &str) -> Result<Translated, String> {
    let regular = Translator::new(pattern, false).whole()?;
    if regular.is_regular { Ok(regular) } else { Translator::new(pattern, true).whole() }
}

struct Translator<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
    /// Names of the capturing groups in their order; empty for those without.
    groups: Vec<String>,
    /// Something was seen that is not regular.
    irregular: bool,
    /// The target knows lookaround and backreferences.
    backtracking: bool,
}

impl<'a> Translator<'a> {
    fn new(pattern: &'a str, backtracking: bool) -> Self {
        let rest = pattern.chars().peekable();
        let groups = groups(pattern);
        Self { rest, out: String::new(), groups, irregular: false, backtracking }
    }

    fn whole(mut self) -> Result<Translated, String> {
        while let Some(char) = self.rest.next() {
            self.term(char)?;
        }
        Ok(Translated { pattern: self.out, is_regular: !self.irregular })
    }

    fn term(&mut self, char: char) -> Result<(), String> {
        match char {
            '^' => self.out.push_str(r"\A"),
            '$' => self.out.push_str(r"\z"),
            '.' => self.out.push_str(NO_LINE),
            '*' | '+' | '?' | '|' | ')' => self.out.push(char),
            '(' => self.group()?,
            '{' => self.brace(),
            '[' => self.class()?,
            '\\' => self.escape()?,
            other => self.literal(other),
        }
        Ok(())
    }

    /// A character, which is two units beyond the first 65536.
    fn literal(&mut self, char: char) {
        for half in char.encode_utf16(&mut [0; 2]) {
            self.code(*half);
        }
    }

    fn code(&mut self, code: u16) {
        put(&mut self.out, code);
    }

    fn group(&mut self) -> Result<(), String> {
        let mut ahead = self.rest.clone();
        if ahead.next() != Some('?') {
            // only a backreference needs to know what a group was
            self.out.push_str(if self.backtracking { "(" } else { "(?:" });
            return Ok(());
        }
        let kind = ahead.next();
        let look = match (kind, ahead.peek()) {
            (Some(':'), _) => {
                self.skip(2);
                self.out.push_str("(?:");
                return Ok(());
            }
            (Some('='), _) => "?=",
            (Some('!'), _) => "?!",
            (Some('<'), Some('=')) => "?<=",
            (Some('<'), Some('!')) => "?<!",
            (Some('<'), _) => {
                self.skip(2);
                while self.rest.next().is_some_and(|char| char != '>') {}
                self.out.push_str(if self.backtracking { "(" } else { "(?:" });
                return Ok(());
            }
            _ => return Err(unsupported("flags of a group")),
        };
        self.skip(look.len());
        self.irregular = true;
        self.out.push('(');
        self.out.push_str(look);
        Ok(())
    }

    fn skip(&mut self, count: usize) {
        self.rest.by_ref().take(count).for_each(drop);
    }

    /// A quantifier, or else the brace itself.
    fn brace(&mut self) {
        let inside: String = self.rest.clone().take_while(|char| *char != '}').collect();
        let closed = self.rest.clone().nth(inside.len()) == Some('}');
        let (from, to) = inside.split_once(',').unwrap_or((&inside, ""));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if closed && !from.is_empty() && is_number(from) && is_number(to) {
            self.skip(inside.len() + 1);
            let _ = write!(self.out, "{{{inside}}}");
        } else {
            self.literal('{');
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        let Some(char) = self.rest.next() else {
            return Err(unsupported("a pattern that ends in an escape"));
        };
        match char {
            'b' if self.backtracking => {
                let _ = write!(self.out, "(?:(?<=[{WORD}])(?![{WORD}])|(?<![{WORD}])(?=[{WORD}]))");
            }
            'b' => self.out.push_str(r"(?-u:\b)"),
            'B' => {
                self.irregular = true;
                let _ = write!(self.out, "(?:(?<=[{WORD}])(?=[{WORD}])|(?<![{WORD}])(?![{WORD}]))");
            }
            'k' => self.named_backreference()?,
            '1'..='9' => self.backreference(char)?,
            _ => match set(char) {
                Some(set) => {
                    let _ = write!(self.out, "[{set}]");
                }
                None => {
                    let code = self.character(char)?;
                    self.code(code);
                }
            },
        }
        Ok(())
    }

    fn backreference(&mut self, first: char) -> Result<(), String> {
        let mut text = String::from(first);
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            text.push(digit);
        }
        match text.parse::<usize>() {
            Ok(group) if group <= self.groups.len() => self.refer(group),
            _ => return Err(unsupported("an octal escape")),
        }
        Ok(())
    }

    fn named_backreference(&mut self) -> Result<(), String> {
        if self.rest.next_if_eq(&'<').is_none() {
            return Err(unsupported("\\k without a name"));
        }
        let name: String = self.rest.by_ref().take_while(|char| *char != '>').collect();
        match self.groups.iter().position(|group| *group == name) {
            Some(index) => self.refer(index + 1),
            None => return Err(unsupported("\\k without a group")),
        }
        Ok(())
    }

    /// A group that took no part is referred to as an empty text.
    fn refer(&mut self, group: usize) {
        self.irregular = true;
        let _ = write!(self.out, r"(?({group})\{group}|)");
    }

    fn class(&mut self) -> Result<(), String> {
        let negated = self.rest.next_if_eq(&'^').is_some();
        let mut items = String::new();
        loop {
            match self.atom()? {
                None => break,
                Some(Atom::Set(set)) => items.push_str(&set),
                Some(Atom::Units(from)) => self.range(&from, &mut items)?,
            }
        }
        let hat = if negated { "^" } else { "" };
        let _ = match (items.is_empty(), negated) {
            (true, false) => write!(self.out, r"[^\x00-\x{{10ffff}}]"),
            (true, true) => write!(self.out, r"[\x00-\x{{10ffff}}]"),
            (false, _) => write!(self.out, "[{hat}{items}]"),
        };
        Ok(())
    }

    /// A range that begins with a character of a class, or the character alone.
    fn range(&mut self, from: &[u16], items: &mut String) -> Result<(), String> {
        let mut ahead = self.rest.clone();
        let is_range = ahead.next() == Some('-') && ahead.next() != Some(']');
        let Some(last) = from.last().filter(|_| is_range) else {
            from.iter().for_each(|code| put(items, *code));
            return Ok(());
        };
        self.rest.next();
        from.iter().for_each(|code| put(items, *code));
        match self.atom()? {
            Some(Atom::Units(to)) => {
                if let Some(first) = to.first() {
                    if first < last {
                        return Err("Range values reversed".to_owned());
                    }
                    items.push('-');
                    put(items, *first);
                }
                to.iter().skip(1).for_each(|code| put(items, *code));
            }
            Some(Atom::Set(set)) => {
                put(items, u16::from(b'-'));
                items.push_str(&set);
            }
            None => return Err(unsupported("a class without end")),
        }
        Ok(())
    }

    /// The next member of a class, or `None` at its end.
    fn atom(&mut self) -> Result<Option<Atom>, String> {
        let units = |char: char| char.encode_utf16(&mut [0; 2]).to_vec();
        Ok(match self.rest.next() {
            None => return Err(unsupported("a class without end")),
            Some(']') => None,
            Some('\\') => {
                let Some(char) = self.rest.next() else {
                    return Err(unsupported("a pattern that ends in an escape"));
                };
                Some(match (char, set(char)) {
                    (_, Some(set)) => Atom::Set(format!("[{set}]")),
                    ('b', None) => Atom::Units(vec![8]),
                    ('-', None) => Atom::Units(units('-')),
                    (other, None) => Atom::Units(vec![self.character(other)?]),
                })
            }
            Some(char) => Some(Atom::Units(units(char))),
        })
    }

    /// An escape that is one unit.
    fn character(&mut self, char: char) -> Result<u16, String> {
        Ok(match char {
            't' => 9,
            'n' => 10,
            'v' => 11,
            'f' => 12,
            'r' => 13,
            '0' if self.rest.peek().is_none_or(|next| !next.is_ascii_digit()) => 0,
            'c' => match self.rest.next_if(char::is_ascii_alphabetic) {
                Some(letter) => u16::try_from(u32::from(letter) % 32).unwrap_or_default(),
                None => return Err(unsupported("\\c without a letter")),
            },
            'x' => self.hex(2)?,
            'u' => self.hex(4)?,
            other if other.is_ascii_digit() => return Err(unsupported("an octal escape")),
            other if other.is_alphabetic() => {
                return Err(unsupported("an escape without a meaning"));
            }
            other => match *other.encode_utf16(&mut [0; 2]) {
                [code] => code,
                _ => return Err(unsupported("an escaped surrogate pair")),
            },
        })
    }

    fn hex(&mut self, digits: usize) -> Result<u16, String> {
        let text: String = self.rest.by_ref().take(digits).collect();
        let is_hex = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let code = u16::from_str_radix(&text, 16).ok().filter(|_| is_hex);
        code.ok_or_else(|| unsupported("an escape without its digits"))
    }
}

/// A member of a class.
enum Atom {
    /// One unit, or the two of a surrogate pair.
    Units(Vec<u16>),
    Set(String),
}

fn put(out: &mut String, code: u16) {
    let char = unit(code);
    if char.is_ascii_alphanumeric() {
        out.push(char);
    } else {
        let _ = write!(out, r"\x{{{:x}}}", u32::from(char));
    }
}

/// The inside of a class for an escape that is a set.
fn set(escape: char) -> Option<String> {
    let (hat, set) = match escape {
        'd' => ("", DIGIT),
        'D' => ("^", DIGIT),
        'w' => ("", WORD),
        'W' => ("^", WORD),
        's' => ("", SPACE),
        'S' => ("^", SPACE),
        _ => return None,
    };
    Some(format!("{hat}{set}"))
}

fn unsupported(what: &str) -> String {
    format!("{what} is not supported")
}

/// The names of all capturing groups, in their order.
fn groups(pattern: &str) -> Vec<String> {
    let mut groups = Vec::new();
    let mut in_class = false;
    let mut rest = pattern.chars();
    while let Some(char) = rest.next() {
        match char {
            '\\' => drop(rest.next()),
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => {
                let text = rest.as_str();
                match text.strip_prefix("?<") {
                    Some(name) if !name.starts_with(['=', '!']) => {
                        groups.push(name.split('>').next().unwrap_or_default().to_owned());
                    }
                    Some(_) => {}
                    None if text.starts_with('?') => {}
                    None => groups.push(String::new()),
                }
            }
            _ => {}
        }
    }
    groups
}
