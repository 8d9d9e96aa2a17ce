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
use support::Bench;
use tokio::sync::oneshot;

/// How many waiting flows the memory figure is averaged over.
const WAITING: u32 = 1_000;

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
    let arbiter = actix_rt::System::new();
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
    bench.add("hosted flow, spawned", Some(bare), 1, "at most 1.5", |iterations| {
        arbiter.block_on(async {
            for _ in 0..iterations {
                black_box(spawn_flow::<u32>(template.flow()).await.is_ok());
            }
        });
    });
    bench.add("hosted flow, done in its first turn", Some(bare), 1, "", |iterations| {
        arbiter.block_on(async {
            for _ in 0..iterations {
                black_box(start_flow::<u32>(template.flow()).await.is_ok());
            }
        });
    });
    let heap = heap_of_waiting_flow(&arbiter);
    bench.count("waiting flow, two queued steps: heap", heap, "bytes", "at most 640");
    bench.finish();
}

/// Heap bytes of a flow that waits with two steps queued: actor, task, flow and handle.
fn heap_of_waiting_flow(arbiter: &SystemRunner) -> f64 {
    let flows = RefCell::new(Vec::with_capacity(WAITING as usize));
    let info = allocation_counter::measure(|| {
        arbiter.block_on(async {
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
