//! Undo. Steps that a run has begun are undone in that run, if it comes so far. Steps that earlier runs have begun are
//! undone before the function goes on, from the records alone: in steps that have failed, where an operator has said
//! so, and everywhere if the end of the request was decided.

use std::future::pending;
use std::rc::Rc;

use asyncsteps_actors::clock;
use asyncsteps_core::{Error, StepError, replay};
use asyncsteps_executor::recorder::{Kind, Later, Part, Running, Sublevel};
use asyncsteps_journal::record::{Done, Effect, Intent};
use asyncsteps_journal::{Event, Path, PathPart};

use crate::away::is_away;
use crate::flow::DurableFlow;
use crate::life::{LeaveReason, Life, Turn};
use crate::marks::is_part_of;
use crate::records::cut;
use crate::replay::{AtPath, NotUndone, RecordedEnd, Replay};
use crate::step::DurableStep;

/// How many bytes of the error of an undo an operator is shown.
const MOST_OF_ERROR: usize = 500;

impl Replay {
    /// The steps at this path and inside that have to be undone before the function goes on: all that can be, if the
    /// request only ends.
    pub(crate) fn to_undo_within<'a>(&'a self, outer: &'a Path) -> impl Iterator<Item = &'a Path> {
        let all = self.only_ends();
        let here = self.at(outer).map(|at| (outer, at)).into_iter().chain(self.within(outer));
        let begun = here.filter(|(path, at)| at.is_begun && at.is_effect(path) && !path.is_item());
        let left = begun.filter(|(path, _)| is_part_of(path, outer) && !self.needs_no_undo(path));
        let is_to_undo = move |(path, at): &(&Path, &AtPath)| {
            all || self.is_unwinding(path) || self.is_ordered(path) || at.has_failed_after_all()
        };
        left.filter(is_to_undo).map(|(path, _)| path)
    }

    /// Whether the step at this path, or one inside, has to be undone before the function goes on.
    pub(crate) fn is_to_undo(&self, path: &Path) -> bool {
        self.to_undo_within(path).next().is_some()
    }

    /// The attempts of the step at this path in which something has to be undone, with the iteration or the item that it is
    /// in; the newest first.
    pub(crate) fn to_undo_inside(&self, step: &Path) -> Vec<Sublevel> {
        let depth = step.parts().count();
        let mut begun: Vec<Sublevel> = Vec::new();
        for path in self.to_undo_within(step).filter(|path| *path != step) {
            let mut parts = path.parts().skip(depth).peekable();
            let attempt = parts.next_if(|part| matches!(part, PathPart::Attempt(_)));
            let attempt = if let Some(PathPart::Attempt(number)) = attempt { number } else { 1 };
            let part = parts.next().and_then(|part| match part {
                PathPart::Iteration(index) => Some(Part::Iteration(index)),
                PathPart::Key(key) => Some(Part::Key(key.into())),
                PathPart::Template(_)
                | PathPart::Step(_)
                | PathPart::Attempt(_)
                | PathPart::Branch(_)
                | PathPart::Undo
                | _ => None,
            });
            let this = Sublevel { attempt, part };
            if !begun.contains(&this) {
                begun.push(this);
            }
        }
        let iteration = |begun: &Sublevel| {
            if let Some(Part::Iteration(index)) = begun.part { index } else { 0 }
        };
        begun.sort_by_key(|begun| std::cmp::Reverse((begun.attempt, iteration(begun))));
        begun
    }

    /// Why the step at this path is not undone although its undo, or the undo of a step around it, began in this run.
    fn why_left(&self, path: &Path) -> Option<(&Path, &NotUndone)> {
        self.not_undone.iter().rfind(|(step, _)| path.is_within(step))
    }
}

