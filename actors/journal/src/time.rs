//! Times of day, and the clocks that they come from.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use minicbor::{Decode, Encode};
use tokio::time::Instant;

/// A time of day, in milliseconds since 1970 (UTC). Stored times must mean the same after a
/// restart, so times that only one process understands are of no use here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Timestamp(#[n(0)] u64);

impl Timestamp {
    /// The time `millis` milliseconds after the beginning of 1970.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the beginning of 1970.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// This time and `duration`, rounded up to a millisecond; the end of time if that is later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let millis = duration.as_nanos().div_ceil(1_000_000);
        Self(self.0.saturating_add(u64::try_from(millis).unwrap_or(u64::MAX)))
    }

    /// This time and this number of milliseconds.
    pub(crate) const fn plus(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// The milliseconds from an earlier time to this one; 0 if that one is later.
    pub(crate) const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The time that a node reads from a journal, when the node [registers](crate::Journal::register) and when it
/// [renews](crate::Journal::renew) its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The time of day by the journal's clock. If that has jumped forward by more than a minute while nodes
    /// ran, this is the time as it would be without the jump, until a later reading confirms it.
    pub now: Timestamp,
    /// A time for lengths of time: it never goes back, and no jump of the clock while nodes run moves it by
    /// more than half a [`LEASE`](crate::LEASE). It is about the time of day when the journal is made, and not
    /// comparable with [`now`](Self::now) later.
    pub passed: Timestamp,
    /// The clock has jumped since the last reading of any node.
    pub jump: Option<Jump>,
}

/// A jump of a clock by more than a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The time that the clock showed before.
    pub from: Timestamp,
    /// The time that it showed next.
    pub to: Timestamp,
}

/// Where the journals of one process take the time from. A journal on a server uses the clock of that
/// server instead.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The time of day.
    fn now(&self) -> Timestamp;

    /// Whether it goes on exactly as tokio's clock does, so that a wait for one of its times is as long as it is now.
    fn goes_with_tokio(&self) -> bool {
        false
    }
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where the journals read the clock")]
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// The clock of tokio. A test that pauses it (`tokio::time::pause`) has journals in virtual time, in which waits of months take
/// no time.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock(Instant);

impl TokioClock {
    /// The clock begins now, at some time of day.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_000_000_000).after(self.0.elapsed())
    }

    fn goes_with_tokio(&self) -> bool {
        true
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        // a clock before 1970 is as good as one at its beginning
        Self::default().after(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
    }
}

impl<C: Clock> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        C::now(self)
    }

    fn goes_with_tokio(&self) -> bool {
        C::goes_with_tokio(self)
    }
}
