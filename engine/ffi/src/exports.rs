//! The exported functions in addition to the table: loops, roots, synchronisation objects, errors.
#![expect(unsafe_code, reason = "exported, and called with pointers")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use asyncsteps_core::Flow;
use parking_lot::Mutex;
use slab::Slab;

use crate::abi::{FutoInAsyncSteps, FutoInSync, Scheduled};
use crate::context::Text;
use crate::event_loop::StandaloneLoop;
use crate::guard::{self, Misuse, contained, report};
use crate::handle::Handle;
use crate::host::EventLoop;
use crate::own_sync::{self, OwnObject};
use crate::root;
use crate::sync_object::{SyncObject, mutex_options, throttle_options};

/// An event loop for foreign code: not a pointer, but a number that looks like one.
#[repr(C)]
#[derive(Debug)]
pub struct AsyncStepsLoop {
    opaque: [u8; 0],
}

struct Loops {
    loops: Slab<LoopEntry>,
    count: u32,
}

struct LoopEntry {
    number: u32,
    shared: Arc<StandaloneLoop>,
    thread: Option<JoinHandle<()>>,
}

static LOOPS: Mutex<Loops> = Mutex::new(Loops { loops: Slab::new(), count: 0 });

/// The number of a loop has two halves: which of all loops it is, and its index.
const HALF: u32 = usize::BITS / 2;
const LOW: usize = (1 << HALF) - 1;

const NO_LOOP: Misuse = Misuse::Rule("there is no such loop");

impl Loops {
    fn add(
        &mut self,
        shared: Arc<StandaloneLoop>,
        thread: Option<JoinHandle<()>>,
    ) -> *mut AsyncStepsLoop {
        self.count = self.count.wrapping_add(1);
        let number = self.count;
        let at = self.loops.insert(LoopEntry { number, shared, thread });
        ptr::without_provenance_mut((number as usize) << HALF | (at + 1))
    }

    fn index(&self, event_loop: *mut AsyncStepsLoop) -> Result<usize, Misuse> {
        let (number, at) = (event_loop.addr() >> HALF, (event_loop.addr() & LOW).wrapping_sub(1));
        let found = self.loops.get(at).filter(|entry| entry.number as usize & LOW == number);
        found.map(|_| at).ok_or(NO_LOOP)
    }
}

fn find(event_loop: *mut AsyncStepsLoop) -> Result<Arc<StandaloneLoop>, Misuse> {
    let loops = LOOPS.lock();
    let at = loops.index(event_loop)?;
    loops.loops.get(at).map(|entry| Arc::clone(&entry.shared)).ok_or(NO_LOOP)
}

/// The loop as a host for flows in Rust; `None` if there is no such loop.
#[must_use]
pub fn host(event_loop: *mut AsyncStepsLoop) -> Option<Arc<dyn EventLoop>> {
    find(event_loop).ok().map(|shared| -> Arc<dyn EventLoop> { shared })
}

/// The result of a call; `None` if it was refused, which is reported.
fn checked<R>(what: &str, call: impl FnOnce() -> Result<R, Misuse>) -> Option<R> {
    contained(what, || call().map_err(|misuse| report(&format!("{what}: {misuse}"))).ok())
}

fn status(done: Option<()>) -> c_int {
    if done.is_some() { 0 } else { -1 }
}

/// The version of the library, 0xMMmmpp.
#[unsafe(no_mangle)]
pub extern "C" fn asyncsteps_version() -> u32 {
    let part = |text: &str| text.parse::<u32>().unwrap_or(0);
    part(env!("CARGO_PKG_VERSION_MAJOR")) << 16
        | part(env!("CARGO_PKG_VERSION_MINOR")) << 8
        | part(env!("CARGO_PKG_VERSION_PATCH"))
}

/// The mistake of the last refused call on this thread; valid until the next one.
#[unsafe(no_mangle)]
pub extern "C" fn asyncsteps_last_error() -> *const c_char {
    guard::with_last(CStr::as_ptr)
}

