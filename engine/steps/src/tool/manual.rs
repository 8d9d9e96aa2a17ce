//! An event loop that its owner drives by hand (FTN12 §2.6).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use super::arrivals::{Arrivals, Arrived, WakeFuture};
use super::async_tool::AsyncTool;
use super::futures::Polled;
use super::queue::{LoopKey, LoopQueue, Task};
use crate::error::Error;
use crate::time::Time;

/// An event loop driven by hand: for foreign loops and for virtual time (FTN12 §2.6 AsyncTool).
///
/// The owner calls [`iterate`](Self::iterate), which returns when to call it again. It reads no
/// clock and starts no thread. Callbacks run in the order of their time, then in the order in which
/// they were scheduled.
///
/// A panic of a callback comes out of `iterate`; the loop stays usable, without that callback.
#[derive(Clone)]
pub struct Manual(Rc<ManualCore>);

/// A callback that another thread posts.
pub(super) type Post = Box<dyn FnOnce(&Manual) + Send>;

struct ManualCore {
    now: Cell<Time>,
    queue: RefCell<LoopQueue<WakeFuture<Post>>>,
    arrivals: Arc<Arrivals<Post>>,
    /// The futures that were not polled yet: after how many wake-ups, in which slot.
    begun: RefCell<Vec<(usize, usize)>>,
    /// The messages that arrived before the current round, or were left by one that panicked.
    round: RefCell<Arrived<Post>>,
    /// The waker of the owner, as passed to the last round.
    host: RefCell<Option<Waker>>,
    /// The owner does not call before something happens.
    is_idle: Cell<bool>,
    unseen: RefCell<Vec<Error>>,
}

/// How many errors a loop keeps for its owner: more than a test looks at, and a bound for a loop whose
/// owner takes none.
const MOST_UNSEEN: usize = 1_000;

/// A callback or a future of a [`Manual`] loop (FTN12 §2.6 `Handle`).
#[derive(Clone)]
pub struct Handle {
    of: Weak<ManualCore>,
    key: LoopKey,
}

