//! The records of a flow, by the path of its steps.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_executor::recorder::{DefinedStep, Iterations};
use asyncsteps_journal::limits::TEXT_BYTES;
use asyncsteps_journal::record::{
    Effect, Ending, Failed, Failure, IntentForm, Outcome, Started, StoredRecord, Timer, Unwinding,
};
use asyncsteps_journal::request::Loaded;
use asyncsteps_journal::{Event, Path, Record, RecordId, Value};

use crate::json;
use crate::left::JournalClock;
use crate::settled::{Settle, Settled, step_at};
use crate::stored::stored;
use crate::writer::RecordTicket;

/// A step that was defined, and where it is recorded.
pub(crate) type Defined = (Rc<DefinedStep>, Path);

/// The records of a flow, as far as its steps ask for them.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// Boxed, because it is moved whenever a path comes between others.
    by_path: BTreeMap<Path, Box<AtPath>>,
    /// The steps that fail, or have failed.
    unwinding: Vec<Path>,
    /// The scopes that ended normally: the steps inside are not undone any more.
    closed: Vec<Path>,
    /// The steps that have begun to commit the request, and have not failed.
    committed: BTreeSet<Path>,
    /// The sub-steps within a time limit that ended normally, by the attempt or the iteration that they are of.
    pub(crate) over: BTreeSet<Path>,
    /// The steps with sub-steps that ended normally in an earlier run, or were recovered.
    pub(crate) ended: BTreeSet<Path>,
    /// Something is recorded of an undo.
    has_undos: bool,
    /// The steps that are not in the program any more and were undone, with all that was inside.
    undone: BTreeSet<Path>,
    /// Why undos that began in this run have undone nothing, by the path of their steps.
    pub(crate) not_undone: BTreeMap<Path, String>,
    /// The steps whose undo has failed because something is away, or because a lock has refused it.
    pub(crate) refused: BTreeSet<Path>,
}

/// The records of one step.
#[derive(Debug, Default)]
pub(crate) struct AtPath {
    /// How it ended.
    pub(crate) end: Option<RecordedEnd>,
    /// An effect of it was begun, and it is not known how that ended.
    pub(crate) is_open: bool,
    /// An effect of it was begun, and the program had an undo for it.
    pub(crate) is_begun: bool,
    /// The form of its body when it began, if the record has it.
    pub(crate) form: Option<IntentForm>,
    /// It has a body, and no sub-steps.
    pub(crate) has_body: bool,
    /// It waits for a time or a signal, instead of a body.
    pub(crate) is_wait: bool,
    /// The decision of an operator about it.
    pub(crate) settled: Option<Settle>,
    /// How it ended is not recorded: its body is repeated, or the program has it no more.
    pub(crate) may_stay_open: bool,
    /// The attempts that failed so far, and when the next one may start.
    pub(crate) attempts: Option<(u32, Timer)>,
    /// When its time limit or its wait ends.
    pub(crate) timer: Option<Timer>,
    /// The failure with which it fails: the steps inside are undone.
    pub(crate) failed: Option<Unwinding>,
    /// Its input, if that is stored.
    pub(crate) input: Option<Value>,
    /// The keys of the things that it does, in order.
    pub(crate) keys: Option<Vec<String>>,
    /// Its result, if it is a loop that has ended.
    pub(crate) outcome: Option<Value>,
    /// It was recorded in an earlier run, and the program has not come to it in this one.
    pub(crate) is_awaited: bool,
    /// The program has come to it in this run, and to how it ended.
    is_recalled: bool,
    /// The iterations that ended, if it is a loop: each with the state of the next one.
    iterations: BTreeMap<u64, (RecordTicket, Value)>,
    /// Its records, but for iterations.
    tickets: Vec<RecordTicket>,
}

/// How a step ended.
#[derive(Clone, Debug)]
pub(crate) enum RecordedEnd {
    Done(Value),
    Failed(Failed),
}

