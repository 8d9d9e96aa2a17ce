//! What a `FutoInAsyncSteps*` of ours points to, and how a stale one is found out.
//!
//! A pointer is all that a caller has, so a slot of memory is never given back: reading through an
//! old pointer is always reading a slot. A slot has several [`Faces`], and each use of it shows the
//! next one. Slots of steps that waited rest in a [`Pool`] behind thousands of others, which makes
//! it rare that an old pointer means a slot in use at all.
#![expect(unsafe_code, reason = "pointers from outside are resolved here")]

use std::any::Any;
use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{mem, ptr};

use asyncsteps::AsyncSteps;

use crate::abi::FutoInAsyncSteps;
use crate::context::Context;
use crate::faces::Faces;
use crate::guard::{self, Misuse};
use crate::local::Local;
use crate::pool::{Pool, Use};
use crate::remote::{External, Remote};
use crate::table::API;

/// How many slots are made at a time.
const CHUNK: usize = 16;

/// Memory for one handle after the other.
#[repr(C)]
pub(crate) struct Slot {
    faces: Faces<FutoInAsyncSteps>,
    /// Counts uses and ends of uses: odd while in use.
    generation: AtomicU32,
    /// The thread that may touch `local`, see [`thread_mark`]; [`NOBODY`] in between.
    owner: AtomicUsize,
    /// `rootId`, 0 while it is not known.
    id: AtomicIsize,
    callback: InCallback,
    local: RefCell<Local>,
    remote: Mutex<Remote>,
}

/// What a handle has while a callback runs with it. Only the owning thread touches what it does not
/// share.
#[derive(Default)]
struct InCallback {
    /// The interface that the callback got; null between callbacks. Other threads only see whether
    /// there is one.
    asi: AtomicPtr<AsyncSteps>,
    /// The callback left something in `local`.
    has_left: Cell<bool>,
    /// Another thread left something in `remote`.
    has_mail: AtomicBool,
}

// SAFETY: `faces` never change; `local` and `callback` are reached only after a check that this is
// the one thread that may, or by whoever opened the handle; everything else is made for several
// threads
unsafe impl Sync for Slot {}

/// No thread.
const NOBODY: usize = 0;

/// No thread either, but the next one that uses the handle becomes its owner. No [`thread_mark`] is
/// that small.
const LEFT: usize = 1;

thread_local! {
    /// The slot of the callback that runs, or ran last. Its address names the thread.
    static RUNNING: Cell<*const Slot> = const { Cell::new(ptr::null()) };
    static FREE: OfThread = const { OfThread(RefCell::new(Pool::new())) };
}

/// Slots of threads that ended.
static ORPHANS: Mutex<Pool<Slot>> = Mutex::new(Pool::new());

fn orphans() -> MutexGuard<'static, Pool<Slot>> {
    ORPHANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The free slots of a thread.
struct OfThread(RefCell<Pool<Slot>>);

impl Drop for OfThread {
    fn drop(&mut self) {
        orphans().join(self.0.get_mut());
    }
}

/// A use of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle {
    slot: &'static Slot,
    generation: u32,
}

/// What a pool counts on when it says how much memory rests in it.
const _: () = assert!(size_of::<Slot>() <= 384);

impl PartialEq for Slot {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self, other)
    }
}

impl Eq for Slot {}

/// Names the current thread among those that live.
fn thread_mark() -> usize {
    RUNNING.with(|running| ptr::from_ref(running).addr())
}

impl Handle {
    /// The same memory for another use in the same branch of the flow. The owning thread calls
    /// this, when nothing is left in it.
    #[inline]
    pub(crate) fn renew(&mut self) {
        self.generation = self.generation.wrapping_add(2);
        self.slot.generation.store(self.generation, Ordering::Release);
    }

    /// Takes a slot into use, owned by this thread.
    pub(crate) fn open() -> Self {
        let pooled = FREE.try_with(|pool| {
            let pool = &mut *pool.0.borrow_mut();
            pool.take().or_else(|| refill(pool))
        });
        let slot = pooled.ok().flatten().unwrap_or_else(Slot::leak);
        let generation = slot.generation.load(Ordering::Relaxed).wrapping_add(1);
        slot.owner.store(thread_mark(), Ordering::Relaxed);
        slot.callback.has_left.set(false);
        slot.generation.store(generation, Ordering::Release);
        Self { slot, generation }
    }

    /// The handle that a pointer from outside means.
    ///
    /// # Safety
    /// `bsi` is null or follows FTN12 §2.7.2.
    pub(crate) unsafe fn find(bsi: *mut FutoInAsyncSteps) -> Result<Self, Misuse> {
        // SAFETY: the caller's promise
        let Some(face) = (unsafe { bsi.as_ref() }) else { return Err(Misuse::Null("bsi")) };
        if !ptr::eq(face.api, &raw const API) {
            return Err(Misuse::Rule("the steps are of another library"));
        }
        // SAFETY: it points to one
        let slot = unsafe { Faces::find(face) }.ok_or(Misuse::Rule("bsi is a copy"))?;
        // SAFETY: faces with this table are at the beginning of slots, which are never freed
        let slot: &'static Slot = unsafe { &*slot.cast() };
        let generation = slot.generation.load(Ordering::Acquire);
        let found = Self { slot, generation };
        let is_valid = generation % 2 == 1 && bsi == found.as_ptr();
        if is_valid { Ok(found) } else { Err(Misuse::Stale) }
    }

