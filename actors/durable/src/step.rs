//! A step of a durable flow: the history that it learns, and the records that it writes.

use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{pending, ready};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use asyncsteps_actors::clock;
use asyncsteps_actors::sync::deadlock;
use asyncsteps_core::replay::{Limit, LimitTurn, Replay, ReplayHooks, Then};
use asyncsteps_core::{Error, StepError, Time, codes};
use asyncsteps_executor::plan::{Form, StepView};
use asyncsteps_executor::recorder::{
    BodyEnd, Kind, Later, LevelEnd, Part, Recalled, RecordedStep, RecordedSteps, Run, Running,
    StepRecorder, Stored, Sublevel, WaitEnd, Work, WrongSteps,
};
use asyncsteps_journal::record::{Done, Effect, Ending, Failed, Iteration, Keys, Outcome};
use asyncsteps_journal::{Event, Path, PathPart, Value};
use serde_json::Value as Json;

use crate::causes::{cause_of, recalled};
use crate::child::ChildWork;
use crate::flow::DurableFlow;
use crate::forms::{form_of, intent};
use crate::inside::InsideSteps;
use crate::life::{LeaveReason, Turn};
use crate::marks::{CLOSED, ENDED};
use crate::measured::Measured;
use crate::on_drop::on_drop;
use crate::records::{error_of, failure_of};
use crate::replay::RecordedEnd;
use crate::stored::{stored, value};
use crate::transact;

/// How many keys of items an operator is shown.
const SHOWN_KEYS: usize = 10;

/// The branch of a step at which the limit of all its attempts together is recorded.
pub(crate) const WITHIN: &str = "within";

/// A step of a durable flow.
pub(crate) struct DurableStep {
    pub(crate) flow: Rc<DurableFlow>,
    pub(crate) step: StepView,
    pub(crate) path: Path,
    pub(crate) began: Cell<Time>,
    measured: Rc<Measured>,
    /// The attempt that has defined its sub-steps last.
    current: Cell<u32>,
    /// An attempt of it failed, and was recorded.
    has_failed: Cell<bool>,
    /// Its undo has begun.
    undoes: Cell<bool>,
    /// Its input, if that is recorded.
    input: RefCell<Option<Value>>,
}

impl DurableStep {
    pub(crate) fn new(flow: &Rc<DurableFlow>, step: &StepView, path: Path) -> Self {
        let (flow, step, began) = (Rc::clone(flow), step.clone(), Cell::new(Time::ZERO));
        let (measured, current, input) = (Rc::default(), Cell::new(1), RefCell::default());
        let (has_failed, undoes) = (Cell::new(false), Cell::new(false));
        Self { flow, step, path, began, measured, current, has_failed, undoes, input }
    }

    fn is_body(&self) -> bool {
        self.step.form() == Form::Body
    }

    /// Whether it is the function as a whole.
    fn is_function(&self) -> bool {
        self.path == self.flow.root
    }

    /// The path of sub-steps.
    fn sublevel(&self, at: &Sublevel) -> Path {
        let attempt = (at.attempt > 1).then_some(PathPart::Attempt(at.attempt));
        let part = at.part.as_ref().map(|part| match part {
            Part::Iteration(index) => PathPart::Iteration(*index),
            Part::Item(number) => PathPart::Key(Cow::Owned(number.to_string())),
            Part::Key(key) => PathPart::Key(Cow::Borrowed(&**key)),
        });
        match (&attempt, &part) {
            (None, None) => self.path.clone(),
            _ => self.path.inside(attempt.into_iter().chain(part)),
        }
    }

    /// The path of an attempt of a step with sub-steps.
    fn attempt(&self, attempt: u32) -> Path {
        self.sublevel(&Sublevel { attempt, part: None })
    }

    /// The path at which the step fails, or this attempt of it.
    fn failing(&self, attempt: Option<u32>) -> Path {
        if self.is_body() {
            return self.path.clone();
        }
        self.attempt(attempt.unwrap_or_else(|| self.current.get()))
    }

