//! Parallel branches at work (FTN12 §1.4): which strand is active, how branches start and end.

use std::mem;

use super::types::{Machine, Next};
use crate::args::Args;
use crate::observe::StepEnd;
use crate::slot::index;
use crate::stack::{ActiveTurn, Activity, NextBranch, Strand, StrandTurn, Unstarted};

impl Machine {
    /// Makes a strand the active one; `false` if it does not exist any more.
    #[inline]
    pub(super) fn activate(&mut self, id: u32) -> bool {
        id == self.asi.active() || self.activate_parked(id)
    }

    #[inline(never)]
    fn activate_parked(&mut self, id: u32) -> bool {
        let parked = self.asi.cold.as_mut().and_then(|cold| cold.strands.take(id));
        let Some(strand) = parked else { return false };
        self.switch(id, strand);
        true
    }

    /// The active strand, if it can go on, was to go on before all others.
    #[inline]
    pub(super) fn begin_arrivals(&mut self) {
        let runnable = self.asi.strand.runnable;
        if let Some(cold) = &mut self.asi.cold {
            cold.strands.active_turn = if runnable { ActiveTurn::First } else { ActiveTurn::Last };
        }
    }

    /// Makes that strand the active one which is to go on before all others: strands go on in the order
    /// in which they became able to.
    #[inline]
    pub(super) fn end_arrivals(&mut self) {
        let Some(cold) = &mut self.asi.cold else { return };
        let strands = &mut cold.strands;
        if strands.turns.is_empty() || strands.active_turn == ActiveTurn::First {
            strands.active_turn = ActiveTurn::Last;
        } else if self.asi.strand.runnable {
            self.take_turn();
        }
    }

    /// Makes `strand`, which belongs into slot `id`, the active one, and parks the one before it.
    fn switch(&mut self, id: u32, strand: Strand) {
        let turn_of_new = if strand.runnable { ActiveTurn::Queued } else { ActiveTurn::Last };
        let before = mem::replace(&mut self.asi.strand, strand);
        let strands = &mut self.asi.cold().strands;
        if before.runnable {
            let turn = StrandTurn::Resume(strands.active);
            match strands.active_turn {
                ActiveTurn::First => strands.turns.push_front(turn),
                ActiveTurn::Last => strands.turns.push_back(turn),
                ActiveTurn::Queued => {}
            }
        }
        strands.active_turn = turn_of_new;
        strands.park_active(before, id);
    }

    /// Passes the turn to another branch; `false` if none can go on.
    #[inline]
    pub(super) fn rotate(&mut self) -> bool {
        self.asi.cold.is_some() && self.take_turn()
    }

    #[inline(never)]
    fn take_turn(&mut self) -> bool {
        while let Some(cold) = &mut self.asi.cold
            && let Some(turn) = cold.strands.turns.pop()
        {
            let found = match turn {
                StrandTurn::Resume(id) if id == cold.strands.active => {
                    self.asi.strand.runnable && cold.strands.active_turn == ActiveTurn::Queued
                }
                StrandTurn::Resume(id) => {
                    cold.strands.get(id).is_some_and(|strand| strand.runnable) && self.activate(id)
                }
                StrandTurn::Start(id) => self.start_branch(id),
            };
            if found {
                self.asi.cold().strands.active_turn = ActiveTurn::Last;
                return true;
            }
        }
        false
    }

    /// Announces the branches of the parallel step on top; without branches it completes at once.
    pub(super) fn start_branches(&mut self) -> Next {
        self.asi.strand.args = Args::none();
        let active = self.asi.active();
        let strands = &mut self.asi.cold.get_or_insert_default().strands;
        match self.asi.strand.branches() {
            Some(branches) if branches.running > 0 => {
                branches.number = strands.branches + 1;
                strands.branches += index(branches.running);
                strands.turns.push_back(StrandTurn::Start(active));
                Next::Wait
            }
            _ => {
                self.leave(StepEnd::Success);
                Next::Step
            }
        }
    }

