//! Counts what a reader has to read.

/// What a piece of logic costs its readers, as rustfmt writes it with `rustfmt.toml`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Lines that are not blank, and no comment, import or struct.
    pub(crate) lines: usize,
    /// `.clone()`, `Arc::clone(..)` and `Rc::clone(..)`.
    pub(crate) clones: usize,
    /// `move` of closures and blocks.
    pub(crate) moves: usize,
    /// The deepest block that has lines of its own, within a function, whose body is 1.
    pub(crate) nesting: usize,
}

impl Counts {
    /// The counts of several files together.
    pub(crate) fn of(files: &[&str]) -> Self {
        files.iter().map(|file| count(file)).fold(Self::default(), |sum, file| Self {
            lines: sum.lines + file.lines,
            clones: sum.clones + file.clones,
            moves: sum.moves + file.moves,
            nesting: sum.nesting.max(file.nesting),
        })
    }

    /// What is more than in `goal`.
    pub(crate) fn exceeds(self, goal: Self) -> bool {
        self.lines > goal.lines
            || self.clones > goal.clones
            || self.moves > goal.moves
            || self.nesting > goal.nesting
    }
}

fn count(file: &str) -> Counts {
    let logic = logic(file);
    let text = logic.join("\n");
    let clones = [".", "Arc::", "Rc::"].map(|of| text.matches(&format!("{of}clone(")).count());
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    Counts {
        lines: logic.len(),
        clones: clones.iter().sum(),
        moves: words.filter(|word| *word == "move").count(),
        nesting: nesting(&logic),
    }
}

/// The lines that count, without what is behind `//`.
fn logic(file: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut skipped = None;
    let mut attributes = Vec::new();
    for line in file.lines() {
        if line.starts_with("#[cfg(test)]") {
            break;
        }
        let code = line.split("//").next().unwrap_or_default().trim_end();
        if let Some(end) = skipped {
            if code.ends_with(end) {
                skipped = None;
            }
        } else if code.is_empty() {
            // a blank line or a comment
        } else if code.starts_with("use ") || code.starts_with("mod ") || is_export(code) {
            skipped = (!code.ends_with(';')).then_some(";");
        } else if code.trim_start().starts_with("#[") {
            attributes.push(code);
        } else if is_struct(code) {
            attributes.clear();
            skipped = (!code.ends_with(['}', ';'])).then_some("}");
        } else {
            lines.append(&mut attributes);
            lines.push(code);
        }
    }
    lines
}

fn is_export(code: &str) -> bool {
    code.starts_with("pub use ") || code.starts_with("pub mod ") || code.starts_with("#![")
}

fn is_struct(code: &str) -> bool {
    code.starts_with("struct ") || (code.starts_with("pub") && code.contains(" struct "))
}

/// How deep blocks are nested: those that end on a later line than they begin, from `fn` on.
fn nesting(lines: &[&str]) -> usize {
    let mut deepest = 0;
    // for each open block, whether it is one of a function
    let mut open: Vec<bool> = Vec::new();
    let mut header_is_fn = false;
    for line in lines {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        header_is_fn |= words.into_iter().any(|word| word == "fn");
        let closes = line.matches('}').count();
        let opens = line.matches('{').count();
        let returning = line.trim_start().chars().take_while(|c| *c == '}').count();
        for _ in 0..returning {
            open.pop();
        }
        let (closes, opens) = (closes - returning, opens);
        for _ in 0..opens.saturating_sub(closes) {
            let inside = open.last().copied().unwrap_or(false);
            open.push(inside || header_is_fn);
            header_is_fn = false;
        }
        if line.ends_with(';') {
            header_is_fn = false;
        }
        deepest = deepest.max(open.iter().filter(|inside| **inside).count());
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "
//! A page.
use std::{
    rc::Rc,
};

/// What is asked for.
#[derive(Deserialize)]
pub(crate) struct Asked {
    name: String,
}

#[derive(Debug)]
struct Kept(Rc<str>); // it counts

impl Kept {
    // it has one line
    fn look(&self) -> usize {
        self.each(move |asked| {
            if let Some(Asked { name }) = asked.clone() {
                return name.len();
            }
            Rc::clone(&self.0).len()
        })
    }
}

#[cfg(test)]
mod tests {}
";

    #[test]
    fn what_is_read_is_counted() {
        let counts = Counts::of(&[SAMPLE]);
        assert_eq!(counts, Counts { lines: 10, clones: 2, moves: 1, nesting: 3 });
        assert_eq!(Counts::of(&[SAMPLE, SAMPLE]).lines, 20);
        assert!(counts.exceeds(Counts { nesting: 2, ..counts }));
        assert!(!counts.exceeds(counts));
    }
}