    /// A pointer that was never valid, where callers do not expect null.
    pub(crate) fn stale_ptr() -> *mut FutoInAsyncSteps {
        static STALE: OnceLock<&'static Slot> = OnceLock::new();
        STALE.get_or_init(Slot::leak).faces.pointer(0)
    }

    /// What the outside knows the handle by.
    pub(crate) fn as_ptr(self) -> *mut FutoInAsyncSteps {
        self.slot.faces.pointer(self.generation / 2)
    }

    /// Whether this use goes on.
    pub(crate) fn is_open(self) -> bool {
        self.slot.generation.load(Ordering::Acquire) == self.generation
    }

    pub(crate) fn is_same_thread(self) -> bool {
        self.slot.owner.load(Ordering::Acquire) == thread_mark()
    }

    /// What only the owning thread may touch.
    pub(crate) fn local(self) -> Result<RefMut<'static, Local>, Misuse> {
        if !self.is_open() {
            return Err(Misuse::Stale);
        }
        if !self.is_same_thread() && !self.take_left() {
            return Err(Misuse::Thread);
        }
        let again = "called by a destructor in the middle of another call";
        let local = self.slot.local.try_borrow_mut().map_err(|_| Misuse::Rule(again))?;
        match local.of {
            Some(root) if root.is_open() && !root.is_same_thread() => Err(Misuse::Thread),
            Some(_) | None => Ok(local),
        }
    }

    /// Fills a handle that was just opened.
    pub(crate) fn set_local(self, new: Local) {
        if let Ok(mut local) = self.slot.local.try_borrow_mut() {
            *local = new;
        }
    }

    /// Sets what a handle that was just opened shares with others; the old one comes back.
    pub(crate) fn set_context(self, context: Option<Rc<Context>>) -> Option<Rc<Context>> {
        let mut local = self.slot.local.try_borrow_mut().ok()?;
        mem::replace(&mut local.context, context)
    }

    /// Keeps what was called as long as the handle lives.
    pub(crate) fn keep(self, called: Arc<dyn Any>) {
        if let Ok(mut local) = self.slot.local.try_borrow_mut() {
            local.called = Some(called);
        }
    }

    /// The interface of the callback that runs with this handle.
    pub(crate) fn asi(self) -> Option<&'static mut AsyncSteps> {
        if !self.is_same_thread() {
            return None;
        }
        let asi = self.slot.callback.asi.load(Ordering::Relaxed);
        // SAFETY: `call` made it from a unique reference that nobody uses before it takes it away
        // again, and that is still to come; no function of the table keeps it while it calls out
        unsafe { asi.as_mut() }
    }

    /// Whether a callback runs with this handle, as any thread may ask. It may end meanwhile.
    pub(crate) fn is_called(self) -> bool {
        !self.slot.callback.asi.load(Ordering::Relaxed).is_null()
    }

    /// Tells the callback that there is something in `remote`, which is locked, for it.
    pub(crate) fn leave_mail(self) {
        self.slot.callback.has_mail.store(true, Ordering::Relaxed);
    }

    /// Which use of its memory this is.
    pub(crate) fn generation(self) -> u32 {
        self.generation
    }

    /// The callback leaves something: the handle is not as it was before.
    pub(crate) fn leave_something(self) {
        self.slot.callback.has_left.set(true);
    }

    /// Calls `run` with the handle, which stands for `asi` meanwhile; says whether that left
    /// something. Whoever opened the handle calls this, on the same thread.
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
        // a handle with something left is closed by its step or by the caller, and not used again;
        // mail that is overlooked now is found by the next use of the slot, for which it is not
        (result, callback.has_left.get() | callback.has_mail.load(Ordering::Relaxed))
    }

    /// The same for another callback than the last one on this thread, which may go on afterwards.
    #[cold]
    fn call_within<R>(
        self,
        asi: &mut AsyncSteps,
        run: impl FnOnce(*mut FutoInAsyncSteps) -> R,
    ) -> (R, bool) {
        let _outer = Outer(RUNNING.replace(self.slot));
        self.call(asi, run)
    }

    /// What any thread may touch.
    pub(crate) fn remote(self) -> Result<MutexGuard<'static, Remote>, Misuse> {
        let remote = self.slot.remote.lock().unwrap_or_else(PoisonError::into_inner);
        // whoever ends the use clears this part afterwards, and needs the lock for it
        if self.is_open() { Ok(remote) } else { Err(Misuse::Stale) }
    }

    /// The `rootId`, if it is known.
    pub(crate) fn id(self) -> Option<isize> {
        Some(self.slot.id.load(Ordering::Relaxed)).filter(|id| *id != 0)
    }

    pub(crate) fn set_id(self, id: isize) {
        self.slot.id.store(id, Ordering::Relaxed);
    }

    /// Takes the handle away from its thread, for another one to [`adopt`](Self::adopt) it.
    pub(crate) fn give_up(self) {
        self.slot.owner.store(NOBODY, Ordering::Release);
    }

    /// Makes this thread the owner of a handle that has none.
    pub(crate) fn adopt(self) {
        let swap = (NOBODY, thread_mark(), Ordering::Acquire, Ordering::Relaxed);
        // it stays with an owner that it has
        let _ = self.slot.owner.compare_exchange(swap.0, swap.1, swap.2, swap.3);
    }

    /// Takes the handle away from its thread, for the next one that touches it.
    pub(crate) fn leave(self) {
        self.slot.owner.store(LEFT, Ordering::Release);
    }

    /// Makes this thread the owner of a handle that was left.
    pub(crate) fn take_left(self) -> bool {
        let swap = (LEFT, thread_mark(), Ordering::Acquire, Ordering::Relaxed);
        self.slot.owner.compare_exchange(swap.0, swap.1, swap.2, swap.3).is_ok()
    }

    /// Makes this thread the owner of a handle whose thread does not use it any more.
    pub(crate) fn inherit(self) {
        self.slot.owner.store(thread_mark(), Ordering::Release);
    }

    /// Ends the use: the handle is stale from now on. The owning thread calls this once.
    pub(crate) fn close(self) {
        if !self.is_open() {
            return;
        }
        self.slot.generation.store(self.generation.wrapping_add(1), Ordering::Release);
        self.slot.id.store(0, Ordering::Relaxed);
        let mut local = self.slot.local.take();
        let mut after = if local.attached { Use::Ended } else { Use::Brief };
        let has_mail = &self.slot.callback.has_mail;
        if local.has_remote || has_mail.load(Ordering::Relaxed) {
            let mut remote = self.slot.remote.lock().unwrap_or_else(PoisonError::into_inner);
            has_mail.store(false, Ordering::Relaxed);
            let cleared = mem::take(&mut *remote);
            drop(remote);
            match &cleared.external {
                External::Waiting(_) if !local.has_steps => after = Use::Unanswered,
                External::Early(generation, _) if *generation == self.generation => {
                    after = Use::Unanswered;
                    guard::log(c"a step that does not wait was completed by another thread");
                }
                External::None
                | External::Early(..)
                | External::Waiting(_)
                | External::Completed => {}
            }
            // destructors from outside may use the pool
            drop(cleared);
        }
        local.release();
        let kept = FREE.try_with(|pool| pool.0.borrow_mut().give(self.slot, after));
        if kept.is_err() {
            orphans().give(self.slot, after);
        }
    }

    /// The handle of the callback that runs on this thread.
    pub(crate) fn running() -> Option<Self> {
        Self::running_in(RUNNING.get())
    }

    fn running_in(slot: *const Slot) -> Option<Self> {
        // SAFETY: only slots are kept in `RUNNING`, and they live forever
        let slot: &'static Slot = unsafe { slot.as_ref() }?;
        let handle = Self { slot, generation: slot.generation.load(Ordering::Relaxed) };
        handle.asi().is_some().then_some(handle)
    }
}

