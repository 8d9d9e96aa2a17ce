//! The structures of FTN12 §2.7.1-2.7.3 as `include/asyncsteps.h` has them.

use std::ffi::{c_char, c_int, c_void};
use std::{fmt, ptr};

/// The type of a binary value (FTN12 §2.7.1): a base type, or an array of a base type.
pub mod flags {
    /// An object that only its owner knows.
    pub const CUSTOM_OBJECT: u8 = 0x01;
    /// Text of 8-bit units.
    pub const STRING: u8 = 0x02;
    /// Text of 16-bit units.
    pub const STRING16: u8 = 0x03;
    /// Text of 32-bit units.
    pub const STRING32: u8 = 0x04;
    /// A boolean.
    pub const BOOL: u8 = 0x05;
    /// A signed integer of 8 bits.
    pub const INT8: u8 = 0x06;
    /// A signed integer of 16 bits.
    pub const INT16: u8 = 0x07;
    /// A signed integer of 32 bits.
    pub const INT32: u8 = 0x08;
    /// A signed integer of 64 bits.
    pub const INT64: u8 = 0x09;
    /// An unsigned integer of 8 bits.
    pub const UINT8: u8 = 0x0A;
    /// An unsigned integer of 16 bits.
    pub const UINT16: u8 = 0x0B;
    /// An unsigned integer of 32 bits.
    pub const UINT32: u8 = 0x0C;
    /// An unsigned integer of 64 bits.
    pub const UINT64: u8 = 0x0D;
    /// A floating point number of 32 bits.
    pub const FLOAT: u8 = 0x0E;
    /// A floating point number of 64 bits.
    pub const DOUBLE: u8 = 0x0F;
    /// The bits of the base type.
    pub const BASE_MASK: u8 = 0x0F;
    /// An array of the base type.
    pub const ARRAY: u8 = 0x10;
}

/// Releases the data of a value.
pub type Cleanup = unsafe extern "C" fn(value: *mut FutoInBinaryValue);

/// The type of a binary value (FTN12 §2.7.1).
#[repr(C)]
#[derive(Debug)]
pub struct FutoInType {
    /// See [`flags`].
    pub flags: u8,
    /// Releases a value of this type.
    pub cleanup: Option<Cleanup>,
}

/// A binary value (FTN12 §2.7.1) as plain data. [`Value`](crate::Value) owns one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FutoInBinaryValue {
    /// The type; null for no value.
    pub kind: *const FutoInType,
    /// The union of the specification.
    pub data: FutoInData,
    /// Data for the cleanup.
    pub custom_data: *mut c_void,
    /// Elements of an array, units of a text.
    pub length: u32,
}

/// The union in a binary value: each of its members begins at its first byte.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
pub struct FutoInData(pub [u8; 8]);

/// The result of a step and the arguments of the next one (FTN12 §2.7.2).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FutoInArgs {
    /// The values; some may be none.
    pub args: [FutoInBinaryValue; 4],
}

/// Identifies a scheduled callback (FTN12 §2.7.2).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FutoInHandle {
    /// The implementation's.
    pub data1: *mut c_void,
    /// The implementation's.
    pub data2: *mut c_void,
    /// The implementation's.
    pub data3: isize,
}

/// A step.
pub type Execute = unsafe extern "C" fn(*mut FutoInAsyncSteps, *mut c_void, *const FutoInArgs);
/// An error handler.
pub type HandleError = unsafe extern "C" fn(*mut FutoInAsyncSteps, *mut c_void, *const c_char);
/// A cancel handler.
pub type Cancel = unsafe extern "C" fn(*mut FutoInAsyncSteps, *mut c_void);
/// The body of a loop.
pub type Loop = unsafe extern "C" fn(*mut FutoInAsyncSteps, *mut c_void);
/// The body of a counted loop.
pub type Repeat = unsafe extern "C" fn(*mut FutoInAsyncSteps, *mut c_void, usize);
/// A scheduled callback.
pub type Scheduled = unsafe extern "C" fn(*mut c_void);
/// Makes a state variable.
pub type Allocate = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
/// Releases a state variable.
pub type CleanupVariable = unsafe extern "C" fn(*mut c_void, *mut c_void);
/// Releases the contents of memory made with `stack`.
pub type CleanupMemory = unsafe extern "C" fn(*mut c_void);

macro_rules! table {
    ($(#[$about:meta])* $table:ident: $($name:ident($($arg:ty),*) $(-> $result:ty)?;)+) => {
        $(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        #[expect(missing_docs, reason = "the functions of the specification, in its order")]
        pub struct $table {
            $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)+
        }

        impl fmt::Debug for $table {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} at {:p}", stringify!($table), ptr::from_ref(self))
            }
        }
    };
}

