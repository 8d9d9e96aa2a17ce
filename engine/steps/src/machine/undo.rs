//! Undoing the steps inside of a step that failed, or of a flow that is cancelled (FTN12 §1.2,
//! §1.3).

use std::any::Any;
use std::mem;
use std::rc::{Rc, Weak};

use super::types::{Machine, Next};
use crate::contained::Contained;
use crate::error::{Error, codes};
use crate::flow::Identity;
use crate::observe::StepEnd;
use crate::stack::{
    About, Activity, BranchPath, Flags, Locks, Role, ShieldedBody, Strand, ToUndo, UndoEntry,
    UndoItem, UndoOfStep, UndoQueue, Undone,
};
use crate::undo::undo_flow;

impl Machine {
    /// The step on top ends: its undos pass on to the step around it, and the end of a scope
    /// forgets it.
    #[cold]
    pub(super) fn pass_undos_on(&mut self, end: StepEnd<'_>) {
        let (active, level) = (self.asi.active(), self.asi.strand.depth());
        if self.has_bodies_alone() {
            self.hold_on();
            self.asi.policy_state().alone.raise((active, level));
        }
        let extras = self.asi.strand.top.extras.as_ref();
        let is_scope = extras.is_some_and(|extras| extras.is_scope);
        let undos = &mut self.asi.policy_state().undos;
        if is_scope && matches!(end, StepEnd::Success | StepEnd::Recovered(_)) {
            drop(undos.take_inside((active, level + 1)));
        } else {
            undos.raise((active, level));
        }
    }

    /// The active branch ends: its undos pass on to its parallel step.
    #[cold]
    pub(super) fn move_undos_up(&mut self) {
        let Some(cold) = &mut self.asi.cold else { return };
        let branch = cold.strands.active;
        let Some((parent, _)) = cold.strands.parent_and_position(branch) else { return };
        let level = cold.strands.get(parent).map_or(0, Strand::depth) + 1;
        if let Some(policies) = &mut cold.policies {
            policies.undos.move_up(branch, (parent, level));
            policies.alone.move_up(branch, (parent, level));
        }
    }

    /// Undoes the steps inside of the step on top before its error handler is called; `false` if there
    /// is nothing. The step waits for it, and keeps the error.
    #[inline]
    pub(super) fn undo_inside(&mut self, error: &Error) -> bool {
        self.asi.has_undos() && self.undo_from(self.asi.strand.depth() + 1, error)
    }

    /// Whether there is something to undo inside of the step on top, or of the step this number of levels further out of
    /// which it is a part.
    pub(super) fn can_undo_inside(&self, levels: u32) -> bool {
        let inside = (self.asi.active(), self.asi.strand.depth() + 1 - levels);
        let policies = self.asi.own_policy_state();
        policies.is_some_and(|policies| policies.undos.any_inside(inside, ToUndo::is_needed))
    }

    /// Undoes what the outermost steps of the flow have done; `false` if there is nothing to undo.
    /// A step that represents the flow waits for it.
    pub(super) fn undo_root(&mut self, error: &Error) -> bool {
        if !self.asi.has_undos() {
            return false;
        }
        self.asi.strand.clear();
        self.enter_wait(|machine| machine.undo_from(0, error))
    }

    /// Enters a step that waits for undos, unless `wait` finds none to wait for.
    fn enter_wait(&mut self, wait: impl FnOnce(&mut Self) -> bool) -> bool {
        let location = self.asi.location().named("undo");
        self.enter(About::at(location), Flags::of(Role::Step));
        let waits = wait(self);
        if !waits {
            self.leave(StepEnd::Success);
        }
        waits
    }

    #[cold]
    fn undo_from(&mut self, level: u32, error: &Error) -> bool {
        let active = self.asi.active();
        let entries = self.asi.policy_state().undos.take_inside((active, level));
        self.launch_undos(entries, Some(error));
        self.wait_for_undos(Some(error))
    }

    /// Makes the step on top wait until everything inside is undone, then go on with this error, or
    /// complete; `false` if there is nothing to wait for.
    fn wait_for_undos(&mut self, error: Option<&Error>) -> bool {
        if self.asi.own_policy_state().is_some_and(|policies| policies.leaves_undos) {
            return false;
        }
        let Some((queue, branch)) = self.undos_before() else { return false };
        queue.append([(branch, UndoItem::Tell(self.asi.completion()))]);
        self.asi.start_activity(Activity::Undoing(error.cloned()));
        self.asi.strand.runnable = false;
        true
    }