impl AtPath {
    /// Whether the step at this path has done something or may have.
    pub(crate) fn is_effect(&self, path: &Path) -> bool {
        if self.is_settled() {
            return false;
        }
        let is_begun = self.is_open || matches!(self.end, Some(RecordedEnd::Done(_)));
        is_begun && !path.is_of_undo()
    }

    /// Whether the program goes on with its result although an operator has had it undone.
    pub(crate) fn is_gone(&self) -> bool {
        let is_undone = matches!(self.settled, Some(Settle::Undone | Settle::Undo));
        is_undone && self.is_recalled && matches!(self.end, Some(RecordedEnd::Done(_)))
    }

    /// Whether an operator has settled it: nothing is expected of it.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.settled, Some(Settle::Kept | Settle::Undone))
    }

    /// The form of its body that has begun, if it is not known how that ended.
    pub(crate) fn open_form(&self) -> Option<IntentForm> {
        self.form.filter(|_| self.is_open)
    }

    /// The states that are recorded, if it is a loop.
    pub(crate) fn states(&self) -> impl Iterator<Item = &Value> {
        self.iterations.values().map(|(_, state)| state)
    }

    /// Whether it is recorded that iterations of a loop ended.
    pub(crate) fn is_loop(&self) -> bool {
        !self.iterations.is_empty() || self.outcome.is_some()
    }

    /// Whether this iteration of the loop ended normally.
    pub(crate) fn has_iterated(&self, index: u64) -> bool {
        self.iterations.contains_key(&index) || self.outcome.is_some()
    }

    fn tickets_of_all(self) -> impl Iterator<Item = RecordTicket> {
        let iterations = self.iterations.into_values().map(|(ticket, _)| ticket);
        self.tickets.into_iter().chain(iterations)
    }
}

impl Records {
    /// The records of a loaded flow; `ticket` returns the number of a record.
    pub(crate) fn of(loaded: &Loaded, ticket: impl Fn(RecordId) -> RecordTicket) -> Self {
        let mut records = Self::default();
        for stored in &loaded.records {
            records.add(&stored.record, ticket(stored.id));
        }
        records.loaded();
        records
    }

    /// Takes a record in, newer than all before.
    pub(crate) fn add(&mut self, record: &Record, ticket: RecordTicket) {
        if let (Some(step), Event::Signal(taken)) = (step_at(&record.path), &record.event) {
            return self.settle(step, &taken.value, ticket);
        }
        self.has_undos |= record.path.is_of_undo();
        let step = self.by_path.entry(record.path.clone()).or_default();
        if let Event::Iteration(iteration) = &record.event {
            step.iterations.insert(iteration.index, (ticket, iteration.state.clone()));
            return;
        }
        step.tickets.push(ticket);
        if let (Event::Outcome(outcome), Some(commits)) =
            (&record.event, committed_by(&record.path))
        {
            match outcome.ending {
                Ending::Completed(_) => _ = self.committed.insert(commits),
                Ending::Failed(_) | Ending::Cancelled | _ => _ = self.committed.remove(&commits),
            }
            return;
        }
        match &record.event {
            Event::Intent(intent) => {
                (step.is_open, step.has_body) = (true, true);
                step.is_begun |= intent.has_undo != Some(false);
                step.input.clone_from(&intent.input);
                step.form = intent.form;
            }
            // a shielded body that ends behind the failure of its step: it is undone as that says
            Event::Done(_) if matches!(step.end, Some(RecordedEnd::Failed(_))) => {}
            Event::Done(done) => {
                step.end = Some(RecordedEnd::Done(done.value.clone()));
                (step.is_open, step.has_body) = (false, true);
                self.note_undone(&record.path);
            }
            Event::Failed(failed) => {
                step.end = Some(RecordedEnd::Failed(failed.clone()));
                step.is_open = failed.effect == Effect::Unknown;
            }
            Event::Signal(taken) => {
                step.end = Some(RecordedEnd::Done(taken.value.clone()));
                (step.has_body, step.is_wait) = (true, true);
            }
            Event::Timer(timer) if timer.attempt > 1 => {
                // the failure before it was not the last one
                step.end = None;
                step.attempts = Some((timer.attempt - 1, *timer));
            }
            Event::Timer(timer) => {
                step.timer = Some(*timer);
                // the limit of a body is not at its path
                step.is_wait = true;
            }
            Event::Unwinding(unwinding) => {
                step.failed = Some(unwinding.clone());
                self.unwinding.push(record.path.clone());
            }
            Event::Outcome(Outcome { ending: Ending::Completed(value), .. }) => {
                match (closed_by(&record.path), ended_by(&record.path)) {
                    (Some(scope), _) => self.closed.push(scope),
                    (None, Some(level)) => _ = self.over.insert(level),
                    (None, None) => step.outcome = Some(value.clone()),
                }
            }
            Event::Keys(keys) => {
                step.keys = Some(keys.keys.clone());
                step.has_body = true;
            }
            Event::Started(_) | Event::Outcome(_) | Event::Iteration(_) | Event::Ended(_) | _ => {}
        }
    }

