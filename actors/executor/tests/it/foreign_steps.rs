//! Foreign steps in flows on arbiters: their event loop, their limits and their end, in virtual time.
#![expect(unsafe_code, reason = "the tests stand in for foreign code")]

use std::ffi::{CStr, c_char, c_void};
use std::num::NonZeroUsize;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex as Shared};
use std::time::Duration;

use asyncsteps_actors::ffi::abi::{
    FutoInArgs, FutoInAsyncSteps, FutoInAsyncStepsAPI, FutoInHandle,
};
use asyncsteps_actors::ffi::{Binary, BinaryStep, SyncPointer, wrap};
use asyncsteps_actors::flow::{IntoFlow, start_flow};
use asyncsteps_actors::pool::ArbiterPool;
use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::{AsyncSteps, Template, codes};
use asyncsteps_executor::Executor;
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_ffi::exports::asyncsteps_is_over;
use serde_json::{Value, json};

type Bsi = *mut FutoInAsyncSteps;

const HOUR: u32 = 3_600_000;

fn api(bsi: Bsi) -> FutoInAsyncStepsAPI {
    // SAFETY: handles stay readable
    let api = unsafe { (*bsi).api };
    // SAFETY: as above
    unsafe { *api }
}

/// A foreign step that calls a closure, which it owns.
fn step<F: Fn(Bsi) + Send + Sync + 'static>(call: F) -> BinaryStep {
    unsafe extern "C" fn execute<F: Fn(Bsi)>(bsi: Bsi, data: *mut c_void, _: *const FutoInArgs) {
        // SAFETY: `step` gives a closure that lives until `release`
        let call = unsafe { &*data.cast::<F>() };
        call(bsi);
    }
    unsafe extern "C" fn release<F>(data: *mut c_void) {
        // SAFETY: as above; this is called once
        drop(unsafe { Box::from_raw(data.cast::<F>()) });
    }
    let data = Box::into_raw(Box::new(call)).cast();
    // SAFETY: the closure is for any thread
    unsafe { BinaryStep::new(execute::<F>, None, data, Some(release::<F>)) }
}

fn template(call: impl Fn(Bsi) + Send + Sync + 'static) -> Template {
    let step = step(call);
    Template::build(|asi| {
        step.add_to(asi);
    })
}

/// The functions of the table, as these tests use them.
fn success(bsi: Bsi) {
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(bsi).success)(bsi, ptr::null_mut()) };
}

fn wait(bsi: Bsi) {
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(bsi).wait_external)(bsi) };
}

fn deferred(bsi: Bsi, ms: u32) -> FutoInHandle {
    unsafe extern "C" fn complete(bsi: *mut c_void) {
        success(bsi.cast());
    }
    // SAFETY: FTN12 §2.7.2; the step waits for it
    unsafe { (api(bsi).sched_deferred)(bsi, ms, bsi.cast(), Some(complete)) }
}

/// Counts when the step is cancelled.
fn count_cancel(bsi: Bsi, count: &'static AtomicU32) {
    unsafe extern "C" fn cancelled(_: Bsi, count: *mut c_void) {
        // SAFETY: it is a counter that lives on
        unsafe { &*count.cast::<AtomicU32>() }.fetch_add(1, Ordering::SeqCst);
    }
    let count = ptr::from_ref(count).cast_mut().cast();
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(bsi).set_cancel)(bsi, count, Some(cancelled)) };
}

fn count(of: &AtomicU32) -> u32 {
    of.load(Ordering::SeqCst)
}

/// A new flow on the event loop of a step, with one step.
fn new_instance(bsi: Bsi, call: impl FnOnce(Bsi) + 'static) -> Bsi {
    // SAFETY: FTN12 §2.7.2
    let root = unsafe { (api(bsi).new_instance)(bsi) };
    let body = move |asi: &mut AsyncSteps, ()| asi.binary(call);
    // SAFETY: the root was just made
    unsafe { wrap(root, body) }.expect("it is of this library");
    root
}

/// Executes a root; an error that ends it is logged.
fn execute(root: Bsi) {
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(root).execute)(root, ptr::null_mut(), None) };
}

fn free(root: Bsi) {
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(root).free)(root) };
}

fn is_over(bsi: Bsi) -> bool {
    // SAFETY: FTN12 §2.7.2
    unsafe { asyncsteps_is_over(bsi) == 1 }
}

/// Carries a handle to where FTN12 lets it be used.
#[derive(Clone, Copy)]
struct Anywhere(Bsi);