type Bsi = *mut FutoInAsyncSteps;

table! {
    /// The function table of AsyncSteps (FTN12 §2.7.2).
    FutoInAsyncStepsAPI:
    add(Bsi, *mut c_void, Option<Execute>, Option<HandleError>);
    parallel(Bsi, *mut c_void, Option<HandleError>) -> Bsi;
    state_variable(
        Bsi, *mut c_void, *const c_char, Option<Allocate>, Option<CleanupVariable>
    ) -> *mut c_void;
    stack(Bsi, usize, Option<CleanupMemory>) -> *mut c_void;
    success(Bsi, *mut FutoInArgs);
    handle_error(Bsi, *const c_char, *const c_char);
    set_timeout(Bsi, u32);
    set_cancel(Bsi, *mut c_void, Option<Cancel>);
    wait_external(Bsi);
    make_loop(Bsi, *mut c_void, Option<Loop>, *const c_char);
    repeat(Bsi, *mut c_void, usize, Option<Repeat>, *const c_char);
    break_loop(Bsi, *const c_char);
    continue_loop(Bsi, *const c_char);
    execute(Bsi, *mut c_void, Option<HandleError>);
    cancel(Bsi);
    add_sync(Bsi, *mut FutoInSync, *mut c_void, Option<Execute>, Option<HandleError>);
    root_id(Bsi) -> isize;
    is_valid(Bsi) -> c_int;
    new_instance(Bsi) -> Bsi;
    free(Bsi);
    sched_immediate(Bsi, *mut c_void, Option<Scheduled>) -> FutoInHandle;
    sched_deferred(Bsi, u32, *mut c_void, Option<Scheduled>) -> FutoInHandle;
    sched_cancel(Bsi, *mut FutoInHandle);
    sched_is_valid(Bsi, *mut FutoInHandle) -> c_int;
    is_same_thread(Bsi) -> c_int;
}

table! {
    /// The function table of a synchronisation object (FTN12 §2.7.3).
    FutoInSyncAPI:
    lock(Bsi, *mut FutoInSync);
    unlock(Bsi, *mut FutoInSync);
}

/// The target of a `FutoInAsyncSteps*` (FTN12 §2.7.2). Implementations append to it.
#[repr(C)]
#[derive(Debug)]
pub struct FutoInAsyncSteps {
    /// The functions.
    pub api: *const FutoInAsyncStepsAPI,
}

/// The target of a `FutoInSync*` (FTN12 §2.7.3). Implementations append to it.
#[repr(C)]
#[derive(Debug)]
pub struct FutoInSync {
    /// The functions.
    pub api: *const FutoInSyncAPI,
}

impl FutoInBinaryValue {
    /// No value.
    pub const NONE: Self = Self {
        kind: ptr::null(),
        data: FutoInData([0; 8]),
        custom_data: ptr::null_mut(),
        length: 0,
    };
}

impl FutoInArgs {
    /// No values.
    pub const NONE: Self = Self { args: [FutoInBinaryValue::NONE; 4] };
}

impl FutoInHandle {
    /// Identifies nothing.
    pub const NONE: Self = Self { data1: ptr::null_mut(), data2: ptr::null_mut(), data3: 0 };
}

impl FutoInData {
    /// The union with this member set.
    #[must_use]
    pub fn of<const N: usize>(bytes: [u8; N]) -> Self {
        let mut data = Self::default();
        data.0[..N].copy_from_slice(&bytes);
        data
    }

    /// The union with the member `p` set.
    #[must_use]
    pub fn of_pointer<T>(pointer: *const T) -> Self {
        Self::of(pointer.expose_provenance().to_ne_bytes())
    }

    /// The first bytes: a member of that size.
    #[must_use]
    pub fn bytes<const N: usize>(self) -> [u8; N] {
        std::array::from_fn(|at| self.0[at])
    }

    /// The member `p`.
    #[must_use]
    pub fn pointer<T>(self) -> *const T {
        ptr::with_exposed_provenance(usize::from_ne_bytes(self.bytes()))
    }
}

/// The layout of the specification, as the header asserts it too.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<FutoInType>() == 16);
    assert!(size_of::<FutoInBinaryValue>() == 32);
    assert!(std::mem::offset_of!(FutoInBinaryValue, custom_data) == 16);
    assert!(size_of::<FutoInArgs>() == 128);
    assert!(size_of::<FutoInHandle>() == 24);
    assert!(size_of::<FutoInAsyncStepsAPI>() == 200);
    assert!(std::mem::offset_of!(FutoInAsyncStepsAPI, execute) == 13 * 8);
    assert!(std::mem::offset_of!(FutoInAsyncStepsAPI, is_same_thread) == 24 * 8);
    assert!(size_of::<FutoInSyncAPI>() == 16);
};
