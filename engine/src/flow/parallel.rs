//! Parallel branches (FTN12 §1.4, §2.2.1): strands, which one is active, and how they end.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::panic::Location;

use super::AsyncSteps;
use super::added::Added;
use super::drive::Next;
use super::level::{Entry, Frame, Kind, Strand, index};
use crate::args::Args;
use crate::error::StepReturn;
use crate::observe::StepEnd;
use crate::place::Place;

/// The branches of a parallel step while it is being defined.
pub struct Parallel {
    pub(super) entries: Vec<Entry>,
}

impl Parallel {
    /// Adds a branch; it takes no arguments, and its result is dropped: pass results through
    /// the state (FTN12 §2.2.1 `parallel`).
    #[track_caller]
    pub fn add<R, F>(&mut self, body: F) -> Added<'_>
    where
        R: StepReturn,
        F: FnOnce(&mut AsyncSteps, ()) -> R + 'static,
    {
        self.entries.push(Entry::Step {
            body: Box::new(move |asi, _| body(asi, ()).into_result()),
            handler: None,
            location: Location::caller(),
        });
        Added::last(&mut self.entries)
    }
}

impl fmt::Debug for Parallel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parallel({})", self.entries.len())
    }
}

/// All strands of a flow but the active one, which is in the flow itself.
#[derive(Default)]
pub(super) struct Strands {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Strands that may be runnable, in the order of their turns.
    ready: VecDeque<u32>,
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

impl Strands {
    fn add(&mut self, parent: u32, position: usize, entry: Entry) -> u32 {
        if self.slots.is_empty() {
            self.slots.push(Slot::default());
        }
        self.branches += 1;
        let mut strand = Strand::new(self.branches);
        strand.pending.push(entry);
        let slot = Slot { parked: Some(strand), parent, position };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                index(self.slots.len() - 1)
            }
        };
        self.ready.push_back(at);
        at
    }

    fn parked(&mut self, at: u32) -> Option<Strand> {
        self.slots.get_mut(at as usize)?.parked.take()
    }

    fn is_runnable(&self, at: u32) -> bool {
        let slot = self.slots.get(at as usize);
        slot.and_then(|slot| slot.parked.as_ref()).is_some_and(|strand| strand.runnable)
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
        let strands = &mut more.strands;
        let Some(strand) = strands.parked(at) else { return false };
        let before = mem::replace(&mut strands.active, at);
        if self.strand.runnable {
            strands.ready.push_back(before);
        }
        let parked = mem::replace(&mut self.strand, strand);
        strands.slots[before as usize].parked = Some(parked);
        true
    }

    /// Makes a strand active that can go on, the active one if it can.
    pub(super) fn find_runnable(&mut self) -> bool {
        if self.strand.runnable {
            return true;
        }
        while let Some(more) = &mut self.more
            && let Some(at) = more.strands.ready.pop_front()
        {
            if more.strands.is_runnable(at) && self.activate(at) {
                return true;
            }
        }
        false
    }

    /// Gives the next turn to another branch.
    pub(super) fn rotate(&mut self) {
        while let Some(more) = &mut self.more
            && let Some(at) = more.strands.ready.pop_front()
        {
            if more.strands.is_runnable(at) && self.activate(at) {
                return;
            }
        }
    }

    /// Starts the branches of the parallel step on top; without branches it completes at once.
    pub(super) fn start_branches(&mut self) -> Next {
        let active = self.active();
        let Kind::Parallel(mut branches) = mem::replace(&mut self.strand.top.kind, Kind::Step)
        else {
            return Next::Step;
        };
        if branches.entries.is_empty() {
            self.close_top(StepEnd::Success);
            return Next::Step;
        }
        let strands = &mut self.more().strands;
        for (position, entry) in mem::take(&mut branches.entries).into_iter().enumerate() {
            branches.strands.push(Some(strands.add(active, position, entry)));
        }
        branches.running = branches.strands.len();
        self.strand.top.kind = Kind::Parallel(branches);
        Next::Wait
    }

    /// The active branch has completed: its result is dropped.
    pub(super) fn complete_branch(&mut self) {
        if self.leave_branch() > 0 {
            return;
        }
        self.strand.args = Args::none();
        self.strand.top.kind = Kind::Step;
        self.close_top(StepEnd::Success);
        self.strand.runnable = true;
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
        strands.free.push(left);
        let finished = mem::replace(&mut self.strand, strand);
        drop(finished);
        match &mut self.strand.top.kind {
            Kind::Parallel(branches) => {
                branches.strands[position] = None;
                branches.running -= 1;
                branches.running
            }
            Kind::Step | Kind::Loop(_) | Kind::Await(_) => 0,
        }
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
                self.abort_alone();
                self.close_top(StepEnd::Cancelled);
            }
            if !self.strand.ascend() {
                self.leave_branch();
            }
        }
    }

    fn first_branch(&mut self) -> Option<u32> {
        match &mut self.strand.top.kind {
            Kind::Parallel(branches) if self.strand.top.flags.open => {
                branches.entries.clear();
                branches.first_running()
            }
            Kind::Parallel(_) | Kind::Step | Kind::Loop(_) | Kind::Await(_) => None,
        }
    }

    /// Whether a step around the running one, in its branch or outside, is of this kind.
    pub(super) fn chain_has(&self, wanted: impl Fn(&Frame) -> bool) -> bool {
        self.strand.open_frames().rev().any(&wanted)
            || self.outer_strands().any(|strand| strand.open_frames().rev().any(&wanted))
    }

    /// The places of the steps in progress, outermost first (FTN12 §1.7 `async_stack`).
    #[must_use]
    pub fn async_stack(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for strand in std::iter::once(&self.strand).chain(self.outer_strands()) {
            let steps = strand.open_frames().rev().filter(|frame| !frame.flags.iteration);
            places.extend(steps.map(|frame| frame.place));
        }
        places.reverse();
        places
    }

    /// The strands whose parallel steps the active branch belongs to, innermost first.
    fn outer_strands(&self) -> impl Iterator<Item = &Strand> {
        let strands = self.more.as_ref().map(|more| &more.strands);
        let mut at = self.active();
        std::iter::from_fn(move || {
            let strands = strands?;
            if at == 0 {
                return None;
            }
            at = strands.slots.get(at as usize)?.parent;
            strands.slots.get(at as usize)?.parked.as_ref()
        })
    }
}
