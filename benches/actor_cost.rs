//! What hosting a flow costs: a one-step flow with its reply, time limits, waiting flows.
//!
//! The baseline is the same written by hand: a task on the same thread that sends one value through a
//! channel. `Actor::start()` is actix's own way to have an actor per request. Rows `by hand` are what the same work costs at
//! least.

#[path = "support/memory.rs"]
mod memory;
mod support;

use std::cell::RefCell;
use std::env;
use std::future::poll_fn;
use std::hint::black_box;
use std::process::Command;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use actix::{Actor, ActorContext, Context};
use actix_rt::SystemRunner;
use asyncsteps_actors::flow::{FlowHandle, spawn_flow, start_flow};
use asyncsteps_core::{Completion, Error, Flow, Progress, Template, Time};
use asyncsteps_counted_heap::{Heap, measure};
use memory::resident_bytes;
use support::Bench;
use tokio::sync::oneshot;

/// How many waiting flows the heap figure is averaged over.
const WAITING: u32 = 1_000;

/// How many waiting flows a large server has.
const MANY: u32 = 1_000_000;

/// Has this program measure many waiting flows only.
const MANY_FLOWS: &str = "--many-flows";

/// An actor that replies once and stops.
struct Once(Option<oneshot::Sender<u32>>);

impl Actor for Once {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(reply) = self.0.take() {
            // the bench waits for it
            let _ = reply.send(black_box(1));
        }
        ctx.stop();
    }
}

#[global_allocator]
static HEAP: Heap = Heap;

fn main() {
    let arbiter = actix_rt::System::new();
    if env::args().any(|arg| arg == MANY_FLOWS) {
        return many_waiting_flows(&arbiter);
    }
    let template = Template::build(|asi| {
        asi.add(|asi, ()| asi.success(black_box(1u32)));
    });
    let mut bench = Bench::new("actor_cost");
    let bare = bench.add("tokio spawn_local and oneshot", None, 1, "", |iterations| {
        arbiter.block_on(async {
            for _ in 0..iterations {
                let (reply, answer) = oneshot::channel();
                actix_rt::spawn(async move {
                    // the bench waits for it
                    let _ = reply.send(black_box(1u32));
                });
                black_box(answer.await.is_ok());
            }
        });
    });
    bench.add("Actor::start(), default context", Some(bare), 1, "", |iterations| {
        arbiter.block_on(async {
            for _ in 0..iterations {
                let (reply, answer) = oneshot::channel();
                Once(Some(reply)).start();
                black_box(answer.await.is_ok());
            }
        });
    });
    bench.add("hosted flow, spawned", Some(bare), 1, "at most 1.35", |iterations| {
        arbiter.block_on(async {
            for _ in 0..iterations {
                black_box(spawn_flow::<u32>(&template).await.is_ok());
            }
        });
    });
    bench.add("a flow in a task, by hand", Some(bare), 1, "", |iterations| {
        arbiter.block_on(async {
            for _ in 0..iterations {
                black_box(by_hand(&template).await.is_ok());
            }
        });
    });
    let inline = "hosted flow, done in its first turn";
    bench.add(inline, Some(bare), 1, "at most 0.4", |iterations| {
        arbiter.block_on(async {
            for _ in 0..iterations {
                black_box(start_flow::<u32>(&template).await.is_ok());
            }
        });
    });
    let waits = bench.add("flow that waits once", None, 1, "", |iterations| {
        arbiter.block_on(completed(iterations, None));
    });
    let limited = "the same with set_timeout";
    bench.add(limited, Some(waits), 1, "baseline + 100 ns", |iterations| {
        arbiter.block_on(completed(iterations, Some(Duration::from_secs(5))));
    });
    let heap = heap_of_waiting_flow(&arbiter, |_| ());
    bench.count("waiting flow, two queued steps: heap", heap, "bytes", "at most 640");
    let heap = heap_of_waiting_flow(&arbiter, FlowHandle::address);
    bench.count("the same with its address", heap, "bytes", "");
    if !env::args().any(|arg| arg == "--test") {
        let [memory, resume] = in_a_process_of_their_own();
        bench.count("a million of them: resident memory", memory, "MB", "at most 700");
        bench.count("a million of them: to resume each", resume, "ns", "at most 500");
    }
    bench.finish();
}