    /// A step ended well at this path: if that is the undo of one with sub-steps, it has undone them.
    fn note_undone(&mut self, path: &Path) {
        let step = path.as_str().strip_suffix('~').and_then(|step| step.parse().ok());
        let is_whole = |step: &Path| self.at(step).is_none_or(|at| !at.has_body);
        self.undone.extend(step.filter(is_whole));
    }

    /// An operator has said this about a step.
    fn settle(&mut self, path: Path, said: &Value, ticket: RecordTicket) {
        let at = self.by_path.entry(path).or_default();
        at.tickets.push(ticket);
        let Some(settled) = Settled::decode(said) else { return };
        if let Settle::Result(result) = &settled.how
            && let Ok(value) = json::encode(result)
        {
            at.end = Some(RecordedEnd::Done(value));
            (at.is_open, at.has_body) = (false, true);
        }
        at.is_awaited &= !matches!(settled.how, Settle::Kept | Settle::Undone);
        at.settled = Some(settled.how);
    }

    /// Takes in records that were stored while the program went on: a step that ended meanwhile in another
    /// way has ended so.
    pub(crate) fn add_stored(&mut self, records: Vec<(RecordTicket, Record)>) {
        for (ticket, record) in records {
            let end = self.at(&record.path).and_then(|at| at.end.clone());
            self.add(&record, ticket);
            if let Some(at) = self.by_path.get_mut(&record.path).filter(|_| end.is_some()) {
                (at.end, at.is_open) = (end, true);
            }
        }
    }

    /// The records at a path.
    pub(crate) fn at(&self, path: &Path) -> Option<&AtPath> {
        self.by_path.get(path).map(|at| &**at)
    }

    /// How often something at this path was tried, since when, and the records of that, which are forgotten.
    pub(crate) fn take_tries(&mut self, path: &Path) -> (u32, Option<Timer>, Vec<RecordTicket>) {
        let Some(at) = self.by_path.remove(path) else { return (0, None, Vec::new()) };
        (at.attempts.map_or(0, |(tries, _)| tries), at.timer, at.tickets)
    }

    /// How long it is until the first end of a limit or a wait that has not ended.
    pub(crate) fn until_next_end(&self, clock: &JournalClock) -> Option<Duration> {
        let steps = self.by_path.values();
        let timers = steps.flat_map(|step| [step.timer, step.attempts.map(|(_, next)| next)]);
        timers.flatten().map(|timer| clock.left(&timer)).filter(|left| !left.is_zero()).min()
    }

    /// Whether the step at this path must not start any more, because a step around it fails.
    pub(crate) fn is_unwinding(&self, path: &Path) -> bool {
        self.unwinding.iter().any(|outer| is_inside(path, outer))
    }