    /// The flow has come to the step.
    fn is_reached(&self) {
        self.flow.replay.borrow_mut().recall(&self.path);
        self.flow.activity.happens();
    }

    /// Whether no effect of the step may begin any more.
    fn must_not_begin(&self) -> bool {
        self.flow.is_interrupted() || self.flow.replay.borrow().is_unwinding(&self.path)
    }

    /// The program has changed: the flow waits for an operator, and the step for nothing.
    pub(crate) fn diverges(&self, why: &str) -> Replay {
        let (path, source) = (&self.path, self.step.source());
        self.flow.leave(LeaveReason::Paused(format!("{path} ({source}): {why}")));
        Replay::Never { undoes: false }
    }

    /// An attempt is about to begin.
    fn intent(&self, attempt: u32) -> Event {
        let input = self.input.borrow().clone();
        Event::Intent(intent(&self.step, self.flow.clock().now(), (attempt, input)))
    }

    pub(crate) fn record_failure(&self, attempt: u32, error: &Error, effect: Effect) {
        self.flow.commit_fails(&self.path, error);
        let failure = failure_of(error);
        let millis = self.millis();
        let cause = cause_of(&self.step, &self.path, error);
        let failed = Failed { failure, attempt, millis, effect, cause };
        match self.step.kind() {
            // if it contradicts the records, it may end well when the request goes on
            Some(Kind::Repeatable) if self.flow.replay.borrow().is_in_ended(&self.path) => {}
            _ => self.flow.record(&self.path, [Event::Failed(failed)]),
        }
    }

    /// The error with which an attempt of the step failed in an earlier run, of which one of these is the path.
    fn failed_before(&self, paths: &[&Path]) -> Option<Error> {
        let records = self.flow.replay.borrow();
        let unwinding = paths.iter().find_map(|path| records.at(path)?.failed.clone())?;
        drop(records);
        let recalled = recalled(&self.step, &unwinding.failure, unwinding.cause.as_ref());
        Some(recalled.unwrap_or_else(|why| {
            self.diverges(&format!("its error cannot be read: {why}"));
            error_of(&unwinding.failure)
        }))
    }

    /// Its failure, if it is recorded that it has failed.
    fn failed_already(&self) -> Option<Failed> {
        match self.flow.replay.borrow().at(&self.path)?.end.as_ref()? {
            RecordedEnd::Failed(failed) => Some(failed.clone()),
            RecordedEnd::Done(_) => None,
        }
    }

    fn millis(&self) -> u64 {
        let time = clock::now().saturating_since(self.began.get());
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
    }
}

impl ReplayHooks for DurableStep {
    fn recall(&self) -> Replay {
        let recalled = if self.is_body() { self.recall_body() } else { Replay::Nothing };
        // a body is not where it was before it begins
        if !matches!(recalled, Replay::Begun | Replay::Never { .. }) {
            self.is_reached();
        }
        recalled
    }

    fn attempts(&self) -> Option<(u32, Time)> {
        let (attempts, next) = self.flow.replay.borrow().at(&self.path)?.attempts?;
        let next = clock::now() + self.flow.clock().left(&next);
        self.flow.activity.wait(&self.path, Some(next));
        Some((attempts, next))
    }

    fn time_left(&self, limit: Limit, of: Duration, now: Time, turn: LimitTurn<'_>) -> Duration {
        let waited = self.measured.waited(limit, self.flow.results.waited(now));
        match turn {
            LimitTurn::Begins => {
                let path = match limit {
                    Limit::Overall => self.path.branch(WITHIN),
                    // a body begins anew, and so does its time
                    Limit::Attempt(_) if self.is_body() => return of,
                    Limit::Attempt(attempt) => self.attempt(attempt),
                };
                self.flow.left_of_limit(&path, of, now)
            }
            LimitTurn::Passes(branches) if self.is_lifted(limit) => {
                deadlock::look_again(&branches());
                of
            }
            // a body that succeeded in time has succeeded, however long it takes to store that
            LimitTurn::Passes(_) => match limit {
                Limit::Attempt(_) if self.is_body() => match self.measured.body_began() {
                    Some(began) => (began + of).saturating_since(now) + waited,
                    None => of,
                },
                // its end was recorded
                Limit::Attempt(_) | Limit::Overall => waited,
            },
        }
    }

