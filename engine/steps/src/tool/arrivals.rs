//! What other threads and wakers leave for a loop (FTN12 §2.6).

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::thread::{self, ThreadId};

/// What arrived for a loop and was not taken yet; `P` is a callback that another thread posts.
pub(super) struct Arrivals<P> {
    incoming: Mutex<Incoming<P>>,
    thread: ThreadId,
}

struct Incoming<P> {
    arrived: Arrived<P>,
    /// Woken when something arrives; set at the end of each round.
    host: Option<Waker>,
}

/// What arrived for a loop.
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
        let incoming = Incoming { arrived: Arrived::default(), host: None };
        Self { incoming: Mutex::new(incoming), thread: thread::current().id() }
    }

    /// Whether this is the thread of the loop.
    pub(super) fn is_same_thread(&self) -> bool {
        self.thread == thread::current().id()
    }

    /// Whether another thread has posted a callback that was not taken.
    pub(super) fn has_posts(&self) -> bool {
        !self.lock().arrived.posts.is_empty()
    }

    /// Moves everything that arrived behind what is left of an earlier round.
    pub(super) fn take(&self, round: &mut Arrived<P>) {
        let arrived = &mut self.lock().arrived;
        if !arrived.posts.is_empty() {
            round.posts.append(&mut arrived.posts);
        }
        if round.woken.is_empty() {
            mem::swap(&mut round.woken, &mut arrived.woken);
        } else {
            round.woken.append(&mut arrived.woken);
        }
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
        if is_empty {
            incoming.host.get_or_insert_with(|| host.clone()).clone_from(host);
        } else {
            incoming.host = None;
        }
        is_empty
    }

    fn arrive(&self, leave: impl FnOnce(&mut Incoming<P>)) {
        let host = {
            let mut incoming = self.lock();
            leave(&mut incoming);
            incoming.host.take()
        };
        if let Some(host) = host {
            host.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Incoming<P>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P> WakeFuture<P> {
    pub(super) fn new(arrivals: &Arc<Arrivals<P>>, slot: usize) -> Self {
        Self { arrivals: Arc::clone(arrivals), slot, queued: AtomicBool::new(false) }
    }

    /// The future is about to be polled: a wake-up from now on counts again.
    pub(super) fn reset(&self) {
        self.queued.store(false, Ordering::Release);
    }
}

impl<P: Send + 'static> Wake for WakeFuture<P> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.arrivals.arrive(|incoming| incoming.arrived.woken.push_back(self.slot));
        }
    }
}
