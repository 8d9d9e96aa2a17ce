//! From Rust outwards: what foreign code does with the interface of a flow in Rust.
#![expect(unsafe_code, reason = "the tests stand in for foreign code")]

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;

use asyncsteps_core::sync::{ISync, Section};
use asyncsteps_core::{
    AsyncSteps, Flow, Outcome, Progress, StepResult, Template, Time, codes, run_to_end,
};
use asyncsteps_ffi::abi::{
    FutoInArgs, FutoInAsyncSteps, FutoInAsyncStepsAPI, FutoInSync, FutoInSyncAPI,
};
use asyncsteps_ffi::exports::{
    asyncsteps_loop_free, asyncsteps_loop_new, asyncsteps_loop_run, asyncsteps_root_new, host,
};
use asyncsteps_ffi::{Binary, BinaryStep, BinarySync, SyncPointer, Value, into_root};

type Bsi = *mut FutoInAsyncSteps;

fn api(bsi: Bsi) -> FutoInAsyncStepsAPI {
    // SAFETY: handles stay readable
    let api = unsafe { (*bsi).api };
    // SAFETY: as above
    unsafe { *api }
}

/// A foreign step that gives on what it got.
unsafe extern "C" fn echo(bsi: Bsi, _: *mut c_void, args: *const FutoInArgs) {
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(bsi).success)(bsi, args.cast_mut()) };
}

unsafe extern "C" fn fail(bsi: Bsi, _: *mut c_void, _: *const FutoInArgs) {
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(bsi).handle_error)(bsi, c"MyError".as_ptr(), c"why".as_ptr()) };
}

unsafe extern "C" fn recover(bsi: Bsi, _: *mut c_void, _: *const c_char) {
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(bsi).success)(bsi, ptr::null_mut()) };
}

unsafe extern "C" fn wait(bsi: Bsi, _: *mut c_void, _: *const FutoInArgs) {
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(bsi).wait_external)(bsi) };
}

unsafe extern "C" fn count(data: *mut c_void) {
    // SAFETY: the tests pass a counter
    unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_foreign_step_passes_values_of_any_type() {
    let object = Rc::new(Cell::new(1));
    let mut flow = Flow::new();
    flow.success_step((7u8, "text", vec![1.5f64], Rc::clone(&object)));
    flow.binary(|bsi| {
        // SAFETY: `echo` needs no data
        unsafe { (api(bsi).add)(bsi, ptr::null_mut(), Some(echo), None) };
    });
    let (number, text, list, same) =
        run_to_end::<(u64, String, Vec<f64>, Rc<Cell<i32>>)>(flow).expect("nothing fails");
    assert_eq!((number, text.as_str(), list), (7, "text", vec![1.5]));
    assert!(Rc::ptr_eq(&object, &same));
    drop(same);
    assert_eq!(Rc::strong_count(&object), 1);
}

#[test]
fn a_step_in_rust_lends_its_interface() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.add(|asi, ()| {
            asi.binary(|bsi| {
                // SAFETY: `fail` needs no data and no arguments
                unsafe { fail(bsi, ptr::null_mut(), ptr::null()) };
            });
            assert!(asi.check().is_err(), "the callback has failed");
        });
    })
    .on_error(|asi, error| asi.success((error.code().to_owned(), asi.error_info().is_some())));
    let outcome = run_to_end::<(String, bool)>(flow);
    assert_eq!(outcome.ok(), Some(("MyError".to_owned(), true)));
}

#[test]
fn a_handle_outlives_the_call_only_with_its_step() {
    let lent = Rc::new(Cell::new(ptr::null_mut()));
    let mut flow = Flow::new();
    let lends = Rc::clone(&lent);
    flow.add(move |asi, ()| {
        lends.set(asi.binary(|bsi| {
            // SAFETY: `wait` needs no data and no arguments
            unsafe { wait(bsi, ptr::null_mut(), ptr::null()) };
            bsi
        }));
    });
    let mut execution = flow.execute();
    assert!(matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Waiting));
    let bsi = lent.get();
    // SAFETY: handles stay readable
    assert_eq!(unsafe { (api(bsi).is_valid)(bsi) }, 1);
    // SAFETY: as above
    unsafe { (api(bsi).success)(bsi, ptr::null_mut()) };
    let progress = execution.run(Time::ZERO, Waker::noop());
    assert!(matches!(progress, Progress::Done(Outcome::Success(_))));
    // SAFETY: as above
    assert_eq!(unsafe { (api(bsi).is_valid)(bsi) }, 0);
}