// SAFETY: what other threads do with it FTN12 allows there
unsafe impl Send for Anywhere {}
// SAFETY: as above
unsafe impl Sync for Anywhere {}

impl Anywhere {
    fn get(self) -> Bsi {
        self.0
    }
}

#[actix::test]
async fn a_foreign_step_waits_for_a_timer_of_its_arbiter() {
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let waits = template(|bsi| {
        // SAFETY: FTN12 §2.7.2
        assert_eq!(unsafe { (api(bsi).is_same_thread)(bsi) }, 1);
        wait(bsi);
        let mut never = deferred(bsi, 1);
        // SAFETY: FTN12 §2.7.2
        unsafe { (api(bsi).sched_cancel)(bsi, &raw mut never) };
        deferred(bsi, HOUR);
    });
    start_flow::<()>(&waits).await.expect("it is completed");
    assert!(start.elapsed() >= Duration::from_secs(3600));
}

#[actix::test]
async fn another_thread_completes_a_foreign_step_and_schedules_on_its_arbiter() {
    let waits = template(|bsi| {
        wait(bsi);
        let step = Anywhere(bsi);
        std::thread::spawn(move || {
            // SAFETY: FTN12 §2.7.2
            assert_eq!(unsafe { (api(step.get()).is_same_thread)(step.get()) }, 0);
            deferred(step.get(), 0);
        });
    });
    start_flow::<()>(&waits).await.expect("it is completed");
}

