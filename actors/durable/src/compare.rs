//! Whether a program goes on with the records of a request: its plan is compared with all records before the first step
//! runs, and before anything is undone.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::sync::Arc;

use asyncsteps_executor::plan::{Form, Planned, StepView};
use asyncsteps_executor::recorder::Kind;
use asyncsteps_journal::record::Started;
use asyncsteps_journal::{Path, PathPart};
use serde_json::Map;

use crate::causes::recalled;
use crate::forms::{RecordedForm, is_same};
use crate::replay::{AtPath, RecordedEnd, Replay};
use crate::stored::stored;

/// A step of the plan, and where it is recorded.
type Placed<'a> = (&'a StepView, Path);

impl Replay {
    /// Compares a program with the records of a request whose function is at this path.
    ///
    /// # Errors
    /// The records, and what the program has instead.
    pub(crate) fn compare(
        &self,
        (root, started): (&Path, &Started),
        planned: &Planned,
    ) -> Result<(), String> {
        if !self.have_steps_within(root) {
            // nothing was done: the executor reports what is wrong with the request
            return Ok(());
        }
        let params: Map<_, _> = started.parameters.decode().map_err(|error| error.to_string())?;
        planned
            .read_params(params)
            .map_err(|error| format!("{root}: the parameters cannot be read: {}", cause(&error)))?;
        self.compare_level((root, Form::Group), None, planned.function.ways())
    }

    /// Compares the steps inside of the function, or of an attempt, an iteration or an item of a step of this form, which
    /// is at this path. If an earlier run has come past all of them, it has begun the step at `behind` after them.
    fn compare_level(
        &self,
        (level, form): (&Path, Form),
        behind: Option<&Path>,
        ways: &[Vec<StepView>],
    ) -> Result<(), String> {
        let place = |step| (step, self.place_of(level, step).1);
        let ways: Vec<Vec<Placed<'_>>> =
            ways.iter().map(|way| way.iter().map(place).collect()).collect();
        self.know_all(level, &ways)?;
        for way in &ways {
            // of a choice, a way in which nothing has begun was not taken
            let is_choice = matches!(form, Form::When | Form::Either);
            let is_taken = || way.iter().any(|(_, path)| self.has_begun(path));
            let behind = behind.filter(|_| !is_choice || is_taken());
            let mut before = None;
            for (at, (step, path)) in way.iter().enumerate() {
                let mut further = way.iter().skip(at + 1).map(|(_, path)| path);
                let of_all = behind.filter(|_| !step.is_behind_end);
                let behind = further.find(|path| self.has_begun(path)).or(of_all);
                self.check_order((step, path), behind)?;
                self.compare_step((step, path), (before, behind))?;
                before = Some(path);
            }
        }
        Ok(())
    }

