//! Steps that are async closures, and what they are compared with.

use std::future::ready;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Waker};

use asyncsteps_core::{Error, Flow, Progress, Time};

/// Bodies of one flow, and futures of one task.
const BODIES: u32 = 10;

type Boxed = Pin<Box<dyn Future<Output = Result<u32, Error>>>>;

/// So many async steps that await something that is ready, ten in a flow.
pub(crate) fn in_flows(steps: u32) {
    for _ in 0..steps / BODIES {
        let mut flow = Flow::new();
        flow.pass(0u32);
        for _ in 0..BODIES {
            flow.run(async |n: u32| Ok(ready(black_box(n)).await + 1));
        }
        let mut execution = flow.execute();
        while !matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Done(_)) {}
    }
}

/// The same by hand: each body is an async function in a box, ten in a task.
pub(crate) fn by_hand(steps: u32) {
    for _ in 0..steps / BODIES {
        let mut task: Boxed = black_box(Box::pin(async {
            let mut n = 0;
            for _ in 0..BODIES {
                let next: Boxed = Box::pin(leaf(n));
                n = next.await?;
            }
            Ok(n)
        }));
        let polled = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        black_box(polled.is_ready());
    }
}

async fn leaf(n: u32) -> Result<u32, Error> {
    Ok(ready(black_box(n)).await + 1)
}
