//! What the records of a flow say of the steps of its program. It knows neither clock, journal nor node.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::time::Duration;

use asyncsteps_executor::recorder::Iterations;
use asyncsteps_journal::record::{
    Effect, Ending, Failed, IntentForm, Outcome, StoredRecord, Timer, Unwinding,
};
use asyncsteps_journal::request::Loaded;
use asyncsteps_journal::{Event, Path, Record, RecordId, Value};

use crate::json;
use crate::left::JournalClock;
use crate::levels::Levels;
use crate::marks::{
    CLOSED, COMMITTED, ENDED, INSIDE, attempt_of, branched, is_part_of, iteration_of,
};
use crate::settled::{self, Settle, Settled};
use crate::stored::stored;
use crate::writer::RecordTicket;

/// The records of a flow, as far as its steps ask for them, and what the program has come to in this run.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// Its end was decided outside before this node has loaded it.
    pub(crate) knew_end: bool,
    /// An earlier run has recorded something.
    is_replayed: bool,
    /// Boxed, because it is moved whenever a path comes between others.
    by_path: BTreeMap<Path, Box<AtPath>>,
    /// What has become of steps as a whole.
    pub(crate) levels: Levels,
    /// Something is recorded of an undo.
    has_undos: bool,
    /// The undos that began in this run and have undone nothing, by the path of their steps.
    pub(crate) not_undone: BTreeMap<Path, NotUndone>,
    /// The step that failed last.
    pub(crate) last_failed: Option<Path>,
}

/// Why an undo has undone nothing.
#[derive(Debug)]
pub(crate) struct NotUndone {
    pub(crate) why: String,
    /// Something is away, or a lock has refused it: it is tried again.
    pub(crate) is_away: bool,
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

impl Replay {
    /// The records of a loaded flow; `ticket` returns the number of a record.
    pub(crate) fn of(loaded: &Loaded, ticket: impl Fn(RecordId) -> RecordTicket) -> Self {
        let mut replay = Self::read(&loaded.records, ticket);
        replay.is_replayed = loaded.records.len() > 1;
        replay.loaded();
        replay
    }

    /// These records, for questions that no run asks.
    pub(crate) fn read(
        records: &[StoredRecord],
        ticket: impl Fn(RecordId) -> RecordTicket,
    ) -> Self {
        let mut replay = Self::default();
        for stored in records {
            replay.add(&stored.record, ticket(stored.id));
        }
        replay
    }

