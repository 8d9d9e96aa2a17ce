//! What the binary interface costs: the same flows in Rust and through the function table.
//!
//! The callbacks are Rust functions with the calling convention of C.
#![expect(unsafe_code, reason = "the binary interface is made of pointers")]

#[path = "workloads/roots_by_hand.rs"]
mod roots_by_hand;
mod support;
#[path = "workloads/waits.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod waits;

use std::cell::RefCell;
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;

use asyncsteps_core::{AsyncSteps, Flow, run_to_end};
use asyncsteps_counted_heap::{Heap, measure};
use asyncsteps_ffi::Binary;
use asyncsteps_ffi::abi::{
    Execute, FutoInArgs, FutoInAsyncSteps, FutoInAsyncStepsAPI, FutoInBinaryValue, FutoInData,
    FutoInType, flags,
};
use asyncsteps_ffi::exports::{
    AsyncStepsLoop, asyncsteps_loop_iterate, asyncsteps_loop_new, asyncsteps_root_new,
};
use support::Bench;

/// Iterations of a loop, and steps added by one step.
const ITERATIONS: usize = 1_000;

/// Roots of one iteration.
const ROOTS: u32 = 1_000;

/// A loop that its owner iterates.
const DRIVEN: i32 = 1;

type Bsi = *mut FutoInAsyncSteps;

/// So many roots: in Rust, through the table on a loop, and by hand.
struct RootsIn {
    rust: fn(u32),
    table: fn(*mut AsyncStepsLoop, u32),
    hand: fn(u32),
}

#[global_allocator]
static HEAP: Heap = Heap;

fn main() {
    let mut bench = Bench::new("ffi_cost");
    let per = u32::try_from(ITERATIONS).unwrap_or(u32::MAX);
    let mut pair = |id: &str,
                    target: &'static str,
                    native: fn(&mut AsyncSteps),
                    binary: fn(Bsi)| {
        let by_table = move || run(move |asi| asi.binary(binary));
        let baseline = bench.add(format!("{id}, in Rust"), None, per, "", move |iterations| {
            (0..iterations).for_each(|_| run(native));
        });
        bench.add(format!("{id}, by the table"), Some(baseline), per, target, move |iterations| {
            (0..iterations).for_each(|_| by_table());
        });
        for (how, heap) in
            [("in Rust", measure(|| run(native))), ("by the table", measure(by_table))]
        {
            let each = heap.count as f64 / f64::from(per);
            bench.count(format!("{id}, {how}: allocations"), each, "", "");
        }
    };
    pair("iteration", "2 x, 20 ns", native_repeat, binary_repeat);
    pair("iteration that continues", "", native_continue, binary_continue);
    pair("add and callback", "60 ns more", native_adds, binary_adds);
    pair("add, callback, number to the next", "", native_results, binary_results);
    pair("nested add and callback", "", native_nested, binary_nested);
    let tool = asyncsteps_loop_new(DRIVEN);
    let mut roots = |id: &str, target, RootsIn { rust: native, table: binary, hand }: RootsIn| {
        let baseline = bench.add(format!("{id}, in Rust"), None, ROOTS, "", move |iterations| {
            (0..iterations).for_each(|_| native(ROOTS));
        });
        bench.add(
            format!("{id}, by the table"),
            Some(baseline),
            ROOTS,
            target,
            move |iterations| {
                (0..iterations).for_each(|_| binary(tool, ROOTS));
            },
        );
        bench.add(format!("{id}, by hand"), Some(baseline), ROOTS, "", move |iterations| {
            (0..iterations).for_each(|_| hand(ROOTS));
        });
        for (how, heap) in [
            ("in Rust", measure(|| native(ROOTS))),
            ("by the table", measure(|| binary(tool, ROOTS))),
        ] {
            let each = heap.count as f64 / f64::from(ROOTS);
            bench.count(format!("{id}, {how}: allocations"), each, "", "");
        }
    };
    roots(
        "root made, run, freed",
        "at most 2",
        RootsIn {
            rust: waits::simple_on_manual,
            table: binary_simple,
            hand: roots_by_hand::simple,
        },
    );
    roots(
        "root that waits",
        "at most 1.4",
        RootsIn { rust: waits::roots_on_manual, table: binary_waits, hand: roots_by_hand::waiting },
    );
    bench.finish();
}

/// Runs a step with this body.
fn run(body: impl FnOnce(&mut AsyncSteps) + 'static) {
    let mut flow = Flow::new();
    flow.add(move |asi, ()| body(asi));
    run_to_end::<()>(flow).expect("nothing fails here");
}

fn api(bsi: Bsi) -> FutoInAsyncStepsAPI {
    // SAFETY: it was given by the library
    let api = unsafe { (*bsi).api };
    // SAFETY: as above
    unsafe { *api }
}

fn native_repeat(asi: &mut AsyncSteps) {
    asi.repeat(ITERATIONS, |_, i| {
        black_box(i);
    });
}

fn binary_repeat(bsi: Bsi) {
    unsafe extern "C" fn body(_: Bsi, _: *mut c_void, i: usize) {
        black_box(i);
    }
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(bsi).repeat)(bsi, ptr::null_mut(), ITERATIONS, Some(body), ptr::null()) };
}

fn native_continue(asi: &mut AsyncSteps) {
    asi.repeat(ITERATIONS, |asi, i| {
        black_box(i);
        asi.continue_loop(None)
    });
}

