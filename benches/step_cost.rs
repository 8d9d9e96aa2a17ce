//! What steps cost: each workload beside the same work as direct calls through boxed closures.
//!
//! The targets come from the best of the C++ and JavaScript implementations on this kind of
//! machine, in nanoseconds per instance or iteration.

#[path = "workloads/steps.rs"]
mod steps;
mod support;

use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::rc::Rc;
use std::task::Waker;

use asyncsteps_core::{Completion, Execution, Flow, Progress, Time};
use asyncsteps_counted_heap::{Heap, measure};
use steps::{Fixture, WORKLOADS, Workload};
use support::Bench;

/// The same by hand, and the target of the workload, in their order.
const BY_HAND: [(fn(), &str); WORKLOADS.len()] = [
    (simple_by_hand, "30 (JS 69)"),
    (ten_by_hand, "150 (C++ 563)"),
    (template_by_hand, "110 (C++ 501)"),
    (nested_by_hand, "75 (248)"),
    (error_by_hand, "90 (4508)"),
    (parallel_by_hand, "220 (3687)"),
    (repeat_by_hand, "6 (12)"),
    (sync_by_hand, "70 (472)"),
];

/// Roots that wait at the same time.
const ROOTS: u32 = 30_000;

/// Iterations of a loop.
const ITERATIONS: u32 = 1_000;

#[global_allocator]
static HEAP: Heap = Heap;

fn main() {
    let fixture = Fixture::new();
    let mut bench = Bench::new("step_cost");
    for (Workload { id, run, per }, (direct, target)) in WORKLOADS.iter().zip(BY_HAND) {
        let by_hand = bench.add(format!("{id}, by hand"), None, *per, "", move |iterations| {
            (0..iterations).for_each(|_| direct());
        });
        bench.add(*id, Some(by_hand), *per, target, |iterations| {
            (0..iterations).for_each(|_| run(&fixture));
        });
        let heap = measure(|| run(&fixture));
        bench.count(format!("{id}: allocations"), heap.count as f64, "", "");
        bench.count(format!("{id}: allocated"), heap.bytes as f64, "bytes", "");
    }
    add_waiting(&mut bench);
    bench.finish();
}

/// The workloads that wait, and what a waiting flow holds.
fn add_waiting(bench: &mut Bench<'_>) {
    let by_hand = bench.add("waiting, by hand", None, ROOTS, "", |iterations| {
        (0..iterations).for_each(|_| waiting_by_hand(ROOTS));
    });
    bench.add("waiting, per root", Some(by_hand), ROOTS, "200 (JS 1016)", |iterations| {
        (0..iterations).for_each(|_| waiting(ROOTS));
    });
    let mut loopers = HandLoopers::new(ROOTS);
    let by_hand = bench.add("wait loop, by hand", None, ROOTS, "", move |iterations| {
        (0..iterations).for_each(|_| loopers.round());
    });
    let mut loopers = Loopers::new(ROOTS);
    bench.add("wait loop, per iteration", Some(by_hand), ROOTS, "90 (255)", move |iterations| {
        (0..iterations).for_each(|_| loopers.round());
    });
    let (mut kept, slot) = (None, Slot::default());
    let heap = measure(|| kept = Some(Box::new(waiting_root(&slot))));
    bench.count("waiting flow, two queued: heap", heap.bytes_kept as f64, "bytes", "384");
    bench.count("waiting flow, two queued: allocations", heap.count_kept as f64, "", "3");
}

type Call = Box<dyn FnOnce(&Cell<u64>)>;
type SharedCall = Box<dyn Fn(&Cell<u64>)>;

/// Calls boxed closures one after the other.
fn call_all(calls: Vec<Call>) {
    let cell = Cell::new(0);
    for call in calls {
        call(&cell);
    }
    black_box(cell.get());
}

