//! Idle time is cheap: a node that has nothing to do asks its journal for little but its lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use asyncsteps_durable::Options;
use asyncsteps_executor::{Returns, Steps};
use asyncsteps_journal::LEASE;
use asyncsteps_journal::memory::{Fault, Operation};
use tokio::time::Instant;

use crate::lab::{Lab, Nothing};
use crate::node::run;

const DAY: Duration = Duration::from_secs(86_400);

fn waits(steps: &Steps<Lab, Nothing>) -> Returns<()> {
    steps.pause("two days", 2 * DAY).returns()
}

#[test]
fn a_node_whose_requests_wait_for_days_asks_for_little_but_its_lease() {
    run(async {
        let asked = Arc::new(AtomicUsize::new(0));
        let lab = Lab::new(|durable, functions| _ = durable.on(functions, "waits", waits));
        let counts = Arc::clone(&asked);
        let journal = lab.journal().faults(move |_: Operation| {
            counts.fetch_add(1, Ordering::Relaxed);
            Fault::None
        });
        let uid = lab.submit(&journal, "waits", Options::default()).await;
        let (durable, executor) = lab.process(journal);
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        let begun = Instant::now();
        durable.result::<()>(uid).await.expect("it ends");
        assert!(begun.elapsed() < 2 * DAY + LEASE, "it ends in time");
        let renewals = (2 * DAY).as_secs() / (LEASE / 3).as_secs();
        let asked = asked.load(Ordering::Relaxed);
        assert!(asked as u64 <= 2 * renewals, "{asked} times for {renewals} renewals");
        node.stop().await;
    });
}
