//! What the binary interface costs: the same flow in Rust and through the function table.
//!
//! The callbacks are Rust functions with the calling convention of C.
#![expect(unsafe_code, reason = "the binary interface is made of pointers")]

mod support;

use std::cell::Cell;
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;

use asyncsteps::tool::{AsyncTool, Manual};
use asyncsteps::{AsyncSteps, Flow, Time, run_to_end};
use asyncsteps_ffi::Binary;
use asyncsteps_ffi::abi::{FutoInArgs, FutoInAsyncSteps, FutoInAsyncStepsAPI};
use support::Bench;

/// Iterations of a loop, and steps added by one step.
const ITERATIONS: usize = 1_000;

type Bsi = *mut FutoInAsyncSteps;

fn main() {
    let mut bench = Bench::new("ffi_cost");
    let per = u32::try_from(ITERATIONS).unwrap_or(u32::MAX);
    let mut pair = |id: &str, target: &'static str, native: fn(&mut AsyncSteps), binary: fn(Bsi)| {
        let baseline = bench.add(format!("{id}, in Rust"), None, per, "", move |iterations| {
            (0..iterations).for_each(|_| run(native));
        });
        bench.add(format!("{id}, by the table"), Some(baseline), per, target, move |iterations| {
            (0..iterations).for_each(|_| run(move |asi| asi.binary(binary)));
        });
    };
    pair("iteration", "2 x, 20 ns", native_repeat, binary_repeat);
    pair("iteration with an argument check", "", native_checked, binary_checked);
    pair("add and callback", "60 ns more", native_adds, binary_adds);
    pair("add, callback, success with a number", "", native_results, binary_results);
    pair("nested add and callback", "", native_nested, binary_nested);
    bench.finish();
}