/// A callback that runs with a slot; also one that panics comes to its end.
struct InCall(&'static Slot);

impl Drop for InCall {
    fn drop(&mut self) {
        self.0.callback.asi.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

/// The callback around the running one, if there is one.
struct Outer(*const Slot);

impl Drop for Outer {
    fn drop(&mut self) {
        if Handle::running_in(self.0).is_some() {
            RUNNING.set(self.0);
        }
    }
}

impl Slot {
    fn leak() -> &'static Self {
        let slot = Box::leak(Box::new(Self::new()));
        slot.faces.settle();
        slot
    }

    fn new() -> Self {
        Self {
            faces: Faces::new(|| FutoInAsyncSteps { api: &raw const API }),
            generation: AtomicU32::new(0),
            owner: AtomicUsize::new(NOBODY),
            id: AtomicIsize::new(0),
            callback: InCallback::default(),
            local: RefCell::default(),
            remote: Mutex::default(),
        }
    }
}

/// Makes free slots; gives one of them.
#[cold]
fn refill(pool: &mut Pool<Slot>) -> Option<&'static Slot> {
    let mut orphans = orphans();
    pool.fill(std::iter::from_fn(|| orphans.take()).take(CHUNK));
    drop(orphans);
    if let Some(orphan) = pool.take() {
        return Some(orphan);
    }
    let chunk: Vec<Slot> = (0..CHUNK).map(|_| Slot::new()).collect();
    let chunk = chunk.leak();
    chunk.iter().for_each(|slot| slot.faces.settle());
    pool.fill(chunk.iter());
    pool.take()
}
