//! Messages of other threads and wakers to a loop (FTN12 §2.6).

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::thread::{self, ThreadId};

/// The messages to a loop that were not taken yet; `P` is a callback that another thread posts.
pub(super) struct Arrivals<P> {
    incoming: Mutex<ArrivalQueue<P>>,
    /// The host waits to be woken, and nothing has arrived since it asked for that. Changed within the
    /// lock, read anywhere.
    is_awaited: AtomicBool,
    /// How many wake-ups have arrived so far. Changed within the lock, read anywhere.
    wake_ups: AtomicUsize,
    thread: ThreadId,
}

struct ArrivalQueue<P> {
    arrived: Arrived<P>,
    /// Woken when something arrives; set at the end of each round.
    host: Option<Waker>,
}

/// The messages that arrived for a loop.
pub(super) struct Arrived<P> {
    pub(super) posts: VecDeque<P>,
    /// The slots of the futures to poll, each at most once.
    pub(super) woken: VecDeque<usize>,
}

/// Wakes the future in one slot of a loop.
pub(super) struct WakeFuture<P> {
    arrivals: Arc<Arrivals<P>>,
    slot: usize,
    /// It is among the woken futures already.
    queued: AtomicBool,
}

impl<P> Default for Arrived<P> {
    fn default() -> Self {
        Self { posts: VecDeque::new(), woken: VecDeque::new() }
    }
}

impl<P> Arrivals<P> {
    /// For the loop of this thread.
    pub(super) fn here() -> Self {
        let incoming = Mutex::new(ArrivalQueue { arrived: Arrived::default(), host: None });
        let (is_awaited, wake_ups) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self { incoming, is_awaited, wake_ups, thread: thread::current().id() }
    }

    /// Whether this is the thread of the loop.
    pub(super) fn is_same_thread(&self) -> bool {
        self.thread == thread::current().id()
    }

    /// Whether another thread has posted a callback that was not taken.
    pub(super) fn has_posts(&self) -> bool {
        !self.lock().arrived.posts.is_empty()
    }

    /// Whether the host waits to be woken, so that nothing has arrived.
    #[inline]
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Acquire)
    }

    /// How many wake-ups have arrived so far. This thread knows its own.
    #[inline]
    pub(super) fn wake_ups(&self) -> usize {
        self.wake_ups.load(Ordering::Relaxed)
    }

    /// Moves all messages that arrived behind the rest of an earlier round, and the futures that the
    /// loop has begun to where they belong: each behind the number of wake-ups noted with it.
    #[inline]
    pub(super) fn take(&self, round: &mut Arrived<P>, begun: &mut Vec<(usize, usize)>) {
        if self.is_awaited() {
            round.woken.extend(begun.drain(..).map(|(_, slot)| slot));
        } else {
            self.take_arrived(round, begun);
        }
    }

    fn take_arrived(&self, round: &mut Arrived<P>, begun: &mut Vec<(usize, usize)>) {
        let mut incoming = self.lock();
        let Arrived { posts, woken } = &mut incoming.arrived;
        if !posts.is_empty() {
            round.posts.append(posts);
        }
        if round.woken.is_empty() && begun.is_empty() {
            mem::swap(&mut round.woken, woken);
            return;
        }
        let mut next = self.wake_ups().wrapping_sub(woken.len());
        for (wake_ups, slot) in begun.drain(..) {
            let before = wake_ups.wrapping_sub(next).min(woken.len());
            round.woken.extend(woken.drain(..before));
            next = next.wrapping_add(before);
            round.woken.push_back(slot);
        }
        round.woken.append(woken);
    }

    /// Leaves a callback and wakes the host.
    pub(super) fn post(&self, post: P) {
        self.arrive(|incoming| incoming.arrived.posts.push_back(post));
    }

    /// Has `host` woken when something arrives; `false` if something has arrived already.
    pub(super) fn wake_on_arrival(&self, host: &Waker) -> bool {
        let mut incoming = self.lock();
        let Arrived { posts, woken } = &incoming.arrived;
        let is_empty = posts.is_empty() && woken.is_empty();
        let old = match &incoming.host {
            Some(old) if is_empty && old.will_wake(host) => None,
            _ => mem::replace(&mut incoming.host, is_empty.then(|| host.clone())),
        };
        self.is_awaited.store(is_empty, Ordering::Release);
        drop(incoming);
        // its destructor may use the loop
        drop(old);
        is_empty
    }

    fn arrive(&self, leave: impl FnOnce(&mut ArrivalQueue<P>)) {
        let host = {
            let mut incoming = self.lock();
            leave(&mut incoming);
            self.is_awaited.store(false, Ordering::Release);
            incoming.host.take()
        };
        if let Some(host) = host {
            host.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, ArrivalQueue<P>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P> WakeFuture<P> {
    pub(super) fn new(arrivals: &Arc<Arrivals<P>>, slot: usize) -> Self {
        Self { arrivals: Arc::clone(arrivals), slot, queued: AtomicBool::new(false) }
    }

    /// The loop is to poll a new future: whether it has to note that, because the slot is not yet among the woken
    /// slots. A waker of an older future may wake the slot at the same time: then the new one is polled once more than
    /// needed.
    pub(super) fn begin(&self) -> bool {
        let is_new = !self.queued.load(Ordering::Acquire);
        self.queued.store(true, Ordering::Release);
        is_new
    }

    /// The future is about to be polled: a wake-up from now on counts again.
    pub(super) fn reset(&self) {
        // a swap, because the poll has to see the writes of a wake-up that found it queued
        self.queued.swap(false, Ordering::AcqRel);
    }
}

impl<P: Send + 'static> Wake for WakeFuture<P> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.arrivals.arrive(|incoming| {
                incoming.arrived.woken.push_back(self.slot);
                let wake_ups = self.arrivals.wake_ups().wrapping_add(1);
                self.arrivals.wake_ups.store(wake_ups, Ordering::Relaxed);
            });
        }
    }
}
