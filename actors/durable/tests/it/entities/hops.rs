//! An entity is on one arbiter of a process, and called from all.

use std::time::Duration;

use actix_rt::Arbiter;
use asyncsteps_durable::Durable;
use asyncsteps_executor::Executor;
use asyncsteps_journal::memory::Memory;
use serde_json::json;
use tokio::sync::oneshot;

use super::moves::add_within;
use super::{executor, keyed};

/// Does something on another arbiter, which runs a node.
pub(super) fn there<T: Send + 'static>(
    arbiter: &Arbiter,
    durable: &Durable,
    executor: &Executor,
    task: impl AsyncFnOnce(Executor) -> T + Send + 'static,
) -> oneshot::Receiver<T> {
    let (done, result) = oneshot::channel();
    let (durable, executor) = (durable.clone(), executor.clone());
    arbiter.spawn_fn(move || {
        actix_rt::spawn(async move {
            let node = durable.start(&executor).await.expect("the journal gives a lease");
            let _ = done.send(task(executor).await);
            node.stop().await;
        });
    });
    result
}

#[test]
fn calls_of_each_arbiter_reach_the_one_that_has_the_entity() {
    actix::System::new().block_on(async {
        let durable = Durable::new(Memory::default());
        let executor = executor(&durable);
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        let arbiters = [Arbiter::new(), Arbiter::new()];
        let adds = async |executor: Executor| {
            for call in 0..50 {
                let key = format!("{:?} {call}", std::thread::current().id());
                let add = json!({ "name": (call % 3).to_string(), "add": 1 });
                let call = |add| keyed(&executor, "test.counters:1.0:add", ("ann", &key), add);
                let first = call(add.clone()).await;
                assert_eq!(call(add).await, first);
                first.expect("it is added");
            }
        };
        let [one, two] =
            [&arbiters[0], &arbiters[1]].map(|arbiter| there(arbiter, &durable, &executor, adds));
        adds(executor.clone()).await;
        one.await.expect("it is done");
        two.await.expect("it is done");
        let mut sum = 0;
        for name in 0..3 {
            let named = json!({ "name": name.to_string() });
            let of_name = executor.call_as_system::<i32>("test.counters:1.0:sum", named).await;
            sum += of_name.expect("it is read");
        }
        assert_eq!(sum, 150);
        node.stop().await;
        arbiters.iter().for_each(|arbiter| _ = arbiter.stop());
    });
}

/// In the time of the machine, because there are two threads.
#[test]
fn a_call_that_reaches_the_arbiter_of_its_entity_after_its_end_is_not_carried_out() {
    actix::System::new().block_on(async {
        let durable = Durable::new(Memory::default());
        let executor = executor(&durable);
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        let add = json!({ "name": "a", "add": 1 });
        let first = keyed(&executor, "test.counters:1.0:add", ("ann", "1"), add.clone()).await;
        first.expect("it is added");
        let arbiter = Arbiter::new();
        let (block, blocks) = oneshot::channel();
        let (unblock, gate) = std::sync::mpsc::channel::<()>();
        let late = there(&arbiter, &durable, &executor, async move |executor| {
            let blocked = block.send(());
            blocked.expect("it is waited for");
            let within = Duration::from_millis(50);
            let answer = add_within(&executor, within, &add).await;
            drop(unblock);
            answer
        });
        blocks.await.expect("it says so");
        // no task of this arbiter runs meanwhile
        gate.recv().expect_err("nothing is sent");
        late.await.expect("it is done").expect_err("it has no answer in time");
        let sum = executor.call_as_system::<i32>("test.counters:1.0:sum", json!({ "name": "a" }));
        assert_eq!(sum.await.expect("it is read"), 1);
        node.stop().await;
        arbiter.stop();
    });
}
