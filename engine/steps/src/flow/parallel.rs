//! Parallel branches at work (FTN12 §1.4): strands, which one is active, and how they end.

use std::collections::VecDeque;
use std::mem;

use super::AsyncSteps;
use super::drive::Next;
use super::level::{Kind, Strand, Unstarted, index};
use crate::args::Args;
use crate::observe::StepEnd;

/// All strands of a flow but the active one, which is in the flow itself.
#[derive(Default)]
pub(super) struct Strands {
    slots: Vec<Slot>,
    /// The first slot that nobody uses; the others follow by their `parent`. 0, the root's, is none.
    free: u32,
    turns: Turns,
    /// The slot of the active strand; the root's is 0.
    active: u32,
    branches: u32,
}

#[derive(Default)]
struct Slot {
    parked: Option<Strand>,
    parent: u32,
    /// Which branch of its parallel step this is.
    position: usize,
}

/// What to do when the active strand cannot go on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Go on with the strand in this slot, if it can.
    Resume(u32),
    /// Start the next branch of the parallel step in this slot.
    Start(u32),
}

/// The turns to come, in their order. Most flows have one at a time.
#[derive(Default)]
struct Turns {
    first: Option<Turn>,
    others: VecDeque<Turn>,
}

impl Turns {
    fn add(&mut self, turn: Turn) {
        if self.first.is_none() && self.others.is_empty() {
            self.first = Some(turn);
        } else {
            self.others.push_back(turn);
        }
    }

    fn put_first(&mut self, turn: Turn) {
        if let Some(second) = self.first.replace(turn) {
            self.others.push_front(second);
        }
    }

    fn next(&mut self) -> Option<Turn> {
        self.first.take().or_else(|| self.others.pop_front())
    }

    fn remove(&mut self, turn: Turn) {
        self.first.take_if(|first| *first == turn);
        self.others.retain(|other| *other != turn);
    }
}

impl Strands {
    /// Room for a branch.
    fn add(&mut self, parent: u32) -> u32 {
        let slot = Slot { parked: None, parent, position: 0 };
        match self.slots.get_mut(self.free as usize) {
            Some(free) if self.free != 0 => {
                let at = mem::replace(&mut self.free, free.parent);
                *free = slot;
                at
            }
            _ => {
                if self.slots.is_empty() {
                    self.slots.push(Slot::default());
                }
                self.slots.push(slot);
                index(self.slots.len() - 1)
            }
        }
    }

    fn remove(&mut self, at: u32) {
        if let Some(slot) = self.slots.get_mut(at as usize) {
            slot.parent = mem::replace(&mut self.free, at);
        }
    }

    fn set_position(&mut self, at: u32, position: usize) {
        if let Some(slot) = self.slots.get_mut(at as usize) {
            slot.position = position;
        }
    }

    fn parked(&mut self, at: u32) -> Option<Strand> {
        self.slots.get_mut(at as usize)?.parked.take()
    }

    fn parked_mut(&mut self, at: u32) -> Option<&mut Strand> {
        self.slots.get_mut(at as usize)?.parked.as_mut()
    }

    fn is_runnable(&self, at: u32) -> bool {
        let slot = self.slots.get(at as usize);
        slot.and_then(|slot| slot.parked.as_ref()).is_some_and(|strand| strand.runnable)
    }

    /// Makes `strand` the active one, which is in the slot `at`, and parks the one before it.
    fn switch(&mut self, active: &mut Strand, at: u32, strand: Strand) {
        let before = mem::replace(&mut self.active, at);
        if active.runnable {
            self.turns.add(Turn::Resume(before));
        }
        let parked = mem::replace(active, strand);
        if let Some(slot) = self.slots.get_mut(before as usize) {
            slot.parked = Some(parked);
        }
    }
}

impl AsyncSteps {
    /// The slot of the active strand.
    pub(super) fn active(&self) -> u32 {
        self.more.as_ref().map_or(0, |more| more.strands.active)
    }

    /// The branch around the active one, itself for the root.
    pub(super) fn parent_branch(&self) -> u32 {
        self.outer_strands().next().map_or(0, |strand| strand.branch)
    }

    /// Makes a strand the active one; `false` if it does not exist any more.
    pub(super) fn activate(&mut self, at: u32) -> bool {
        if at == self.active() {
            return true;
        }
        let Some(more) = &mut self.more else { return false };
        let Some(strand) = more.strands.parked(at) else { return false };
        more.strands.switch(&mut self.strand, at, strand);
        true
    }

    /// Makes a strand active that can go on, the active one if it can.
    pub(super) fn find_runnable(&mut self) -> bool {
        self.strand.runnable || self.rotate()
    }

    /// Gives the next turn to another branch; `false` if none can go on.
    pub(super) fn rotate(&mut self) -> bool {
        while let Some(more) = &mut self.more
            && let Some(turn) = more.strands.turns.next()
        {
            let found = match turn {
                Turn::Resume(at) => more.strands.is_runnable(at) && self.activate(at),
                Turn::Start(at) => self.start_branch(at),
            };
            if found {
                return true;
            }
        }
        false
    }

