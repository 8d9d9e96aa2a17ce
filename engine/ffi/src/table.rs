//! The function table of all our handles (FTN12 §2.7.2). Each function checks its pointers and calls a
//! [`Handle`].
#![expect(unsafe_code, reason = "called from outside, with pointers")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_core::Flow;

use crate::abi::{
    Allocate, Cancel, CleanupMemory, CleanupVariable, Execute, FutoInArgs, FutoInAsyncSteps,
    FutoInAsyncStepsAPI, FutoInHandle, FutoInSync, HandleError, Loop, Repeat, Scheduled,
};
use crate::cpp_tool::{handle_of, item_of};
use crate::foreign_sync::{BinarySync, SyncStep};
use crate::guard::{self, Misuse, contained, report};
use crate::handle::Handle;
use crate::root::{self, Unhandled};
use crate::steps::{ForeignStep, LoopStep};
use crate::value::Values;
use crate::{sched, variables};

type Bsi = *mut FutoInAsyncSteps;

/// The one table.
pub(crate) static API: FutoInAsyncStepsAPI = FutoInAsyncStepsAPI {
    add,
    parallel,
    state_variable,
    stack,
    success,
    handle_error,
    set_timeout,
    set_cancel,
    wait_external,
    make_loop,
    repeat,
    break_loop,
    continue_loop,
    execute,
    cancel,
    add_sync,
    root_id,
    is_valid,
    new_instance,
    free,
    sched_immediate,
    sched_deferred,
    sched_cancel,
    sched_is_valid,
    is_same_thread,
};

/// Calls `call` with the handle of `bsi`. A refused call is reported.
///
/// # Safety
/// As [`Handle::find`].
unsafe fn with<R>(
    bsi: Bsi,
    what: &'static str,
    call: impl FnOnce(Handle) -> Result<R, Misuse>,
) -> Option<R> {
    contained(what, || {
        // SAFETY: the caller's promise
        let result = unsafe { Handle::find(bsi) }.and_then(call);
        result.map_err(|misuse| refuse(what, misuse)).ok()
    })
}

/// The same for calls that may come too late without a mistake: that is kept, but not logged. Other
/// mistakes with steps of this thread fail the running callback.
///
/// # Safety
/// As [`Handle::find`].
unsafe fn with_late(bsi: Bsi, what: &'static str, call: impl FnOnce(Handle) -> Result<(), Misuse>) {
    contained(what, || {
        // SAFETY: the caller's promise
        let found = unsafe { Handle::find(bsi) };
        match found.and_then(call) {
            Ok(()) => {}
            Err(Misuse::Stale) => guard::keep(&format!("{what}: {}", Misuse::Stale)),
            Err(misuse) => {
                refuse(what, misuse);
                if found.is_ok_and(Handle::is_same_thread) {
                    raise_last(Handle::running());
                }
            }
        }
    });
}

#[cold]
fn refuse(what: &str, misuse: Misuse) {
    report(&format!("{what}: {misuse}"));
}

/// The same for calls that a callback depends on. A refused one fails the running callback.
///
/// # Safety
/// As [`Handle::find`].
unsafe fn with_steps<R>(
    bsi: Bsi,
    what: &'static str,
    call: impl FnOnce(Handle) -> Result<R, Misuse>,
) -> Option<R> {
    // SAFETY: the caller's promise
    let result = unsafe { with(bsi, what, call) };
    if result.is_none() {
        contained(what, || {
            // SAFETY: the caller's promise
            let configured = || unsafe { Handle::find(bsi) }.ok();
            raise_last(Handle::running().or_else(configured));
        });
    }
    result
}

/// Fails a callback, or a root that is being configured, with the last error of this thread.
fn raise_last(handle: Option<Handle>) {
    if let Some(handle) = handle {
        guard::with_last(|rule| handle.raise(&rule.to_string_lossy()));
    }
}

/// Text from outside; `None` for null.
///
/// # Safety
/// `text` is null or ends with NUL, and stays so for `'a`.
unsafe fn c_str<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the caller's promise
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// A copy of text from outside.
///
/// # Safety
/// As [`c_str`].
unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise
    unsafe { c_str(text) }.map(|text| text.to_string_lossy().into_owned())
}

macro_rules! functions {
    ($(
        fn $name:ident($bsi:ident $(, $arg:ident: $type:ty)*) $(-> $result:ty)? $body:block
    )+) => { $(
        /// # Safety
        /// Pointers follow FTN12 §2.7.2; callbacks can be called on the thread of the event loop.
        unsafe extern "C" fn $name($bsi: Bsi $(, $arg: $type)*) $(-> $result)? $body
    )+ };
}

