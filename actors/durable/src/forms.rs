//! Whether a step has the form in which an earlier program has recorded it.

use asyncsteps_executor::plan::StepView;
use asyncsteps_executor::recorder::Kind;
use asyncsteps_journal::record::{Intent, IntentForm};
use asyncsteps_journal::{Path, Timestamp, Value};

use crate::replay::{AtPath, Replay};

/// The recorded form of a step that has no other form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordedForm {
    Body,
    /// It does several things.
    Items,
    Substeps,
    Loop,
}

impl RecordedForm {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Body => "one body",
            Self::Items => "a step with items",
            Self::Substeps => "a step with sub-steps",
            Self::Loop => "a loop",
        }
    }
}

impl Replay {
    /// The form in which the step at this path is recorded.
    pub(crate) fn form_of(&self, path: &Path) -> Option<RecordedForm> {
        let unsettled = self.within(path).filter(|(_, at)| !at.is_settled());
        let inside = unsettled.filter_map(|(inner, _)| {
            let rest = &inner.as_str()[path.as_str().len()..];
            let rest = match rest.strip_prefix('!') {
                Some(attempt) => attempt.trim_start_matches(|letter: char| letter.is_ascii_digit()),
                None => rest,
            };
            match rest.chars().next()? {
                '/' => Some(RecordedForm::Substeps),
                '#' => Some(RecordedForm::Loop),
                '@' => Some(RecordedForm::Items),
                _ => None,
            }
        });
        inside.chain(self.at(path).and_then(AtPath::form)).next()
    }
}

impl AtPath {
    fn form(&self) -> Option<RecordedForm> {
        if self.is_settled() {
            None
        } else if self.keys.is_some() {
            Some(RecordedForm::Items)
        } else if self.has_body || self.end.is_some() {
            Some(RecordedForm::Body)
        } else if self.is_loop() {
            Some(RecordedForm::Loop)
        } else {
            // sub-steps, or a loop before the end of its first iteration
            None
        }
    }
}

/// Whether the records may belong to a step with this form: a body that does several things has records of its own as
/// well.
pub(crate) fn is_same(was: RecordedForm, is: RecordedForm) -> bool {
    was == is || was == RecordedForm::Body && is == RecordedForm::Items
}

/// The record that is written before an attempt of a body begins.
pub(crate) fn intent(
    step: &StepView,
    at: Timestamp,
    (attempt, input): (u32, Option<Value>),
) -> Intent {
    let (has_undo, form) = (Some(step.can_be_undone()), form_of(step));
    Intent { at, attempt, locks: Vec::new(), has_undo, input, form }
}

/// The form of a body, as it is recorded.
pub(crate) fn form_of(step: &StepView) -> Option<IntentForm> {
    step.kind().and_then(|kind| match kind {
        Kind::Recorded => Some(IntentForm::Recorded),
        Kind::Once => Some(IntentForm::Once),
        Kind::Transacted => Some(IntentForm::Transacted),
        Kind::Repeatable => Some(IntentForm::Repeatable),
        Kind::Wait | Kind::Retired | _ => None,
    })
}