    /// Takes a record in, newer than all before.
    pub(crate) fn add(&mut self, record: &Record, ticket: RecordTicket) {
        if let (Some(step), Event::Signal(taken)) =
            (branched(&record.path, settled::AT), &record.event)
        {
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
            (&record.event, branched(&record.path, COMMITTED))
        {
            self.levels.at(commits).commits = matches!(outcome.ending, Ending::Completed(_));
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
                self.levels.at(record.path.clone()).fails = true;
            }
            Event::Outcome(Outcome { ending: Ending::Completed(value), .. }) => {
                let branched = |branch| branched(&record.path, branch);
                match (branched(CLOSED), branched(ENDED)) {
                    (Some(scope), _) => self.levels.at(scope).is_closed = true,
                    (None, Some(level)) => self.levels.at(level).is_over = true,
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
        if let Some(step) = step.filter(is_whole) {
            self.levels.at(step).is_undone = true;
        }
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

    /// Takes in records that were stored while the program went on. An end that the program has come to wins over a stored
    /// one.
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
        self.levels.is_inside(path, |level| level.fails)
    }

    /// The step inside of the one at this path that failed last.
    pub(crate) fn last_failed_within(&self, path: &Path) -> Option<Path> {
        self.last_failed.clone().filter(|last| last.is_within(path))
    }

    /// The body of this step runs whenever the program comes to it.
    pub(crate) fn repeats(&mut self, path: &Path) {
        if let Some(at) = self.by_path.get_mut(path) {
            at.may_stay_open = true;
        }
    }

    /// Notes that the program has come to this step, and to how it ended.
    pub(crate) fn recall(&mut self, path: &Path) {
        if self.is_replayed
            && let Some(at) = self.by_path.get_mut(path)
        {
            (at.is_awaited, at.is_recalled) = (false, true);
        }
    }

    /// The program does not have the step at this path any more: it need not end, nor the steps
    /// inside.
    pub(crate) fn retire(&mut self, outer: &Path) {
        if self.effects_within(outer).next().is_none() {
            return;
        }
        self.levels.at(outer.clone()).is_retired = true;
        let inside = self.by_path.range_mut::<Path, _>((Bound::Included(outer), Bound::Unbounded));
        let inside = inside.take_while(|(path, _)| path.as_str().starts_with(outer.as_str()));
        inside
            .filter(|(path, _)| is_part_of(path, outer))
            .for_each(|(_, at)| at.may_stay_open = true);
    }

    /// Whether a step that the program has no more has done something inside of this one, or may have.
    pub(crate) fn has_retired_within(&self, outer: &Path) -> bool {
        self.levels.any_within(outer, |_, level| level.is_retired)
    }

    /// Marks all present records as records of earlier runs.
    fn loaded(&mut self) {
        let is_over = |path: &Path| {
            let mut fails = self.levels.around(path).filter(|(_, level, _)| level.fails);
            fails.any(|(outer, _, rest)| rest.starts_with(INSIDE) && self.has_failed(outer))
        };
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
            || self.levels.is_inside(path, |level| level.is_undone)
    }

    /// Whether a step that commits has begun.
    pub(crate) fn is_committed(&self) -> bool {
        self.levels.any(|level| level.commits)
    }

    /// Whether the request only ends: its end was decided before this node has loaded it, and no step has committed it.
    pub(crate) fn only_ends(&self) -> bool {
        self.knew_end && !self.is_committed()
    }

    /// Whether the step at this path, or one inside, has begun to commit the request, and has not failed.
    pub(crate) fn commits_within(&self, outer: &Path) -> bool {
        self.levels.any_within(outer, |path, level| level.commits && is_part_of(path, outer))
    }

    /// Whether the step at this path is inside of a scope that ended normally.
    pub(crate) fn is_closed(&self, path: &Path) -> bool {
        self.levels.is_inside(path, |level| level.is_closed)
    }

    /// All records, by path.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Path, &AtPath)> {
        self.by_path.iter().map(|(path, at)| (path, &**at))
    }

    /// The records of each step that is so, without undos and without items, which belong to their step.
    pub(crate) fn steps(
        &self,
        so: impl Fn(&AtPath) -> bool,
    ) -> impl Iterator<Item = (&Path, &AtPath)> {
        self.all().filter(move |(path, at)| so(at) && !path.is_of_undo() && !path.is_item())
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
        self.levels.forget(&outer);
        let state = self.by_path.get_mut(path).zip(index.checked_sub(1));
        let state = state.and_then(|(at, before)| at.iterations.remove(&before));
        tickets.extend(state.map(|(ticket, _)| ticket));
        tickets
    }

    pub(crate) fn within<'a>(
        &'a self,
        outer: &'a Path,
    ) -> impl Iterator<Item = (&'a Path, &'a AtPath)> {
        let after = self.by_path.range::<Path, _>((Bound::Excluded(outer), Bound::Unbounded));
        // paths that begin with the same text come together, and some of them are of other steps
        after
            .take_while(|(path, _)| path.as_str().starts_with(outer.as_str()))
            .filter(|(path, _)| path.is_within(outer))
            .map(|(path, at)| (path, &**at))
    }
}

#[cfg(test)]
mod tests {
    use asyncsteps_journal::Timestamp;
    use asyncsteps_journal::record::{Done, Failure, Intent, Iteration};

    use super::*;

    fn nothing() -> Value {
        Value::encode(&()).expect("it is small")
    }