/// A flow that the engine runs in a task, without an actor: nobody can look at it, cancel it or limit it, and there is no
/// time in it. A hosted flow cannot cost less.
async fn by_hand(template: &Template) -> Result<u32, Error> {
    let (reply, answer) = oneshot::channel();
    let mut execution = template.flow().execute();
    actix_rt::spawn(async move {
        let outcome = poll_fn(|cx| match execution.run(Time::ZERO, cx.waker()) {
            Progress::Done(outcome) => Poll::Ready(outcome),
            Progress::Ready => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Progress::Waiting => Poll::Pending,
        });
        // the bench waits for it
        let _ = reply.send(outcome.await.into_result());
    });
    answer.await.expect("the task ends")
}

/// Flows, one after the other, that wait for a completion which comes when they are waiting.
async fn completed(iterations: u32, limit: Option<Duration>) {
    let slot: Rc<RefCell<Option<Completion>>> = Rc::default();
    for _ in 0..iterations {
        let waits = Rc::clone(&slot);
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            if let Some(limit) = limit {
                asi.set_timeout(limit);
            }
            *waits.borrow_mut() = Some(asi.wait_external());
        });
        let handle = spawn_flow::<()>(flow);
        tokio::task::yield_now().await;
        if let Some(completion) = slot.take() {
            black_box(completion.success(()).is_ok());
        }
        black_box(handle.await.is_ok());
    }
}

/// A flow that waits with two steps queued, and what completes it.
fn waiting(completions: &Rc<RefCell<Vec<Completion>>>) -> FlowHandle {
    let completions = Rc::clone(completions);
    let mut flow = Flow::new();
    flow.add(move |asi, ()| completions.borrow_mut().push(asi.wait_external()));
    flow.add(|_, ()| {});
    flow.add(|_, ()| {});
    start_flow(flow)
}

/// Heap bytes of a waiting flow (task, flow and handle), with what `ask` asks the handle for.
fn heap_of_waiting_flow<T>(arbiter: &SystemRunner, ask: fn(&FlowHandle) -> T) -> f64 {
    let flows = RefCell::new(Vec::with_capacity(WAITING as usize));
    let asked = RefCell::new(Vec::with_capacity(WAITING as usize));
    let completions: Rc<RefCell<Vec<Completion>>> = Rc::default();
    completions.borrow_mut().reserve(WAITING as usize);
    let info = measure(|| {
        arbiter.block_on(async {
            for _ in 0..WAITING {
                let flow = waiting(&completions);
                asked.borrow_mut().push(ask(&flow));
                flows.borrow_mut().push(flow);
            }
            // each task is polled once
            tokio::task::yield_now().await;
        });
    });
    info.bytes_kept as f64 / f64::from(WAITING)
}

/// Figures of many waiting flows. The memory that they leave behind would change all others.
fn in_a_process_of_their_own() -> [f64; 2] {
    let program = env::current_exe().expect("a program has a path");
    let output = Command::new(program).arg(MANY_FLOWS).output().expect("it was started before");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut figures = text.split_whitespace().map(|figure| figure.parse().unwrap_or(f64::NAN));
    [figures.next().unwrap_or(f64::NAN), figures.next().unwrap_or(f64::NAN)]
}

/// Prints the megabytes of resident memory that many waiting flows take, completions and handles
/// included, and the nanoseconds until each has run to its end after it was completed.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
#[expect(clippy::print_stdout, reason = "the other process reads it")]
fn many_waiting_flows(arbiter: &SystemRunner) {
    let completions: Rc<RefCell<Vec<Completion>>> = Rc::default();
    let before = resident_bytes();
    let mut flows = Vec::with_capacity(MANY as usize);
    arbiter.block_on(async {
        for _ in 0..MANY {
            flows.push(waiting(&completions));
        }
        tokio::task::yield_now().await;
    });
    let memory = resident_bytes() - before;
    let start = Instant::now();
    arbiter.block_on(async {
        for completion in completions.borrow().iter() {
            black_box(completion.success(()).is_ok());
        }
        for flow in flows {
            black_box(flow.await.is_ok());
        }
    });
    let each = start.elapsed().as_secs_f64() * 1e9 / f64::from(MANY);
    println!("{} {each}", memory / 1e6);
}