fn bump(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

fn simple_by_hand() {
    call_all(vec![Box::new(bump)]);
}

fn ten_by_hand() {
    call_all((0..10).map(|_| Box::new(bump) as Call).collect());
}

fn template_by_hand() {
    thread_local! {
        static CALLS: Vec<SharedCall> = (0..10).map(|_| Box::new(bump) as SharedCall).collect();
    }
    CALLS.with(|calls| {
        let cell = Cell::new(0);
        calls.iter().for_each(|call| call(&cell));
        black_box(cell.get());
    });
}

fn nested_by_hand() {
    call_all(vec![Box::new(|cell| {
        let middle: Call = Box::new(|cell| {
            let inner: Call = Box::new(bump);
            inner(cell);
        });
        middle(cell);
    })]);
}

fn error_by_hand() {
    type Failing = Box<dyn FnOnce() -> Result<(), Box<(&'static str, &'static str)>>>;
    let call: Failing = Box::new(|| Err(Box::new(("Failed", "on purpose"))));
    let handler: Box<dyn FnOnce(&str) -> bool> = Box::new(|code| code == "Failed");
    if let Err(error) = black_box(call)() {
        black_box(handler)(error.0);
    }
}

fn parallel_by_hand() {
    call_all((0..4).map(|_| Box::new(bump) as Call).collect());
}

fn repeat_by_hand() {
    let mut sum = 0;
    let mut body: Box<dyn FnMut(usize)> = Box::new(move |i| sum = black_box(sum + i));
    for i in 0..ITERATIONS as usize {
        black_box(&mut body)(i);
    }
}

fn sync_by_hand() {
    let lock = Rc::new(RefCell::new(0u64));
    let shared = Rc::clone(&lock);
    let call: Box<dyn FnOnce()> = Box::new(move || *shared.borrow_mut() += 1);
    black_box(call)();
    black_box(&lock);
}

/// Where a waiting root leaves its completion.
type Slot = Rc<RefCell<Option<Completion>>>;

/// A root whose first step waits, with two more steps queued.
fn waiting_root(slot: &Slot) -> Execution {
    let slot = Rc::clone(slot);
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        *slot.borrow_mut() = Some(asi.wait_external());
    });
    flow.add(|asi, n: i32| asi.success(n - 1));
    flow.add(|_, n: i32| {
        black_box(n);
    });
    let mut execution = flow.execute();
    assert!(matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Waiting));
    execution
}

/// All roots wait; then each is completed from outside and runs to its end.
fn waiting(roots: u32) {
    let waiting: Vec<(Execution, Slot)> = (0..roots)
        .map(|_| {
            let slot = Slot::default();
            (waiting_root(&slot), slot)
        })
        .collect();
    for (mut execution, slot) in waiting {
        let completion = slot.take().expect("it waits");
        completion.success(1).expect("it still waits");
        assert!(matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Done(_)));
    }
}

fn waiting_by_hand(roots: u32) {
    type Resume = Box<dyn FnOnce(i32) -> i32>;
    let waiting: Vec<Resume> = (0..roots).map(|_| Box::new(|n| n - 1) as Resume).collect();
    for resume in waiting {
        black_box(resume(1));
    }
}

/// Roots in endless loops, each iteration one wait and one receiving step.
struct Loopers(Vec<(Execution, Slot)>);

impl Loopers {
    fn new(roots: u32) -> Self {
        let looper = |_| {
            let slot = Slot::default();
            let inside = Rc::clone(&slot);
            let mut flow = Flow::new();
            flow.add(move |asi, ()| {
                asi.make_loop(move |asi| {
                    let inside = Rc::clone(&inside);
                    asi.add(move |asi, ()| {
                        *inside.borrow_mut() = Some(asi.wait_external());
                    });
                    asi.add(|_, n: i32| {
                        black_box(n);
                    });
                });
            });
            let mut execution = flow.execute();
            assert!(matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Waiting));
            (execution, slot)
        };
        Self((0..roots).map(looper).collect())
    }

    /// Resumes each root once.
    fn round(&mut self) {
        for (execution, slot) in &mut self.0 {
            let completion = slot.take().expect("it waits");
            completion.success(1).expect("it still waits");
            assert!(matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Waiting));
        }
    }
}

/// The same as boxed state machines.
struct HandLoopers(Vec<Box<dyn FnMut(i32)>>);

impl HandLoopers {
    fn new(roots: u32) -> Self {
        let looper = |_| {
            let mut sum = 0;
            Box::new(move |n| sum = black_box(sum + n)) as Box<dyn FnMut(i32)>
        };
        Self((0..roots).map(looper).collect())
    }

    fn round(&mut self) {
        self.0.iter_mut().for_each(|resume| resume(1));
    }
}