impl Manual {
    /// A loop with nothing to do, at this time, on this thread.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self(Rc::new(ManualCore {
            now: Cell::new(now),
            queue: RefCell::default(),
            arrivals: Arc::new(Arrivals::here()),
            begun: RefCell::default(),
            round: RefCell::default(),
            host: RefCell::default(),
            is_idle: Cell::new(false),
            unseen: RefCell::default(),
        }))
    }

    /// The errors of promises since the last call that nothing else shows, see
    /// [`AsyncTool::report`]; of more than a thousand the first ones.
    #[must_use]
    pub fn take_unreported_errors(&self) -> Vec<Error> {
        self.0.unseen.take()
    }

    /// One round of the loop: calls the callbacks that other threads sent and the callbacks that
    /// are due at `now`, and polls the futures that were woken. Callbacks that these add for the
    /// same time run in the next round, so that the owner gets its turn.
    ///
    /// Returns the time at which to call it again: `now` if there is more to do, `None` if not before
    /// `waker` is woken. Another thread or the waker of a future wakes it, at most once per round; so
    /// does a callback or a future that is added between rounds. `now` never goes back: a time before
    /// the time of an earlier round counts as that time.
    ///
    /// # Panics
    /// With the panic of a callback; call it again for the remaining callbacks of the round.
    #[expect(clippy::must_use_candidate, reason = "a host that comes back anyway needs no time")]
    pub fn iterate(&self, now: Time, waker: &Waker) -> Option<Time> {
        let now = now.max(self.now());
        self.0.now.set(now);
        let limit = self.0.queue.borrow().next_number();
        self.0.is_idle.set(false);
        let _round = Round(&self.0.is_idle);
        self.0.arrivals.take(&mut self.0.round.borrow_mut(), &mut self.0.begun.borrow_mut());
        loop {
            let next = self.0.round.borrow_mut().posts.pop_front();
            let Some(post) = next else { break };
            post(self);
        }
        loop {
            let due = self.0.queue.borrow_mut().take_due(now, limit);
            let Some(task) = due else { break };
            task();
        }
        loop {
            let next = self.0.round.borrow_mut().woken.pop_front();
            let Some(woken) = next else { break };
            self.poll(woken);
        }
        // destructors of wakers may use the loop, so it is looked at again
        if self.has_more() || !self.waits_for_arrivals(waker) || self.has_more() {
            return Some(self.now());
        }
        self.0.is_idle.set(true);
        self.0.queue.borrow().earliest().map(|at| at.max(self.now()))
    }

    /// Whether futures have to be polled for the first time, or callbacks are left of a round that panicked.
    #[inline]
    fn has_more(&self) -> bool {
        !self.0.begun.borrow().is_empty() || !self.0.round.borrow().posts.is_empty()
    }

    /// Has `waker` woken when something arrives; `false` if something has arrived already.
    #[inline]
    fn waits_for_arrivals(&self, waker: &Waker) -> bool {
        // a round inside of this one may have ended idle
        self.0.is_idle.set(false);
        let is_known = self.0.host.borrow().as_ref().is_some_and(|host| host.will_wake(waker));
        if is_known && self.0.arrivals.is_awaited() {
            return true;
        }
        if !is_known {
            let old = self.0.host.replace(Some(waker.clone()));
            // its destructor may use the loop
            drop(old);
        }
        self.0.arrivals.wake_on_arrival(waker)
    }

    /// Wakes the owner if it does not come anyway.
    fn wake_host(&self) {
        if self.0.is_idle.replace(false) {
            let host = self.0.host.borrow().clone();
            // it may use the loop
            host.inspect(Waker::wake_by_ref);
        }
    }

    /// Runs the loop in virtual time until `future` has ended: time goes from one callback to the
    /// next without waiting. For tests and examples.
    ///
    /// Returns the output of the future; `None` if nothing is left on this thread that could wake
    /// it.
    ///
    /// # Panics
    /// With the panic of a callback.
    pub fn complete<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Option<T> {
        let given = Rc::new(RefCell::new(None));
        let gives = Rc::clone(&given);
        let waiting = self.spawn(async move {
            let value = future.await;
            gives.replace(Some(value));
        });
        let mut next = Some(self.now());
        while let Some(now) = next.filter(|_| self.is_valid(&waiting)) {
            next = self.iterate(now, Waker::noop());
        }
        self.cancel(&waiting);
        given.take()
    }

    /// Whether nothing is scheduled and no future is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let left = self.0.round.borrow().posts.len();
        self.0.queue.borrow().is_empty() && left == 0 && !self.0.arrivals.has_posts()
    }

    /// Drops all callbacks and futures, which cancels every flow. The futures keep the loop alive and
    /// the loop keeps the futures, so the owner of a loop with work left has to call this.
    pub fn clear(&self) {
        while !self.0.queue.borrow().is_empty() {
            let entries = self.0.queue.borrow_mut().take_all();
            self.0.begun.borrow_mut().clear();
            // destructors may use the loop
            drop(entries);
        }
    }

    pub(super) fn arrivals(&self) -> &Arc<Arrivals<Post>> {
        &self.0.arrivals
    }

    fn add(&self, delay: Duration, task: Task) -> Handle {
        let key = self.0.queue.borrow_mut().add_task(self.now() + delay, task);
        self.wake_host();
        self.handle(key)
    }

    fn handle(&self, key: LoopKey) -> Handle {
        Handle { of: Rc::downgrade(&self.0), key }
    }

    fn poll(&self, slot: usize) {
        let taken = self.0.queue.borrow_mut().futures.take(slot, WakeFuture::reset);
        let Some(mut polled) = taken else { return };
        let Polled { future, waker, .. } = &mut polled;
        let mut cx = Context::from_waker(waker);
        let result = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut cx)));
        let mut queue = self.0.queue.borrow_mut();
        let over = match result {
            Ok(Poll::Pending) => queue.futures.put_back(polled),
            Ok(Poll::Ready(())) | Err(_) => Some(queue.futures.end(polled)),
        };
        if queue.futures.was_missed(slot) {
            self.0.begun.borrow_mut().push((self.0.arrivals.wake_ups(), slot));
        }
        drop(queue);
        // its destructor may use the loop
        drop(over);
        if let Err(payload) = result {
            resume_unwind(payload);
        }
    }
}

/// A round. If a panic ends it, the owner has to be woken for the next messages: it may not call again by itself.
struct Round<'a>(&'a Cell<bool>);

impl Drop for Round<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.set(true);
        }
    }
}

impl AsyncTool for Manual {
    type Handle = Handle;

    fn immediate(&self, task: impl FnOnce() + 'static) -> Handle {
        self.add(Duration::ZERO, Box::new(task))
    }

    fn deferred(&self, delay: Duration, task: impl FnOnce() + 'static) -> Handle {
        self.add(delay, Box::new(task))
    }

    fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Handle {
        let future = Box::pin(future);
        let mut queue = self.0.queue.borrow_mut();
        let make = |slot| WakeFuture::new(&self.0.arrivals, slot);
        let (key, wake) = queue.add_future(future, make);
        if wake.begin() {
            self.0.begun.borrow_mut().push((self.0.arrivals.wake_ups(), key.slot));
        }
        drop(queue);
        self.wake_host();
        self.handle(LoopKey::Future(key))
    }

    fn cancel(&self, handle: &Handle) {
        if handle.is_of(self) {
            let entry = self.0.queue.borrow_mut().remove(handle.key);
            // the destructor of a captured value may use the loop
            drop(entry);
        }
    }

    fn is_valid(&self, handle: &Handle) -> bool {
        handle.is_of(self) && self.0.queue.borrow().contains(handle.key)
    }

    fn report(&self, error: Error) {
        let mut unseen = self.0.unseen.borrow_mut();
        if unseen.len() < MOST_UNSEEN {
            unseen.push(error);
        }
    }

    fn now(&self) -> Time {
        self.0.now.get()
    }
}

impl Handle {
    fn is_of(&self, tool: &Manual) -> bool {
        std::ptr::eq(self.of.as_ptr(), Rc::as_ptr(&tool.0))
    }
}

impl fmt::Debug for Manual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manual").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({:?})", self.key)
    }
}
