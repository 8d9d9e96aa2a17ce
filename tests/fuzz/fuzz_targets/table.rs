//! Calls the function table with random valid and invalid sequences, from outside and from inside
//! of callbacks, with handles that are alive, over, freed or null.
//!
//! Nothing may crash, and at the end everything that was made has been released once.
#![no_main]

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use asyncsteps_core::sync::{ISync, Section};
use asyncsteps_core::{AsyncSteps, Flow, StepResult};
use asyncsteps_ffi::abi::{
    FutoInArgs, FutoInAsyncSteps, FutoInAsyncStepsAPI, FutoInBinaryValue, FutoInData, FutoInHandle,
    FutoInSync, FutoInType, flags,
};
use asyncsteps_ffi::exports::{
    AsyncStepsLoop, asyncsteps_limiter_new, asyncsteps_loop_free, asyncsteps_loop_iterate,
    asyncsteps_loop_new, asyncsteps_loop_run, asyncsteps_mutex_new, asyncsteps_root_new,
    asyncsteps_set_log, asyncsteps_sync_free, asyncsteps_throttle_new, host,
};
use asyncsteps_ffi::{BinaryStep, SyncPointer, into_root};
use libfuzzer_sys::fuzz_target;

type Bsi = *mut FutoInAsyncSteps;

/// How many callbacks may run, and how many rounds: a loop without a break never ends.
const CALLBACKS: u32 = 400;
const ROUNDS: u32 = 200;

thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
    /// What was made and not released yet.
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

#[derive(Default)]
struct World {
    input: Vec<u8>,
    at: usize,
    callbacks: u32,
    event_loop: Option<*mut AsyncStepsLoop>,
    steps: Vec<Bsi>,
    syncs: Vec<*mut FutoInSync>,
    /// What makes some of them valid.
    pointers: Vec<SyncPointer>,
    handles: Vec<FutoInHandle>,
}

/// The next byte; 0 at the end.
fn next() -> u8 {
    WORLD.with_borrow_mut(|world| {
        let byte = world.input.get(world.at).copied().unwrap_or_default();
        world.at += 1;
        byte
    })
}

fn is_over() -> bool {
    WORLD.with_borrow(|world| world.at >= world.input.len())
}

fn pick<T: Copy>(of: impl FnOnce(&World) -> &Vec<T>) -> Option<T> {
    let at = usize::from(next());
    WORLD.with_borrow(|world| {
        let all = of(world);
        // the newest are the most interesting
        (!all.is_empty()).then(|| all[all.len() - 1 - at % all.len()])
    })
}

fn any_steps() -> Bsi {
    if next() % 32 == 0 {
        return ptr::null_mut();
    }
    pick(|world| &world.steps).unwrap_or(ptr::null_mut())
}

fn api() -> FutoInAsyncStepsAPI {
    let root = WORLD.with_borrow(|world| world.steps[0]);
    // SAFETY: handles stay readable, and all of them have the same table
    let api = unsafe { (*root).api };
    // SAFETY: as above
    unsafe { *api }
}

fn made() -> *mut c_void {
    LIVE.set(LIVE.get() + 1);
    Box::into_raw(Box::new(7u64)).cast()
}

fn released(what: *mut c_void) {
    if !what.is_null() {
        LIVE.set(LIVE.get() - 1);
        // SAFETY: made by `made`; the sanitizer finds a second release
        drop(unsafe { Box::from_raw(what.cast::<u64>()) });
    }
}

unsafe extern "C" fn release_value(value: *mut FutoInBinaryValue) {
    // SAFETY: FTN12 §2.7.1
    released(unsafe { (*value).custom_data });
}

unsafe extern "C" fn allocate(_: *mut c_void) -> *mut c_void {
    act(1);
    made()
}

unsafe extern "C" fn release_variable(_: *mut c_void, value: *mut c_void) {
    released(value);
}

unsafe extern "C" fn release_memory(block: *mut c_void) {
    // SAFETY: it has room for a pointer, which was written or is null
    released(unsafe { block.cast::<*mut c_void>().read() });
    act(1);
}

static TYPES: [FutoInType; 5] = [
    FutoInType { flags: flags::CUSTOM_OBJECT, cleanup: Some(release_value) },
    FutoInType { flags: flags::INT32, cleanup: None },
    FutoInType { flags: flags::STRING, cleanup: Some(release_value) },
    FutoInType { flags: flags::ARRAY | flags::UINT16, cleanup: Some(release_value) },
    // not known to FTN12
    FutoInType { flags: 0x80, cleanup: Some(release_value) },
];

fn value() -> FutoInBinaryValue {
    static NUMBERS: [u16; 4] = [1, 2, 3, 4];
    let Some(kind) = TYPES.get(usize::from(next() % 7)) else { return FutoInBinaryValue::NONE };
    let custom_data = if kind.cleanup.is_some() { made() } else { ptr::null_mut() };
    let data = match kind.flags {
        flags::STRING => FutoInData::of_pointer(c"text".as_ptr()),
        flags::INT32 => FutoInData::of(i32::from(next()).to_ne_bytes()),
        _ => FutoInData::of_pointer(NUMBERS.as_ptr()),
    };
    FutoInBinaryValue { kind, data, custom_data, length: 4 }
}