fn binary_continue(bsi: Bsi) {
    unsafe extern "C" fn body(bsi: Bsi, _: *mut c_void, i: usize) {
        black_box(i);
        // SAFETY: FTN12 §2.7.2
        unsafe { (api(bsi).continue_loop)(bsi, ptr::null()) };
    }
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(bsi).repeat)(bsi, ptr::null_mut(), ITERATIONS, Some(body), ptr::null()) };
}

fn native_adds(asi: &mut AsyncSteps) {
    for i in 0..ITERATIONS {
        asi.add(move |_, ()| {
            black_box(i);
        });
    }
}

fn binary_adds(bsi: Bsi) {
    unsafe extern "C" fn step(_: Bsi, data: *mut c_void, _: *const FutoInArgs) {
        black_box(data);
    }
    for i in 0..ITERATIONS {
        // SAFETY: FTN12 §2.7.2
        unsafe { (api(bsi).add)(bsi, ptr::without_provenance_mut(i), Some(step), None) };
    }
}

fn native_results(asi: &mut AsyncSteps) {
    asi.success_step(0);
    for _ in 0..ITERATIONS {
        asi.add(|asi, n: i32| asi.success(black_box(n) + 1));
    }
}

static INT32: FutoInType = FutoInType { flags: flags::INT32, cleanup: None };

fn binary_results(bsi: Bsi) {
    unsafe extern "C" fn step(bsi: Bsi, _: *mut c_void, args: *const FutoInArgs) {
        // SAFETY: FTN12 §2.7.2
        let args = unsafe { &*args };
        let n = black_box(i32::from_ne_bytes(args.args[0].data.bytes()));
        let mut result = FutoInArgs::NONE;
        let data = FutoInData::of((n + 1).to_ne_bytes());
        result.args[0] = FutoInBinaryValue { kind: &raw const INT32, data, ..result.args[0] };
        // SAFETY: FTN12 §2.7.2
        unsafe { (api(bsi).success)(bsi, &raw mut result) };
    }
    for _ in 0..=ITERATIONS {
        // SAFETY: FTN12 §2.7.2
        unsafe { (api(bsi).add)(bsi, ptr::null_mut(), Some(step), None) };
    }
}

fn native_nested(asi: &mut AsyncSteps) {
    fn nest(asi: &mut AsyncSteps, left: usize) {
        if black_box(left) > 0 {
            asi.add(move |asi, ()| nest(asi, left - 1));
        }
    }
    nest(asi, ITERATIONS);
}

fn binary_nested(bsi: Bsi) {
    unsafe extern "C" fn step(bsi: Bsi, data: *mut c_void, _: *const FutoInArgs) {
        if black_box(data).addr() > 0 {
            let left = ptr::without_provenance_mut(data.addr() - 1);
            // SAFETY: FTN12 §2.7.2
            unsafe { (api(bsi).add)(bsi, left, Some(step), None) };
        }
    }
    let left = ptr::without_provenance_mut(ITERATIONS);
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(bsi).add)(bsi, left, Some(step), None) };
}

/// A root with these steps, started.
fn start(tool: *mut AsyncStepsLoop, steps: &[Execute]) -> Bsi {
    let root = asyncsteps_root_new(tool);
    for step in steps {
        // SAFETY: FTN12 §2.7.2
        unsafe { (api(root).add)(root, ptr::null_mut(), Some(*step), None) };
    }
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(root).execute)(root, ptr::null_mut(), None) };
    root
}

/// Runs the loop until nothing is left to do, and frees a root that has ended.
fn end(tool: *mut AsyncStepsLoop, root: Bsi) {
    while asyncsteps_loop_iterate(tool) == 0 {}
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(root).free)(root) };
}

/// One root after the other, each with an empty step.
fn binary_simple(tool: *mut AsyncStepsLoop, roots: u32) {
    unsafe extern "C" fn step(_: Bsi, data: *mut c_void, _: *const FutoInArgs) {
        black_box(data);
    }
    for _ in 0..roots {
        end(tool, start(tool, &[step]));
    }
}

thread_local! {
    /// The steps that wait.
    static WAITING: RefCell<Vec<Bsi>> = const { RefCell::new(Vec::new()) };
}

/// Roots with a step that waits for a number, and one that takes it; all are completed, then the loop runs them to
/// their end.
fn binary_waits(tool: *mut AsyncStepsLoop, roots: u32) {
    unsafe extern "C" fn wait(bsi: Bsi, _: *mut c_void, _: *const FutoInArgs) {
        // SAFETY: FTN12 §2.7.2
        unsafe { (api(bsi).wait_external)(bsi) };
        WAITING.with_borrow_mut(|waiting| waiting.push(bsi));
    }
    unsafe extern "C" fn take(_: Bsi, _: *mut c_void, args: *const FutoInArgs) {
        // SAFETY: FTN12 §2.7.2
        black_box(i32::from_ne_bytes(unsafe { (*args).args[0].data.bytes() }));
    }
    let roots: Vec<Bsi> = (0..roots).map(|_| start(tool, &[wait, take])).collect();
    while asyncsteps_loop_iterate(tool) == 0 {}
    let waiting = WAITING.take();
    assert_eq!(waiting.len(), roots.len());
    for bsi in waiting {
        let mut result = FutoInArgs::NONE;
        let data = FutoInData::of(1_i32.to_ne_bytes());
        result.args[0] = FutoInBinaryValue { kind: &raw const INT32, data, ..result.args[0] };
        // SAFETY: FTN12 §2.7.2
        unsafe { (api(bsi).success)(bsi, &raw mut result) };
    }
    for root in roots {
        end(tool, root);
    }
}