    /// Makes the next branch of the parallel step in this slot the active strand.
    fn start_branch(&mut self, parent: u32) -> bool {
        let Some(cold) = &mut self.asi.cold else { return false };
        let strands = &mut cold.strands;
        let id = strands.add(parent);
        let outer = if strands.active == parent {
            Some(&mut self.asi.strand)
        } else {
            strands.get_mut(parent)
        };
        let next = outer.and_then(Strand::branches).and_then(|branches| branches.start_next(id));
        let Some(NextBranch { step, position, number, is_last }) = next else {
            strands.remove(id);
            return false;
        };
        if !is_last {
            strands.turns.push_front(StrandTurn::Start(parent));
        }
        strands.set_position(id, position);
        let mut strand = Strand::new(number);
        strand.enqueue(step);
        self.switch(id, strand);
        true
    }

    /// Ends the active branch, which has completed: its result is dropped.
    pub(super) fn complete_branch(&mut self) {
        if self.asi.has_undos() {
            self.move_undos_up();
        }
        if self.start_in_place() || self.leave_branch() > 0 {
            return;
        }
        self.asi.strand.args = Args::none();
        self.asi.set_activity(Activity::Plain);
        self.leave(StepEnd::Success);
        self.asi.strand.runnable = !matches!(self.go_on(), Next::Wait);
    }

    /// Lets the strand of the branch that completed go on with the next branch of the same step, if
    /// that is the next turn.
    fn start_in_place(&mut self) -> bool {
        let Some(cold) = &mut self.asi.cold else { return false };
        let strands = &mut cold.strands;
        let id = strands.active;
        let Some((parent, position)) = strands.parent_and_position(id) else { return false };
        if strands.turns.peek() != Some(StrandTurn::Start(parent)) {
            return false;
        }
        let Some(branches) = strands.get_mut(parent).and_then(Strand::branches) else {
            return false;
        };
        let Some(next) = branches.start_next(id) else { return false };
        branches.end(position);
        if next.is_last {
            strands.turns.pop();
        }
        strands.set_position(id, next.position);
        self.asi.strand.restart(next.number, next.step);
        true
    }

    /// Forgets the active branch and goes back to the parallel step that started it; returns the
    /// number of its other branches that are not complete.
    pub(super) fn leave_branch(&mut self) -> usize {
        if self.asi.has_undos() {
            self.move_undos_up();
        }
        let Some(cold) = &mut self.asi.cold else { return 0 };
        let strands = &mut cold.strands;
        let left = strands.active;
        let Some((parent, position)) = strands.parent_and_position(left) else { return 0 };
        let Some(strand) = strands.take(parent) else { return 0 };
        strands.active = parent;
        strands.active_turn = ActiveTurn::Last;
        strands.remove(left);
        let finished = mem::replace(&mut self.asi.strand, strand);
        let Some(branches) = self.asi.strand.branches() else { return 0 };
        branches.end(position);
        let running = branches.running;
        drop(finished);
        running
    }

    /// Cancels the branches below the step on top, in the order added, each from its innermost
    /// step outwards. It walks the tree of branches without recursion.
    pub(super) fn cancel_branches(&mut self) {
        let home = self.asi.active();
        loop {
            if let Some(branch) = self.first_branch() {
                self.asi.strand.runnable = false;
                if self.activate(branch) {
                    continue;
                }
            }
            if self.asi.active() == home {
                return;
            }
            if self.asi.strand.top.flags.is_open() {
                if self.took_result() {
                    self.leave(StepEnd::Success);
                } else {
                    self.abort_leaf();
                    self.leave_cancelled();
                }
            }
            if !self.asi.strand.ascend() {
                self.leave_branch();
            }
        }
    }

    /// The first branch of the step on top that has not ended. Branches that have not started are
    /// dropped.
    fn first_branch(&mut self) -> Option<u32> {
        if !self.asi.strand.top.flags.is_open() {
            return None;
        }
        let branches = self.asi.strand.branches()?;
        if branches.unstarted.len() > 0 {
            drop(mem::replace(&mut branches.unstarted, Unstarted::none()));
            if let Some(cold) = &mut self.asi.cold {
                let strands = &mut cold.strands;
                strands.turns.remove(StrandTurn::Start(strands.active));
            }
        }
        branches.first_running()
    }
}