fn text() -> *const c_char {
    const TEXTS: [&CStr; 5] = [c"A", c"B", c"error_info", c"last_exception", c""];
    TEXTS.get(usize::from(next() % 6)).map_or(ptr::null(), |text| text.as_ptr())
}

/// A callback: it notes its handle and does something.
fn callback(bsi: Bsi) {
    let exhausted = WORLD.with_borrow_mut(|world| {
        world.steps.push(bsi);
        world.callbacks += 1;
        world.callbacks > CALLBACKS
    });
    if exhausted {
        // SAFETY: the handle of the running callback
        unsafe { (api().handle_error)(bsi, c"Enough".as_ptr(), ptr::null()) };
    } else {
        act(next() % 5);
    }
}

unsafe extern "C" fn execute(bsi: Bsi, _: *mut c_void, args: *const FutoInArgs) {
    if next() % 4 == 0 {
        // SAFETY: a callback may take the arguments
        unsafe { (api().success)(bsi, args.cast_mut()) };
    }
    callback(bsi);
}

unsafe extern "C" fn handle_error(bsi: Bsi, _: *mut c_void, code: *const c_char) {
    // SAFETY: FTN12 §2.7.2: it ends with NUL
    let code = unsafe { CStr::from_ptr(code) };
    if code != c"Enough" {
        callback(bsi);
    }
}

unsafe extern "C" fn cancel(bsi: Bsi, _: *mut c_void) {
    callback(bsi);
}

unsafe extern "C" fn iterate(bsi: Bsi, _: *mut c_void) {
    callback(bsi);
    if next() % 4 == 0 || is_over() {
        // SAFETY: the handle of the running callback
        unsafe { (api().break_loop)(bsi, ptr::null()) };
    }
}

unsafe extern "C" fn repeat(bsi: Bsi, _: *mut c_void, _: usize) {
    callback(bsi);
}

unsafe extern "C" fn scheduled(_: *mut c_void) {
    act(next() % 3);
}

/// A sync object that grants every lock, at once or later.
struct Gate;

impl ISync for Gate {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        if next() % 2 == 0 {
            return section.enter(asi);
        }
        section.add(asi);
        Ok(())
    }
}

fn pointer() -> *mut FutoInSync {
    let pointer = SyncPointer::new(Gate);
    let sync = pointer.as_ptr();
    WORLD.with_borrow_mut(|world| world.pointers.push(pointer));
    sync
}

/// A root that is a Rust flow with a foreign step, whose data it owns.
fn flow(event_loop: *mut AsyncStepsLoop) -> Bsi {
    unsafe extern "C" fn destroy(data: *mut c_void) {
        released(data);
    }
    let Some(host) = host(event_loop) else { return ptr::null_mut() };
    // SAFETY: the callbacks need no data, and `destroy` gets what `made` gave
    let step = unsafe { BinaryStep::new(execute, Some(handle_error), made(), Some(destroy)) };
    let (mut flow, handler) = (Flow::new(), step.clone());
    flow.add(move |asi, args| step.execute(asi, args))
        .on_error(move |asi, error| handler.handle_error(asi, error));
    into_root(flow, host)
}

/// Makes some calls.
fn act(count: u8) {
    for _ in 0..count {
        if is_over() {
            return;
        }
        // SAFETY: pointers are null, of the library, or of callbacks that need no data
        unsafe { call() };
    }
}