    /// Announces the branches of the parallel step on top; without branches it completes at once.
    pub(super) fn start_branches(&mut self) -> Next {
        self.strand.args = Args::none();
        let active = self.active();
        let strands = &mut self.more.get_or_insert_default().strands;
        match self.strand.branches() {
            Some(branches) if branches.running > 0 => {
                branches.number = strands.branches + 1;
                strands.branches += index(branches.running);
                strands.turns.add(Turn::Start(active));
                Next::Wait
            }
            _ => {
                self.close_top(StepEnd::Success);
                Next::Step
            }
        }
    }

    /// Makes the next branch of the parallel step in this slot the active strand.
    fn start_branch(&mut self, parent: u32) -> bool {
        let Some(more) = &mut self.more else { return false };
        let strands = &mut more.strands;
        let at = strands.add(parent);
        let outer = if strands.active == parent {
            Some(&mut self.strand)
        } else {
            strands.parked_mut(parent)
        };
        let Some(next) = outer.and_then(Strand::branches).and_then(|all| all.start_next(at)) else {
            strands.remove(at);
            return false;
        };
        if !next.is_last {
            strands.turns.put_first(Turn::Start(parent));
        }
        strands.set_position(at, next.position);
        let mut strand = Strand::new(next.number);
        strand.enqueue(next.entry);
        strands.switch(&mut self.strand, at, strand);
        true
    }

    /// The active branch has completed: its result is dropped.
    pub(super) fn complete_branch(&mut self) {
        if self.start_in_place() || self.leave_branch() > 0 {
            return;
        }
        self.strand.args = Args::none();
        self.strand.top.kind = Kind::Step;
        self.close_top(StepEnd::Success);
        self.strand.runnable = true;
    }

    /// Has the strand of the branch that completed go on with the next branch of the same step, if
    /// that is the next turn.
    fn start_in_place(&mut self) -> bool {
        let Some(more) = &mut self.more else { return false };
        let strands = &mut more.strands;
        let at = strands.active;
        let Some(&Slot { parent, position, .. }) = strands.slots.get(at as usize) else {
            return false;
        };
        if strands.turns.first != Some(Turn::Start(parent)) {
            return false;
        }
        let branches = strands.parked_mut(parent).and_then(Strand::branches);
        let Some((next, branches)) = branches.and_then(|all| Some((all.start_next(at)?, all)))
        else {
            return false;
        };
        branches.end(position);
        if next.is_last {
            strands.turns.next();
        }
        strands.set_position(at, next.position);
        self.strand.restart(next.number, next.entry);
        true
    }

    /// Forgets the active branch and goes back to the parallel step that started it; gives the
    /// number of its other branches that are not complete.
    pub(super) fn leave_branch(&mut self) -> usize {
        let Some(more) = &mut self.more else { return 0 };
        let strands = &mut more.strands;
        let left = strands.active;
        let Some(&Slot { parent, position, .. }) = strands.slots.get(left as usize) else {
            return 0;
        };
        let Some(strand) = strands.parked(parent) else { return 0 };
        strands.active = parent;
        strands.remove(left);
        let finished = mem::replace(&mut self.strand, strand);
        drop(finished);
        let Some(branches) = self.strand.branches() else { return 0 };
        branches.end(position);
        branches.running
    }

    /// Cancels the branches below the step on top, in the order added, each from its innermost
    /// step outwards. It walks the tree of branches without recursion.
    pub(super) fn cancel_branches(&mut self) {
        let home = self.active();
        loop {
            if let Some(branch) = self.first_branch() {
                self.strand.runnable = false;
                if self.activate(branch) {
                    continue;
                }
            }
            if self.active() == home {
                return;
            }
            if self.strand.top.flags.open {
                if self.took_result() {
                    self.close_top(StepEnd::Success);
                } else {
                    self.abort_alone();
                    self.close_top(StepEnd::Cancelled);
                }
            }
            if !self.strand.ascend() {
                self.leave_branch();
            }
        }
    }

    /// The first branch of the step on top that is not over; those that have not started never do.
    fn first_branch(&mut self) -> Option<u32> {
        if !self.strand.top.flags.open {
            return None;
        }
        let branches = self.strand.branches()?;
        if branches.unstarted.len() > 0 {
            drop(mem::replace(&mut branches.unstarted, Unstarted::none()));
            if let Some(more) = &mut self.more {
                let strands = &mut more.strands;
                strands.turns.remove(Turn::Start(strands.active));
            }
        }
        branches.first_running()
    }

    /// The strands whose parallel steps the active branch belongs to, innermost first.
    pub(super) fn outer_strands(&self) -> impl Iterator<Item = &Strand> {
        self.strands_around(self.active())
    }

    /// The strands whose parallel steps the strand in this slot belongs to, innermost first.
    pub(super) fn strands_around(&self, mut at: u32) -> impl Iterator<Item = &Strand> {
        std::iter::from_fn(move || {
            let strands = &self.more.as_ref()?.strands;
            if at == 0 {
                return None;
            }
            at = strands.slots.get(at as usize)?.parent;
            if at == strands.active {
                return Some(&self.strand);
            }
            strands.slots.get(at as usize)?.parked.as_ref()
        })
    }

    /// All strands and their slots.
    pub(super) fn strands(&self) -> impl Iterator<Item = (u32, &Strand)> {
        let slots = self.more.iter().flat_map(|more| more.strands.slots.iter());
        let parked = slots.zip(0..).filter_map(|(slot, at)| Some((at, slot.parked.as_ref()?)));
        std::iter::once((self.active(), &self.strand)).chain(parked)
    }
}