impl DurableStep {
    /// The undo of the step is about to run, unless it must not.
    pub(crate) fn begin_undo(&self) -> Later<Result<Running, Error>> {
        let records = self.flow.replay.borrow();
        let is_left = records.is_to_undo(&self.path);
        let has_failed = |at: &AtPath| matches!(at.end, Some(RecordedEnd::Failed(_)));
        // a flow that something else has cancelled goes on after it, as after a crash
        let is_meant = matches!(*self.flow.life(), Life::Finished)
            || records.is_unwinding(&self.path)
            || records.at(&self.path).is_some_and(has_failed);
        let undone = records.at(&self.path.undo()).and_then(|at| at.end.as_ref());
        let is_undone = matches!(undone, Some(RecordedEnd::Done(_)))
            || records.is_closed(&self.path)
            || records.at(&self.path).is_some_and(AtPath::is_settled);
        // a transaction is recorded when it is committed, others before they begin
        let is_begun = self.step.kind() == Some(Kind::Transacted)
            || records.at(&self.path).is_some_and(|at| at.is_open || at.end.is_some());
        drop(records);
        let is_meant = is_left || is_meant && is_begun && !is_undone;
        if is_meant && self.step.can_be_undone() {
            self.flow.begins_undo(&self.path);
        }
        let (flow, stored) = (Rc::clone(&self.flow), self.flow.stored());
        let path = self.path.undo();
        self.began.set(clock::now());
        Box::pin(async move {
            let refused = || StepError::from(replay::NotUndone).into_error();
            if !is_meant || flow.is_left() {
                return Err(refused());
            }
            let running = flow.activity.body(true);
            tokio::select! {
                biased;
                _ = flow.left() => return Err(refused()),
                () = stored => {}
            }
            let Some(body) = flow.owned.held.begin((path, 1), None) else {
                flow.leave(LeaveReason::Lost);
                return Err(refused());
            };
            Ok(Running { guard: Box::new((running, body)), blocks: Rc::clone(&flow.bodies.blocks) })
        })
    }
}

impl AtPath {
    /// Whether the step failed, and has perhaps had its effect all the same.
    fn has_failed_after_all(&self) -> bool {
        matches!(&self.end, Some(RecordedEnd::Failed(failed)) if failed.effect == Effect::Unknown)
    }
}

impl DurableFlow {
    /// Goes on when all is undone that had to be.
    pub(crate) async fn goes_on(self: Rc<Self>) -> Result<(), Error> {
        let left = self.replay.borrow().to_undo_within(&self.root).next().cloned();
        if let Some(path) = left {
            self.leave(self.why_left(&path));
            return pending().await;
        }
        match self.interruption().filter(|_| self.replay.borrow().only_ends()) {
            Some(error) => {
                self.turns(Turn::Finishes);
                Err(error)
            }
            None => Ok(()),
        }
    }

    /// Why the step at this path is not undone.
    fn why_left(&self, path: &Path) -> LeaveReason {
        let reason = match self.replay.borrow().why_left(path) {
            Some((_, undo)) => format!("{path} cannot be undone: {}", undo.why),
            None => format!("{path} is to be undone, and the program has no undo for it"),
        };
        self.not_undone(path, reason)
    }

    /// The flow is left although the step at this path is not undone, for this reason: its undo is tried again if what
    /// it needs is away.
    pub(crate) fn not_undone(&self, path: &Path, reason: String) -> LeaveReason {
        let records = self.replay.borrow();
        let refused = records.why_left(path).filter(|(_, undo)| undo.is_away);
        let refused = refused.map(|(step, _)| step.clone());
        drop(records);
        match refused {
            Some(step) => self.tries_again(&step, reason),
            None => LeaveReason::Paused(reason),
        }
    }

    /// The undo of the step at this path is about to begin. That is recorded where each body is: so an undo that kills
    /// its process is found, as a body is.
    pub(crate) fn begins_undo(&self, step: &Path) {
        if self.bodies.are_recorded() {
            let (at, has_undo) = (self.clock().now(), Some(false));
            let intent =
                Intent { at, attempt: 1, locks: Vec::new(), has_undo, input: None, form: None };
            self.record(&step.undo(), [Event::Intent(intent)]);
        }
        self.replay.borrow_mut().begins_undo(step);
    }

    /// The undo of the step at this path has failed, or was refused by a lock around it.
    pub(crate) fn undo_fails(&self, step: &Path, error: &Error) {
        let why = cut(&error.to_string(), MOST_OF_ERROR);
        self.replay.borrow_mut().undo_fails(step, why, is_away(error));
    }

    /// The step at this path is undone.
    pub(crate) fn ends_undo(&self, step: &Path, done: Done) {
        self.record(&step.undo(), [Event::Done(done)]);
    }
}
