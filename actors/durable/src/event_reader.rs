//! Readers of the events that requests emit. Readers of one request share what they read: each keeps its own position, and
//! nothing waits for one that takes nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use asyncsteps_journal::request::{Emitted, EmittedPage};
use asyncsteps_journal::{Error, Journal, POLL, Repeat, Uid};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::until::until;

/// How many events are read at once, and how many of the last ones the readers of a request have in common.
const PAGE: usize = 64;

/// The requests whose events are read in this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedFlows(Arc<Mutex<HashMap<Uid, Weak<Watched>>>>);

impl WatchedFlows {
    /// The request may have emitted something, or has ended.
    pub(crate) fn changed(&self, uid: Uid) {
        let watched = self.0.lock().get(&uid).and_then(Weak::upgrade);
        if let Some(watched) = watched {
            watched.change();
        }
    }

    /// A reader of the events after this number.
    pub(crate) fn reader(&self, uid: Uid, after: u64, journal: &Arc<dyn Journal>) -> EventReader {
        EventReader { watched: self.watch(uid, journal), after }
    }

    fn watch(&self, uid: Uid, journal: &Arc<dyn Journal>) -> Arc<Watched> {
        let mut all = self.0.lock();
        if let Some(known) = all.get(&uid).and_then(Weak::upgrade) {
            return known;
        }
        let watched = Arc::new(Watched {
            uid,
            journal: Arc::clone(journal),
            all: self.clone(),
            changes: AtomicU64::new(1),
            changed: Notify::new(),
            recent: tokio::sync::Mutex::default(),
        });
        all.insert(uid, Arc::downgrade(&watched));
        watched
    }
}

/// A request whose events are read.
#[derive(derive_more::Debug)]
#[debug("Watched {{ uid: {uid:?}, .. }}")]
struct Watched {
    uid: Uid,
    journal: Arc<dyn Journal>,
    all: WatchedFlows,
    /// How often there may have been something new.
    changes: AtomicU64,
    changed: Notify,
    recent: tokio::sync::Mutex<RecentEvents>,
}

/// The last events that were read. Who waits for the lock finds what another one has read.
#[derive(Default)]
struct RecentEvents {
    events: VecDeque<Emitted>,
    /// The number before the first of them.
    from: u64,
    /// The number of the last one.
    until: u64,
    /// The changes before the last look; 0 if there is more to read.
    seen: u64,
    is_last: bool,
}

impl RecentEvents {
    fn add(&mut self, page: EmittedPage, changes: u64) {
        let EmittedPage { events, is_last } = page;
        self.seen = if events.len() < PAGE { changes } else { 0 };
        self.is_last = is_last;
        self.until = events.last().map_or(self.until, |event| event.number);
        self.events.extend(events);
        let old = self.events.len().saturating_sub(PAGE);
        self.from = self.events.drain(..old).next_back().map_or(self.from, |event| event.number);
    }

    fn after(&self, after: u64) -> EmittedPage {
        let events = self.events.iter().filter(|event| event.number > after);
        EmittedPage { events: events.cloned().collect(), is_last: self.is_last }
    }
}

impl Watched {
    fn change(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Events after this number, as they are after so many changes.
    async fn read(&self, after: u64, changes: u64) -> Result<EmittedPage, Error> {
        let mut recent = self.recent.lock().await;
        if recent.events.is_empty() && (recent.seen == 0 || after < recent.from) {
            *recent = RecentEvents { from: after, until: after, ..RecentEvents::default() };
        }
        if after < recent.from {
            // it is behind the others, and holds none of them up
            drop(recent);
            return self.journal.emitted(self.uid, after, PAGE).await;
        }
        while recent.until <= after && recent.seen < changes && !recent.is_last {
            let before = self.changes();
            let page = self.journal.emitted(self.uid, recent.until, PAGE).await?;
            recent.add(page, before);
        }
        Ok(recent.after(after))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        if all.get(&self.uid).is_some_and(|other| other.strong_count() == 0) {
            all.remove(&self.uid);
        }
    }
}

/// A position in the events of a request.
pub(crate) struct EventReader {
    watched: Arc<Watched>,
    after: u64,
}

impl EventReader {
    /// The next events that are stored by now, if there are any.
    pub(crate) async fn rest(&mut self) -> Result<Vec<Emitted>, Error> {
        self.watched.change();
        let events = self.watched.read(self.after, self.watched.changes()).await?.events;
        self.after = events.last().map_or(self.after, |event| event.number);
        Ok(events)
    }

    /// The next events, as soon as there are some; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Vec<Emitted>, Error> {
        let watched = &self.watched;
        loop {
            let changes = watched.changes();
            match watched.read(self.after, changes).await {
                Ok(EmittedPage { events, is_last }) if is_last || !events.is_empty() => {
                    self.after = events.last().map_or(self.after, |event| event.number);
                    return Ok(events);
                }
                Err(error) if error.repeat() == Repeat::Never => return Err(error),
                Ok(_) | Err(_) => {}
            }
            let changed = until(&watched.changed, || (watched.changes() > changes).then_some(()));
            tokio::select! {
                biased;
                () = changed => {}
                // another process may have changed it: the others look with this one
                () = tokio::time::sleep(POLL) => watched.change(),
            }
        }
    }
}
