//! Turns that block their arbiter: a step that computes, sleeps or waits for a lock of the system holds up all that is
//! on the same thread.
//!
//! A turn says when it begins and ends, and a recorded flow where it is. A thread of its own looks at that four times a
//! second: a turn that has lasted for a second is in the log while it lasts, with the place of its step, in the span
//! of its request; and so is its end. What blocks an arbiter outside of flows is not seen here.

use std::cell::Cell;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use asyncsteps_core::StepLocation;
use crossbeam_utils::atomic::AtomicCell;
use parking_lot::Mutex;
use tracing::Id;

use crate::clock::Clock;

/// How often the turns are looked at.
const INTERVAL: Duration = Duration::from_millis(250);

/// How long a turn may last before it is logged, as long as an arbiter may take to answer a probe.
const LIMIT: Duration = Duration::from_secs(1);

thread_local! {
    static HERE: Cell<Option<&'static Beat>> = const { Cell::new(None) };

    /// Ends with the thread.
    static ALIVE: Arc<()> = Arc::default();
}

/// The arbiters that were watched so far.
static WATCHED: Mutex<Vec<Watched>> = Mutex::new(Vec::new());

static BLOCKED: AtomicUsize = AtomicUsize::new(0);
static BLOCKS: AtomicU64 = AtomicU64::new(0);

/// How often turns have blocked their arbiters for a second or longer; returned by [`figures`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StuckFigures {
    /// Arbiters that are blocked now.
    pub now: usize,
    /// All blocks so far.
    pub total: u64,
}

/// The figures of this process.
#[must_use]
pub fn figures() -> StuckFigures {
    StuckFigures { now: BLOCKED.load(Relaxed), total: BLOCKS.load(Relaxed) }
}

/// The turn that runs on a thread.
struct Beat {
    /// Its number on the thread, 0 for none.
    turn: AtomicU64,
    last: AtomicU64,
    /// The number of its span, 0 for none; that of the last turn within it, if one of its steps has started a flow.
    span: AtomicU64,
    step: AtomicCell<Option<&'static Location<'static>>>,
    /// Whether the turn is as long as a block that others should not wait for.
    is_blocked: AtomicBool,
}

/// An arbiter, for other threads; returned by [`here`].
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("WatchedArbiter {{ is_blocked: {:?} }}", self.is_blocked())]
pub struct WatchedArbiter(&'static Beat);

/// The arbiter of this thread.
#[must_use]
pub fn here() -> WatchedArbiter {
    WatchedArbiter(HERE.get().unwrap_or_else(watch_here))
}

impl WatchedArbiter {
    /// Whether a turn has blocked it for half a second or longer.
    #[must_use]
    pub fn is_blocked(self) -> bool {
        self.0.is_blocked.load(Relaxed)
    }
}

/// Of a thread that ends.
static UNWATCHED: Beat = Beat::new();

impl Beat {
    const fn new() -> Self {
        let (turn, last, span) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let is_blocked = AtomicBool::new(false);
        Self { turn, last, span, step: AtomicCell::new(None), is_blocked }
    }
}

/// Runs a turn in a span.
#[inline]
pub(crate) fn turn<R>(span: Option<Id>, run: impl FnOnce() -> R) -> R {
    let beat = HERE.get().unwrap_or_else(watch_here);
    let outer = beat.turn.load(Relaxed);
    // no other thread writes
    let turn = beat.last.load(Relaxed) + 1;
    beat.last.store(turn, Relaxed);
    beat.turn.store(turn, Relaxed);
    beat.span.store(span.map_or(0, |id| id.into_u64()), Relaxed);
    let result = run();
    beat.step.store(None);
    beat.turn.store(outer, Relaxed);
    result
}

/// The turn of this thread comes to a step.
#[inline]
pub(crate) fn at(step: StepLocation) {
    if let Some(beat) = HERE.get() {
        beat.step.store(Some(step.source()));
    }
}

/// Watches the turns of this thread from now on.
#[cold]
fn watch_here() -> &'static Beat {
    static IS_STARTED: AtomicBool = AtomicBool::new(false);
    let Ok(alive) = ALIVE.try_with(Arc::downgrade) else { return &UNWATCHED };
    let mut all = WATCHED.lock();
    // the memory of threads that have ended
    let is_free = |it: &Watched| it.alive.strong_count() == 0 && it.block.is_none();
    let free = all.iter().position(is_free);
    let beat = free.map_or_else(|| &*Box::leak(Box::new(Beat::new())), |at| all.remove(at).beat);
    all.push(Watched { beat, alive, turn: 0, since: Clock::start(), block: None });
    HERE.set(Some(beat));
    if !IS_STARTED.swap(true, Relaxed) {
        let started = thread::Builder::new().name("stuck".to_owned()).spawn(|| {
            loop {
                thread::park_timeout(INTERVAL);
                WATCHED.lock().iter_mut().for_each(Watched::look);
            }
        });
        if let Err(error) = started {
            tracing::warn!(%error, "turns that block their arbiter are not logged");
        }
    }
    beat
}