    fn is_lifted(&self, limit: Limit) -> bool {
        let is_around = limit == Limit::Overall || !self.is_body();
        let records = self.flow.replay.borrow();
        let has_ended = match limit {
            Limit::Attempt(attempt) => records.has_ended(&self.attempt(attempt)),
            Limit::Overall => records.has_ended(&self.attempt(self.current.get())),
        };
        is_around && (has_ended || records.commits_within(&self.path))
    }

    fn fails(&self, attempt: Option<u32>, error: &Error, then: Then) {
        let undoes = match then {
            Then::Unwinds { undoes } => undoes,
            Then::Retries(next) => return self.retries(attempt.unwrap_or(1), error, next),
        };
        if !self.is_body() {
            if attempt.is_none() && self.has_failed.get() {
                return;
            }
            self.has_failed.set(attempt.is_some());
            let path = self.failing(attempt);
            self.flow.unwinds(&self.step, &path, &path, error);
            return self.flow.failed(&path);
        }
        if attempt.is_some() || self.waits_for_store(error) {
            return;
        }
        let effect = if undoes { Effect::Unknown } else { Effect::None };
        if let Some(failed) = self.failed_already() {
            // its shielded body has failed behind the limit with which it fails
            return self.flow.record(&self.path, [Event::Failed(Failed { effect, ..failed })]);
        }
        self.record_failure(error.attempts().unwrap_or(1), error, effect);
        self.flow.failed(&self.path);
    }
}

impl StepRecorder for DurableStep {
    fn recalled(&self, attempt: u32) -> Recalled {
        self.current.set(attempt);
        let records = self.flow.replay.borrow();
        let at = records.at(&self.path);
        let result = at.and_then(|at| match &at.end {
            Some(RecordedEnd::Done(value)) => Some(value),
            Some(RecordedEnd::Failed(_)) => None,
            None => at.outcome.as_ref(),
        });
        let only_ends = self.is_function() && records.only_ends();
        Recalled {
            result: result.map(stored),
            input: at.and_then(|at| at.input.as_ref()).map(stored),
            is_to_undo: only_ends || records.is_to_undo(&self.path),
            to_undo: records.to_undo_inside(&self.path),
            iterations: records.iterations(&self.attempt(attempt)),
        }
    }

    fn takes(&self, input: Stored) -> Result<(), Error> {
        let input = value(&input);
        // a step that an earlier program began without its input goes on
        let has_begun = self.flow.replay.borrow().at(&self.path).is_some();
        if let (Err(error), false) = (&input, has_begun) {
            let why = error.info().unwrap_or_default();
            let path = &self.path;
            let info =
                format!("{path} does not begin, because its undo needs what it takes: {why}");
            return Err(Error::unexpected(info));
        }
        self.input.replace(input.ok());
        Ok(())
    }

    fn begin(&self, run: Run) -> Later<Result<Running, Error>> {
        match run {
            Run::Attempt(attempt) => self.begin_body(attempt),
            Run::Undo => {
                self.undoes.set(true);
                self.begin_undo()
            }
        }
    }

    fn ends(&self, attempt: u32, end: BodyEnd) -> Later<Result<Stored, Error>> {
        match end {
            BodyEnd::Done(result) => self.done(attempt, result),
            BodyEnd::Transacts(work) => self.transact(attempt, work),
            BodyEnd::Pauses(pause) => self.wait(Some(pause), false),
            BodyEnd::AwaitsSignal(within) => self.wait(within, true),
        }
    }

