//! Time limits of steps (FTN12 §2.2.2 `setTimeout`).

use std::time::Duration;

use super::AsyncSteps;
use crate::time::Time;

/// The armed limits of a flow, unordered: a flow has a handful at most.
#[derive(Default)]
pub(super) struct Timers(Vec<Timer>);

struct Timer {
    at: Time,
    strand: u32,
    depth: u32,
}

impl Timers {
    /// When the next limit expires.
    pub(super) fn earliest(&self) -> Option<Time> {
        self.0.iter().map(|timer| timer.at).min()
    }

    fn set(&mut self, at: Time, strand: u32, depth: u32) {
        match self.find(strand, depth) {
            Some(index) => self.0[index].at = at,
            None => self.0.push(Timer { at, strand, depth }),
        }
    }

    fn unset(&mut self, strand: u32, depth: u32) {
        if let Some(index) = self.find(strand, depth) {
            self.0.swap_remove(index);
        }
    }

    /// Takes the limit that expired first, the innermost of several, and gives its strand and
    /// depth.
    fn pop_expired(&mut self, now: Time) -> Option<(u32, u32)> {
        let expired = self.0.iter().enumerate().filter(|(_, timer)| timer.at <= now);
        let (index, _) =
            expired.min_by_key(|(_, timer)| (timer.at, std::cmp::Reverse(timer.depth)))?;
        let timer = self.0.swap_remove(index);
        Some((timer.strand, timer.depth))
    }

    fn find(&self, strand: u32, depth: u32) -> Option<usize> {
        self.0.iter().position(|timer| timer.strand == strand && timer.depth == depth)
    }
}

impl AsyncSteps {
    /// Arms the limit of the running step, replacing an earlier one.
    pub(super) fn arm_timer(&mut self, after: Duration) {
        let (strand, depth) = (self.active(), self.strand.depth());
        let at = self.now + after;
        self.more().timers.set(at, strand, depth);
        self.strand.top.flags.timed = true;
    }

    pub(super) fn disarm_timer(&mut self) {
        if self.strand.top.flags.timed {
            self.strand.top.flags.timed = false;
            let (strand, depth) = (self.active(), self.strand.depth());
            self.more().timers.unset(strand, depth);
        }
    }

    /// Makes the strand of the next expired limit the active one.
    pub(super) fn activate_expired(&mut self) -> bool {
        let Some(more) = &mut self.more else { return false };
        let Some((strand, depth)) = more.timers.pop_expired(self.now) else { return false };
        self.activate(strand);
        let timed = match self.strand.frames.get_mut(depth as usize) {
            Some(frame) => frame,
            None => &mut self.strand.top,
        };
        timed.flags.timed = false;
        true
    }
}
