//! The event loops of this library: on a thread of their own, or driven by their owner.

mod bell;
mod clock;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Waker;
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;
use std::{fmt, io};

use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{Args, Flow, Outcome, Time};
use parking_lot::Mutex;

use self::bell::{Bell, Call};
use self::clock::LoopClock;
use crate::guard::{Misuse, contained};
use crate::host::{EventLoop, Stop};

type Task = Box<dyn FnOnce() + Send>;

/// An event loop, which all threads share.
pub(crate) struct StandaloneLoop {
    /// Tasks of other threads and callbacks; `None` once the loop has ended.
    posts: Mutex<Option<VecDeque<Task>>>,
    bell: Arc<Bell>,
    clock: LoopClock,
    thread: ThreadId,
    ending: AtomicBool,
    is_driven: bool,
    /// The thread is in [`run`](Self::run) or [`serve`](Self::serve), which run as long as there are
    /// flows.
    is_running: AtomicBool,
}

/// The part of a loop that only its own thread may touch.
struct LoopCore {
    of: *const StandaloneLoop,
    tool: Manual,
    in_round: Cell<bool>,
}

thread_local! {
    static CORES: RefCell<Vec<Rc<LoopCore>>> = const { RefCell::new(Vec::new()) };
}

impl StandaloneLoop {
    /// A loop on this thread.
    pub(crate) fn driven(is_virtual: bool) -> Arc<Self> {
        Self::here(is_virtual, true)
    }

    /// A loop on a thread of its own.
    pub(crate) fn threaded() -> io::Result<(Arc<Self>, JoinHandle<()>)> {
        let (send, receive) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("asyncsteps".to_owned()).spawn(move || {
            let this = Self::here(false, false);
            // the maker waits for the loop
            let _ = send.send(Arc::clone(&this));
            this.serve();
        })?;
        Ok((receive.recv().map_err(io::Error::other)?, thread))
    }

    fn here(is_virtual: bool, is_driven: bool) -> Arc<Self> {
        let this = Arc::new(Self {
            posts: Mutex::new(Some(VecDeque::new())),
            bell: Arc::default(),
            clock: LoopClock::new(is_virtual),
            thread: thread::current().id(),
            ending: AtomicBool::new(false),
            is_driven,
            is_running: AtomicBool::new(!is_driven),
        });
        let tool = Manual::new(this.clock.now());
        let core = Rc::new(LoopCore { of: Arc::as_ptr(&this), tool, in_round: Cell::new(false) });
        CORES.with_borrow_mut(|cores| cores.push(core));
        this
    }

    fn core(&self) -> Option<Rc<LoopCore>> {
        let find = |cores: &Vec<Rc<LoopCore>>| {
            cores.iter().find(|core| std::ptr::eq(core.of, self)).map(Rc::clone)
        };
        CORES.try_with(|cores| find(&cores.borrow())).ok().flatten()
    }

    /// The thread part of the loop, if this thread may drive it now.
    fn drivable(&self) -> Result<Rc<LoopCore>, Misuse> {
        if !self.is_driven {
            return Err(Misuse::Rule("the loop has a thread of its own"));
        }
        let core = self.core().ok_or(Misuse::Thread)?;
        if core.in_round.get() {
            return Err(Misuse::Rule("called by a callback of the same loop"));
        }
        Ok(core)
    }

    /// Runs one round and returns when the next one is due, if that is known.
    fn round(&self, core: &LoopCore) -> Option<Time> {
        core.in_round.set(true);
        let posted = self.posts.lock().as_mut().map(std::mem::take).unwrap_or_default();
        for task in posted {
            contained("a posted task", task);
        }
        let waker = Waker::from(Arc::clone(&self.bell));
        let now = self.clock.now();
        // after a panic, the remaining work of the round is due at once
        let next = contained("a round", || Some(core.tool.iterate(now, &waker)));
        let next = next.unwrap_or(Some(now));
        core.in_round.set(false);
        if self.has_posts() { Some(now) } else { next }
    }

    fn has_posts(&self) -> bool {
        self.posts.lock().as_ref().is_some_and(|posts| !posts.is_empty())
    }