    fn undone(&self, undone: Result<(), &Error>) -> Later<Result<(), Error>> {
        match undone {
            Ok(()) if self.is_function() => return Box::pin(Rc::clone(&self.flow).goes_on()),
            Ok(()) => {
                let done = Done { millis: self.millis(), ..nothing() };
                self.flow.ends_undo(&self.path, done);
            }
            Err(error) => self.flow.undo_fails(&self.path, error),
        }
        Box::pin(ready(Ok(())))
    }

    fn keys(&self, attempt: u32, keys: Vec<String>) -> Result<Vec<String>, Error> {
        let path = self.failing(Some(attempt));
        let recorded = self.flow.replay.borrow().at(&path).and_then(|at| at.keys.clone());
        let Some(recorded) = recorded else {
            self.flow.record(&path, [Event::Keys(Keys { keys: keys.clone() })]);
            return Ok(keys);
        };
        let set = |keys: &[String]| keys.iter().cloned().collect::<BTreeSet<_>>();
        let (now, before) = (set(&keys), set(&recorded));
        if now == before {
            return Ok(recorded);
        }
        let shown = |mut keys: Vec<String>| {
            keys.truncate(SHOWN_KEYS);
            keys.join(", ")
        };
        let gone = shown(before.difference(&now).cloned().collect());
        let new = shown(now.difference(&before).cloned().collect());
        let why = format!("its items have changed: [{gone}] are recorded, [{new}] are new");
        self.diverges(&why);
        Err(Error::unexpected(why))
    }

    fn steps(&self, at: &Sublevel, ways: &[Vec<StepView>], begins: bool) -> RecordedSteps {
        let level = self.sublevel(at);
        if begins {
            self.begin_steps(at.attempt, &level, ways)?;
        }
        let records = self.flow.replay.borrow();
        let recorded = |view: &StepView| {
            let (name, path) = records.place_of(&level, view);
            let recorder = Rc::new(Self::new(&self.flow, view, path));
            RecordedStep { view: view.clone(), name, recorder }
        };
        Ok(ways.iter().flatten().map(recorded).collect())
    }

    fn inside(&self, at: &Sublevel) -> Rc<dyn ReplayHooks> {
        self.current.set(at.attempt);
        let (flow, path) = (Rc::clone(&self.flow), self.sublevel(at));
        Rc::new(InsideSteps::new(flow, self.step.clone(), path))
    }

    fn emit(&self, key: &str, event: Json) -> Later<Result<(), Error>> {
        let path = if self.undoes.get() { self.path.undo() } else { self.path.clone() };
        Box::pin(Rc::clone(&self.flow).emit(path, key.to_owned(), event))
    }

    fn carry_out(&self, work: Work) -> Later<Result<Stored, Error>> {
        let work = match work.downcast::<ChildWork>() {
            Ok(work) => *work,
            Err(_) => unreachable!("the steps of this crate ask for their children"),
        };
        Box::pin(Rc::clone(&self.flow).child(self.path.clone(), work))
    }

    fn now(&self, at: &Sublevel) -> SystemTime {
        let path = self.sublevel(at).branch("now");
        let at = self.flow.timer_at(&path, || self.flow.clock().time_of_day());
        SystemTime::UNIX_EPOCH + Duration::from_millis(at.at.as_millis())
    }

    fn ended(&self, at: &Sublevel, end: LevelEnd) -> Result<(), Error> {
        let level = self.sublevel(at);
        let is_final = match end {
            LevelEnd::Iteration { index, can_be_undone, next } => {
                return self.iterated(&level, (index, can_be_undone), next);
            }
            LevelEnd::All { .. } if self.is_function() => {
                self.flow.turns(Turn::Finishes);
                return Ok(());
            }
            LevelEnd::All { is_final } => is_final,
        };
        let end = level.branch(if is_final { CLOSED } else { ENDED });
        let is_needed = is_final || self.flow.replay.borrow().needs_end(&level);
        if is_needed {
            let ending = Ending::Completed(nothing().value);
            self.flow.record(&end, [Event::Outcome(Outcome { winner: None, ending })]);
        }
        Ok(())
    }
}

