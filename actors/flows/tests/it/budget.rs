//! The budget among threads: exact limits, and nothing is lost whatever is dropped when.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread;

use asyncsteps_actors::budget::{Budget, BudgetRefusal, Client, Limits, Permit};
use asyncsteps_actors::flow::start_flow;
use asyncsteps_core::sim::Random;
use asyncsteps_core::{Error, Flow, codes};
use futures_util::{FutureExt, TryFutureExt};

const THREADS: u64 = 4;

/// Requests of each thread.
const REQUESTS: usize = 5_000;

const LIMITS: Limits = Limits { concurrent: 5, queued: 20, memory: 2_000 };

#[derive(Default)]
struct Seen {
    inside: AtomicUsize,
    most: AtomicUsize,
    refused: AtomicU64,
}

/// Is dropped before its permit, also when its task is aborted.
struct Inside<'a>(&'a Seen);

impl<'a> Inside<'a> {
    fn new(seen: &'a Seen) -> Self {
        let inside = seen.inside.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most.fetch_max(inside, Ordering::SeqCst);
        Self(seen)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// One request: gives up in the queue, or stays inside for some turns.
async fn request(
    budget: Budget,
    seen: Arc<Seen>,
    client: u64,
    bytes: usize,
    patience: u64,
    stay: u64,
) {
    let mut admission = pin!(budget.admit(&Client::from(&*format!("{client}")), bytes));
    let mut patience = patience;
    let answer = poll_fn(|cx| match admission.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending if patience == 0 => Poll::Ready(None),
        Poll::Pending => {
            patience -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    });
    match answer.await {
        Some(Ok(permit)) => {
            let inside = Inside::new(&seen);
            for _ in 0..stay {
                tokio::task::yield_now().await;
            }
            drop(inside);
            drop(permit);
        }
        Some(Err(error)) => {
            assert!(matches!(error, BudgetRefusal::TooMany | BudgetRefusal::Memory));
            seen.refused.fetch_add(1, Ordering::SeqCst);
        }
        None => {}
    }
}

#[test]
fn limits_hold_on_all_threads_and_everything_is_given_back() {
    let (budget, seen) = (Budget::new(LIMITS), Arc::<Seen>::default());
    let threads: Vec<_> = (0..THREADS)
        .map(|seed| {
            let (budget, seen) = (budget.clone(), Arc::clone(&seen));
            thread::spawn(move || {
                let mut random = Random::new(seed);
                actix_rt::System::new().block_on(async {
                    let mut tasks = Vec::new();
                    for _ in 0..REQUESTS {
                        let bytes = random.below(150);
                        let [client, patience, stay] =
                            [5, 200, 20].map(|limit| random.below(limit) as u64);
                        let (budget, seen) = (budget.clone(), Arc::clone(&seen));
                        tasks.push(actix_rt::spawn(request(
                            budget, seen, client, bytes, patience, stay,
                        )));
                        if random.below(4) == 0 {
                            tokio::task::yield_now().await;
                        }
                        if random.below(50) == 0 {
                            // a client goes away, wherever its request is
                            tasks[random.below(tasks.len())].abort();
                        }
                    }
                    for task in tasks {
                        // the aborted ones are no concern
                        let _ = task.await;
                    }
                });
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    let usage = budget.usage();
    assert_eq!((usage.running, usage.queued, usage.memory, usage.clients), (0, 0, 0, 0));
    let most = seen.most.load(Ordering::SeqCst);
    assert_eq!(most, LIMITS.concurrent, "all permits were taken, and no more");
    let refused = seen.refused.load(Ordering::SeqCst);
    assert!(refused <= usage.refused && usage.withdrawn > 0 && refused > 0, "{usage:?}");
    let decided = usage.admitted + usage.refused + usage.withdrawn;
    assert!(decided <= THREADS * REQUESTS as u64, "{usage:?}");
}

#[actix::test]
async fn a_permit_is_the_result_of_a_step_and_is_kept_as_long_as_the_flow() {
    let budget = Budget::new(Limits { concurrent: 1, queued: 1, ..Limits::default() });
    let flow = || {
        let mut flow = Flow::new();
        flow.await_(budget.admit(&Client::Unknown, 1).map_err(Error::from));
        flow.add(|asi, permit: Permit| {
            asi.state_mut().set("permit", permit);
            let _ = asi.add(|asi, ()| asi.wait_only());
        });
        flow
    };
    let inside = start_flow::<()>(flow());
    let waits = start_flow::<()>(flow());
    let error = start_flow::<()>(flow()).await.expect_err("it is full");
    assert_eq!(error.code(), codes::DEFENSE_REJECTED);
    let usage = || (budget.usage().running, budget.usage().queued);
    assert_eq!(usage(), (1, 1));
    drop(inside);
    tokio::task::yield_now().await;
    assert_eq!(usage(), (1, 0), "its permit went to the next one");
    drop(waits);
    tokio::task::yield_now().await;
    assert_eq!(usage(), (0, 0));
}

#[test]
fn the_owner_of_a_holding_that_is_displaced_is_woken() {
    let budget = Budget::new(LIMITS);
    let (eve, ann) = (Client::from("eve"), Client::from("ann"));
    let mut held = budget.hold(&eve);
    let woken = Arc::new(Woken::default());
    assert!(!held.poll_displaced(&Context::from_waker(&Arc::clone(&woken).into())));
    held.set(LIMITS.memory, true).unwrap();
    assert_eq!(budget.usage().memory, LIMITS.memory);
    let _permit = budget.admit(&ann, 100).now_or_never().unwrap().unwrap();
    assert!(held.is_displaced() && woken.0.load(Ordering::SeqCst));
    assert_eq!(held.set(1, false), Err(BudgetRefusal::Memory));
    assert_eq!(budget.usage().memory, 100);
    drop(held);
    assert_eq!(budget.usage().memory, 100);
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}
