//! What an actor around a flow costs: a one-step flow with its reply, on one arbiter.
//!
//! The baseline is what somebody would write by hand: a task on the same thread that sends one
//! value through a channel. `Actor::start()` is actix's own way to have an actor per request.

mod support;

use std::cell::RefCell;
use std::hint::black_box;

use actix::{Actor, ActorContext, Context};
use actix_rt::SystemRunner;
use asyncsteps::{Flow, Template};
use asyncsteps_actors::flow::{spawn_flow, start_flow};
use criterion::Criterion;
use criterion::async_executor::AsyncExecutor;
use support::Table;
use tokio::sync::oneshot;

const GROUP: &str = "actor_cost";
const BARE: &str = "tokio spawn_local and oneshot";
const DEFAULT: &str = "Actor start, default context";
const HOSTED: &str = "hosted flow, spawned";
const INLINE: &str = "hosted flow, done in its first turn";

/// How many waiting flows the memory figure is averaged over.
const WAITING: u32 = 1_000;

/// One arbiter, as criterion can use it.
struct Arbiter(SystemRunner);

impl AsyncExecutor for &Arbiter {
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }
}

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

fn main() {
    let arbiter = Arbiter(actix_rt::System::new());
    let mut criterion = Criterion::default().configure_from_args();
    times(&mut criterion, &arbiter);
    let heap = heap_of_waiting_flow(&arbiter);
    criterion.final_summary();

    let mut table = Table::new(GROUP);
    table.time(GROUP, BARE, None, 1, "");
    table.time(GROUP, DEFAULT, Some(BARE), 1, "");
    table.time(GROUP, HOSTED, Some(BARE), 1, "at most 1.5");
    table.time(GROUP, INLINE, Some(BARE), 1, "");
    table.count("waiting flow, two queued steps: heap", heap, "bytes", "at most 640");
    table.finish();
}

fn times(criterion: &mut Criterion, arbiter: &Arbiter) {
    let template = Template::build(|asi| {
        asi.add(|asi, ()| asi.success(black_box(1u32)));
    });
    let mut group = criterion.benchmark_group(GROUP);
    group.bench_function(BARE, |bench| {
        bench.to_async(arbiter).iter(|| async {
            let (reply, answer) = oneshot::channel();
            actix_rt::spawn(async move {
                let _ = reply.send(black_box(1u32));
            });
            answer.await
        });
    });
    group.bench_function(DEFAULT, |bench| {
        bench.to_async(arbiter).iter(|| async {
            let (reply, answer) = oneshot::channel();
            Once(Some(reply)).start();
            answer.await
        });
    });
    group.bench_function(HOSTED, |bench| {
        bench.to_async(arbiter).iter(|| spawn_flow::<u32>(template.flow()));
    });
    group.bench_function(INLINE, |bench| {
        bench.to_async(arbiter).iter(|| start_flow::<u32>(template.flow()));
    });
    group.finish();
}

/// Heap bytes of a flow that waits with two steps queued: actor, task, flow and handle.
fn heap_of_waiting_flow(arbiter: &Arbiter) -> f64 {
    let flows = RefCell::new(Vec::with_capacity(WAITING as usize));
    let info = allocation_counter::measure(|| {
        (&arbiter).block_on(async {
            for _ in 0..WAITING {
                let mut flow = Flow::new();
                flow.add(|asi, ()| drop(asi.wait_external()));
                flow.add(|_, ()| {});
                flow.add(|_, ()| {});
                flows.borrow_mut().push(start_flow::<()>(flow));
            }
            // each task is polled once
            tokio::task::yield_now().await;
        });
    });
    info.bytes_current as f64 / f64::from(WAITING)
}