#[test]
fn a_template_has_foreign_steps_and_releases_their_data_once() {
    let released = AtomicU32::new(0);
    let data = ptr::from_ref(&released).cast_mut().cast();
    // SAFETY: `fail` and `recover` need no data, `count` gets a counter that lives on
    let step = unsafe { BinaryStep::new(fail, Some(recover), data, Some(count)) };
    let template = Template::build(|asi| {
        step.add_to(asi);
        asi.success_step(1);
    });
    drop(step);
    for _ in 0..3 {
        assert_eq!(run_to_end::<i32>(template.flow()).ok(), Some(1));
    }
    assert_eq!(released.load(Ordering::Relaxed), 0);
    drop(template);
    assert_eq!(released.load(Ordering::Relaxed), 1);
}

#[test]
fn the_data_of_a_step_lives_until_the_last_flow_has_left_it() {
    unsafe extern "C" fn cancelled(_: Bsi, data: *mut c_void) {
        // SAFETY: the tests pass a counter
        let released = unsafe { &*data.cast::<AtomicU32>() };
        assert_eq!(released.swap(10, Ordering::Relaxed), 0, "the data is still there");
    }
    unsafe extern "C" fn wait_inside(bsi: Bsi, data: *mut c_void, _: *const FutoInArgs) {
        unsafe extern "C" fn inner(bsi: Bsi, data: *mut c_void, _: *const FutoInArgs) {
            // SAFETY: FTN12 §2.7.2
            unsafe { (api(bsi).set_cancel)(bsi, data, Some(cancelled)) };
        }
        // SAFETY: FTN12 §2.7.2
        unsafe { (api(bsi).add)(bsi, data, Some(inner), None) };
    }
    for is_template in [true, false] {
        let released = AtomicU32::new(0);
        let data = ptr::from_ref(&released).cast_mut().cast();
        // SAFETY: all of them get a counter that lives on
        let step = unsafe { BinaryStep::new(wait_inside, None, data, Some(count)) };
        let mut flow = if is_template {
            let template = Template::build(|asi| {
                step.add_to(asi);
            });
            drop(step);
            template.flow()
        } else {
            let mut flow = Flow::new();
            flow.add(move |asi, args| step.execute(asi, args));
            flow
        };
        let canceller = flow.canceller();
        let mut execution = flow.execute();
        assert!(matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Waiting));
        assert_eq!(released.load(Ordering::Relaxed), 0);
        canceller.cancel();
        assert!(matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Done(_)));
        drop(execution);
        assert_eq!(released.load(Ordering::Relaxed), 11);
    }
}

#[test]
fn a_lock_of_ours_is_an_object_for_foreign_steps_while_its_pointer_lives() {
    unsafe extern "C" fn section(bsi: Bsi, data: *mut c_void, args: *const FutoInArgs) {
        // SAFETY: the tests pass a counter
        unsafe { count(data) };
        // SAFETY: as `echo`
        unsafe { echo(bsi, data, args) };
    }
    /// Says whether it was inside, and the code if it failed.
    fn enter(sync: *mut FutoInSync) -> (u32, Result<i32, String>) {
        let entered = AtomicU32::new(0);
        let data = ptr::from_ref(&entered).cast_mut().cast();
        let mut flow = Flow::new();
        flow.success_step(7);
        flow.binary(|bsi| {
            // SAFETY: FTN12 §2.7.2
            unsafe { (api(bsi).add_sync)(bsi, sync, data, Some(section), None) };
        });
        let result = run_to_end::<i32>(flow).map_err(|error| error.code().to_owned());
        (entered.load(Ordering::Relaxed), result)
    }
    /// Lets no other step enter.
    struct Guard(AtomicU32);
    impl ISync for Guard {
        fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
            if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
                return asi.error(codes::DEFENSE_REJECTED, ());
            }
            section.enter(asi)
        }
    }
    let pointer = SyncPointer::new(Guard(AtomicU32::new(0)));
    let sync = pointer.as_ptr();
    assert_eq!(enter(sync), (1, Ok(7)));
    assert_eq!(enter(sync), (0, Err(codes::DEFENSE_REJECTED.to_owned())));
    // as another implementation would ask it for its own steps
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.binary(|bsi| {
            // SAFETY: an object starts with its table
            let api = unsafe { (*sync).api };
            // SAFETY: as above
            let FutoInSyncAPI { lock, unlock } = unsafe { *api };
            // SAFETY: FTN12 §2.7.3
            unsafe { lock(bsi, sync) };
            // SAFETY: as above
            unsafe { unlock(bsi, sync) };
        });
    });
    assert_eq!(run_to_end::<()>(flow).unwrap_err().code(), codes::INTERNAL_ERROR);
    drop(pointer);
    assert_eq!(enter(sync), (0, Err(codes::INTERNAL_ERROR.to_owned())));
}

