//! The patterns of ECMAScript without flags that `regex` can match, in its syntax.
//!
//! `regex` reads the pattern. A construct that ECMAScript lacks or reads differently is refused.
//! `.`, `\d`, `\w`, `\s` and `\b` are replaced, because ECMAScript's have other characters.

use std::fmt::Display;
use std::ops::Range;
use std::slice;

use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{
    self, AssertionKind, Ast, ClassPerl, ClassPerlKind, ClassSet, ClassSetItem, GroupKind,
    HexLiteralKind, Literal, LiteralKind, Span, SpecialLiteralKind,
};

const NO_LINE: &str = r"[^\n\r\x{2028}\x{2029}]";
/// WhiteSpace and LineTerminator of ECMAScript (§12.2, §12.3).
const SPACE: &str =
    r"[\t-\r\x20\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}]";
const NO_SPACE: &str =
    r"[^\t-\r\x20\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}]";

/// A pattern for `regex` that matches what `pattern` matches in ECMAScript.
///
/// # Errors
/// What is not supported, and where.
pub(crate) fn read(pattern: &str) -> Result<String, String> {
    let ast = Parser::new().parse(pattern).map_err(|error| place(error.kind(), error.span()))?;
    let replacements = ast::visit(&ast, PatternReader { replacements: Vec::new() })?;
    let mut out = pattern.to_owned();
    for (range, replacement) in replacements.into_iter().rev() {
        out.replace_range(range, replacement);
    }
    Ok(out)
}

struct PatternReader {
    /// In the order of their places.
    replacements: Vec<(Range<usize>, &'static str)>,
}

impl PatternReader {
    fn replace(&mut self, span: &Span, replacement: &'static str) {
        self.replacements.push((span.start.offset..span.end.offset, replacement));
    }

    fn replace_class(&mut self, class: &ClassPerl) {
        let replacement = match (&class.kind, class.negated) {
            (ClassPerlKind::Digit, false) => "[0-9]",
            (ClassPerlKind::Digit, true) => "[^0-9]",
            (ClassPerlKind::Space, false) => SPACE,
            (ClassPerlKind::Space, true) => NO_SPACE,
            (ClassPerlKind::Word, false) => "[0-9A-Za-z_]",
            (ClassPerlKind::Word, true) => "[^0-9A-Za-z_]",
        };
        self.replace(&class.span, replacement);
    }
}

impl ast::Visitor for PatternReader {
    type Output = Vec<(Range<usize>, &'static str)>;
    type Err = String;

    fn finish(self) -> Result<Self::Output, String> {
        Ok(self.replacements)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), String> {
        match ast {
            Ast::Empty(_) | Ast::Alternation(_) | Ast::Concat(_) => Ok(()),
            Ast::Flags(flags) => refuse("a flag", &flags.span),
            Ast::ClassUnicode(class) => refuse(r"\p", &class.span),
            Ast::Literal(literal) => check_literal(literal),
            Ast::Dot(span) => {
                self.replace(span, NO_LINE);
                Ok(())
            }
            Ast::ClassPerl(class) => {
                self.replace_class(class);
                Ok(())
            }
            Ast::Assertion(assertion) => {
                if assertion.kind == AssertionKind::WordBoundary {
                    self.replace(&assertion.span, r"(?-u:\b)");
                } else if !matches!(
                    assertion.kind,
                    AssertionKind::StartLine | AssertionKind::EndLine
                ) {
                    return refuse("this assertion", &assertion.span);
                }
                Ok(())
            }
            Ast::ClassBracketed(class) => match &class.kind {
                ClassSet::Item(items) => check_start(items),
                ClassSet::BinaryOp(op) => refuse("an operator of classes", &op.span),
            },
            Ast::Repetition(repetition) => {
                if matches!(*repetition.ast, Ast::Repetition(_) | Ast::Assertion(_)) {
                    return refuse("a quantifier here", &repetition.op.span);
                }
                Ok(())
            }
            Ast::Group(group) => {
                let is_known = match &group.kind {
                    GroupKind::CaptureIndex(_) => true,
                    GroupKind::CaptureName { starts_with_p, name } => {
                        let is_part = |char: char| char == '_' || char.is_alphanumeric();
                        !starts_with_p && name.name.chars().all(is_part)
                    }
                    GroupKind::NonCapturing(flags) => flags.items.is_empty(),
                };
                if is_known { Ok(()) } else { refuse("this kind of group", &group.span) }
            }
        }
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), String> {
        match item {
            ClassSetItem::Empty(_) | ClassSetItem::Union(_) => Ok(()),
            ClassSetItem::Literal(literal) => check_literal(literal),
            ClassSetItem::Range(range) => {
                check_literal(&range.start)?;
                check_literal(&range.end)
            }
            ClassSetItem::Perl(class) => {
                self.replace_class(class);
                Ok(())
            }
            ClassSetItem::Ascii(_) | ClassSetItem::Unicode(_) | ClassSetItem::Bracketed(_) => {
                refuse("a class in a class", item.span())
            }
        }
    }
}

/// `[]` is a whole class in ECMAScript, and a second `-` makes a range.
fn check_start(items: &ClassSetItem) -> Result<(), String> {
    let items =
        if let ClassSetItem::Union(union) = items { &union.items } else { slice::from_ref(items) };
    let starts_with = |item: &ClassSetItem, char| {
        let first = if let ClassSetItem::Range(range) = item {
            &range.start
        } else if let ClassSetItem::Literal(literal) = item {
            literal
        } else {
            return false;
        };
        first.c == char && first.kind == LiteralKind::Verbatim
    };
    match items {
        [first, ..] if starts_with(first, ']') => refuse("] at the start of a class", first.span()),
        [first, second, ..] if starts_with(first, '-') && starts_with(second, '-') => {
            refuse("-- at the start of a class", first.span())
        }
        _ => Ok(()),
    }
}

fn check_literal(literal: &Literal) -> Result<(), String> {
    let is_known = match &literal.kind {
        LiteralKind::Verbatim | LiteralKind::Meta | LiteralKind::Superfluous => true,
        LiteralKind::HexFixed(kind) => *kind != HexLiteralKind::UnicodeLong,
        LiteralKind::Special(kind) => {
            !matches!(kind, SpecialLiteralKind::Bell | SpecialLiteralKind::Space)
        }
        LiteralKind::Octal | LiteralKind::HexBrace(_) => false,
    };
    if is_known { Ok(()) } else { refuse("this escape", &literal.span) }
}

fn refuse(what: &str, span: &Span) -> Result<(), String> {
    Err(place(format_args!("{what} is not supported"), span))
}

fn place(why: impl Display, span: &Span) -> String {
    format!("{why}, at character {}", span.start.column)
}
