//! Handles: the targets of our `FutoInAsyncSteps*` pointers.
//!
//! A handle is one use of a slot. A slot is memory that is never freed and has several addresses
//! ([`Aliases`]), so that every pointer that was ever handed out can be checked: its address and a
//! counter say whether it is the current use. A slot stays in quarantine before it is used again
//! ([`SlotPool`]).
//!
//! A handle has three parts: the callback that may be running, a local part for the thread that owns
//! the handle, and a remote part for every thread. The owner is the thread of the event loop, or
//! before a root is executed the thread that made it.
#![expect(unsafe_code, reason = "pointers from outside are resolved here")]

use std::cell::{Cell, RefCell, RefMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::{mem, ptr};

use asyncsteps_core::AsyncSteps;
use parking_lot::{Mutex, MutexGuard};

use crate::abi::{FutoInAsyncSteps, FutoInAsyncStepsAPI};
use crate::aliases::Aliases;
use crate::guard::Misuse;
use crate::pool::{SlotPool, Use};

/// The types of the parts of a handle, and its table.
///
/// A layer above implements it for [`Handle`], because the parts hold handles, and the table is made
/// of functions that take them.
pub(crate) trait HandleParts {
    /// The function table behind every pointer to a handle.
    const TABLE: *const FutoInAsyncStepsAPI;

    /// The local part, for the owning thread only.
    type Local: Default;

    /// The remote part, for every thread.
    type Remote: Default + Send;

    /// The root of a parallel step, which changes its owner together with the root.
    fn root_of(local: &Self::Local) -> Option<Handle>;

    /// Releases the parts of a handle that has just ended, and says how it was used.
    /// `is_answered` says that another thread put an early answer into the remote part.
    fn release(self, local: Self::Local, is_answered: bool) -> Use;
}

type Local = <Handle as HandleParts>::Local;
type Remote = <Handle as HandleParts>::Remote;

const TABLE: *const FutoInAsyncStepsAPI = <Handle as HandleParts>::TABLE;

/// How many slots are made at a time.
const CHUNK: usize = 16;

/// The memory of one handle after the other.
#[repr(C)]
pub(crate) struct HandleSlot {
    aliases: Aliases<FutoInAsyncSteps>,
    /// Counts beginnings and ends of uses: odd while in use.
    generation: AtomicU32,
    /// The thread that may touch `local` (see [`thread_mark`]), [`NO_THREAD`] or [`UNCLAIMED`].
    owner: AtomicUsize,
    /// `rootId`, 0 while it is not known.
    id: AtomicIsize,
    callback: RunningCallback,
    local: RefCell<Local>,
    remote: Mutex<Remote>,
}

/// The callback that runs with a handle. Only the owning thread touches the fields that are not
/// atomic.
#[derive(Default)]
struct RunningCallback {
    /// The interface that the callback got; null between callbacks. Other threads only see whether
    /// there is one.
    asi: AtomicPtr<AsyncSteps>,
    /// [`Handle::with_asi`] has a reference to `asi`.
    is_lent: Cell<bool>,
    /// The callback used `local`, so that the handle cannot serve the next callback.
    is_used: Cell<bool>,
    /// Another thread put an early answer into `remote`.
    is_answered: AtomicBool,
}

// SAFETY: `aliases` never change; `local` and `callback` are reached only after a check that the
// current thread is the owner, or by the code that has just opened the handle; everything else is
// made for several threads
unsafe impl Sync for HandleSlot {}

/// The owner of a handle without one. Only [`Handle::adopt`] assigns an owner.
const NO_THREAD: usize = 0;

/// The owner of a handle whose next user becomes its owner. No [`thread_mark`] is that small.
const UNCLAIMED: usize = 1;

thread_local! {
    /// The slot of the callback that runs, or ran last. The address of this cell identifies the
    /// thread.
    static RUNNING: Cell<*const HandleSlot> = const { Cell::new(ptr::null()) };
    static FREE: OfThread = const { OfThread(RefCell::new(SlotPool::new())) };
}

/// Free slots of threads that ended.
static ORPHANS: Mutex<SlotPool<HandleSlot>> = Mutex::new(SlotPool::new());

/// The free slots of a thread.
struct OfThread(RefCell<SlotPool<HandleSlot>>);

impl Drop for OfThread {
    fn drop(&mut self) {
        ORPHANS.lock().join(self.0.get_mut());
    }
}

/// A use of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle {
    slot: &'static HandleSlot,
    generation: u32,
}