    /// Whether the step on top waits for an undo.
    pub(super) fn is_undoing(&self) -> bool {
        matches!(self.asi.strand.top.activity(), Activity::Undoing(_))
    }

    /// The undo for which the step on top waits has ended: its error goes on.
    #[cold]
    pub(super) fn end_undo(&mut self) -> Next {
        let activity = self.asi.strand.top.replace_activity(Activity::Plain);
        let Activity::Undoing(error) = activity else {
            self.asi.set_activity(activity);
            return Next::Wait;
        };
        let Some(error) = error else {
            // it stands before the next step, and passes the result of the last one on
            let args = mem::take(&mut self.asi.strand.args);
            self.complete_with(args);
            return self.go_on();
        };
        // other branches may have failed meanwhile
        self.asi.last_error = Some(error.clone());
        self.unwind_undone(error)
    }

    /// Undoes what branches have done that the end of a loop cancelled: the entries of the active
    /// strand after the first `kept`. The step on top is left, and its locks are held meanwhile.
    #[cold]
    pub(super) fn undo_cancelled_branches(&mut self, kept: usize) {
        if !self.asi.has_undos() {
            return;
        }
        let active = self.asi.active();
        let entries = self.asi.policy_state().undos.take_after(active, kept);
        self.launch_undos(entries, None);
        if let Some((queue, branch)) = self.undos_before() {
            queue.append([(branch, UndoItem::Release(self.take_locks()))]);
        }
    }

    /// The step on top is cancelled while its shielded body runs, which goes on.
    #[cold]
    pub(super) fn leave_alone(&mut self, body: Rc<ShieldedBody>) {
        body.leave_alone();
        let inside = (self.asi.active(), self.asi.strand.depth() + 1);
        if !body.has_ended() {
            self.asi.policy_state().alone.push(inside, body);
        } else if let Some(undo) = self.asi.own_undo() {
            undo.learn_end();
        }
    }

    /// The step on top ends, or its attempt: the shielded bodies inside that go on keep its locks.
    pub(super) fn hold_on(&mut self) {
        if !self.bodies_inside().is_empty() {
            drop(self.take_locks());
        }
    }

    /// Takes the locks of the step on top, which the shielded bodies inside keep too that go on without their steps.
    fn take_locks(&mut self) -> Locks {
        let (bodies, locks) = (self.bodies_inside(), self.asi.take_locks());
        if bodies.is_empty() || locks.is_empty() {
            return locks;
        }
        let shared: Rc<dyn Any> = Rc::new(locks);
        bodies.iter().for_each(|body| body.keep(Rc::clone(&shared)));
        vec![Box::new(shared)]
    }

    /// Whether any body of the flow goes on without its step.
    #[inline]
    fn has_bodies_alone(&self) -> bool {
        self.asi.own_policy_state().is_some_and(|policies| !policies.alone.is_empty())
    }

    /// The bodies inside of the step on top that go on without their steps.
    fn bodies_inside(&self) -> Vec<Rc<ShieldedBody>> {
        let inside = (self.asi.active(), self.asi.strand.depth() + 1);
        let policies = self.asi.own_policy_state();
        policies
            .map(|policies| policies.alone.inside(inside).cloned().collect())
            .unwrap_or_default()
    }

    /// The next step follows the one that ended, behind what has to be over before it.
    #[inline]
    pub(super) fn go_on(&mut self) -> Next {
        if self.wait_before_next() { Next::Wait } else { Next::Step }
    }

    /// Makes the active strand wait, in a step of its own, for the undos of steps that the end of a loop cancelled, and
    /// for the shielded bodies that keep locks; `false` if there is nothing to wait for.
    #[inline]
    fn wait_before_next(&mut self) -> bool {
        self.asi.has_undos()
            && (self.wait_for_undos_before() || self.has_bodies_alone() && self.wait_for_body())
    }

    #[cold]
    fn wait_for_undos_before(&mut self) -> bool {
        self.undos_before().is_some() && self.enter_wait(|machine| machine.wait_for_undos(None))
    }

    #[cold]
    fn wait_for_body(&mut self) -> bool {
        let policies = self.asi.own_policy_state();
        let body = policies.and_then(|policies| policies.alone.keeping_locks(self.asi.active()));
        body.is_some_and(|body| {
            self.enter_wait(|machine| {
                body.tell(machine.asi.completion());
                machine.asi.start_activity(Activity::Undoing(None));
                machine.asi.strand.runnable = false;
                true
            })
        })
    }