    /// The body of this step runs whenever the program comes to it.
    pub(crate) fn repeats(&mut self, path: &Path) {
        if let Some(at) = self.by_path.get_mut(path) {
            at.may_stay_open = true;
        }
    }

    /// Notes that the program has come to this step, and to how it ended.
    pub(crate) fn recall(&mut self, path: &Path) {
        if let Some(at) = self.by_path.get_mut(path) {
            (at.is_awaited, at.is_recalled) = (false, true);
        }
    }

    /// The program does not have the step at this path any more: it need not end, nor the steps
    /// inside.
    pub(crate) fn retire(&mut self, outer: &Path) {
        let inside = self.by_path.range_mut((Bound::Included(outer), Bound::Unbounded));
        let inside = inside.take_while(|(path, _)| path.as_str().starts_with(outer.as_str()));
        inside
            .filter(|(path, _)| is_part_of(path, outer))
            .for_each(|(_, at)| at.may_stay_open = true);
    }

    /// Marks all present records as records of earlier runs.
    fn loaded(&mut self) {
        let failed = |outer: &Path, path: &Path| is_inside(path, outer) && self.has_failed(outer);
        let is_over = |path: &Path| self.unwinding.iter().any(|outer| failed(outer, path));
        let effects = self.by_path.iter().filter(|(path, step)| step.is_effect(path));
        // items belong to their step
        let steps = effects.filter(|(path, _)| !path.is_item());
        let awaited = steps.map(|(path, _)| path).filter(|path| !is_over(path)).cloned();
        for path in awaited.collect::<Vec<_>>() {
            self.by_path.entry(path).or_default().is_awaited = true;
        }
    }

    /// Whether this is an attempt of a step that was followed by another one.
    pub(crate) fn has_failed(&self, attempt: &Path) -> bool {
        let (step, number) = attempt_of(attempt);
        self.at(&step).and_then(|at| at.attempts).is_some_and(|(failed, _)| failed >= number)
    }

    /// The steps at this path and inside that have done something or may have.
    pub(crate) fn effects_within<'a>(&'a self, outer: &'a Path) -> impl Iterator<Item = &'a Path> {
        let all = self.at(outer).map(|at| (outer, at)).into_iter().chain(self.within(outer));
        all.filter(|(path, step)| step.is_effect(path)).map(|(path, _)| path)
    }

    /// Whether the step at this path was undone, by its own undo or by the undo of a retired step
    /// around it.
    pub(crate) fn is_undone(&self, path: &Path) -> bool {
        if !self.has_undos {
            return false;
        }
        let undo = self.at(&path.undo()).and_then(|undo| undo.end.as_ref());
        matches!(undo, Some(RecordedEnd::Done(_)))
            || self.undone.iter().any(|outer| is_inside(path, outer))
    }

    /// Whether the step at this path has begun to commit the request, and has not failed.
    pub(crate) fn commits_at(&self, path: &Path) -> bool {
        self.committed.contains(path)
    }

    /// Whether it has, or a step inside of it.
    pub(crate) fn commits_within(&self, outer: &Path) -> bool {
        self.committed.iter().any(|path| is_part_of(path, outer))
    }

    /// Whether the scope at this path ended normally.
    pub(crate) fn has_closed(&self, scope: &Path) -> bool {
        self.closed.contains(scope)
    }

    /// Whether the step at this path is inside of a scope that ended normally.
    pub(crate) fn is_closed(&self, path: &Path) -> bool {
        self.closed.iter().any(|scope| is_inside(path, scope))
    }

