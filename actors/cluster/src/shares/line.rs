//! Waiting for room in a limit, first come, first served on a node.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_actors::sync::Mutex as LocalMutex;
use asyncsteps_core::sync::mutex;
use asyncsteps_core::{Error, codes};
use tokio::sync::futures::Notified;
use tokio::time::sleep;

/// The queue of entries that wait for room.
pub(crate) struct EntryQueue {
    queue: LocalMutex,
    waiting: AtomicUsize,
    /// How many may wait; `None` = no limit.
    most: Option<u32>,
    /// The error text for an entry that finds the line full.
    full: &'static str,
}

/// A try to enter.
pub(crate) enum EntryAttempt {
    Entered,
    /// There may be room at this time of the boot-time clock, or when the share changes.
    Full(Option<Duration>),
}

/// A waiting entry.
struct WaitingEntry<'a>(&'a AtomicUsize);

impl Drop for WaitingEntry<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl EntryQueue {
    pub(crate) fn new(most: Option<u32>, full: &'static str) -> Self {
        let queue = LocalMutex::new(mutex::Options::default());
        Self { queue, waiting: AtomicUsize::new(0), most, full }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Enters, after the waiting ones: tries when something changes, and each `poll`.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the line.
    pub(crate) async fn enter<'a, F>(
        &self,
        changed: impl Fn() -> Notified<'a>,
        poll: Duration,
        attempt: impl Fn() -> F,
    ) -> Result<(), Error>
    where
        F: Future<Output = Result<EntryAttempt, Error>>,
    {
        if self.is_empty() && matches!(attempt().await?, EntryAttempt::Entered) {
            return Ok(());
        }
        let _waiting = self.join()?;
        let _turn = self.queue.lock().await?;
        loop {
            let changed = changed();
            let EntryAttempt::Full(until) = attempt().await? else { return Ok(()) };
            let pause = until.map_or(poll, |at| at.saturating_sub(clock::boottime()));
            tokio::select! {
                biased;
                // timers of the runtime have a resolution of 1 ms
                () = sleep(pause + Duration::from_millis(1)) => {}
                () = changed => {}
            }
        }
    }

    fn join(&self) -> Result<WaitingEntry<'_>, Error> {
        let most = self.most.map_or(usize::MAX, |most| most as usize);
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = WaitingEntry(&self.waiting);
        let full = || Error::with_info(codes::DEFENSE_REJECTED, self.full);
        (before < most).then_some(waiting).ok_or_else(full)
    }
}
