//! Loops with threads of their own, and threads that know nothing but handles: for the sanitizers,
//! which see the memory that they share.
#![expect(unsafe_code, reason = "the tests stand in for foreign code")]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{ptr, thread};

use asyncsteps_ffi::abi::{FutoInArgs, FutoInAsyncSteps, FutoInAsyncStepsAPI, FutoInSync};
use asyncsteps_ffi::exports::{
    asyncsteps_is_over, asyncsteps_loop_free, asyncsteps_loop_new, asyncsteps_mutex_new,
    asyncsteps_root_new, asyncsteps_sync_free,
};

type Bsi = *mut FutoInAsyncSteps;

const LOOPS: usize = 3;
const ROOTS: usize = 4;
const ROUNDS: usize = 20;

fn api(bsi: Bsi) -> FutoInAsyncStepsAPI {
    // SAFETY: handles stay readable
    let api = unsafe { (*bsi).api };
    // SAFETY: as above
    unsafe { *api }
}

/// What FTN12 lets any thread use.
#[derive(Clone, Copy)]
struct Anywhere(Bsi);

// SAFETY: what other threads do with it FTN12 allows there
unsafe impl Send for Anywhere {}

impl Anywhere {
    fn get(self) -> Bsi {
        self.0
    }
}

/// What all flows share.
struct Shared {
    mutex: *mut FutoInSync,
    /// Changed inside of the mutex only.
    entries: UnsafeCell<u64>,
    cancelled: AtomicUsize,
}

/// # Safety
/// `data` is what all flows share.
unsafe fn shared<'a>(data: *mut c_void) -> &'a Shared {
    // SAFETY: the caller's promise; it outlives the flows
    unsafe { &*data.cast::<Shared>() }
}

unsafe extern "C" fn round(bsi: Bsi, data: *mut c_void, _: usize) {
    // SAFETY: it is
    let Shared { mutex, .. } = unsafe { shared(data) };
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(bsi).add_sync)(bsi, *mutex, data, Some(section), None) };
}

unsafe extern "C" fn section(bsi: Bsi, data: *mut c_void, _: *const FutoInArgs) {
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(bsi).wait_external)(bsi) };
    let step = Anywhere(bsi);
    thread::spawn(move || {
        // SAFETY: FTN12 §2.7.2
        unsafe { (api(step.get()).success)(step.get(), ptr::null_mut()) };
    });
    // SAFETY: it is
    let Shared { entries, .. } = unsafe { shared(data) };
    // SAFETY: only one step is inside of the mutex
    unsafe { *entries.get() += 1 };
}

unsafe extern "C" fn wait(bsi: Bsi, data: *mut c_void, _: *const FutoInArgs) {
    unsafe extern "C" fn cancelled(_: Bsi, data: *mut c_void) {
        // SAFETY: it is
        let Shared { cancelled, .. } = unsafe { shared(data) };
        cancelled.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(bsi).set_cancel)(bsi, data, Some(cancelled)) };
}

#[test]
fn flows_on_several_loops_share_a_mutex_and_are_completed_and_freed_by_other_threads() {
    let (mutex, entries) = (asyncsteps_mutex_new(1, u32::MAX), UnsafeCell::new(0));
    let all = Shared { mutex, entries, cancelled: AtomicUsize::new(0) };
    let data: *mut c_void = ptr::from_ref(&all).cast_mut().cast();
    let loops = [(); LOOPS].map(|()| asyncsteps_loop_new(0));
    let roots: Vec<Bsi> =
        (0..LOOPS * ROOTS).map(|i| asyncsteps_root_new(loops[i % LOOPS])).collect();
    for root in &roots {
        let (api, root) = (api(*root), *root);
        // SAFETY: FTN12 §2.7.2
        unsafe { (api.repeat)(root, data, ROUNDS, Some(round), ptr::null()) };
        // SAFETY: as above
        unsafe { (api.execute)(root, ptr::null_mut(), None) };
    }
    for root in &roots {
        // SAFETY: FTN12 §2.7.2
        while unsafe { asyncsteps_is_over(*root) } == 0 {
            thread::yield_now();
        }
    }
    // flows that wait are cancelled, or were not begun
    let waiting: Vec<Bsi> =
        loops.iter().map(|event_loop| asyncsteps_root_new(*event_loop)).collect();
    for root in &waiting {
        // SAFETY: FTN12 §2.7.2
        unsafe { (api(*root).add)(*root, data, Some(wait), None) };
        // SAFETY: as above
        unsafe { (api(*root).execute)(*root, ptr::null_mut(), None) };
    }
    let frees: Vec<_> = roots
        .into_iter()
        .chain(waiting)
        .map(|root| {
            let root = Anywhere(root);
            // SAFETY: FTN12 §2.7.2
            thread::spawn(move || unsafe { (api(root.get()).free)(root.get()) })
        })
        .collect();
    for free in frees {
        free.join().expect("no panic");
    }
    for event_loop in loops {
        assert_eq!(asyncsteps_loop_free(event_loop), 0);
    }
    // SAFETY: made above
    assert_eq!(unsafe { asyncsteps_sync_free(mutex) }, 0);
    assert_eq!(all.entries.into_inner(), (LOOPS * ROOTS * ROUNDS) as u64);
    assert!(all.cancelled.into_inner() <= LOOPS);
}