    /// All records, by path.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Path, &AtPath)> {
        self.by_path.iter().map(|(path, at)| (path, &**at))
    }

    /// The records of each step, without undos and without items, which belong to their step.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (&Path, &AtPath)> {
        self.all().filter(|(path, _)| !path.is_of_undo() && !path.is_item())
    }

    /// Whether there is anything at this path or inside.
    pub(crate) fn are_within(&self, outer: &Path) -> bool {
        self.at(outer).is_some() || self.within(outer).next().is_some()
    }

    /// Whether there is anything of steps of this scope.
    pub(crate) fn have_steps_within(&self, scope: &Path) -> bool {
        self.steps_within(scope).next().is_some()
    }

    pub(crate) fn steps_within<'a>(&'a self, scope: &'a Path) -> impl Iterator<Item = &'a Path> {
        let is_step = |path: &&Path| path.as_str()[scope.as_str().len()..].starts_with('/');
        self.within(scope).map(|(path, _)| path).filter(is_step)
    }

    /// What a loop has to do: it re-enters the iterations that have records.
    pub(crate) fn iterations(&self, path: &Path) -> Iterations {
        let at = self.at(path);
        let state_of = |index: u64| {
            let (_, state) = at?.iterations.get(&index.checked_sub(1)?)?;
            Some(stored(state))
        };
        let mut again: BTreeSet<u64> =
            self.within(path).filter_map(|(inner, _)| iteration_of(path, inner)).collect();
        let next = match at.and_then(|at| at.outcome.as_ref()) {
            Some(result) => ControlFlow::Break(stored(result)),
            None => {
                let last = at.and_then(|at| at.iterations.last_key_value());
                let next = last.map_or(0, |(last, _)| last + 1);
                again.retain(|index| *index < next);
                ControlFlow::Continue((next, state_of(next)))
            }
        };
        let again = again.into_iter().map(|index| (index, state_of(index))).collect();
        Iterations { again, next }
    }

    /// Forgets the steps inside of an iteration of a loop, and the state that it began with;
    /// returns the tickets of these records.
    pub(crate) fn forget_iteration(&mut self, path: &Path, index: u64) -> Vec<RecordTicket> {
        let outer = path.iteration(index);
        let inside = self.within(&outer).map(|(path, _)| path.clone());
        let inside: Vec<Path> = inside.chain([outer.clone()]).collect();
        let removed = inside.iter().filter_map(|path| self.by_path.remove(path));
        let mut tickets: Vec<RecordTicket> =
            removed.flat_map(|step| step.tickets_of_all()).collect();
        self.unwinding.retain(|path| !path.is_within(&outer));
        self.closed.retain(|path| !path.is_within(&outer));
        self.ended.retain(|path| !path.is_within(&outer));
        self.over.retain(|path| !path.is_within(&outer));
        let state = self.by_path.get_mut(path).zip(index.checked_sub(1));
        let state = state.and_then(|(at, before)| at.iterations.remove(&before));
        tickets.extend(state.map(|(ticket, _)| ticket));
        tickets
    }

    pub(crate) fn within<'a>(
        &'a self,
        outer: &'a Path,
    ) -> impl Iterator<Item = (&'a Path, &'a AtPath)> {
        let after = self.by_path.range((Bound::Excluded(outer), Bound::Unbounded));
        // paths that begin with the same text come together, and some of them are of other steps
        after
            .take_while(|(path, _)| path.as_str().starts_with(outer.as_str()))
            .filter(|(path, _)| path.is_within(outer))
            .map(|(path, at)| (path, &**at))
    }
}

/// The mark of the record of the normal end of a scope.
const CLOSED: &str = "closed";

/// The marks of the parts that are inside of the attempt of a step before them: not the marks of
/// another attempt, or of an undo.
const INSIDE: [char; 3] = ['/', '#', '@'];

/// Whether a step is inside of an attempt of another one.
pub(crate) fn is_inside(path: &Path, attempt: &Path) -> bool {
    let inside = path.is_within(attempt).then(|| &path.as_str()[attempt.as_str().len()..]);
    inside.is_some_and(|inside| inside.starts_with(INSIDE))
}

