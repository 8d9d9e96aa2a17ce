//! How other threads reach a loop, and how futures on it are woken from anywhere.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::thread::{self, ThreadId};

use super::Manual;

/// Reaches a [`Manual`] loop from any thread (FTN12 §2.6, §2.7.2 `sched_immediate`).
#[derive(Clone)]
pub struct Remote(pub(super) Arc<Arrivals>);

pub(super) type Post = Box<dyn FnOnce(&Manual) + Send>;

/// What other threads and wakers leave for the loop.
pub(super) struct Arrivals {
    mail: Mutex<Mail>,
    thread: ThreadId,
}

#[derive(Default)]
struct Mail {
    posts: VecDeque<Post>,
    /// The futures to poll, each at most once.
    woken: VecDeque<u64>,
    /// Woken when something comes; set at the end of each round.
    host: Option<Waker>,
}

/// Wakes one future of a loop.
pub(super) struct WakeFuture {
    arrivals: Arc<Arrivals>,
    number: u64,
    /// It is among the woken ones already.
    queued: AtomicBool,
}

impl Remote {
    /// Has the loop call `task` on its own thread, in its next round (FTN12 §2.6 `immediate`).
    ///
    /// The task gets the loop, to schedule more on it. It is dropped if the loop is gone.
    pub fn immediate(&self, task: impl FnOnce(&Manual) + Send + 'static) {
        self.0.arrive(|mail| mail.posts.push_back(Box::new(task)));
    }

    /// Whether this is the thread on which the loop was made (FTN12 §2.6 `is_same_thread`).
    #[must_use]
    pub fn is_same_thread(&self) -> bool {
        self.0.thread == thread::current().id()
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("same_thread", &self.is_same_thread()).finish()
    }
}

impl Arrivals {
    /// For the loop of this thread.
    pub(super) fn here() -> Self {
        Self { mail: Mutex::new(Mail::default()), thread: thread::current().id() }
    }

    /// How many posts and woken futures wait.
    pub(super) fn counts(&self) -> (usize, usize) {
        let mail = self.lock();
        (mail.posts.len(), mail.woken.len())
    }

    pub(super) fn next_post(&self) -> Option<Post> {
        self.lock().posts.pop_front()
    }

    pub(super) fn next_woken(&self) -> Option<u64> {
        self.lock().woken.pop_front()
    }

    /// Has `host` woken when something comes; `false` if something is there already.
    pub(super) fn tell(&self, host: &Waker) -> bool {
        let mut mail = self.lock();
        let quiet = mail.posts.is_empty() && mail.woken.is_empty();
        mail.host = quiet.then(|| host.clone());
        quiet
    }

    /// Leaves something and wakes the host.
    fn arrive(&self, leave: impl FnOnce(&mut Mail)) {
        let host = {
            let mut mail = self.lock();
            leave(&mut mail);
            mail.host.take()
        };
        if let Some(host) = host {
            host.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WakeFuture {
    pub(super) fn new(arrivals: &Arc<Arrivals>, number: u64) -> Self {
        Self { arrivals: Arc::clone(arrivals), number, queued: AtomicBool::new(false) }
    }

    /// The future is about to be polled: a wake-up from now on counts again.
    pub(super) fn polled(&self) {
        self.queued.store(false, Ordering::Release);
    }
}

impl Wake for WakeFuture {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.arrivals.arrive(|mail| mail.woken.push_back(self.number));
        }
    }
}

const _: () = {
    const fn any_thread<T: Send + Sync + 'static>() {}
    any_thread::<Remote>();
};
