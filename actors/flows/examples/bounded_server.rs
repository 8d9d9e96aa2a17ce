//! A server loop that stays within bounds: jobs of many clients, more than it can take.
//!
//! Each client sends its jobs as fast as it can, and one of them sends far too many. The budget lets
//! a few run at once, has some wait in turns, and refuses the others at once. Jobs run on the arbiters
//! of a pool, each with a deadline, and in the end the server closes gracefully.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::time::Duration;

use actix_rt::task::JoinHandle;
use asyncsteps_actors::budget::{Budget, Client, Limits};
use asyncsteps_actors::flow::{DeadlineSteps, IntoFlow};
use asyncsteps_actors::pool::ArbiterPool;
use asyncsteps_core::{Error, Template, codes};
use tokio::sync::mpsc;

/// What a client asks for: so many milliseconds of work.
struct Job {
    client: &'static str,
    work: u64,
}

const ARBITERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

/// Jobs that run and wait at once. A job is estimated at 4 kB, so memory is no limit here.
const LIMITS: Limits = Limits { concurrent: 4, queued: 24, memory: 1 << 20 };
const JOB_BYTES: usize = 4 << 10;

/// How long a job may take once it was admitted.
const LIMIT: Duration = Duration::from_millis(200);

/// How long jobs may go on when the server closes.
const GRACE: Duration = Duration::from_secs(1);

fn main() {
    actix_rt::System::new().block_on(async {
        let (sender, jobs) = mpsc::channel(16);
        for (client, count, work) in [("ann", 5, 10), ("bob", 5, 20), ("flood", 100, 10)] {
            actix_rt::spawn(send(client, count, work, sender.clone()));
        }
        // one that takes longer than it may
        actix_rt::spawn(send("slow", 1, 60_000, sender));
        serve(jobs).await;
    });
}

async fn send(client: &'static str, count: usize, work: u64, jobs: mpsc::Sender<Job>) {
    for _ in 0..count {
        if jobs.send(Job { client, work }).await.is_err() {
            return;
        }
    }
}

/// Serves jobs until no client is left, then closes.
async fn serve(mut jobs: mpsc::Receiver<Job>) {
    let (pool, budget) = (Rc::new(ArbiterPool::new(ARBITERS)), Budget::new(LIMITS));
    let logic = business_logic();
    let mut running: Vec<(&str, JoinHandle<Result<u64, Error>>)> = Vec::new();
    while let Some(Job { client, work }) = jobs.recv().await {
        // decided here and now: a job that is refused costs nothing more
        let admission = budget.admit(&Client::from(client), JOB_BYTES);
        let (pool, logic) = (Rc::clone(&pool), logic.clone());
        let job = actix_rt::spawn(async move {
            let _permit = admission.await?;
            pool.submit_anywhere((logic, work).within(LIMIT)).await
        });
        running.push((client, job));
    }
    let mut outcomes: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for (client, job) in running {
        let outcome = match job.await {
            Ok(Ok(_)) => "done".to_owned(),
            Ok(Err(error)) => error.code().to_owned(),
            Err(_) => codes::INTERNAL_ERROR.to_owned(),
        };
        *outcomes.entry((client, outcome)).or_default() += 1;
    }
    report(&outcomes, &budget);
    if let Some(pool) = Rc::into_inner(pool) {
        let ended = pool.shutdown(GRACE).await;
        assert_eq!((ended.finished, ended.cancelled), (0, 0), "all jobs were over");
    }
}

/// Works for as long as it is asked to, and gives what is left of its time.
fn business_logic() -> Template {
    Template::build(|asi| {
        asi.add(|asi, work: u64| {
            asi.sleep(Duration::from_millis(work)).named("work");
        });
        asi.add(|asi, ()| {
            let left = asi.remaining().unwrap_or_default();
            asi.success(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
        });
    })
}

#[expect(clippy::print_stdout, reason = "an example is there to be read")]
fn report(outcomes: &BTreeMap<(&str, String), usize>, budget: &Budget) {
    for ((client, outcome), count) in outcomes {
        println!("{client:<6} {outcome:<16} {count:>4}");
    }
    let usage = budget.usage();
    println!(
        "admitted {}, refused {}, inside now {}",
        usage.admitted, usage.refused, usage.running
    );
    assert_eq!((usage.running, usage.queued, usage.clients), (0, 0, 0));
}