    /// How many entries the active strand has.
    pub(super) fn undo_count(&self) -> usize {
        self.asi.own_policy_state().map_or(0, |policies| policies.undos.len(self.asi.active()))
    }

    /// Undoes everything that is left, without waiting for it; a flow that itself undoes gives up.
    pub(super) fn undo_all(&mut self) {
        let Some(cold) = &mut self.asi.cold else { return };
        let Some(policies) = &mut cold.policies else { return };
        if let Some(own) = &policies.undoes {
            cold.unseen.extend(own.leave().into_iter().map(lost_undo));
        }
        let entries = policies.undos.take_all();
        self.launch_undos(entries, None);
    }

    /// The step on top is cancelled: its locks are held until everything inside is undone.
    #[inline]
    pub(super) fn leave_cancelled(&mut self) {
        if self.asi.has_undos() {
            self.keep_locks();
        }
        self.leave(StepEnd::Cancelled);
    }

    #[cold]
    fn keep_locks(&mut self) {
        let inside = (self.asi.active(), self.asi.strand.depth() + 1);
        let undos = &self.asi.policy_state().undos;
        if !undos.any_inside(inside, ToUndo::is_needed) && self.undos_before().is_none() {
            return;
        }
        let locks = self.take_locks();
        if !locks.is_empty() {
            let step = (self.asi.location(), self.asi.branch_path());
            let release = ToUndo::Release(locks);
            self.asi.policy_state().undos.push_around(inside, step, release);
        }
    }

    /// Runs undos in flows of their own, together with the undos that still run. `why` is the error
    /// that caused them.
    fn launch_undos(&mut self, entries: Vec<UndoEntry<ToUndo>>, why: Option<&Error>) {
        let newest = entries.first().map(|entry| entry.location);
        let items = self.items_of(entries, why);
        let Some(newest) = newest.filter(|_| !items.is_empty()) else { return };
        let queue = self.running_undo().unwrap_or_else(|| Rc::new(UndoQueue::new()));
        queue.append(items);
        self.asi.policy_state().undo = Rc::downgrade(&queue);
        let probe = self.asi.probe().cloned();
        let workers = queue.hire().into_iter();
        let workers = workers.map(|worker| undo_flow(worker, newest, probe.clone()));
        self.asi.cold().launched.extend(workers);
    }

    /// The undo items of these entries: one for each of their steps that has something to undo.
    fn items_of(
        &mut self,
        entries: Vec<UndoEntry<ToUndo>>,
        why: Option<&Error>,
    ) -> Vec<(BranchPath, UndoItem<UndoOfStep>)> {
        let flow = self.asi.flow_id();
        let items =
            entries.into_iter().filter_map(|UndoEntry { location, undo, branch, .. }| match undo {
                ToUndo::Step(undo) if !undo.is_needed() => None,
                ToUndo::Step(undo) => {
                    let undone = Undone { location, is_done: undo.is_done(), why: why.cloned() };
                    let of_branch = Identity { flow, branch: branch.number() };
                    let step = UndoOfStep { step: Contained::new(undo), branch: of_branch };
                    Some((branch, UndoItem::Undo(undone, step)))
                }
                ToUndo::Release(locks) => Some((branch, UndoItem::Release(locks))),
            });
        items.collect()
    }

    /// The undos that come before the rest of the active strand, and the branch that this is.
    fn undos_before(&self) -> Option<(Rc<UndoQueue<UndoOfStep>>, BranchPath)> {
        let (queue, branch) = (self.running_undo()?, self.asi.branch_path());
        queue.holds_up(&branch).then_some((queue, branch))
    }

    /// The undos that run for the flow.
    fn running_undo(&self) -> Option<Rc<UndoQueue<UndoOfStep>>> {
        let queue = self.asi.own_policy_state().map(|policies| &policies.undo);
        queue.and_then(Weak::upgrade).filter(|queue| !queue.is_over())
    }
}

/// The error of an undo that does not run to its end.
fn lost_undo(undone: Undone) -> Error {
    let error = Error::with_info(codes::INTERNAL_ERROR, "the undo was cancelled");
    error.at(undone.location).of_undo(undone.is_done)
}