    /// Where a step is recorded, and the name by which it is: its newest one that is known, or else the oldest.
    pub(crate) fn place_of(&self, level: &Path, step: &StepView) -> ((&'static str, usize), Path) {
        let mut names = step.names().peekable();
        loop {
            let Some(name @ (text, nth)) = names.next() else { unreachable!("a step has a name") };
            let number = (nth > 1).then(|| nth.to_string());
            let number = number.as_deref().map(PathPart::Branch);
            let path = level.inside([PathPart::Step(text)].into_iter().chain(number));
            if names.peek().is_none() || self.are_within(&path) {
                return (name, path);
            }
        }
    }

    /// All that is recorded at this level is of one of its steps.
    fn know_all(&self, level: &Path, ways: &[Vec<Placed<'_>>]) -> Result<(), String> {
        let steps = || ways.iter().flatten().map(|(_, path)| path);
        let is_known = |recorded: &Path| {
            let step = step_of(level, recorded);
            steps().any(|path| *path == step)
        };
        let mut recorded = self.steps_within(level);
        let unknown =
            recorded.find(|path| !self.at(path).is_some_and(AtPath::is_settled) && !is_known(path));
        let Some(unknown) = unknown else { return Ok(()) };
        let has: Vec<_> = steps().map(Path::as_str).collect();
        let has = if has.is_empty() { "no steps there".to_owned() } else { has.join(", ") };
        Err(format!("{unknown} is recorded, and the program has only {has}"))
    }

    /// The step is not one that an earlier run has come past without doing it.
    fn check_order(
        &self,
        (step, path): (&StepView, &Path),
        behind: Option<&Path>,
    ) -> Result<(), String> {
        let is_new =
            step.kind() != Some(Kind::Retired) && is_recorded(step) && !self.has_begun(path);
        match behind.filter(|_| is_new) {
            None => Ok(()),
            Some(behind) => Err(format!(
                "{path} ({}) is not recorded, and the program has it in front of {behind}, which is",
                step.source()
            )),
        }
    }

    fn has_begun(&self, path: &Path) -> bool {
        self.at(path).is_some() || self.within(path).any(|(inner, _)| is_inside_of(path, inner))
    }

    fn compare_step(
        &self,
        (step, path): (&StepView, &Path),
        (before, behind): (Option<&Path>, Option<&Path>),
    ) -> Result<(), String> {
        if step.kind() == Some(Kind::Retired) || !self.has_begun(path) {
            return Ok(());
        }
        let (source, is) = (step.source(), form_in(step));
        if let Some(was) = self.form_of(path).filter(|was| !is_same(*was, is)) {
            let (was, is) = (was.text(), is.text());
            return Err(format!(
                "{path} is recorded as {was}, and the program has {is} ({source})"
            ));
        }
        if let Some(at) = self.at(path).filter(|at| !at.is_settled()) {
            self.compare_records(step, (path, at))?;
        }
        let attempt = match self.at(path).and_then(|at| at.attempts) {
            Some((failed, _)) if step.form() != Form::Body => {
                path.attempt(failed.saturating_add(1))
            }
            _ => path.clone(),
        };
        if step.form() == Form::Body {
            return Ok(());
        }
        // the steps inside of a step that recovers may have been left in the middle
        let behind = behind.filter(|_| !step.recovers());
        if matches!(step.form(), Form::Each | Form::Race | Form::Repeat) {
            let behind = behind.filter(|_| step.form() == Form::Each);
            return self.compare_parts(&attempt, behind, step);
        }
        if step.form() == Form::Dynamic && self.have_steps_within(&attempt) {
            let ways = self.defined(step, (path, before))?;
            return self.compare_level((&attempt, step.form()), behind, &ways);
        }
        self.compare_level((&attempt, step.form()), behind, step.ways())
    }

    /// The steps of a dynamic one, from the result of the step before it.
    fn defined(
        &self,
        step: &StepView,
        (path, before): (&Path, Option<&Path>),
    ) -> Result<Arc<[Vec<StepView>]>, String> {
        let source = step.source();
        let result = before.and_then(|before| self.at(before)?.end.as_ref());
        let Some(RecordedEnd::Done(value)) = result else {
            return Err(format!(
                "{path} ({source}) is recorded, and the value from which it was defined is not"
            ));
        };
        step.define(&stored(value)).map_err(|error| {
            format!("{path} ({source}): its steps cannot be defined again: {error}")
        })
    }

    /// Compares the items or the iterations of a step.
    fn compare_parts(
        &self,
        attempt: &Path,
        behind: Option<&Path>,
        step: &StepView,
    ) -> Result<(), String> {
        let number = attempt.parts().count();
        let is_part = |part: &PathPart| matches!(part, PathPart::Key(_) | PathPart::Iteration(_));
        let inside = self
            .within(attempt)
            .map(|(path, _)| attempt.inside(path.parts().nth(number).filter(is_part)));
        let parts: BTreeSet<Path> = inside.collect();
        let mut parts = parts.iter().filter(|part| *part != attempt);
        parts.try_for_each(|part| self.compare_level((part, step.form()), behind, step.ways()))
    }

    /// Compares the records of the step itself.
    fn compare_records(&self, step: &StepView, (path, at): (&Path, &AtPath)) -> Result<(), String> {
        let source = step.source();
        let is_repeated = step.kind() == Some(Kind::Repeatable);
        if is_repeated && matches!(at.end, Some(RecordedEnd::Done(_))) {
            return Err(format!("{path} is done, and the program would repeat it ({source})"));
        }
        if let Some(form) = at.open_form().filter(|form| is_repeated && form.is_effect()) {
            let word = form.word();
            return Err(format!(
                "{path} has begun as {word}, and the program would repeat it ({source})"
            ));
        }
        let needs_undo = at.is_begun && at.is_effect(path) && !self.is_undone(path);
        if needs_undo && !self.is_closed(path) && !step.can_be_undone() {
            return Err(format!("{path} began with an undo, and the program has none ({source})"));
        }
        let unreadable = |what: &str, error: &dyn std::fmt::Display| {
            format!("{path} ({source}): its {what} cannot be read: {error}")
        };
        let result = match &at.end {
            Some(RecordedEnd::Done(value)) => Some(value),
            _ => at.outcome.as_ref(),
        };
        if let Some(value) = result {
            step.read(&stored(value)).map_err(|error| unreadable("result", &error))?;
        }
        if let Some(RecordedEnd::Failed(failed)) = &at.end {
            let recalled = recalled(step, &failed.failure, failed.cause.as_ref());
            recalled.map_err(|error| unreadable("error", &error))?;
        }
        at.states().try_for_each(|state| {
            step.read_state(&stored(state)).map_err(|error| unreadable("state", &error))
        })
    }
}

/// The text of an error's cause, or of itself without one.
fn cause(error: &asyncsteps_core::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// The step of a level in which something is recorded.
fn step_of(level: &Path, recorded: &Path) -> Path {
    let mut parts = recorded.parts().skip(level.parts().count());
    let name = parts.next();
    // further steps of a name have numbers
    let is_digits = |number: &String| number.bytes().all(|letter| letter.is_ascii_digit());
    let is_number = |part: &PathPart| matches!(part, PathPart::Branch(number) if is_digits(number));
    level.inside(name.into_iter().chain(parts.next().filter(is_number)))
}

/// Whether it is inside of the step at a path: not another step of its name, and not a record attached to it.
fn is_inside_of(step: &Path, inner: &Path) -> bool {
    !inner.as_str()[step.as_str().len()..].starts_with('|')
}

/// Whether a run that has come past the step has recorded something of it.
fn is_recorded(step: &StepView) -> bool {
    if step.form() == Form::Body {
        let kinds = [Kind::Recorded, Kind::Once, Kind::Transacted, Kind::Wait];
        return step.kind().is_some_and(|kind| kinds.contains(&kind));
    }
    let mut certain = step
        .ways()
        .iter()
        .map(|way| way.iter().any(|step| !step.is_behind_end && is_recorded(step)));
    let is_passed = matches!(step.form(), Form::Group | Form::Scope | Form::Join);
    let is_certain = matches!(step.form(), Form::Each | Form::Race | Form::Repeat)
        || is_passed && certain.any(|is_certain| is_certain)
        || step.form() == Form::Either && certain.all(|is_certain| is_certain);
    is_certain && !step.recovers()
}

fn form_in(step: &StepView) -> RecordedForm {
    let forms = [
        (Form::Body, RecordedForm::Body),
        (Form::Each, RecordedForm::Items),
        (Form::Race, RecordedForm::Items),
        (Form::Repeat, RecordedForm::Loop),
    ];
    let form = forms.into_iter().find(|(form, _)| *form == step.form());
    form.map_or(RecordedForm::Substeps, |(_, recorded)| recorded)
}