/// Whether it is this step, an attempt of it, or inside of one: not another step of the same name.
pub(crate) fn is_part_of(path: &Path, outer: &Path) -> bool {
    path == outer
        || path.is_within(outer) && !path.as_str()[outer.as_str().len()..].starts_with('|')
}

/// The mark of the record of the normal end of sub-steps within a time limit.
const ENDED: &str = "ended";

/// Where it is recorded that the sub-steps at this path ended normally.
pub(crate) fn end_of(level: &Path) -> Path {
    level.branch(ENDED)
}

/// The sub-steps whose normal end is recorded at this path.
fn ended_by(path: &Path) -> Option<Path> {
    path.as_str().strip_suffix(ENDED)?.strip_suffix('|')?.parse().ok()
}

/// Where it is recorded that the scope at this path ended normally.
pub(crate) fn closing_of(scope: &Path) -> Path {
    scope.branch(CLOSED)
}

/// The scope whose normal end is recorded at this path.
fn closed_by(path: &Path) -> Option<Path> {
    path.as_str().strip_suffix(CLOSED)?.strip_suffix('|')?.parse().ok()
}

/// The mark of the record of a step that commits.
const COMMITTED: &str = "committed";

/// Where it is recorded that the step at this path has begun to commit the request.
pub(crate) fn commit_of(step: &Path) -> Path {
    step.branch(COMMITTED)
}

/// The step whose commit is recorded at this path.
fn committed_by(path: &Path) -> Option<Path> {
    path.as_str().strip_suffix(COMMITTED)?.strip_suffix('|')?.parse().ok()
}

/// Whether a step that commits has begun, and has not failed.
pub(crate) fn is_committed(records: &[StoredRecord]) -> bool {
    let mut open = Vec::new();
    for record in records.iter().map(|stored| &stored.record) {
        if let (Event::Outcome(outcome), Some(step)) = (&record.event, committed_by(&record.path)) {
            open.retain(|other| *other != step);
            open.extend(matches!(outcome.ending, Ending::Completed(_)).then_some(step));
        }
    }
    !open.is_empty()
}

/// The step of an attempt, and the number of that.
pub(crate) fn attempt_of(attempt: &Path) -> (Path, u32) {
    let text = attempt.as_str();
    let numbered = text
        .rfind('!')
        .and_then(|at| Some((text[..at].parse().ok()?, text[at + 1..].parse().ok()?)));
    numbered.unwrap_or_else(|| (attempt.clone(), 1))
}

/// In which iteration of a loop a path is.
fn iteration_of(path: &Path, inner: &Path) -> Option<u64> {
    let rest = inner.as_str().get(path.as_str().len()..)?.strip_prefix('#')?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// How a flow began.
pub(crate) fn started(loaded: &Loaded) -> Option<&Started> {
    loaded.records.iter().find_map(|stored| {
        if let Event::Started(started) = &stored.record.event { Some(started) } else { None }
    })
}

/// The error of a failure.
pub(crate) fn error_of(failure: &Failure) -> asyncsteps_core::Error {
    match &failure.text {
        Some(text) => asyncsteps_core::Error::with_info(failure.code.clone(), text.clone()),
        None => asyncsteps_core::Error::new(failure.code.clone()),
    }
}

/// The failure of an error: its code, and its text for people.
pub(crate) fn failure_of(error: &asyncsteps_core::Error) -> Failure {
    let cut = |text: &str| cut(text, TEXT_BYTES);
    Failure { code: cut(error.code()), text: error.info().map(cut) }
}

/// A text as the journal stores it: cut to a number of bytes, without a character that not all journals can store.
pub(crate) fn cut(text: &str, most: usize) -> String {
    let text = text.replace('\0', "\u{fffd}");
    let ends = text.char_indices().map(|(at, letter)| at + letter.len_utf8());
    let end = ends.take_while(|end| *end <= most).last().unwrap_or(0);
    text[..end].to_owned()
}
