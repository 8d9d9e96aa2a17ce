//! The figures of a run, with the faults that struck.

use std::fmt;
use std::iter::Sum;
use std::time::Duration;

use crate::faults::{FaultKind, NodeFault};
use crate::repeat::FaultId;

/// The figures of one run or of several, with the faults that struck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunFigures {
    /// The runs; 0 while the first one goes on.
    pub seeds: usize,
    /// A number of what all nodes have asked of the journal and sent to each other, and when: runs with the same one did the
    /// same. It is the sum of the numbers of several runs.
    pub history: u64,
    /// The virtual time.
    pub time: Duration,
    /// Durable requests that have ended.
    pub requests: usize,
    /// Effects that were begun: records of an intent.
    pub effects: usize,
    /// Messages that were lost on their way.
    pub messages_lost: u32,
    pub(crate) struck: [Strikes; FaultKind::ALL.len()],
}

/// How often a kind of fault struck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Strikes {
    /// How often it did.
    pub times: usize,
    /// How often while its node had durable requests in flight.
    pub in_flight: usize,
    /// In how many runs it did so.
    pub seeds: usize,
}

/// A fault that struck.
#[derive(Clone, Debug)]
pub(crate) struct Struck {
    pub(crate) id: FaultId,
    pub(crate) at: Duration,
    pub(crate) name: String,
    pub(crate) fault: NodeFault,
}

impl RunFigures {
    pub(crate) fn count(&mut self, kind: FaultKind, in_flight: bool) {
        let strikes = &mut self.struck[kind as usize];
        strikes.times += 1;
        if in_flight {
            strikes.in_flight += 1;
            strikes.seeds = 1;
        }
    }

    /// How often this kind of fault struck.
    #[must_use]
    pub const fn struck(&self, kind: FaultKind) -> Strikes {
        self.struck[kind as usize]
    }

    /// How many faults struck requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.struck.iter().map(|strikes| strikes.in_flight).sum()
    }
}

impl Sum for RunFigures {
    fn sum<I: Iterator<Item = Self>>(runs: I) -> Self {
        runs.fold(Self::default(), |sum, run| Self {
            seeds: sum.seeds + run.seeds,
            history: sum.history.wrapping_add(run.history),
            time: sum.time + run.time,
            requests: sum.requests + run.requests,
            effects: sum.effects + run.effects,
            messages_lost: sum.messages_lost + run.messages_lost,
            struck: std::array::from_fn(|kind| {
                let (sum, run) = (sum.struck[kind], run.struck[kind]);
                Strikes {
                    times: sum.times + run.times,
                    in_flight: sum.in_flight + run.in_flight,
                    seeds: sum.seeds + run.seeds,
                }
            }),
        })
    }
}

impl fmt::Display for RunFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, time, requests, effects, .. } = self;
        let time = time.as_secs();
        write!(f, "{seeds} seeds, {time} virtual seconds: {requests} requests ended, ")?;
        write!(f, "{effects} effects begun, {} messages lost, ", self.messages_lost)?;
        writeln!(f, "{} faults in flight, history {:016x}", self.in_flight(), self.history)?;
        for kind in FaultKind::ALL {
            let Strikes { times, in_flight, seeds } = self.struck(kind);
            writeln!(f, "  {kind:?}: {times}, {in_flight} in flight, in {seeds} seeds")?;
        }
        Ok(())
    }
}

impl fmt::Display for Struck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, at, name, fault } = self;
        write!(f, "{at:?} {name}: {fault} ({id})")
    }
}