/// Forgets the last error of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn asyncsteps_clear_error() {
    guard::clear_last();
}

/// Data that goes with a callback from outside.
#[derive(Clone, Copy)]
struct CallbackData(*mut c_void);

// SAFETY: the header says that the callbacks are called from any thread
unsafe impl Send for CallbackData {}
// SAFETY: as above
unsafe impl Sync for CallbackData {}

impl CallbackData {
    fn get(self) -> *mut c_void {
        self.0
    }
}

/// Sets the function that refused calls and unhandled errors are reported to.
///
/// # Safety
/// `log` can be called with `data` on any thread, as long as it is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn asyncsteps_set_log(
    log: Option<unsafe extern "C" fn(*mut c_void, *const c_char)>,
    data: *mut c_void,
) {
    let data = CallbackData(data);
    contained("asyncsteps_set_log", || {
        guard::set_log(log.map(|log| -> guard::Log {
            // SAFETY: the caller's promise
            Arc::new(move |line: &CStr| unsafe { log(data.get(), line.as_ptr()) })
        }));
    });
}

/// Makes a loop: 0 with a thread of its own, 1 driven, 2 driven in virtual time.
#[unsafe(no_mangle)]
pub extern "C" fn asyncsteps_loop_new(kind: c_int) -> *mut AsyncStepsLoop {
    let new = || {
        let (shared, thread) = match kind {
            0 => {
                let no_thread = |_| Misuse::Rule("no thread could be started");
                let (shared, thread) = StandaloneLoop::threaded().map_err(no_thread)?;
                (shared, Some(thread))
            }
            1 => (StandaloneLoop::driven(false), None),
            2 => (StandaloneLoop::driven(true), None),
            _ => return Err(Misuse::Rule("there is no such kind of loop")),
        };
        Ok(LOOPS.lock().add(shared, thread))
    };
    let new = || new().map(Some);
    checked("asyncsteps_loop_new", new).flatten().unwrap_or(ptr::null_mut())
}

/// Cancels the flows of a loop and frees it.
#[unsafe(no_mangle)]
pub extern "C" fn asyncsteps_loop_free(event_loop: *mut AsyncStepsLoop) -> c_int {
    status(checked("asyncsteps_loop_free", || {
        let shared = find(event_loop)?;
        if shared.is_driven() {
            shared.end_driven()?;
        } else if shared.is_same_thread() {
            return Err(Misuse::Rule("called by a callback of the same loop"));
        }
        let entry = {
            let mut loops = LOOPS.lock();
            let at = loops.index(event_loop)?;
            loops.loops.remove(at)
        };
        if let Some(thread) = entry.thread {
            entry.shared.stop();
            thread.join().map_err(|_| Misuse::Rule("the thread of the loop panicked"))?;
        }
        Ok(())
    }))
}

/// Runs a driven loop until no flow and no callback is left.
#[unsafe(no_mangle)]
pub extern "C" fn asyncsteps_loop_run(event_loop: *mut AsyncStepsLoop) -> c_int {
    status(checked("asyncsteps_loop_run", || find(event_loop)?.run()))
}

/// One round of a driven loop; milliseconds until the next one, -1 until woken, -2 if refused.
#[unsafe(no_mangle)]
pub extern "C" fn asyncsteps_loop_iterate(event_loop: *mut AsyncStepsLoop) -> i64 {
    match checked("asyncsteps_loop_iterate", || find(event_loop)?.iterate()) {
        None => -2,
        Some(None) => -1,
        // rounded up, or it would be called for nothing
        Some(Some(pause)) => {
            let pause = pause.as_nanos().div_ceil(Duration::from_millis(1).as_nanos());
            i64::try_from(pause).unwrap_or(i64::MAX)
        }
    }
}

/// Sets the function that is called when a driven loop is to be iterated.
///
/// # Safety
/// `wake` can be called with `data` on any thread, until the loop is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn asyncsteps_loop_on_wake(
    event_loop: *mut AsyncStepsLoop,
    wake: Option<Scheduled>,
    data: *mut c_void,
) -> c_int {
    let data = CallbackData(data);
    status(checked("asyncsteps_loop_on_wake", || {
        let wake = wake.ok_or(Misuse::Null("wake"))?;
        // SAFETY: the caller's promise
        find(event_loop)?.on_wake(Arc::new(move || unsafe { wake(data.get()) }))
    }))
}

