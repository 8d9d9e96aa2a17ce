//! A node as its cluster sees it.

use std::time::{Duration, SystemTime};

use asyncsteps_core::sim::Random;

use crate::disk::Disk;
use crate::faults::FaultSchedule;
use crate::machine::{NodeMachine, Start};
use crate::wall::{BEGIN, moved};

pub(crate) struct SimNode {
    pub(crate) name: String,
    pub(crate) start: Start,
    pub(crate) disk: Disk,
    pub(crate) random: Random,
    pub(crate) schedule: FaultSchedule,
    pub(crate) starts: u32,
    /// Nothing goes wrong with it.
    pub(crate) is_safe: bool,
    /// `None` while it is down.
    pub(crate) machine: Option<NodeMachine>,
    pub(crate) phase: NodePhase,
    /// By how many milliseconds its clock is ahead of the right time.
    pub(crate) ahead: i64,
    /// By how many milliseconds more it is so after each second.
    pub(crate) drift: u32,
}

/// The phase of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodePhase {
    Runs,
    /// It is paused since a time, until another one.
    Stands(Duration, Duration),
    /// It starts at this time.
    Down(Duration),
    /// It never starts.
    LeftOut,
}

impl SimNode {
    pub(crate) fn new(name: String, start: Start, disk: Disk, seed: u64, is_safe: bool) -> Self {
        let mut random = Random::new(seed);
        let schedule = FaultSchedule::new(random.number());
        Self {
            name,
            start,
            disk,
            random,
            schedule,
            starts: 0,
            is_safe,
            machine: None,
            phase: NodePhase::Down(Duration::ZERO),
            ahead: 0,
            drift: 0,
        }
    }

    /// Its machine, if it runs.
    pub(crate) fn running(&mut self) -> Option<&mut NodeMachine> {
        self.machine.as_mut().filter(|_| self.phase == NodePhase::Runs)
    }

    /// The time of day as its clock has it.
    pub(crate) fn wall(&self, now: Duration) -> SystemTime {
        let right = SystemTime::UNIX_EPOCH + BEGIN + now;
        moved(right, self.ahead)
    }

    /// A node that does not run finds the time of day when it does.
    pub(crate) fn set_clock(&self, now: Duration) {
        if let (Some(machine), NodePhase::Runs) = (&self.machine, self.phase) {
            machine.set_wall(self.wall(now));
        }
    }

    /// It goes on after it stood still since then.
    pub(crate) fn go_on(&mut self, since: Duration, now: Duration) {
        self.phase = NodePhase::Runs;
        if let Some(machine) = &self.machine {
            machine.skip(now.saturating_sub(since));
        }
        self.set_clock(now);
    }

    /// It is killed, and starts at this time.
    pub(crate) fn kill(&mut self, until: Duration) {
        self.machine = None;
        self.phase = NodePhase::Down(until);
    }
}
