//! What a scheduling handle points to for bindings that call through it.
//!
//! The binding of FutoIn for C++ takes `data2` of a handle for a pointer to its own `AsyncTool`, an
//! object with virtual functions, and calls `cancel` and `is_valid` of it, with the handle. So it
//! gets such an object: these two do what they say, and all others nothing.
#![expect(unsafe_code, reason = "called from outside, with pointers")]

use std::ffi::{c_int, c_void};
use std::{mem, ptr};

use crate::abi::FutoInHandle;
use crate::guard::contained;
use crate::sched::Name;

/// Enough for the functions of the binding, and as many again.
const FUNCTIONS: usize = 24;

/// Where `cancel` and `is_valid` are: behind six others and the destructor, which has one place in
/// the C++ ABI of Microsoft, and two in the one that all others share.
const CANCEL: usize = if cfg!(target_env = "msvc") { 7 } else { 8 };
const IS_VALID: usize = CANCEL + 1;

/// The function table of the object. What is asked for the type of the object finds none.
#[repr(C)]
struct Table {
    offset_to_top: isize,
    type_info: *const c_void,
    functions: [Function; FUNCTIONS],
}

#[derive(Clone, Copy)]
#[repr(C)]
union Function {
    nothing: unsafe extern "C" fn() -> usize,
    cancel: unsafe extern "C" fn(*const Tool, *mut FutoInHandle),
    is_valid: unsafe extern "C" fn(*const Tool, *mut FutoInHandle) -> c_int,
}

/// The object: it begins with the address of its first function.
#[repr(transparent)]
pub(crate) struct Tool(*const Function);

// SAFETY: it does not change
unsafe impl Sync for Tool {}
// SAFETY: it does not change
unsafe impl Sync for Table {}

static TABLE: Table = {
    let mut functions = [Function { nothing }; FUNCTIONS];
    functions[CANCEL] = Function { cancel };
    functions[IS_VALID] = Function { is_valid };
    Table { offset_to_top: 0, type_info: ptr::null(), functions }
};

pub(crate) static TOOL: Tool = Tool((&raw const TABLE.functions).cast());

const _: () = assert!(size_of::<Function>() == size_of::<usize>());

/// Any other function, with any arguments, which are not looked at.
unsafe extern "C" fn nothing() -> usize {
    0
}

/// The name in a handle that the binding keeps.
///
/// # Safety
/// `handle` is null or points to a handle.
unsafe fn name_in(tool: *const Tool, handle: *mut FutoInHandle) -> Option<Name> {
    if !ptr::eq(tool, &raw const TOOL) || !handle.is_aligned() {
        return None;
    }
    // SAFETY: the caller's promise
    Name::of(unsafe { handle.as_ref() }?)
}

/// # Safety
/// As [`name_in`].
unsafe extern "C" fn cancel(tool: *const Tool, handle: *mut FutoInHandle) {
    contained("the cancel of a handle", || {
        // SAFETY: the caller's promise
        let Some(name) = (unsafe { name_in(tool, handle) }) else { return };
        name.cancel(None);
        // SAFETY: it names something, so there is one
        let handle = unsafe { &mut *handle };
        let _ = mem::replace(handle, FutoInHandle::NONE);
    });
}

/// # Safety
/// As [`name_in`].
unsafe extern "C" fn is_valid(tool: *const Tool, handle: *mut FutoInHandle) -> c_int {
    contained("the question to a handle", || {
        // SAFETY: the caller's promise
        let name = unsafe { name_in(tool, handle) };
        c_int::from(name.is_some_and(Name::is_valid))
    })
}