/// # Safety
/// The world is set up.
unsafe fn call() {
    let (bsi, api, none) = (any_steps(), api(), ptr::null_mut::<c_void>());
    let handler = (next() % 3 > 0).then_some(handle_error as _);
    let body = (next() % 32 > 0).then_some(execute as _);
    let sync = pick(|world| &world.syncs).unwrap_or(none.cast());
    let event_loop = WORLD.with_borrow(|world| world.event_loop).unwrap_or(none.cast());
    let mut handle = pick(|world| &world.handles).unwrap_or(FutoInHandle::NONE);
    let keep = |steps: Bsi| WORLD.with_borrow_mut(|world| world.steps.push(steps));
    let keep_sync = |sync| WORLD.with_borrow_mut(|world| world.syncs.push(sync));
    let keep_handle = |handle| WORLD.with_borrow_mut(|world| world.handles.push(handle));
    // SAFETY: the pointers above
    unsafe {
        match next() % 36 {
            0..=3 => (api.add)(bsi, none, body, handler),
            4 => keep((api.parallel)(bsi, none, handler)),
            5 => {
                let released = Some(release_variable as _);
                (api.state_variable)(bsi, none, text(), Some(allocate), released);
            }
            6 => {
                let block = (api.stack)(bsi, 8 + usize::from(next()), Some(release_memory));
                if !block.is_null() {
                    block.cast::<*mut c_void>().write(made());
                }
            }
            7 => {
                // one of them is refused
                let size = if next() % 2 == 0 { usize::MAX } else { 0 };
                (api.stack)(bsi, size, None);
            }
            8 => {
                let mut args = FutoInArgs { args: std::array::from_fn(|_| value()) };
                (api.success)(bsi, &raw mut args);
            }
            9 => (api.success)(bsi, ptr::null_mut()),
            10 => (api.handle_error)(bsi, text(), text()),
            11 => (api.set_timeout)(bsi, u32::from(next())),
            12 => (api.set_cancel)(bsi, none, (next() % 4 > 0).then_some(cancel as _)),
            13 => (api.wait_external)(bsi),
            14 => (api.make_loop)(bsi, none, Some(iterate), text()),
            15 => (api.repeat)(bsi, none, usize::from(next() % 8), Some(repeat), text()),
            16 => (api.break_loop)(bsi, text()),
            17 => (api.continue_loop)(bsi, text()),
            18..=19 => (api.execute)(bsi, none, handler),
            20 => (api.cancel)(bsi),
            21..=22 => (api.add_sync)(bsi, sync, none, body, handler),
            23 => {
                (api.root_id)(bsi);
            }
            24 => {
                (api.is_valid)(bsi);
            }
            25 => keep((api.new_instance)(bsi)),
            26 => (api.free)(bsi),
            27 => keep_handle((api.sched_immediate)(bsi, none, Some(scheduled))),
            28 => {
                let delay = u32::from(next());
                keep_handle((api.sched_deferred)(bsi, delay, none, Some(scheduled)));
            }
            29 => (api.sched_cancel)(bsi, &raw mut handle),
            30 => {
                (api.sched_is_valid)(bsi, &raw mut handle);
            }
            31 => {
                (api.is_same_thread)(bsi);
            }
            32 if next() % 2 == 0 => keep(flow(event_loop)),
            32 => keep(asyncsteps_root_new(event_loop)),
            33 => keep_sync(match next() % 4 {
                3 => pointer(),
                0 => asyncsteps_mutex_new(u32::from(next() % 3), u32::from(next() % 3)),
                1 => asyncsteps_throttle_new(event_loop, 1, u32::from(next()), 1),
                _ => asyncsteps_limiter_new(event_loop, 1, 1, 1, u32::from(next()), 1),
            }),
            34 => match next() % 8 {
                0 | 1 => {
                    asyncsteps_sync_free(sync);
                }
                2 => drop(WORLD.with_borrow_mut(|world| world.pointers.pop())),
                _ => {}
            },
            _ => {
                // refused inside of a callback
                asyncsteps_loop_iterate(event_loop);
                if next() % 8 == 0 {
                    asyncsteps_loop_free(ptr::without_provenance_mut(usize::from(next())));
                }
            }
        }
    }
}

unsafe extern "C" fn quiet(_: *mut c_void, _: *const c_char) {}

fuzz_target!(|input: &[u8]| {
    // SAFETY: it needs no data
    unsafe { asyncsteps_set_log(Some(quiet), ptr::null_mut()) };
    let event_loop = asyncsteps_loop_new(2);
    WORLD.set(World {
        input: input.to_vec(),
        event_loop: Some(event_loop),
        steps: vec![asyncsteps_root_new(event_loop)],
        syncs: vec![asyncsteps_mutex_new(1, 1)],
        ..World::default()
    });
    while !is_over() {
        act(8);
        if next() % 16 == 0 && WORLD.with_borrow(|world| world.callbacks) > CALLBACKS {
            break;
        }
    }
    let rounds = (0..ROUNDS).take_while(|_| asyncsteps_loop_iterate(event_loop) == 0);
    if rounds.count() == 0 && asyncsteps_loop_iterate(ptr::null_mut()) == -2 {
        assert_eq!(asyncsteps_loop_run(ptr::null_mut()), -1);
    }
    // the input is over by now: whatever still runs does nothing
    WORLD.with_borrow_mut(|world| world.at = usize::MAX / 2);
    assert_eq!(asyncsteps_loop_free(event_loop), 0);
    let World { steps, syncs, pointers, .. } = WORLD.take();
    WORLD.set(World { steps: steps.clone(), ..World::default() });
    for steps in steps.into_iter().filter(|steps| !steps.is_null()) {
        // SAFETY: handles stay readable
        let api = unsafe { *(*steps).api };
        // SAFETY: a root is freed, anything else is refused
        unsafe { (api.free)(steps) };
    }
    for sync in syncs {
        // SAFETY: null, or of the library
        unsafe { asyncsteps_sync_free(sync) };
    }
    drop(pointers);
    WORLD.take();
    assert_eq!(LIVE.get(), 0, "everything is released once");
});