impl DurableStep {
    /// The next attempt starts at this time.
    fn retries(&self, attempt: u32, error: &Error, next: Time) {
        let failed = Failed {
            failure: failure_of(error),
            attempt,
            millis: self.millis(),
            effect: Effect::Unknown,
            cause: None,
        };
        let pause = next.saturating_since(clock::now());
        let timer = self.flow.clock().timer(pause, attempt + 1);
        self.flow.record(&self.path, [Event::Failed(failed), Event::Timer(timer)]);
        self.flow.activity.wait(&self.path, Some(next));
    }

    fn begin_body(&self, attempt: u32) -> Later<Result<Running, Error>> {
        let kind = self.step.kind();
        let commits = self.step.commits() && !self.path.is_item();
        self.is_reached();
        let has_effect = !matches!(kind, Some(Kind::Repeatable | Kind::Wait));
        if has_effect && self.must_not_begin() {
            return Box::pin(pending());
        }
        let activity = &self.flow.activity;
        activity.end_wait(&self.path);
        let running = (kind != Some(Kind::Wait))
            .then(|| (activity.body(has_effect), (self.path.clone(), attempt)));
        self.began.set(clock::now());
        self.measured.body_waits();
        let is_effect = match kind {
            Some(Kind::Once) => true,
            // it is recorded with its effect
            Some(Kind::Transacted) => false,
            _ => self.step.can_be_undone() || commits,
        };
        let (is_wait, form) = (kind == Some(Kind::Wait), form_of(&self.step));
        if is_effect || self.flow.bodies.are_recorded() && !is_wait {
            self.flow.record(&self.path, [self.intent(attempt)]);
        }
        if kind == Some(Kind::Repeatable) {
            self.flow.replay.borrow_mut().repeats(&self.path);
        }
        let (flow, stored) = (Rc::clone(&self.flow), self.flow.stored());
        let (measured, path) = (Rc::clone(&self.measured), commits.then(|| self.path.clone()));
        Box::pin(async move {
            stored.await;
            if let Some(path) = path {
                // in a box, because most steps commit nothing and need no room for it
                Box::pin(Rc::clone(&flow).commits(path)).await;
            }
            if kind == Some(Kind::Once) {
                flow.owned.lease().valid().await;
            }
            let guard: Box<dyn Any> = match running {
                Some((running, body)) => match flow.owned.held.begin(body, form) {
                    Some(body) => Box::new((running, body, flow.bodies.alone())),
                    None => {
                        flow.leave(LeaveReason::Lost);
                        return pending().await;
                    }
                },
                None => Box::new(()),
            };
            let now = clock::now();
            measured.body_begins(now, flow.results.waited(now));
            Ok(Running { guard, blocks: Rc::clone(&flow.bodies.blocks) })
        })
    }

    fn done(&self, attempt: u32, result: Stored) -> Later<Result<Stored, Error>> {
        let value = match value(&result) {
            Ok(value) => value,
            // an effect without a storable result was done all the same
            Err(error) => return Box::pin(async { Err(error.outcome_unknown()) }),
        };
        let done = Done { value, attempt, millis: self.millis() };
        if self.step.answers() {
            let (flow, path) = (Rc::clone(&self.flow), self.path.clone());
            return Box::pin(async move {
                flow.answers(path, done).await;
                Ok(result)
            });
        }
        self.flow.record(&self.path, [Event::Done(done)]);
        if !self.flow.has_locks.get() {
            return Box::pin(ready(Ok(result)));
        }
        let (stored, waiting) = (self.flow.stored(), self.flow.results.wait());
        Box::pin(async move {
            let _waiting = waiting;
            stored.await;
            Ok(result)
        })
    }

