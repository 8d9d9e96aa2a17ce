//! Numbers of slots in tables and queues (FTN12 §1.1, the step stack): half the size of `usize`.

use std::num::NonZeroU32;

/// Names a slot of a table; counted from 1, so that an `Option` of it takes no more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotId(NonZeroU32);

impl SlotId {
    pub(crate) fn new(slot: usize) -> Self {
        Self(NonZeroU32::MIN.saturating_add(index(slot)))
    }

    pub(crate) fn slot(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A length as a number of 32 bits. Levels and queues are far below that limit: each step takes
/// dozens of bytes of memory.
#[inline]
pub(crate) fn index(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}