/// The pool states how much memory its quarantine takes at most.
const _: () = assert!(size_of::<HandleSlot>() <= 384);

impl PartialEq for HandleSlot {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self, other)
    }
}

impl Eq for HandleSlot {}

/// A number of the current thread that no other living thread has.
fn thread_mark() -> usize {
    RUNNING.with(|running| ptr::from_ref(running).addr())
}

impl Handle {
    /// Takes a slot into use. This thread owns the handle.
    pub(crate) fn open() -> Self {
        let pooled = FREE.try_with(|pool| {
            let pool = &mut *pool.0.borrow_mut();
            pool.take().or_else(|| refill(pool))
        });
        let slot = pooled.ok().flatten().unwrap_or_else(HandleSlot::leak);
        let generation = slot.generation.load(Ordering::Relaxed).wrapping_add(1);
        slot.owner.store(thread_mark(), Ordering::Relaxed);
        slot.callback.is_used.set(false);
        slot.generation.store(generation, Ordering::Release);
        Self { slot, generation }
    }

    /// Begins another use of the same memory in the same branch of the flow. The owning thread calls
    /// this while both parts are empty.
    #[inline]
    pub(crate) fn renew(&mut self) {
        self.generation = self.generation.wrapping_add(2);
        self.slot.generation.store(self.generation, Ordering::Release);
    }

    /// The handle that a pointer from outside identifies.
    ///
    /// # Safety
    /// `bsi` is null or follows FTN12 §2.7.2.
    pub(crate) unsafe fn find(bsi: *mut FutoInAsyncSteps) -> Result<Self, Misuse> {
        // SAFETY: the caller's promise
        let Some(alias) = (unsafe { bsi.as_ref() }) else { return Err(Misuse::Null("bsi")) };
        if !ptr::eq(alias.api, TABLE) {
            return Err(Misuse::Rule("the steps are of another library"));
        }
        // SAFETY: it points to one
        let slot = unsafe { Aliases::find(alias) }.ok_or(Misuse::Rule("bsi is a copy"))?;
        // SAFETY: aliases with this table are at the beginning of slots, which are never freed
        let slot: &'static HandleSlot = unsafe { &*slot.cast() };
        let generation = slot.generation.load(Ordering::Acquire);
        let found = Self { slot, generation };
        let is_valid = generation % 2 == 1 && bsi == found.as_ptr();
        if is_valid { Ok(found) } else { Err(Misuse::Stale) }
    }

    /// A pointer that was never valid, where callers do not expect null.
    pub(crate) fn stale_ptr() -> *mut FutoInAsyncSteps {
        static STALE: OnceLock<&'static HandleSlot> = OnceLock::new();
        STALE.get_or_init(HandleSlot::leak).aliases.pointer(0)
    }

    /// The pointer that foreign code gets.
    pub(crate) fn as_ptr(self) -> *mut FutoInAsyncSteps {
        self.slot.aliases.pointer(self.generation / 2)
    }

    /// Whether this is the current use of its slot.
    pub(crate) fn is_open(self) -> bool {
        self.slot.generation.load(Ordering::Acquire) == self.generation
    }

    /// Which use of its slot this is.
    pub(crate) fn generation(self) -> u32 {
        self.generation
    }

    pub(crate) fn is_same_thread(self) -> bool {
        self.slot.owner.load(Ordering::Acquire) == thread_mark()
    }