#[actix::test]
async fn flows_of_foreign_code_inherit_the_deadline_and_begin_after_the_turn() {
    static CANCELLED: AtomicU32 = AtomicU32::new(0);
    static ERROR: Shared<String> = Shared::new(String::new());
    unsafe extern "C" fn keep(_: Bsi, _: *mut c_void, code: *const c_char) {
        // SAFETY: a code ends with NUL
        let code = unsafe { CStr::from_ptr(code) };
        *ERROR.lock().expect("no panic") = code.to_string_lossy().into_owned();
    }
    tokio::time::pause();
    let root = Arc::new(Shared::new(None));
    let keeps = Arc::clone(&root);
    let launches = template(move |bsi| {
        let new = new_instance(bsi, move |bsi| {
            count_cancel(bsi, &CANCELLED);
            wait(bsi);
        });
        // SAFETY: FTN12 §2.7.2
        unsafe { (api(new).execute)(new, ptr::null_mut(), Some(keep)) };
        assert!(!is_over(new));
        *keeps.lock().expect("no panic") = Some(Anywhere(new));
    });
    let flow = start_flow::<()>(launches.within(Duration::from_secs(60)));
    flow.await.expect("it does not wait for the other flow");
    let root = root.lock().expect("no panic").expect("it was made");
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert!(!is_over(root.get()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(is_over(root.get()));
    assert_eq!((count(&CANCELLED), &**ERROR.lock().expect("no panic")), (1, codes::TIMEOUT));
    free(root.get());
}

#[test]
fn the_end_of_a_host_cancels_flows_of_foreign_code() {
    static CANCELLED: AtomicU32 = AtomicU32::new(0);
    let root = actix_rt::System::new().block_on(async {
        let pool = ArbiterPool::new(NonZeroUsize::MIN);
        let (sender, made) = tokio::sync::oneshot::channel();
        let sender = Shared::new(Some(sender));
        let launches = template(move |bsi| {
            let sender = sender.lock().expect("no panic").take().expect("one flow");
            let new = new_instance(bsi, move |bsi| {
                count_cancel(bsi, &CANCELLED);
                let _ = sender.send(Anywhere(bsi));
            });
            execute(new);
        });
        pool.submit_anywhere::<()>(launches).await.expect("nothing fails");
        let root = made.await.expect("it waits");
        assert_eq!((pool.load(), count(&CANCELLED)), (vec![Some(1)], 0));
        assert_eq!(pool.shutdown(Duration::ZERO).await.cancelled, 1);
        root
    });
    assert_eq!(count(&CANCELLED), 1);
    assert!(is_over(root.get()));
}

#[actix::test]
async fn to_free_a_root_that_runs_cancels_it_at_once() {
    static CANCELLED: AtomicU32 = AtomicU32::new(0);
    let left = Arc::new(Shared::new(None));
    let leaves = Arc::clone(&left);
    let frees = template(move |bsi| {
        wait(bsi);
        let running = new_instance(bsi, move |bsi| count_cancel(bsi, &CANCELLED));
        execute(running);
        let step = Anywhere(bsi);
        let frees = new_instance(bsi, move |bsi| {
            count_cancel(bsi, &CANCELLED);
            free(running);
            assert_eq!((is_over(running), count(&CANCELLED)), (true, 1));
            success(step.get());
        });
        execute(frees);
        *leaves.lock().expect("no panic") = Some(Anywhere(frees));
    });
    // a step that panics does not complete the one that waits
    tokio::time::pause();
    let freed = start_flow::<()>((&frees).within(Duration::from_secs(60)));
    freed.await.expect("it is completed");
    let left = left.lock().expect("no panic").take().expect("it was made");
    // another thread has the arbiter do it
    std::thread::spawn(move || free(left.get())).join().expect("no panic");
    assert!(!is_over(left.get()));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(is_over(left.get()));
    assert_eq!(count(&CANCELLED), 2);
}

const DEFINITION: &str = r#"{
    "iface": "test.foreign", "version": "1.0", "ftn3rev": "1.9",
    "funcs": { "run": { "result": { "ok": "boolean" }, "throws": ["OutOfStock"] } },
    "requires": ["AllowAnonymous"]
}"#;

/// Calls a function of an executor with this business logic; gives the result or the code.
async fn request(logic: Template) -> Result<Value, String> {
    let source = Source::texts([("test.foreign-1.0-iface.json", DEFINITION)]);
    let id = "test.foreign:1.0".parse().expect("a name");
    let definition = Loader::new([source]).load(&id).expect("a definition");
    let executor = Executor::builder()
        .interface(definition, |functions| {
            functions.others_not_implemented();
            functions.add("run", &logic);
        })
        .build()
        .expect("a right configuration");
    drop(logic);
    let result = executor.call_as_system::<Value>("test.foreign:1.0:run", json!({})).await;
    assert_eq!(executor.in_flight_count(), 0);
    result.map_err(|error| error.code().to_owned())
}

#[actix::test]
async fn a_request_that_takes_too_long_is_cancelled_in_its_foreign_step() {
    tokio::time::pause();
    static CANCELLED: AtomicU32 = AtomicU32::new(0);
    let released = Arc::new(());
    let data = Arc::clone(&released);
    let waits = template(move |bsi| {
        let _data = &data;
        count_cancel(bsi, &CANCELLED);
        deferred(bsi, HOUR);
    });
    assert_eq!(request(waits).await, Err(codes::INTERNAL_ERROR.to_owned()));
    assert_eq!((count(&CANCELLED), Arc::strong_count(&released)), (1, 1));
}

#[actix::test]
async fn a_request_fails_with_the_code_of_its_foreign_step() {
    let fails = template(|bsi| {
        // SAFETY: FTN12 §2.7.2
        unsafe { (api(bsi).handle_error)(bsi, c"OutOfStock".as_ptr(), c"no apples".as_ptr()) };
    });
    assert_eq!(request(fails).await, Err("OutOfStock".to_owned()));
}

#[actix::test]
async fn foreign_steps_and_ours_take_turns_with_one_lock() {
    unsafe extern "C" fn section(bsi: Bsi, entries: *mut c_void, _: *const FutoInArgs) {
        // SAFETY: it is a counter that lives on
        let entries = unsafe { &*entries.cast::<AtomicU32>() };
        entries.fetch_add(1, Ordering::SeqCst);
        wait(bsi);
        deferred(bsi, 10);
    }
    tokio::time::pause();
    static ENTRIES: AtomicU32 = AtomicU32::new(0);
    let mutex = Mutex::new(Default::default());
    let pointer = SyncPointer::new(mutex.clone());
    let ours = Template::build(|asi| {
        asi.sync(&mutex, move |asi, ()| {
            let before = count(&ENTRIES);
            asi.sleep(Duration::from_millis(10));
            asi.add(move |_, ()| assert_eq!(count(&ENTRIES), before, "nobody else is inside"));
        });
    });
    let foreign = template(move |bsi| {
        let (lock, entries) = (pointer.as_ptr(), ptr::from_ref(&ENTRIES).cast_mut().cast());
        // SAFETY: FTN12 §2.7.2
        unsafe { (api(bsi).add_sync)(bsi, lock, entries, Some(section), None) };
    });
    let start = tokio::time::Instant::now();
    let flows: Vec<_> =
        [&ours, &foreign, &ours, &foreign].into_iter().map(start_flow::<()>).collect();
    for flow in flows {
        flow.await.expect("nothing fails");
    }
    assert_eq!(count(&ENTRIES), 2);
    assert!(start.elapsed() >= Duration::from_millis(40), "one after the other");
}