    /// Waits for the next round. In real time a post ends the wait early.
    fn pass(&self, next: Option<Time>) {
        let now = self.clock.now();
        match next {
            Some(at) if at <= now || self.clock.pass(at) => {}
            Some(at) => self.bell.wait(Some(at.saturating_since(now))),
            None => self.bell.wait(None),
        }
    }

    fn serve(&self) {
        let Some(core) = self.core() else { return };
        while !self.ending.load(Ordering::Acquire) {
            let next = self.round(&core);
            self.pass(next);
        }
        drop(core);
        self.end();
    }

    /// Makes the thread of the loop end it.
    pub(crate) fn stop(&self) {
        self.ending.store(true, Ordering::Release);
        self.bell.ring();
    }

    /// Runs until no flow and no callback is left.
    pub(crate) fn run(&self) -> Result<(), Misuse> {
        let core = self.drivable()?;
        loop {
            self.is_running.store(true, Ordering::SeqCst);
            let next = self.round(&core);
            if core.tool.is_empty() && !self.has_posts() {
                self.is_running.store(false, Ordering::SeqCst);
                // a thread that posts after this sees that the loop does not run
                if !self.has_posts() {
                    return Ok(());
                }
                continue;
            }
            self.pass(next);
        }
    }

    /// Runs one round and returns how long the next one can wait, `None` until the loop is woken.
    pub(crate) fn iterate(&self) -> Result<Option<Duration>, Misuse> {
        let core = self.drivable()?;
        let next = self.round(&core);
        Ok(next.map(|at| {
            if self.clock.pass(at) { Duration::ZERO } else { at.saturating_since(self.clock.now()) }
        }))
    }

    pub(crate) fn on_wake(&self, wake: Call) -> Result<(), Misuse> {
        self.drivable()?;
        self.bell.set_wake(Some(wake));
        Ok(())
    }

    /// Ends a driven loop.
    pub(crate) fn end_driven(&self) -> Result<(), Misuse> {
        self.drivable()?;
        self.end();
        Ok(())
    }

    /// Cancels flows and callbacks. Other threads may take over roots as soon as posts are refused, so
    /// that comes last.
    fn end(&self) {
        if let Some(core) = self.core() {
            CORES.with_borrow_mut(|cores| cores.retain(|other| !Rc::ptr_eq(other, &core)));
            core.in_round.set(true);
            contained("the end of a loop", || core.tool.clear());
        }
        self.bell.set_wake(None);
        loop {
            let posted = {
                let mut posts = self.posts.lock();
                match posts.take() {
                    Some(left) if !left.is_empty() => {
                        *posts = Some(VecDeque::new());
                        left
                    }
                    Some(_) | None => return,
                }
            };
            contained("the end of a loop", || drop(posted));
        }
    }

    pub(crate) fn is_driven(&self) -> bool {
        self.is_driven
    }
}

impl EventLoop for StandaloneLoop {
    fn is_same_thread(&self) -> bool {
        self.thread == thread::current().id()
    }

    fn driver(&self) -> Option<ThreadId> {
        self.is_running.load(Ordering::SeqCst).then_some(self.thread)
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn post(&self, task: Task) {
        match &mut *self.posts.lock() {
            Some(posts) => posts.push_back(task),
            None => return,
        }
        self.bell.ring();
    }

    fn defer_until(&self, at: Time, task: Box<dyn FnOnce()>) -> Stop {
        let Some(core) = self.core() else { return Box::new(|| ()) };
        // the tool still shows the time of the last round
        let handle = core.tool.deferred(at.saturating_since(core.tool.now()), task);
        Box::new(move || core.tool.cancel(&handle))
    }

    fn run(&self, flow: Flow, over: Box<dyn FnOnce(Outcome)>) -> Stop {
        let Some(core) = self.core() else { return Box::new(|| ()) };
        // the flow is dropped first
        let mut running = (flow.promise::<Args, _>(&core.tool), over);
        let handle = core.tool.spawn(async move {
            let outcome = poll_fn(|cx| running.0.poll_outcome(cx)).await;
            let (promise, over) = running;
            drop(promise);
            over(outcome);
        });
        Box::new(move || core.tool.cancel(&handle))
    }
}

impl fmt::Debug for StandaloneLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandaloneLoop").field("thread", &self.thread).finish_non_exhaustive()
    }
}