/// A thread, as it was at the last look.
struct Watched {
    beat: &'static Beat,
    alive: Weak<()>,
    turn: u64,
    /// When the turn was first seen.
    since: Clock,
    /// Where the turn is, if it blocks.
    block: Option<String>,
}

impl Watched {
    fn look(&mut self) {
        let turn = self.beat.turn.load(Relaxed);
        let lasted = self.since.elapsed();
        let is_same = turn == self.turn && turn != 0 && self.alive.strong_count() > 0;
        self.beat.is_blocked.store(is_same && lasted >= LIMIT / 2, Relaxed);
        if !is_same {
            if let Some(step) = self.block.take() {
                BLOCKED.fetch_sub(1, Relaxed);
                tracing::warn!(step, took = ?lasted, "a step that blocked its arbiter goes on or has ended");
            }
            (self.turn, self.since) = (turn, Clock::start());
        } else if self.block.is_none() && lasted >= LIMIT {
            let step = self.beat.step.load();
            let step = step.map_or_else(
                || "unknown".to_owned(),
                |step| format!("{}:{}", step.file(), step.line()),
            );
            let span = self.beat.span.load(Relaxed);
            let span = (span != 0).then(|| Id::from_u64(span));
            BLOCKED.fetch_add(1, Relaxed);
            BLOCKS.fetch_add(1, Relaxed);
            tracing::warn!(
                parent: span, step, blocked = ?lasted,
                "a step blocks its arbiter: nothing else goes on there"
            );
            self.block = Some(step);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc;

    use asyncsteps_core::Flow;
    use tokio::time::Instant;

    use super::*;
    use crate::flow::start_flow;
    use crate::record::{self, Recording};

    static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

    struct Lines;

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            LOG.lock().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Waits for a line of the log: there is no event for it.
    fn line(text: &str) -> String {
        let begun = Instant::now();
        loop {
            let log = String::from_utf8_lossy(&LOG.lock()).into_owned();
            if let Some(line) = log.lines().find(|line| line.contains(text)) {
                return line.to_owned();
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "no `{text}` in {log}");
            thread::yield_now();
        }
    }

    #[test]
    fn a_step_that_blocks_its_arbiter_is_logged_with_its_place_and_request_until_it_ends() {
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Lines).finish();
        tracing::subscriber::set_global_default(log).expect("no other test has one");
        let (go_on, goes_on) = mpsc::channel();
        let place = line!() + 4;
        let arbiter = thread::spawn(move || {
            actix::System::new().block_on(async move {
                let mut flow = Flow::new();
                flow.run(async move |()| {
                    // it is not the first turn that blocks
                    asyncsteps_core::sleep(Duration::from_millis(1)).await;
                    goes_on.recv().expect("the test goes on");
                    Ok(())
                });
                let recording = Recording::start();
                record::observe(&mut flow, &tracing::Span::none(), None, Some(&recording));
                let request = tracing::info_span!("request", f = "test.shop:1.0:order");
                let started = request.in_scope(|| start_flow::<()>(flow));
                started.await.expect("it goes on");
            });
        });
        let begins = line("a step blocks its arbiter");
        let place = format!("stuck.rs:{place}");
        assert!(begins.contains(&place) && begins.contains("test.shop:1.0:order"), "{begins}");
        assert_eq!(figures(), StuckFigures { now: 1, total: 1 });
        go_on.send(()).expect("it waits");
        let ends = line("goes on or has ended");
        assert!(ends.contains(&place) && ends.contains("took="), "{ends}");
        assert_eq!(figures(), StuckFigures { now: 0, total: 1 });
        arbiter.join().expect("no panic");
    }
}
