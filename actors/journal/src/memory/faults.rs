//! Faults of a journal in memory.

use asyncsteps_core::sim::Random;

/// The operations of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// A new flow.
    Submit,
    /// Records.
    Append,
    /// Flows for a node.
    Claim,
    /// A signal.
    Signal,
    /// An event.
    Emit,
    /// A cancel.
    Cancel,
    /// A flow that goes on.
    Resume,
    /// The lease of a node.
    Lease,
    /// Ended flows are dropped or removed.
    Trim,
    /// A schedule is stored or removed.
    Schedule,
    /// Anything that is only read.
    Load,
}

impl Operation {
    /// Whether it stores something.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Load)
    }

    pub(super) const fn may_wake(self) -> bool {
        !matches!(
            self,
            Self::Load | Self::Trim | Self::Claim | Self::Lease | Self::Schedule | Self::Emit
        )
    }
}

/// A fault of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing.
    None,
    /// It is done after this number of turns of its task, so that others overtake it.
    Delayed(u32),
    /// It is not done: [`Error::Unavailable`](crate::Error::Unavailable).
    NotDone,
    /// It is not done: [`Error::DiskFull`](crate::Error::DiskFull).
    DiskFull,
    /// It is done: [`Error::AnswerLost`](crate::Error::AnswerLost).
    AnswerLost,
    /// It is done and never answered: how a flow finds the journal that crashed behind a record.
    NeverAnswered,
}

/// Decides about faults. A closure over the operation implements it, such as a counter that lets the
/// n-th append be the last thing that happens.
pub trait Faults: Send + 'static {
    /// The fault of the next operation.
    fn next(&mut self, operation: Operation) -> Fault;
}

impl<F: FnMut(Operation) -> Fault + Send + 'static> Faults for F {
    fn next(&mut self, operation: Operation) -> Fault {
        self(operation)
    }
}

/// Nothing goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFaults;

impl Faults for NoFaults {
    fn next(&mut self, _: Operation) -> Fault {
        Fault::None
    }
}

/// Faults by chance: the same seed yields the same faults for the same operations.
#[derive(Clone, derive_more::Debug)]
#[debug("SeededFaults {{ one_in: {one_in}, most_turns: {most_turns} }}")]
pub struct SeededFaults {
    random: Random,
    one_in: u32,
    most_turns: u32,
}

impl SeededFaults {
    /// One operation in `one_in` is not done, and as many are done with their answer lost; the
    /// others wait for up to `most_turns` turns.
    #[must_use]
    pub const fn new(seed: u64, one_in: u32, most_turns: u32) -> Self {
        Self { random: Random::new(seed), one_in, most_turns }
    }
}

impl Faults for SeededFaults {
    fn next(&mut self, _: Operation) -> Fault {
        if self.random.one_in(self.one_in) {
            return Fault::NotDone;
        }
        if self.random.one_in(self.one_in) {
            return Fault::AnswerLost;
        }
        match self.random.below(self.most_turns as usize + 1) {
            0 => Fault::None,
            turns => Fault::Delayed(u32::try_from(turns).unwrap_or(self.most_turns)),
        }
    }
}