#[test]
fn a_flow_in_rust_becomes_a_root() {
    let event_loop = asyncsteps_loop_new(2);
    let ended = Arc::new(AtomicU32::new(0));
    let mut flow = Flow::new();
    let ends = Arc::clone(&ended);
    flow.add(move |asi, ()| {
        asi.sleep(std::time::Duration::from_secs(60));
        asi.add(move |_, ()| {
            ends.fetch_add(1, Ordering::Relaxed);
        });
    });
    let root = into_root(flow, host(event_loop).expect("the loop exists"));
    // SAFETY: the root was not executed yet
    unsafe { (api(root).execute)(root, ptr::null_mut(), None) };
    assert_eq!(asyncsteps_loop_run(event_loop), 0);
    assert_eq!(ended.load(Ordering::Relaxed), 1);
    // SAFETY: the root was not freed yet
    unsafe { (api(root).free)(root) };
    assert_eq!(asyncsteps_loop_free(event_loop), 0);
    assert!(host(event_loop).is_none());
    assert!(asyncsteps_root_new(event_loop).is_null());
}

/// A synchronisation object that counts.
#[repr(C)]
struct Counting {
    base: FutoInSync,
    locked: AtomicU32,
    unlocked: AtomicU32,
    /// Whom it lets in.
    is_open: bool,
}

unsafe extern "C" fn lock(bsi: Bsi, sync: *mut FutoInSync) {
    // SAFETY: the table is that of this type
    let sync = unsafe { &*sync.cast::<Counting>() };
    sync.locked.fetch_add(1, Ordering::Relaxed);
    if !sync.is_open {
        // SAFETY: FTN12 §2.7.2
        unsafe { (api(bsi).handle_error)(bsi, c"DefenseRejected".as_ptr(), ptr::null()) };
    }
}

unsafe extern "C" fn unlock(bsi: Bsi, sync: *mut FutoInSync) {
    // SAFETY: the table is that of this type
    let sync = unsafe { &*sync.cast::<Counting>() };
    // SAFETY: FTN12 §2.7.2
    assert_ne!(unsafe { (api(bsi).root_id)(bsi) }, 0);
    sync.unlocked.fetch_add(1, Ordering::Relaxed);
}

static COUNTING: FutoInSyncAPI = FutoInSyncAPI { lock, unlock };

fn counting(is_open: bool) -> Counting {
    let base = FutoInSync { api: &raw const COUNTING };
    Counting { base, locked: AtomicU32::new(0), unlocked: AtomicU32::new(0), is_open }
}

#[test]
fn a_foreign_object_guards_steps_in_rust() {
    for (is_open, expected) in [(true, Ok(8)), (false, Err(codes::DEFENSE_REJECTED))] {
        let counting = counting(is_open);
        // SAFETY: it outlives the flow
        let sync = unsafe { BinarySync::new((&raw const counting).cast_mut().cast()) };
        let mut flow = Flow::new();
        flow.success_step(7);
        flow.sync(&sync, |asi, n: i32| asi.success(n + 1)).on_error(|asi, _| asi.success(0));
        let result = run_to_end::<i32>(flow);
        assert_eq!(result.as_ref().map_err(asyncsteps_core::Error::code).copied(), expected);
        let counts = [&counting.locked, &counting.unlocked].map(|n| n.load(Ordering::Relaxed));
        assert_eq!(counts, [1, 1]);
    }
}

#[test]
fn values_without_a_type_in_rust_arrive_as_they_are() {
    use asyncsteps_ffi::abi::{FutoInBinaryValue, FutoInType, flags};
    static OPAQUE: FutoInType = FutoInType { flags: flags::CUSTOM_OBJECT, cleanup: None };
    unsafe extern "C" fn give(bsi: Bsi, data: *mut c_void, _: *const FutoInArgs) {
        let mut args = FutoInArgs::NONE;
        args.args[0] =
            FutoInBinaryValue { kind: &raw const OPAQUE, custom_data: data, ..args.args[0] };
        // SAFETY: FTN12 §2.7.2
        unsafe { (api(bsi).success)(bsi, &raw mut args) };
    }
    let mut flow = Flow::new();
    flow.binary(|bsi| {
        let data = ptr::without_provenance_mut(5);
        // SAFETY: `give` takes any data
        unsafe { (api(bsi).add)(bsi, data, Some(give), None) };
    });
    flow.add(|asi, value: Value| asi.success(value.as_raw().custom_data.addr()));
    assert_eq!(run_to_end::<usize>(flow).ok(), Some(5));
}
