//! Names of flows and of the owners of locks (FTN12 §1.11.4).

use std::cell::Cell;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// The id of a flow: unique in the process, never used again (FTN12 §1.11.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId(NonZeroU64);

impl FlowId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX))
    }

    /// The number of the flow, counted from 1.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The owner of a lock: a flow, or one parallel branch of it (FTN12 §1.11.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The flow.
    pub flow: FlowId,
    /// The branch; 0 is the root.
    pub branch: u32,
}

/// Bits of a branch in a packed identity: a million branches, which leaves room for more flows than
/// a process starts in a year.
const BRANCH_BITS: u32 = 20;

/// Bits of a packed identity: the highest one is left to the user.
const BITS: u32 = 63;

impl Identity {
    /// The identity as one number below 2^63, for objects that keep their holder in one word;
    /// `None` if it does not fit: flows after the first 8 trillion, and branches after the first
    /// million of a flow.
    #[must_use]
    pub fn to_bits(self) -> Option<NonZeroU64> {
        let (flow, branch) = (self.flow.0.get(), u64::from(self.branch));
        let fits = flow >> (BITS - BRANCH_BITS) == 0 && branch >> BRANCH_BITS == 0;
        if fits { NonZeroU64::new(flow << BRANCH_BITS | branch) } else { None }
    }

    /// The identity that [`to_bits`](Self::to_bits) made this number from; `None` if there is none.
    #[must_use]
    pub fn from_bits(bits: NonZeroU64) -> Option<Self> {
        let flow = FlowId(NonZeroU64::new(bits.get() >> BRANCH_BITS)?);
        let branch = u32::try_from(bits.get() & ((1 << BRANCH_BITS) - 1)).ok()?;
        (bits.get() >> BITS == 0).then_some(Self { flow, branch })
    }
}

thread_local! {
    /// The branch whose step is undone by the future that is being polled.
    static UNDONE: Cell<Option<Identity>> = const { Cell::new(None) };
}

impl Identity {
    /// The branch whose step is being undone: while the future of an
    /// [undo](crate::Added::undo) is polled on this thread.
    ///
    /// A lock that is taken without a step asks for it, because this branch may hold the lock around
    /// the undo; then the undo is inside already (FTN12 §1.11.4).
    #[must_use]
    pub fn undone() -> Option<Self> {
        UNDONE.get()
    }

    /// Polls an undo of a step of this branch: [`undone`](Self::undone) returns it meanwhile. For hosts that run an undo
    /// as a step of its own.
    pub fn undone_by<R>(self, poll: impl FnOnce() -> R) -> R {
        let _scope = UndoneScope(UNDONE.replace(Some(self)));
        poll()
    }
}

/// Restores the earlier result of [`Identity::undone`].
struct UndoneScope(Option<Identity>);

impl Drop for UndoneScope {
    fn drop(&mut self) {
        UNDONE.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(flow: u64, branch: u32) -> Identity {
        Identity { flow: FlowId(NonZeroU64::new(flow).expect("not zero")), branch }
    }

    #[test]
    fn an_identity_that_fits_comes_back_from_its_bits() {
        let largest = identity((1 << 43) - 1, (1 << 20) - 1);
        for who in [identity(1, 0), identity(7, 3), largest] {
            assert_eq!(who.to_bits().and_then(Identity::from_bits), Some(who));
        }
        assert_eq!(largest.to_bits().map(|bits| bits.get() >> BITS), Some(0));
        assert_eq!(identity(1 << 43, 0).to_bits(), None);
        assert_eq!(identity(1, 1 << 20).to_bits(), None);
        assert_eq!(Identity::from_bits(NonZeroU64::MAX), None);
        assert_eq!(Identity::from_bits(NonZeroU64::MIN), None);
    }
}