/// A root without steps.
#[unsafe(no_mangle)]
pub extern "C" fn asyncsteps_root_new(event_loop: *mut AsyncStepsLoop) -> *mut FutoInAsyncSteps {
    let root = checked("asyncsteps_root_new", || Ok(root::open(Flow::new(), find(event_loop)?)));
    root.map_or(ptr::null_mut(), Handle::as_ptr)
}

/// Whether a root was executed and has ended, or a step has ended: 1 or 0, -1 if it is of another
/// library.
///
/// # Safety
/// `bsi` is null or follows FTN12 §2.7.2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn asyncsteps_is_over(bsi: *mut FutoInAsyncSteps) -> c_int {
    let is_over = checked("asyncsteps_is_over", || {
        // SAFETY: the caller's promise
        match unsafe { Handle::find(bsi) } {
            Ok(handle) => Ok(Some(handle.is_over())),
            Err(Misuse::Null(_) | Misuse::Stale) => Ok(Some(true)),
            Err(misuse) => Err(misuse),
        }
    });
    is_over.flatten().map_or(-1, c_int::from)
}

/// The last error of a flow with its causes, as text; never null.
///
/// # Safety
/// `bsi` is null or follows FTN12 §2.7.2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn asyncsteps_last_exception(bsi: *mut FutoInAsyncSteps) -> *const c_char {
    let text = checked("asyncsteps_last_exception", || {
        // SAFETY: the caller's promise
        let handle = unsafe { Handle::find(bsi) }?;
        handle.text(Text::LastException).map(|text| Some(text.cast_const().cast()))
    });
    text.flatten().unwrap_or(c"".as_ptr())
}

/// A mutex for steps of any technology.
#[unsafe(no_mangle)]
pub extern "C" fn asyncsteps_mutex_new(max: u32, max_queue: u32) -> *mut FutoInSync {
    opened("asyncsteps_mutex_new", || Ok(SyncObject::mutex(mutex_options(max, max_queue)?)))
}

/// A throttle for steps of any technology, with the time of this loop.
#[unsafe(no_mangle)]
pub extern "C" fn asyncsteps_throttle_new(
    event_loop: *mut AsyncStepsLoop,
    max: u32,
    period_ms: u32,
    max_queue: u32,
) -> *mut FutoInSync {
    opened("asyncsteps_throttle_new", || {
        Ok(SyncObject::throttle(throttle_options(max, period_ms, max_queue)?, find(event_loop)?))
    })
}

/// A limiter for steps of any technology, with the time of this loop.
#[unsafe(no_mangle)]
pub extern "C" fn asyncsteps_limiter_new(
    event_loop: *mut AsyncStepsLoop,
    concurrent: u32,
    max_queue: u32,
    rate: u32,
    period_ms: u32,
    burst: u32,
) -> *mut FutoInSync {
    opened("asyncsteps_limiter_new", || {
        let outer = mutex_options(concurrent, max_queue)?;
        let inner = throttle_options(rate, period_ms, burst)?;
        Ok(SyncObject::limiter(outer, inner, find(event_loop)?))
    })
}

fn opened(what: &str, new: impl FnOnce() -> Result<SyncObject, Misuse>) -> *mut FutoInSync {
    checked(what, || Ok(Some(own_sync::open(OwnObject::ForAll(Arc::new(new()?))))))
        .flatten()
        .unwrap_or(ptr::null_mut())
}

/// Frees a mutex, throttle or limiter.
///
/// # Safety
/// `sync` is null or follows FTN12 §2.7.3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn asyncsteps_sync_free(sync: *mut FutoInSync) -> c_int {
    // SAFETY: the caller's promise
    status(checked("asyncsteps_sync_free", || unsafe { own_sync::close(sync) }))
}
