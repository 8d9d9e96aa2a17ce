//! What other threads and wakers leave for a loop (FTN12 §2.6).

use std::collections::VecDeque;
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
    posts: VecDeque<P>,
    /// The futures to poll, each at most once.
    woken: VecDeque<u64>,
    /// Woken when something arrives; set at the end of each round.
    host: Option<Waker>,
}

/// Wakes one future of a loop.
pub(super) struct WakeFuture<P> {
    arrivals: Arc<Arrivals<P>>,
    number: u64,
    /// It is among the woken futures already.
    queued: AtomicBool,
}

impl<P> Arrivals<P> {
    /// For the loop of this thread.
    pub(super) fn here() -> Self {
        let incoming = Incoming { posts: VecDeque::new(), woken: VecDeque::new(), host: None };
        Self { incoming: Mutex::new(incoming), thread: thread::current().id() }
    }

    /// Whether this is the thread of the loop.
    pub(super) fn is_same_thread(&self) -> bool {
        self.thread == thread::current().id()
    }

    /// How many posts and woken futures wait.
    pub(super) fn counts(&self) -> (usize, usize) {
        let incoming = self.lock();
        (incoming.posts.len(), incoming.woken.len())
    }

    /// Leaves a callback and wakes the host.
    pub(super) fn post(&self, post: P) {
        self.arrive(|incoming| incoming.posts.push_back(post));
    }

    pub(super) fn next_post(&self) -> Option<P> {
        self.lock().posts.pop_front()
    }

    pub(super) fn next_woken(&self) -> Option<u64> {
        self.lock().woken.pop_front()
    }

    /// Has `host` woken when something arrives; `false` if something has arrived already.
    pub(super) fn wake_on_arrival(&self, host: &Waker) -> bool {
        let mut incoming = self.lock();
        let is_empty = incoming.posts.is_empty() && incoming.woken.is_empty();
        incoming.host = is_empty.then(|| host.clone());
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
    pub(super) fn new(arrivals: &Arc<Arrivals<P>>, number: u64) -> Self {
        Self { arrivals: Arc::clone(arrivals), number, queued: AtomicBool::new(false) }
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
            self.arrivals.arrive(|incoming| incoming.woken.push_back(self.number));
        }
    }
}
