//! Whether a step has the form in which an earlier program has recorded it.

use asyncsteps_executor::recorder::{DefinedStep, Form, Kind};
use asyncsteps_journal::Path;

use crate::records::{AtPath, End, Records};

/// What is recorded of a step that has no other form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorded {
    Body,
    /// It does several things.
    Items,
    Substeps,
    Loop,
}

impl Recorded {
    const fn text(self) -> &'static str {
        match self {
            Self::Body => "one body",
            Self::Items => "a step with items",
            Self::Substeps => "a step with sub-steps",
            Self::Loop => "a loop",
        }
    }
}

impl Records {
    /// Why the program cannot go on with what is recorded of a step at this path: the step was of another form, or
    /// began with an undo that the program does not have.
    pub(crate) fn changed(&self, step: &DefinedStep, path: &Path) -> Option<String> {
        if step.kind() == Some(Kind::Retired) {
            return None;
        }
        let source = step.source;
        let (was, is) = (self.form_of(path), form_in(step));
        if let Some(was) = was.filter(|was| !is_same(*was, is)) {
            let (was, is) = (was.text(), is.text());
            return Some(format!(
                "{path} is recorded as {was}, and the program has {is} ({source})"
            ));
        }
        let at = self.at(path).filter(|at| !at.is_settled())?;
        if step.kind() == Some(Kind::Repeatable) && matches!(at.end, Some(End::Done(_))) {
            return Some(format!("{path} is done, and the program would repeat it ({source})"));
        }
        let needs_undo = at.is_begun && at.is_effect(path) && !self.is_undone(path);
        let lacks_undo = needs_undo && !self.is_closed(path) && !step.can_be_undone();
        lacks_undo
            .then(|| format!("{path} began with an undo, and the program has none ({source})"))
    }

    fn form_of(&self, path: &Path) -> Option<Recorded> {
        let unsettled = self.within(path).filter(|(_, at)| !at.is_settled());
        let inside = unsettled.filter_map(|(inner, _)| {
            let rest = &inner.as_str()[path.as_str().len()..];
            let rest = match rest.strip_prefix('!') {
                Some(attempt) => attempt.trim_start_matches(|letter: char| letter.is_ascii_digit()),
                None => rest,
            };
            match rest.chars().next()? {
                '/' => Some(Recorded::Substeps),
                '#' => Some(Recorded::Loop),
                '@' => Some(Recorded::Items),
                _ => None,
            }
        });
        inside.chain(self.at(path).and_then(AtPath::form)).next()
    }
}

impl AtPath {
    fn form(&self) -> Option<Recorded> {
        if self.is_settled() {
            None
        } else if self.has_body || self.end.is_some() {
            Some(Recorded::Body)
        } else if self.is_loop() {
            Some(Recorded::Loop)
        } else {
            // sub-steps, or a loop before the end of its first iteration
            None
        }
    }
}

fn form_in(step: &DefinedStep) -> Recorded {
    match step.form {
        Form::Body | Form::Nested if step.has_items() => Recorded::Items,
        Form::Body => Recorded::Body,
        Form::Nested => Recorded::Substeps,
        Form::Loop => Recorded::Loop,
    }
}

/// Whether what is recorded may be of a step with this form: a body that does several things has records of its own as
/// well.
fn is_same(was: Recorded, is: Recorded) -> bool {
    was == is || was == Recorded::Body && is == Recorded::Items
}
