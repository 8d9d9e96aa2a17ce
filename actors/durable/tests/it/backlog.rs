//! Callers who wait go before work that nobody waits for.

use std::time::Duration;

use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::Executor;
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::test::TestRequest;
use asyncsteps_executor::{Returns, Steps};
use serde_json::json;
use tokio::time::Instant;

use crate::lab::{Lab, Nothing};
use crate::node::run;

/// Many times as many as a node runs at once.
const BACKLOG: usize = 5000;

/// How long each of them takes.
const SLOW: Duration = Duration::from_secs(8);

fn slow(steps: &Steps<Lab, Nothing>) -> Returns<()> {
    let work = steps.run("work", async |_, ()| {
        tokio::time::sleep(SLOW).await;
        Ok(())
    });
    work.recorded().returns()
}

fn quick(steps: &Steps<Lab, Nothing>) -> Returns<i32> {
    steps.run("answer", async |_, ()| Ok(1)).recorded().returns()
}

fn of_ann() -> Options {
    Options::default().caller(User::new("ann", SecurityLevel::SafeOps))
}

async fn call(executor: &Executor) {
    let request = TestRequest::new("test.lab:1.0:quick").user("ann", SecurityLevel::SafeOps);
    assert_eq!(request.call::<i32>(executor).await.expect("an answer"), 1);
}

async fn fill(durable: &Durable) {
    for _ in 0..BACKLOG {
        let stored = durable.submit("test.lab:1.0:slow", json!({}), of_ann());
        stored.await.expect("the journal takes it");
    }
}

#[test]
fn a_call_waits_for_no_backlog() {
    run(async {
        let lab = Lab::new(|durable, functions| {
            durable.on(functions, "slow", slow);
            durable.on(functions, "quick", quick);
        });
        let (durable, executor) = lab.process(lab.journal());
        fill(&durable).await;
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        for _ in 0..10 {
            let begun = Instant::now();
            call(&executor).await;
            assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        // a request that was stored like the backlog is taken before it when its end is waited for
        let begun = Instant::now();
        let stored = durable.submit("test.lab:1.0:quick", json!({}), of_ann());
        let uid = stored.await.expect("the journal takes it");
        durable.ended(uid).await.expect("it ends");
        assert!(begun.elapsed() < SLOW, "{:?}", begun.elapsed());
        drop(node);
    });
}
