//! Roots behind C functions, written by hand: what a root through a function table costs at least.
//!
//! Each call contains panics and finds its root by a number that is never used twice, because foreign code may be late.
//! All is on one thread: no other one may complete, cancel or look at anything, and there are no variables, errors, time
//! and memory of foreign code.
#![expect(unsafe_code, reason = "steps of foreign code are called")]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::task::Waker;

use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{Completion, Flow, Time};

type Step = unsafe extern "C" fn(usize, *mut c_void);

/// The roots of a thread, and their loop.
struct Roots {
    tool: Manual,
    count: usize,
    roots: HashMap<usize, Root>,
}

#[derive(Default)]
struct Root {
    flow: Option<Flow>,
    waiting: Option<Completion>,
}

thread_local! {
    static ROOTS: RefCell<Roots> = RefCell::new(Roots {
        tool: Manual::new(Time::ZERO),
        count: 0,
        roots: HashMap::new(),
    });
}

fn with_roots<R: Default>(run: impl FnOnce(&mut Roots) -> R) -> R {
    let run = || ROOTS.with_borrow_mut(run);
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_default()
}

extern "C" fn root_new() -> usize {
    with_roots(|roots| {
        roots.count += 1;
        roots.roots.insert(roots.count, Root { flow: Some(Flow::new()), waiting: None });
        roots.count
    })
}

extern "C" fn root_add(root: usize, data: *mut c_void, step: Step) {
    with_roots(|roots| {
        let flow = roots.roots.get_mut(&root).and_then(|root| root.flow.as_mut())?;
        // SAFETY: the function is one of this file
        flow.add(move |_, ()| unsafe { step(root, data) });
        Some(())
    });
}

extern "C" fn root_wait(root: usize) {
    with_roots(|roots| {
        let flow = roots.roots.get_mut(&root).and_then(|root| root.flow.as_mut())?;
        flow.add(move |asi, ()| {
            let wait = asi.wait_external();
            with_roots(|roots| roots.roots.entry(root).or_default().waiting = Some(wait));
        });
        flow.add(|_, n: i32| {
            black_box(n);
        });
        Some(())
    });
}

extern "C" fn root_success(root: usize, result: i32) {
    let waiting = with_roots(|roots| roots.roots.get_mut(&root)?.waiting.take());
    // one that waits takes it
    let _ = waiting.map(|waiting| waiting.success(result));
}

extern "C" fn root_execute(root: usize) {
    with_roots(|roots| {
        let flow = roots.roots.get_mut(&root).and_then(|root| root.flow.take())?;
        flow.execute_on(&roots.tool);
        Some(())
    });
}

extern "C" fn loop_iterate() -> bool {
    let Some(tool) = with_roots(|roots| Some(roots.tool.clone())) else { return false };
    let iterate = || tool.iterate(tool.now(), Waker::noop()).is_some();
    catch_unwind(AssertUnwindSafe(iterate)).unwrap_or_default()
}

extern "C" fn root_free(root: usize) {
    with_roots(|roots| drop(roots.roots.remove(&root)));
}

/// One root after the other, each with an empty step.
pub(crate) fn simple(roots: u32) {
    unsafe extern "C" fn step(_: usize, data: *mut c_void) {
        black_box(data);
    }
    for _ in 0..roots {
        let root = black_box(root_new as extern "C" fn() -> usize)();
        root_add(root, ptr::null_mut(), step);
        root_execute(root);
        while loop_iterate() {}
        root_free(root);
    }
}

/// Roots that wait for a number; all are completed, then the loop runs them to their end.
pub(crate) fn waiting(roots: u32) {
    let start = |_| {
        let root = root_new();
        root_wait(root);
        root_execute(root);
        root
    };
    let roots: Vec<usize> = (0..roots).map(start).collect();
    while loop_iterate() {}
    roots.iter().for_each(|root| root_success(*root, 1));
    for root in roots {
        while loop_iterate() {}
        root_free(root);
    }
}
