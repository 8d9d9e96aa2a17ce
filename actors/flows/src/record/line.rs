//! A recording as one line.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use asyncsteps_core::StepLocation;

use super::event::{Ending, FailedStep, Recorded};
use super::tree::RecordedStep;

/// The most steps that a line shows.
const SHOWN: usize = 40;

/// Steps without a name are shown if they took so long, or failed; quicker rounds of a loop are counted.
const LONG: Duration = Duration::from_millis(1);

/// The steps that show where the time went: `bank 456ms { try 1 22ms CommError, pause 45ms, try 2 301ms }`.
///
/// A step has its name, the time that it took, and how it ended unless it succeeded; one that is in
/// progress ends with `...`. Steps without a name are left out, but for what is inside of them, unless
/// they failed or took a millisecond; then their place is shown. `round 20us x46` are 46 quick ones in a
/// row, of which the first took 20 microseconds.
impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line =
            EventLine { length: self.length, left: Cell::new(SHOWN), is_cut: Cell::new(false) };
        let tree = self.tree();
        let shown: Vec<Shown<'_>> =
            tree.steps.iter().flat_map(|step| line.shown(step, None)).collect();
        line.list(f, &shown)?;
        if line.is_cut.get() {
            f.write_str(", and more")?;
        }
        if self.lost > 0 {
            write!(f, " ({} events lost)", self.lost)?;
        }
        Ok(())
    }
}

struct EventLine {
    length: Duration,
    /// How many steps may still be shown.
    left: Cell<usize>,
    /// Whether some are not.
    is_cut: Cell<bool>,
}

/// A step of the line.
struct Shown<'a> {
    step: &'a RecordedStep,
    label: LineLabel,
    inside: Vec<Self>,
}

enum LineLabel {
    Step(StepLocation),
    Attempt(usize),
}

impl EventLine {
    /// A step, or the steps inside of it if these say more.
    fn shown<'a>(&self, step: &'a RecordedStep, around: Option<&RecordedStep>) -> Vec<Shown<'a>> {
        let inside = step.steps.iter().flat_map(|inner| self.shown(inner, Some(step))).collect();
        let label = match around {
            Some(around) if is_part(step, around) => match attempt(step, around) {
                Some(number) => LineLabel::Attempt(number),
                None => return inside,
            },
            _ => LineLabel::Step(step.location),
        };
        let has_name = matches!(label, LineLabel::Attempt(_)) || step.location.name().is_some();
        let tells =
            has_name || inside.is_empty() && (fails(step) || step.time(self.length) >= LONG);
        if tells { vec![Shown { step, label, inside }] } else { inside }
    }

    fn list(&self, f: &mut fmt::Formatter<'_>, steps: &[Shown<'_>]) -> fmt::Result {
        for (number, equal) in steps.chunk_by(|one, next| self.is_round(one, next)).enumerate() {
            let Some(left) = self.left.get().checked_sub(1) else {
                self.is_cut.set(true);
                return Ok(());
            };
            self.left.set(left);
            if number > 0 {
                f.write_str(", ")?;
            }
            self.write(f, &equal[0])?;
            if equal.len() > 1 {
                write!(f, " x{}", equal.len())?;
            }
        }
        Ok(())
    }

    /// Whether two short steps in a row are rounds of a loop that say nothing one by one.
    fn is_round(&self, one: &Shown<'_>, next: &Shown<'_>) -> bool {
        let is_quick = |shown: &Shown<'_>| {
            let succeeds = matches!(shown.step.ended, Some((_, Ending::Success | Ending::Left)));
            succeeds && shown.inside.is_empty() && shown.step.time(self.length) < LONG
        };
        one.step.location == next.step.location && is_quick(one) && is_quick(next)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, shown: &Shown<'_>) -> fmt::Result {
        let Shown { step, label, inside } = shown;
        match label {
            LineLabel::Attempt(number) => write!(f, "try {number}")?,
            LineLabel::Step(location) => match location.name() {
                Some(name) => f.write_str(name)?,
                None => write!(f, "{}", PlaceText(*location))?,
            },
        }
        write!(f, " {}", HumanTime(step.time(self.length)))?;
        match &step.ended {
            None => f.write_str(" ...")?,
            Some((_, Ending::Success | Ending::Left)) => {}
            Some((_, Ending::Cancelled)) => f.write_str(" cancelled")?,
            Some((_, Ending::Recovered(error)))
                if inside.iter().any(|inner| fails_with(inner.step, error)) =>
            {
                f.write_str(" recovered")?;
            }
            Some((_, Ending::Recovered(error))) => write!(f, " {} recovered", FailureText(error))?,
            // the step that it comes from says it
            Some((_, Ending::Error(error)))
                if inside.iter().any(|inner| fails_with(inner.step, error)) => {}
            Some((_, Ending::Error(error))) => write!(f, " {}", FailureText(error))?,
        }
        if !inside.is_empty() {
            f.write_str(" { ")?;
            self.list(f, inside)?;
            f.write_str(" }")?;
        }
        Ok(())
    }
}

/// Whether a step is a part of the one around it, which its policies added.
fn is_part(step: &RecordedStep, around: &RecordedStep) -> bool {
    step.location == around.location && step.branch == around.branch
}

/// Which attempt of the step around it this is, if there were several. The rounds of a loop are of one attempt.
fn attempt(step: &RecordedStep, around: &RecordedStep) -> Option<usize> {
    let attempts = around.steps.iter().filter(|part| is_part(part, around));
    let number = attempts.clone().position(|part| part.began == step.began)?;
    let mut numbers = attempts.map(|part| part.attempt);
    let first = numbers.next()?;
    numbers.any(|other| other != first).then_some(number + 1)
}

fn fails(step: &RecordedStep) -> bool {
    matches!(step.ended, Some((_, Ending::Error(_))))
}

fn fails_with(step: &RecordedStep, error: &FailedStep) -> bool {
    matches!(&step.ended, Some((_, Ending::Error(inner))) if inner.code == error.code)
}

/// A place, with the name of its file alone.
struct PlaceText(StepLocation);

impl fmt::Display for PlaceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.0.file();
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        write!(f, "{name}:{}", self.0.line())
    }
}

/// The text of a step's failure.
struct FailureText<'a>(&'a FailedStep);

impl fmt::Display for FailureText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.code)?;
        self.0.limit.map_or(Ok(()), |limit| write!(f, "({})", HumanTime(limit)))
    }
}

/// A time as people write it, with two or three digits.
struct HumanTime(Duration);

impl fmt::Display for HumanTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_micros() {
            micros @ ..1_000 => write!(f, "{micros}us"),
            micros @ 1_000..10_000_000 => write!(f, "{}ms", (micros + 500) / 1_000),
            micros => write!(f, "{}s", (micros + 500_000) / 1_000_000),
        }
    }
}
