//! How much a journal takes.

/// Bytes of one value: parameters, a result, the state of a loop, a signal. Larger things belong into
/// a store of their own, and their names into the journal; 64 KiB also keep a group of appends small
/// enough for one flush of a few milliseconds.
pub const VALUE_BYTES: usize = 64 * 1024;

/// Bytes of a path as text: names of 100 letters, forty levels deep.
pub const PATH_BYTES: usize = 4096;

/// Bytes of any other text: names of templates, users, keys, signals, error codes and texts.
pub const TEXT_BYTES: usize = 4096;

/// Tags of a flow: some names by which people look for it, each of which costs a row and two entries of an index.
pub const TAGS: usize = 16;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 128;

/// Bytes of the trace of a request: `traceparent`, 512 bytes of `tracestate` and 8,192 of `baggage`.
pub const TRACE_BYTES: usize = 9 * 1024;

/// Bytes of the value of one event of a flow: progress, not a result, so that a flow has hundreds of them.
pub const EVENT_BYTES: usize = 16 * 1024;

/// Items of a list inside of a record: keys of a collection, undos, locks held.
pub const LIST_ITEMS: usize = 10_000;

/// Bytes of one record in all, so that a list of long texts is bounded too: 1 MiB.
pub const RECORD_BYTES: usize = 1024 * 1024;

/// Entries of one batch, and the most that [`claim`](crate::Journal::claim),
/// [`list`](crate::Journal::list), [`news`](crate::Journal::news), [`trim`](crate::Journal::trim) and
/// [`remove`](crate::Journal::remove) return or take at once: as many as one transaction handles in about a tenth of a second.
pub const BATCH: usize = 1000;

/// How many flows of a template and a state are [counted](crate::Journal::count): as many entries of an index are read in
/// about a millisecond, however many flows there are.
pub const COUNTED: usize = 10_000;

/// How many signals that were taken stay known by their identity, so that one which is sent again is
/// not stored again.
pub const TAKEN_SIGNALS: u64 = 1000;

/// Limits that may be set for each journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Live records of one flow: records that were not replaced. 10,000 by default, because a flow
    /// is loaded as a whole when it goes on; loops and collections replace their records.
    pub records: u64,
    /// Signals of one flow that wait to be taken. 1,000 by default, so that a sender in a loop does not
    /// fill the disk.
    pub signals: u64,
    /// Bytes of the names and values of these signals. 4 MiB by default, 64 of the largest: the owner of a flow has all
    /// of them in memory. A storage may count a few bytes more for each.
    pub signal_bytes: u64,
    /// Events that a flow emits. 10,000 by default: one each second for three hours.
    pub events: u64,
    /// Bytes of the steps, keys and values of these events. 4 MiB by default, as for signals.
    pub event_bytes: u64,
    /// How often in a row the owner of a suspect may die while an effect of it was open, and of no other
    /// flow, before the flow is a dead letter. 3 by default: one crash is chance, and a flow that kills its
    /// process three times does it again. A death with effects of several flows open counts for none of them; only
    /// a flow whose owners die ten times as often in a row is a dead letter all the same. An effect that an earlier
    /// owner has begun is of a flow that waits: it does not count beside one that the dead owner has begun.
    pub claims: u32,
}

impl Limits {
    /// How often in a row the owner of a flow may die, with whatever else in flight.
    pub(crate) const fn deaths(&self) -> u32 {
        self.claims.saturating_mul(10)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            records: 10_000,
            signals: 1000,
            signal_bytes: 4 << 20,
            events: 10_000,
            event_bytes: 4 << 20,
            claims: 3,
        }
    }
}