    /// The local part, for the owning thread.
    pub(crate) fn local(self) -> Result<RefMut<'static, Local>, Misuse> {
        if !self.is_open() {
            return Err(Misuse::Stale);
        }
        if !self.is_same_thread() && !self.claim() {
            return Err(Misuse::Thread);
        }
        let again = "called by a destructor in the middle of another call";
        let local = self.slot.local.try_borrow_mut().map_err(|_| Misuse::Rule(again))?;
        match Self::root_of(&local) {
            Some(root) if root.is_open() && !root.is_same_thread() => Err(Misuse::Thread),
            Some(_) | None => Ok(local),
        }
    }

    /// Changes the local part of a handle that was just opened by this thread.
    pub(crate) fn init<R>(self, change: impl FnOnce(&mut Local) -> R) -> Option<R> {
        self.slot.local.try_borrow_mut().ok().map(|mut local| change(&mut local))
    }

    /// The remote part, for any thread.
    pub(crate) fn remote(self) -> Result<MutexGuard<'static, Remote>, Misuse> {
        let remote = self.slot.remote.lock();
        // the end of a use clears this part afterwards, and needs the lock for it
        if self.is_open() { Ok(remote) } else { Err(Misuse::Stale) }
    }

    /// Takes the remote part out of a handle that has ended.
    pub(crate) fn take_remote(self) -> Remote {
        let mut remote = self.slot.remote.lock();
        self.slot.callback.is_answered.store(false, Ordering::Relaxed);
        mem::take(&mut *remote)
    }

    /// The `rootId`, if it is known.
    pub(crate) fn id(self) -> Option<isize> {
        Some(self.slot.id.load(Ordering::Relaxed)).filter(|id| *id != 0)
    }

    pub(crate) fn set_id(self, id: isize) {
        self.slot.id.store(id, Ordering::Relaxed);
    }

    /// Ends the use: the pointer is stale from now on. The owning thread calls this once.
    pub(crate) fn close(self) {
        if !self.is_open() {
            return;
        }
        self.slot.generation.store(self.generation.wrapping_add(1), Ordering::Release);
        self.slot.id.store(0, Ordering::Relaxed);
        let local = self.slot.local.take();
        let is_answered = self.slot.callback.is_answered.load(Ordering::Relaxed);
        let after = self.release(local, is_answered);
        let kept = FREE.try_with(|pool| pool.0.borrow_mut().give(self.slot, after));
        if kept.is_err() {
            ORPHANS.lock().give(self.slot, after);
        }
    }
}

/// Callbacks.
impl Handle {
    /// Calls `run` with the pointer, which represents `asi` meanwhile. The second result says whether
    /// the callback used the handle. The owner that opened it calls this.
    #[inline]
    pub(crate) fn call<R>(
        self,
        asi: &mut AsyncSteps,
        run: impl FnOnce(*mut FutoInAsyncSteps) -> R,
    ) -> (R, bool) {
        // the next iteration of a loop finds its slot there
        if !ptr::eq(RUNNING.get(), self.slot) {
            return self.call_within(asi, run);
        }
        let callback = &self.slot.callback;
        callback.asi.store(ptr::from_mut(asi), Ordering::Relaxed);
        let call = InCall(self.slot);
        let result = run(self.as_ptr());
        drop(call);
        // a used handle is closed by its step or by the caller, and not used again; an early answer
        // that is overlooked now is found by the next use of the slot, which drops it
        (result, callback.is_used.get() | callback.is_answered.load(Ordering::Relaxed))
    }

    /// The same if another callback ran last on this thread. It may go on afterwards.
    #[cold]
    fn call_within<R>(
        self,
        asi: &mut AsyncSteps,
        run: impl FnOnce(*mut FutoInAsyncSteps) -> R,
    ) -> (R, bool) {
        let _outer = Outer(RUNNING.replace(self.slot));
        self.call(asi, run)
    }

    /// Calls `run` with the interface of the callback that runs with this handle. `None` if there is
    /// no callback, on other threads, and inside of another `run`.
    #[inline]
    pub(crate) fn with_asi<R>(self, run: impl FnOnce(&mut AsyncSteps) -> R) -> Option<R> {
        let callback = &self.slot.callback;
        if !self.is_running() || callback.is_lent.replace(true) {
            return None;
        }
        let _lent = Lent(&callback.is_lent);
        // SAFETY: `call` made it from a unique reference that it does not use before it takes the
        // pointer away again, which is still to come, because this is the same thread; `is_lent`
        // makes this reference the only one made from it
        let asi = unsafe { &mut *callback.asi.load(Ordering::Relaxed) };
        Some(run(asi))
    }

    /// Whether a callback runs with this handle on this thread.
    pub(crate) fn is_running(self) -> bool {
        self.is_same_thread() && self.is_called()
    }

    /// Whether a callback runs with this handle, as any thread may ask. It may end meanwhile.
    pub(crate) fn is_called(self) -> bool {
        !self.slot.callback.asi.load(Ordering::Relaxed).is_null()
    }