    fn transact(&self, attempt: u32, work: Work) -> Later<Result<Stored, Error>> {
        let (flow, path) = (Rc::clone(&self.flow), self.path.clone());
        let transaction = transact::transaction(work);
        if flow.owned.writer.journal().database() != Some(transaction.database()) {
            self.diverges("it commits in another database than that of the journal");
            return Box::pin(pending());
        }
        // records that it began with an undo
        let intent = self.step.can_be_undone().then(|| self.intent(attempt));
        Box::pin(async move {
            let prepared = transaction.prepare().await.map_err(StepError::into_error)?;
            let value = flow.commit(prepared, (path, attempt), intent).await?;
            Ok(stored(&value))
        })
    }

    fn wait(&self, end: Option<WaitEnd>, is_signal: bool) -> Later<Result<Stored, Error>> {
        let until = end.map(|end| (end, clock::now() + self.flow.left_of_wait(&self.path, end)));
        let (flow, path) = (Rc::clone(&self.flow), self.path.clone());
        let names: Vec<_> = self.step.names().map(|(name, _)| name).collect();
        flow.activity.wait(&path, until.map(|(_, until)| until));
        Box::pin(async move {
            let _waiting = on_drop(|| flow.activity.end_wait(&path));
            let Some((end, until)) = until.filter(|_| !is_signal) else {
                return Ok(stored(&Rc::clone(&flow).signal(&path, &names, until).await));
            };
            flow.stored().await;
            flow.wait_ends(&path, end, until).await;
            // it has ended also if the clock is set back
            flow.record(&path, [Event::Done(nothing())]);
            Ok([].into())
        })
    }

    fn iterated(
        &self,
        path: &Path,
        (index, can_be_undone): (u64, bool),
        next: ControlFlow<Stored, Stored>,
    ) -> Result<(), Error> {
        let event = match next {
            ControlFlow::Continue(state) => {
                Event::Iteration(Iteration { index, state: value(&state)? })
            }
            ControlFlow::Break(result) => {
                let ending = Ending::Completed(value(&result)?);
                Event::Outcome(Outcome { winner: None, ending })
            }
        };
        let inside = path.iteration(index);
        let replay = self.flow.replay.borrow();
        let is_kept = replay.commits_within(&inside) || replay.has_retired_within(&inside);
        drop(replay);
        if can_be_undone || is_kept {
            self.flow.record(path, [event]);
        } else {
            let replaced = self.flow.replay.borrow_mut().forget_iteration(path, index);
            self.flow.record_for(path, event, &replaced);
        }
        Ok(())
    }

    /// The sub-steps of an attempt begin at this path.
    fn begin_steps(&self, attempt: u32, level: &Path, ways: &[Vec<StepView>]) -> Result<(), Error> {
        self.current.set(attempt);
        if let Some(error) = self.failed_before(&[&self.attempt(attempt), level]) {
            return Err(error);
        }
        let of_kind = |kind| ways.iter().flatten().filter(move |step| step.kind() == Some(kind));
        let has_database = || self.flow.owned.writer.journal().database().is_some();
        let mut transacted = of_kind(Kind::Transacted).filter(|_| !has_database());
        let mut records = self.flow.replay.borrow_mut();
        if let Some(step) = transacted.next() {
            let ((_, path), source) = (records.place_of(level, step), step.source());
            let info = format!(
                "the step {path}, {source}, commits in the database of the journal, and this journal has \
                 none"
            );
            return Err(Error::caused_by(codes::INTERNAL_ERROR, WrongSteps(info)));
        }
        for step in of_kind(Kind::Retired) {
            let (_, path) = records.place_of(level, step);
            records.retire(&path);
        }
        if records.have_steps_within(level) || records.has_ended(level) {
            records.note_ended(level, ways);
        }
        Ok(())
    }
}

/// The record of a step without a result.
fn nothing() -> Done {
    match Value::encode(&()) {
        Ok(value) => Done { value, attempt: 1, millis: 0 },
        Err(_) => unreachable!("nothing can be written"),
    }
}
