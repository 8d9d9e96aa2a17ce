//! Snapshots for all open pages: at most one a second is built, by the first page that wants it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use asyncsteps_actors::clock::Clock;
use asyncsteps_executor::InFlightFilter;
use asyncsteps_observe::admin::{FlowsInFlight, FunctionPlan, Inspector, RecentRequest};
use bytes::Bytes;
use futures_util::stream;
use parking_lot::Mutex as StdMutex;
use tokio::sync::{Mutex, Notify, Semaphore};

use crate::body::Snapshots;
use crate::bounds::{self, Bounded as _};
use crate::history::History;
use crate::others::ConsoleSources;
use crate::search::RecentFilter;
use crate::snapshot::{PageSnapshot, SnapshotHistory};

/// The time between two snapshots.
const PERIOD: Duration = Duration::from_secs(1);

/// The most pages that are open at once, over all peers: more are of no use to people. One more ends the
/// oldest, so that pages that are not looked at any more lock no operator out.
const VIEWERS: usize = 32;

/// How long a page gets snapshots, before it has to ask again: so what a client that reads nothing makes the
/// network keep is bounded.
const TERM: Duration = Duration::from_secs(30);

/// The most searches at once: one looks at all requests, the others wait for it.
const SEARCHES: usize = 9;

/// The state that the open pages share.
pub(crate) struct Live {
    pub(crate) inspector: Inspector,
    pub(crate) others: ConsoleSources,
    pub(crate) history: History,
    clock: Clock,
    state: Mutex<LiveState>,
    viewers: StdMutex<Vec<Weak<Viewer>>>,
    searches: Semaphore,
    /// Who has it may look at all requests.
    turn: Mutex<()>,
}

#[derive(Default)]
struct LiveState {
    latest: Option<Latest>,
    history: SnapshotHistory,
}

/// The latest snapshot, as an event of a stream.
#[derive(Clone)]
struct Latest {
    number: u64,
    at: Duration,
    event: Bytes,
}

/// An open page, until this is dropped or its term has expired.
struct Viewer {
    until: Duration,
    /// Notified when a newer page has its place.
    displaced: Notify,
}

impl Live {
    pub(crate) fn new(inspector: Inspector, others: ConsoleSources) -> Self {
        let history = History::start(inspector.executor());
        let (clock, state) = (Clock::start(), Mutex::default());
        let (searches, turn) = (Semaphore::new(SEARCHES), Mutex::default());
        let viewers = StdMutex::default();
        Self { inspector, others, history, clock, state, viewers, searches, turn }
    }

    /// The snapshots for another page, until its term has ended, newer pages need its place, or the executor
    /// closes.
    pub(crate) fn watch(self: &Arc<Self>) -> Snapshots {
        let page = (Arc::clone(self), self.admit(), 0);
        let snapshots = stream::unfold(page, |(live, viewer, seen)| async move {
            if live.clock.elapsed() >= viewer.until {
                return None;
            }
            tokio::select! {
                biased;
                () = viewer.displaced.notified() => None,
                latest = live.next(seen) => Some((latest.event, (live, viewer, latest.number))),
                () = live.inspector.executor().closing() => None,
            }
        });
        Box::pin(snapshots)
    }

    /// A place for another page; if all are taken, it displaces the oldest page.
    fn admit(&self) -> Arc<Viewer> {
        let now = self.clock.elapsed();
        let mut viewers = self.viewers.lock();
        viewers.retain(|viewer| viewer.upgrade().is_some_and(|viewer| now < viewer.until));
        if viewers.len() >= VIEWERS
            && let Some(oldest) = viewers.remove(0).upgrade()
        {
            oldest.displaced.notify_one();
        }
        let viewer = Arc::new(Viewer { until: now + TERM, displaced: Notify::new() });
        viewers.push(Arc::downgrade(&viewer));
        viewer
    }

    /// The oldest flows that the filter is for, among all: one search at a time, for it costs other
    /// requests their time. `None` if too many wait. Dropping the future passes its place to the
    /// next.
    pub(crate) async fn search(&self, filter: InFlightFilter) -> Option<FlowsInFlight> {
        let _place = self.searches.try_acquire().ok()?;
        let _turn = self.turn.lock().await;
        Some(self.inspector.flows(filter, bounds::FLOWS).await.bounded())
    }

    /// The newest requests that are kept and that the filter is for, under the same rules.
    pub(crate) async fn search_recent(&self, filter: &RecentFilter) -> Option<Vec<RecentRequest>> {
        let _place = self.searches.try_acquire().ok()?;
        let _turn = self.turn.lock().await;
        Some(filter.find(self.inspector.executor()))
    }

    /// The plan of a function with reports about its steps, under the same rules; the inner `None` if it is not hosted.
    pub(crate) async fn plan(&self, function: &str) -> Option<Option<FunctionPlan>> {
        let _place = self.searches.try_acquire().ok()?;
        let _turn = self.turn.lock().await;
        Some(self.inspector.plan(function).await)
    }

    /// A snapshot after the one of this number, and not older than a period. Dropping the future while
    /// it builds one leaves that to the next page.
    async fn next(&self, seen: u64) -> Latest {
        loop {
            let mut state = self.state.lock().await;
            let now = self.clock.elapsed();
            let latest = state.latest.as_ref();
            let Some(latest) = latest.filter(|latest| now < latest.at + PERIOD) else {
                return self.build(&mut state, now).await;
            };
            if latest.number > seen {
                return latest.clone();
            }
            let left = (latest.at + PERIOD).saturating_sub(now);
            drop(state);
            tokio::time::sleep(left).await;
        }
    }

    async fn build(&self, state: &mut LiveState, now: Duration) -> Latest {
        let snapshot = PageSnapshot::take(&self.inspector, &mut state.history, now).await;
        let snapshot = snapshot.with_others(&self.others);
        let mut event = b"data: ".to_vec();
        if let Err(error) = serde_json::to_writer(&mut event, &snapshot) {
            // figures and counts can always be written
            tracing::error!(%error, "a snapshot cannot be written");
            event.truncate(b"data: ".len());
            event.extend_from_slice(b"null");
        }
        event.extend_from_slice(b"\n\n");
        let number = state.latest.as_ref().map_or(0, |latest| latest.number) + 1;
        let latest = Latest { number, at: now, event: event.into() };
        state.latest = Some(latest.clone());
        latest
    }
}