    fn begun() -> Event {
        let (at, locks) = (Timestamp::from_millis(1), Vec::new());
        Event::Intent(Intent {
            at,
            attempt: 1,
            locks,
            has_undo: Some(true),
            input: None,
            form: None,
        })
    }

    fn done() -> Event {
        Event::Done(Done { value: nothing(), attempt: 1, millis: 0 })
    }

    fn fails(at: &Path) -> Event {
        let failure = Failure { code: "Declined".to_owned(), text: None };
        Event::Unwinding(Unwinding { failed: at.clone(), failure, cause: None })
    }

    fn outcome(ending: Ending) -> Event {
        Event::Outcome(Outcome { winner: None, ending })
    }

    impl Replay {
        fn with(mut self, path: &Path, event: Event) -> Self {
            self.add(&Record::new(path.clone(), event), RecordTicket::default());
            self
        }

        fn to_undo(&self) -> Vec<String> {
            self.to_undo_within(&Path::template("f")).map(Path::to_string).collect()
        }
    }

    #[test]
    fn what_began_in_a_step_that_failed_is_to_be_undone_until_its_undo_has_ended() {
        let order = Path::template("f").step("order");
        let (charge, gift) = (order.step("charge"), Path::template("f").step("gift"));
        let replay = Replay::default().with(&charge, begun()).with(&charge, done());
        let replay = replay.with(&gift, begun()).with(&gift, done());
        assert!(replay.to_undo().is_empty());
        let replay = replay.with(&order, fails(&charge));
        assert!(replay.is_unwinding(&charge) && !replay.is_unwinding(&gift));
        assert_eq!(replay.to_undo(), ["f/order/charge"]);
        let replay = replay.with(&charge.undo(), done());
        assert!(replay.to_undo().is_empty());
    }

    #[test]
    fn a_request_that_only_ends_is_undone_unless_a_step_has_committed_it() {
        let (charge, ship) = (Path::template("f").step("charge"), Path::template("f").step("ship"));
        let mut replay = Replay::default().with(&charge, begun()).with(&charge, done());
        replay.knew_end = true;
        assert_eq!(replay.to_undo(), ["f/charge"]);
        let replay = replay.with(&ship.branch(COMMITTED), outcome(Ending::Completed(nothing())));
        assert!(replay.commits_within(&ship) && !replay.only_ends());
        assert!(replay.to_undo().is_empty());
        let failure = Failure { code: "Lost".to_owned(), text: None };
        let replay = replay.with(&ship.branch(COMMITTED), outcome(Ending::Failed(failure)));
        assert_eq!(replay.to_undo(), ["f/charge"]);
    }

    #[test]
    fn a_scope_that_ended_well_is_not_undone_with_what_is_around_it() {
        let scope = Path::template("f").step("order").step("scope");
        let charge = scope.step("charge");
        let replay = Replay::default().with(&charge, begun()).with(&charge, done());
        let replay = replay.with(&scope.branch(CLOSED), outcome(Ending::Completed(nothing())));
        assert!(replay.has_ended(&scope) && replay.is_closed(&charge));
        let replay = replay.with(&Path::template("f").step("order"), fails(&charge));
        assert!(replay.to_undo().is_empty());
    }

    #[test]
    fn a_forgotten_iteration_leaves_nothing_behind() {
        let each = Path::template("f").step("each");
        let inside = each.iteration(1).step("a");
        let next = |index| Event::Iteration(Iteration { index, state: nothing() });
        let replay = Replay::default().with(&each, next(0)).with(&inside, begun());
        let mut replay = replay.with(&each.iteration(1), fails(&inside)).with(&each, next(1));
        assert!(replay.has_ended(&each.iteration(0)) && !replay.has_ended(&each.iteration(1)));
        assert_eq!(replay.forget_iteration(&each, 1).len(), 3);
        assert!(!replay.is_unwinding(&inside) && !replay.are_within(&each.iteration(1)));
    }
}
