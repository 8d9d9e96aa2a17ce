//! Scheduling handles as C structures, and the C++ object that they point to.
//!
//! The C++ binding of FutoIn takes `data2` of a handle for a pointer to its own `AsyncTool`, an object
//! with virtual functions, and calls `cancel` and `is_valid` of it with the handle. So `data2` points to
//! such an object, which has these two functions. Its other functions do nothing.
#![expect(unsafe_code, reason = "called from outside, with pointers")]

use std::ffi::{c_int, c_void};
use std::{mem, ptr};

use crate::abi::FutoInHandle;
use crate::guard::contained;
use crate::sched::ItemId;

/// Enough for the functions of the binding, and as many again.
const FUNCTIONS: usize = 24;

/// The index of `cancel`, which `is_valid` follows: there are six other functions and the destructor
/// before it. The destructor has one entry in the C++ ABI of Microsoft, and two in the Itanium C++ ABI.
const CANCEL: usize = if cfg!(target_env = "msvc") { 7 } else { 8 };
const IS_VALID: usize = CANCEL + 1;

/// The virtual function table of the object, without type information.
#[repr(C)]
struct VirtualTable {
    offset_to_top: isize,
    type_info: *const c_void,
    functions: [VirtualFunction; FUNCTIONS],
}

#[derive(Clone, Copy)]
#[repr(C)]
union VirtualFunction {
    nothing: unsafe extern "C" fn() -> usize,
    cancel: unsafe extern "C" fn(*const Tool, *mut FutoInHandle),
    is_valid: unsafe extern "C" fn(*const Tool, *mut FutoInHandle) -> c_int,
}

/// The object: it begins with the address of its first function.
#[repr(transparent)]
struct Tool(*const VirtualFunction);

// SAFETY: it does not change
unsafe impl Sync for Tool {}
// SAFETY: it does not change
unsafe impl Sync for VirtualTable {}

static TABLE: VirtualTable = {
    let mut functions = [VirtualFunction { nothing }; FUNCTIONS];
    functions[CANCEL] = VirtualFunction { cancel };
    functions[IS_VALID] = VirtualFunction { is_valid };
    VirtualTable { offset_to_top: 0, type_info: ptr::null(), functions }
};

static TOOL: Tool = Tool((&raw const TABLE.functions).cast());

/// The handle of a scheduled item. `data1` is not null, as it is in a handle without an item.
pub(crate) fn handle_of(item: ItemId) -> FutoInHandle {
    let (index, number) = item.numbers();
    FutoInHandle {
        data1: ptr::without_provenance_mut(index + 1),
        data2: (&raw const TOOL).cast_mut().cast(),
        data3: number,
    }
}

/// The item of a handle; `None` if the handle is of another library or empty.
pub(crate) fn item_of(handle: &FutoInHandle) -> Option<ItemId> {
    let index = handle.data1.addr().checked_sub(1)?;
    let is_ours = ptr::eq(handle.data2, (&raw const TOOL).cast());
    is_ours.then(|| ItemId::of_numbers(index, handle.data3))
}

const _: () = assert!(size_of::<VirtualFunction>() == size_of::<usize>());

/// Any other function. It ignores its arguments.
unsafe extern "C" fn nothing() -> usize {
    0
}

/// The item of a handle that the binding keeps.
///
/// # Safety
/// `handle` is null or points to a handle.
unsafe fn item_in(tool: *const Tool, handle: *mut FutoInHandle) -> Option<ItemId> {
    if !ptr::eq(tool, &raw const TOOL) || !handle.is_aligned() {
        return None;
    }
    // SAFETY: the caller's promise
    item_of(unsafe { handle.as_ref() }?)
}

/// # Safety
/// As [`item_in`].
unsafe extern "C" fn cancel(tool: *const Tool, handle: *mut FutoInHandle) {
    contained("the cancel of a handle", || {
        // SAFETY: the caller's promise
        let Some(item) = (unsafe { item_in(tool, handle) }) else { return };
        item.cancel(None);
        // SAFETY: it has an item, so it is not null
        let handle = unsafe { &mut *handle };
        let _ = mem::replace(handle, FutoInHandle::NONE);
    });
}

/// # Safety
/// As [`item_in`].
unsafe extern "C" fn is_valid(tool: *const Tool, handle: *mut FutoInHandle) -> c_int {
    contained("the question to a handle", || {
        // SAFETY: the caller's promise
        let item = unsafe { item_in(tool, handle) };
        c_int::from(item.is_some_and(ItemId::is_valid))
    })
}