functions! {
    fn add(bsi, data: *mut c_void, f: Option<Execute>, eh: Option<HandleError>) {
        let add = |handle: Handle| {
            let execute = f.ok_or(Misuse::Null("f"))?;
            handle.add(|context| ForeignStep { context: Rc::clone(context), data, execute, handle_error: eh })
        };
        // SAFETY: the caller's promise
        unsafe { with_steps(bsi, "add", add) };
    }

    fn parallel(bsi, data: *mut c_void, eh: Option<HandleError>) -> Bsi {
        // SAFETY: the caller's promise
        let parallel = unsafe { with_steps(bsi, "parallel", |handle| handle.parallel(data, eh)) };
        parallel.map_or_else(Handle::stale_ptr, Handle::as_ptr)
    }

    fn state_variable(
        bsi,
        data: *mut c_void,
        name: *const c_char,
        allocate: Option<Allocate>,
        cleanup: Option<CleanupVariable>
    ) -> *mut c_void {
        let variable = |handle: Handle| {
            // SAFETY: the caller's promise
            let name = unsafe { c_str(name) }.ok_or(Misuse::Null("name"))?;
            handle.variable(name, data, (allocate, cleanup))
        };
        // SAFETY: the caller's promise
        let refused = || unsafe { c_str(name) }.map_or(ptr::null_mut(), variables::missing);
        // SAFETY: the caller's promise
        unsafe { with(bsi, "stateVariable", variable) }.unwrap_or_else(refused)
    }

    fn stack(bsi, size: usize, cleanup: Option<CleanupMemory>) -> *mut c_void {
        // SAFETY: the caller's promise
        let block = unsafe { with_steps(bsi, "stack", |handle| handle.stack(size, cleanup)) };
        block.unwrap_or(ptr::null_mut())
    }

    fn success(bsi, args: *mut FutoInArgs) {
        // SAFETY: the caller's promise; the values have to be released even if the step has ended
        let values = unsafe { Values::take(args) };
        // SAFETY: the caller's promise
        unsafe { with_late(bsi, "success", |handle| handle.success(values)) };
    }

    fn handle_error(bsi, code: *const c_char, info: *const c_char) {
        // SAFETY: the caller's promise
        let code = unsafe { text(code) };
        // SAFETY: the caller's promise
        let info = unsafe { text(info) };
        let (code, info) = match code {
            Some(code) => (code, info),
            None => (asyncsteps_core::codes::INTERNAL_ERROR.to_owned(), Some("no error code".to_owned())),
        };
        // SAFETY: the caller's promise
        unsafe { with_late(bsi, "handle_error", |handle| handle.handle_error(code, info)) };
    }

    fn set_timeout(bsi, timeout_ms: u32) {
        let limit = Duration::from_millis(timeout_ms.into());
        // SAFETY: the caller's promise
        unsafe { with_steps(bsi, "setTimeout", |handle| handle.set_timeout(limit)) };
    }

    fn set_cancel(bsi, data: *mut c_void, ch: Option<Cancel>) {
        // SAFETY: the caller's promise
        unsafe { with_steps(bsi, "setCancel", |handle| handle.set_cancel(data, ch)) };
    }

    fn wait_external(bsi) {
        // SAFETY: the caller's promise
        unsafe { with_steps(bsi, "waitExternal", Handle::wait_external) };
    }

    fn make_loop(bsi, data: *mut c_void, f: Option<Loop>, label: *const c_char) {
        // SAFETY: the caller's promise
        let label = unsafe { text(label) };
        let add = |handle: Handle| {
            let body = f.ok_or(Misuse::Null("f"))?;
            // SAFETY: the caller's promise
            let run = move |bsi, _| unsafe { body(bsi, data) };
            handle.add(|context| LoopStep { context: Rc::clone(context), run, count: None, label })
        };
        // SAFETY: the caller's promise
        unsafe { with_steps(bsi, "loop", add) };
    }

    fn repeat(bsi, data: *mut c_void, count: usize, f: Option<Repeat>, label: *const c_char) {
        // SAFETY: the caller's promise
        let label = unsafe { text(label) };
        let add = |handle: Handle| {
            let body = f.ok_or(Misuse::Null("f"))?;
            // SAFETY: the caller's promise
            let run = move |bsi, i| unsafe { body(bsi, data, i) };
            let count = Some(count);
            handle.add(|context| LoopStep { context: Rc::clone(context), run, count, label })
        };
        // SAFETY: the caller's promise
        unsafe { with_steps(bsi, "repeat", add) };
    }

    fn break_loop(bsi, label: *const c_char) {
        // SAFETY: the caller's promise
        let label = unsafe { text(label) };
        let end = |handle: Handle| handle.end_iteration(false, label.as_deref());
        // SAFETY: the caller's promise
        unsafe { with_steps(bsi, "breakLoop", end) };
    }

    fn continue_loop(bsi, label: *const c_char) {
        // SAFETY: the caller's promise
        let label = unsafe { text(label) };
        let end = |handle: Handle| handle.end_iteration(true, label.as_deref());
        // SAFETY: the caller's promise
        unsafe { with_steps(bsi, "continueLoop", end) };
    }

    fn execute(bsi, data: *mut c_void, unhandled_error: Option<HandleError>) {
        let unhandled = Unhandled { handler: unhandled_error, data };
        // SAFETY: the caller's promise
        unsafe { with(bsi, "execute", |handle| handle.execute(unhandled)) };
    }

    fn cancel(bsi) {
        // SAFETY: the caller's promise
        unsafe { with(bsi, "cancel", Handle::cancel) };
    }

    fn add_sync(
        bsi,
        sync: *mut FutoInSync,
        data: *mut c_void,
        f: Option<Execute>,
        eh: Option<HandleError>
    ) {
        let add = |handle: Handle| {
            let execute = f.ok_or(Misuse::Null("f"))?;
            if sync.is_null() {
                return Err(Misuse::Null("sync"));
            }
            // SAFETY: the caller's promise
            let sync = unsafe { BinarySync::new(sync) };
            handle.add(|context| {
                let context = Rc::clone(context);
                SyncStep { sync, step: ForeignStep { context, data, execute, handle_error: eh } }
            })
        };
        // SAFETY: the caller's promise
        unsafe { with_steps(bsi, "addSync", add) };
    }

    fn root_id(bsi) -> isize {
        // SAFETY: the caller's promise
        unsafe { with(bsi, "rootId", Handle::root_id) }.unwrap_or(0)
    }

    fn is_valid(bsi) -> c_int {
        // SAFETY: the caller's promise
        let handle = contained("isValid", || unsafe { Handle::find(bsi) }.ok());
        // asking about a stale pointer is not a mistake
        c_int::from(handle.is_some_and(|handle| handle.is_valid() == Ok(true)))
    }

    fn new_instance(bsi) -> Bsi {
        let new = |handle: Handle| {
            let host = handle.local()?.context()?.host()?.clone();
            Ok(root::open(Flow::new(), host))
        };
        // SAFETY: the caller's promise
        let root = unsafe { with_steps(bsi, "newInstance", new) };
        root.map_or_else(Handle::stale_ptr, Handle::as_ptr)
    }

    fn free(bsi) {
        // SAFETY: the caller's promise
        unsafe { with(bsi, "free", Handle::free) };
    }

    fn sched_immediate(bsi, data: *mut c_void, cb: Option<Scheduled>) -> FutoInHandle {
        let schedule = |handle: Handle| {
            let call = cb.ok_or(Misuse::Null("cb"))?;
            Ok(handle_of(sched::immediate(&handle.host()?, call, data)))
        };
        // SAFETY: the caller's promise
        unsafe { with(bsi, "sched_immediate", schedule) }.unwrap_or(FutoInHandle::NONE)
    }

    fn sched_deferred(
        bsi,
        delay_ms: u32,
        data: *mut c_void,
        cb: Option<Scheduled>
    ) -> FutoInHandle {
        let delay = Duration::from_millis(delay_ms.into());
        let schedule = |handle: Handle| {
            let call = cb.ok_or(Misuse::Null("cb"))?;
            Ok(handle_of(sched::deferred(&handle.host()?, delay, call, data)))
        };
        // SAFETY: the caller's promise
        unsafe { with(bsi, "sched_deferred", schedule) }.unwrap_or(FutoInHandle::NONE)
    }

    fn sched_cancel(bsi, handle: *mut FutoInHandle) {
        let cancel = |steps: Handle| {
            // SAFETY: the caller's promise
            let handle = unsafe { handle.as_ref() }.ok_or(Misuse::Null("handle"))?;
            if let Some(item) = item_of(handle) {
                item.cancel(steps.host().ok().as_ref());
            }
            Ok(())
        };
        // SAFETY: the caller's promise
        unsafe { with(bsi, "sched_cancel", cancel) };
    }

    fn sched_is_valid(bsi, handle: *mut FutoInHandle) -> c_int {
        let is_valid = |_: Handle| {
            // SAFETY: the caller's promise
            let handle = unsafe { handle.as_ref() }.ok_or(Misuse::Null("handle"))?;
            Ok(item_of(handle).is_some_and(sched::ItemId::is_valid))
        };
        // SAFETY: the caller's promise
        c_int::from(unsafe { with(bsi, "sched_is_valid", is_valid) } == Some(true))
    }

    fn is_same_thread(bsi) -> c_int {
        let same = |handle: Handle| {
            let on_host = handle.host().map(|host| host.is_same_thread());
            Ok(on_host.unwrap_or_else(|_| handle.is_same_thread()))
        };
        // SAFETY: the caller's promise
        c_int::from(unsafe { with(bsi, "is_same_thread", same) } == Some(true))
    }
}
