//! Two hundred flows and one limiter: at most 5 of them are inside at once, at most 20 enter per
//! tenth of a second, 145 wait, and the others are turned away at once.
//!
//! Run it with `cargo run -p asyncsteps-actors --example two_hundred_flows`.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_actors::flow::{FlowHandle, start_flow};
use asyncsteps_actors::sync::Limiter;
use asyncsteps_core::sync::limiter;
use asyncsteps_core::{Flow, Template, codes};
use tokio::time::Instant;

/// How many are inside, and the most that ever were.
#[derive(Clone, Default)]
struct Inside(Rc<Cell<(u32, u32)>>);

impl Inside {
    fn enter(&self) {
        let (inside, most) = self.0.get();
        self.0.set((inside + 1, most.max(inside + 1)));
    }

    fn leave(&self) {
        let (inside, most) = self.0.get();
        self.0.set((inside - 1, most));
    }
}

#[actix::main]
#[expect(clippy::print_stdout, reason = "an example tells what happens")]
async fn main() {
    let limiter = Limiter::start(limiter::Options {
        concurrent: 5,
        max_queue: Some(145),
        rate: 20,
        period: Duration::from_millis(100),
        burst: None,
    });
    // the business logic, made once
    let double = Template::build(|asi| {
        asi.sync(&limiter, |asi, (number, inside): (u32, Inside)| {
            inside.enter();
            asi.sleep(Duration::from_millis(5));
            asi.add(move |asi, ()| {
                inside.leave();
                asi.success(number * 2)
            });
        });
    });

    let (inside, start) = (Inside::default(), Instant::now());
    let flows: Vec<FlowHandle<u32>> = (0..200)
        .map(|number: u32| {
            let mut flow = Flow::new();
            flow.success_step((number, inside.clone()));
            flow.copy_from(&double);
            start_flow(flow)
        })
        .collect();
    println!("200 flows started: {:?}", limiter.load());

    let (mut done, mut rejected) = (0, 0);
    for (number, flow) in (0..).zip(flows) {
        match flow.await {
            Ok(result) if result == number * 2 => done += 1,
            Err(error) if error.code() == codes::DEFENSE_REJECTED => rejected += 1,
            other => println!("flow {number} is a surprise: {other:?}"),
        }
    }
    println!("{done} done in {:?}, {rejected} rejected", start.elapsed());
    println!("at most {} were inside at once; now: {:?}", inside.0.get().1, limiter.load());
}