    /// Notes that the running callback used the handle.
    pub(crate) fn mark_used(self) {
        self.slot.callback.is_used.set(true);
    }

    /// Notes that there is an early answer in the remote part, which the caller has locked.
    pub(crate) fn mark_answered(self) {
        self.slot.callback.is_answered.store(true, Ordering::Relaxed);
    }

    /// The handle of the callback that runs on this thread.
    pub(crate) fn running() -> Option<Self> {
        Self::running_in(RUNNING.get())
    }

    fn running_in(slot: *const HandleSlot) -> Option<Self> {
        // SAFETY: only slots are kept in `RUNNING`, and they live forever
        let slot: &'static HandleSlot = unsafe { slot.as_ref() }?;
        let handle = Self { slot, generation: slot.generation.load(Ordering::Relaxed) };
        handle.is_running().then_some(handle)
    }
}

/// Owners.
impl Handle {
    /// Takes the handle away from its owner, for another thread to [`adopt`](Self::adopt) it.
    pub(crate) fn give_up(self) {
        self.slot.owner.store(NO_THREAD, Ordering::Release);
    }

    /// Makes this thread the owner of a handle that [`give_up`](Self::give_up) has left without
    /// one.
    pub(crate) fn adopt(self) {
        let swap = (NO_THREAD, thread_mark(), Ordering::Acquire, Ordering::Relaxed);
        // a handle with an owner keeps it
        let _ = self.slot.owner.compare_exchange(swap.0, swap.1, swap.2, swap.3);
    }

    /// Takes the handle away from its owner, for the next thread that uses it.
    pub(crate) fn unclaim(self) {
        self.slot.owner.store(UNCLAIMED, Ordering::Release);
    }

    /// Makes this thread the owner of an unclaimed handle.
    pub(crate) fn claim(self) -> bool {
        let swap = (UNCLAIMED, thread_mark(), Ordering::Acquire, Ordering::Relaxed);
        self.slot.owner.compare_exchange(swap.0, swap.1, swap.2, swap.3).is_ok()
    }

    /// Makes this thread the owner of a handle whose owner does not use it any more.
    pub(crate) fn take_over(self) {
        self.slot.owner.store(thread_mark(), Ordering::Release);
    }
}

/// A handle that is closed when this is dropped.
pub(crate) struct OpenHandle(pub(crate) Handle);

impl OpenHandle {
    /// The handle, which the caller has to have closed.
    pub(crate) fn forget(self) -> Handle {
        let handle = self.0;
        mem::forget(self);
        handle
    }
}

impl Drop for OpenHandle {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A callback that runs with a slot. It also ends if the callback panics.
struct InCall(&'static HandleSlot);

impl Drop for InCall {
    fn drop(&mut self) {
        self.0.callback.asi.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

/// The interface is in use.
struct Lent<'a>(&'a Cell<bool>);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The callback around the running one, if there is one.
struct Outer(*const HandleSlot);

impl Drop for Outer {
    fn drop(&mut self) {
        if Handle::running_in(self.0).is_some() {
            RUNNING.set(self.0);
        }
    }
}

impl HandleSlot {
    fn leak() -> &'static Self {
        let slot = Box::leak(Box::new(Self::new()));
        slot.aliases.pin();
        slot
    }

    fn new() -> Self {
        Self {
            aliases: Aliases::new(|| FutoInAsyncSteps { api: TABLE }),
            generation: AtomicU32::new(0),
            owner: AtomicUsize::new(NO_THREAD),
            id: AtomicIsize::new(0),
            callback: RunningCallback::default(),
            local: RefCell::default(),
            remote: Mutex::default(),
        }
    }
}

/// Makes free slots and returns one of them.
#[cold]
fn refill(pool: &mut SlotPool<HandleSlot>) -> Option<&'static HandleSlot> {
    let mut orphans = ORPHANS.lock();
    pool.fill(std::iter::from_fn(|| orphans.take()).take(CHUNK));
    drop(orphans);
    if let Some(orphan) = pool.take() {
        return Some(orphan);
    }
    let chunk: Vec<HandleSlot> = (0..CHUNK).map(|_| HandleSlot::new()).collect();
    let chunk = chunk.leak();
    chunk.iter().for_each(|slot| slot.aliases.pin());
    pool.fill(chunk.iter());
    pool.take()
}
