//! What locks and limits cost, each beside what one uses without AsyncSteps.
//!
//! - Free: one owner locks and unlocks again and again on one thread. As a flow: a loop with one
//!   `sync` step of an empty section, nothing taken off for the step; as a template: flows of 50
//!   such steps, with all that making and running a flow takes; as a task: `lock().await` and drop.
//!   An object that does nothing shows what of this is the step.
//! - Contended on one arbiter: 16 owners, each of which locks, lets the others run, and unlocks. So
//!   nearly every lock has to wait for the other 15 owners.
//! - Across two arbiters: one owner on each of two threads, and a section that ends when the other
//!   one wants the lock. So every lock is handed from one thread to the other.
//! - Entry: one more entry into a period that has room for it.
//! - Limiter: a step with a timeout in a limiter with room, beside a tower service with a concurrency
//!   limit and a rate limit around a timeout.
//! - Deadlock detection: the contended workload with it on, beside off; once as it is, and once with
//!   owners that have another lock already, whose waits have to be watched.
//!
//! Rows `by hand` are what the same work costs at least: who is inside, in a map behind a lock, since locks of one owner
//! nest and are looked at; a period behind a lock, and a look at the clock; a tokio Semaphore in the steps of flows. What
//! steps cost at least shows an object that does nothing.

mod support;

use std::cell::Cell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::Arbiter;
use actix_rt::SystemRunner;
use asyncsteps_actors::clock;
use asyncsteps_actors::flow::{FlowHandle, start_flow};
use asyncsteps_actors::sync::{Limiter, Mutex, Throttle, deadlock};
use asyncsteps_core::sync::{ISync, Section, limiter, mutex, throttle};
use asyncsteps_core::{AsyncSteps, Error, Flow, Observer, StepEnd, StepRef, StepResult, Template};
use asyncsteps_counted_heap::{Heap, measure};
use governor::{Quota, RateLimiter};
use support::Bench;
use tokio::sync::{Notify, Semaphore, oneshot};
use tower::{Service, ServiceBuilder, ServiceExt};

/// Owners that contend on one arbiter.
const OWNERS: u32 = 16;

/// More than a bench does in a second.
const PLENTY: u32 = 1 << 30;

/// Passes through a section again and again.
fn visit<O, F>(asi: &mut AsyncSteps, object: O, count: u32, section: F)
where
    O: ISync + Clone + 'static,
    F: Fn(&mut AsyncSteps) + Clone + 'static,
{
    asi.repeat(count as usize, move |asi, _| {
        let section = section.clone();
        asi.sync(&object, move |asi, ()| section(asi));
    });
}

/// A flow that does nothing else.
fn visits<O, F>(object: &O, count: u32, section: F) -> Flow
where
    O: ISync + Clone + 'static,
    F: Fn(&mut AsyncSteps) + Clone + 'static,
{
    let object = object.clone();
    let mut flow = Flow::new();
    flow.add(move |asi, ()| visit(asi, object, count, section));
    flow
}

/// How many `sync` steps a template has: making its flow counts for little.
const STEPS: u32 = 50;

/// A template that passes through an empty section again and again.
fn steps<O: ISync + Clone + Send + Sync + 'static>(object: &O) -> Template {
    Template::build(|asi| {
        for _ in 0..STEPS {
            asi.sync(object, |_, ()| {});
        }
    })
}

/// A section in which the others have their turn.
fn let_others_run(asi: &mut AsyncSteps) {
    asi.relinquish();
    asi.add(|_, ()| {});
}

/// An object that protects from nothing.
#[derive(Clone)]
struct Nothing;

impl ISync for Nothing {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        section.enter(asi)
    }
}

#[global_allocator]
static HEAP: Heap = Heap;

fn main() {
    let arbiter = actix_rt::System::new();
    let mut bench = Bench::new("sync_cost");
    free(&mut bench, &arbiter);
    contended(&mut bench, &arbiter);
    across(&mut bench, &arbiter);
    entries(&mut bench, &arbiter);
    limiters(&mut bench, &arbiter);
    detection(&mut bench, &arbiter);
    let heap = heap_after_keys(&arbiter);
    bench.count("a million keys, each locked once: heap", heap, "bytes", "at most 10000");
    bench.finish();
}

fn free<'a>(bench: &mut Bench<'a>, arbiter: &'a SystemRunner) {
    let semaphore = Semaphore::new(1);
    let base = bench.add("free: tokio Semaphore", None, 1, "", move |iterations| {
        arbiter.block_on(async {
            for _ in 0..iterations {
                black_box(semaphore.acquire().await.is_ok());
            }
        });
    });
    let mutex = Mutex::new(mutex::Options::default());
    bench.add("free: Mutex in a task", Some(base), 1, "at most 2.5", move |iterations| {
        arbiter.block_on(async {
            for _ in 0..iterations {
                black_box(mutex.lock().await.is_ok());
            }
        });
    });
    let wide = Mutex::new(mutex::Options { max: 501, max_queue: None });
    let others: Vec<_> = (0..500).filter_map(|_| wide.try_lock()).collect();
    let id = "free: Mutex with 500 others inside, in a task";
    bench.add(id, Some(base), 1, "at most 5", move |iterations| {
        arbiter.block_on(async {
            for _ in 0..iterations {
                black_box(wide.lock().await.is_ok());
            }
        });
        black_box(&others);
    });
    let inside: parking_lot::Mutex<HashMap<u32, u32>> =
        parking_lot::Mutex::new((0..500).map(|owner| (owner, 1)).collect());
    let id = "free: 500 others inside, by hand";
    bench.add(id, Some(base), 1, "", move |iterations| {
        for owner in 500..500 + iterations {
            *inside.lock().entry(black_box(owner)).or_default() += 1;
            black_box(inside.lock().remove(&owner));
        }
    });
    let mutex = Mutex::new(mutex::Options::default());
    let target = "at most 2 more than no lock";
    bench.add("free: Mutex in a flow", Some(base), 1, target, move |iterations| {
        let flow = visits(&mutex, iterations, |_| {});
        run(arbiter, flow);
    });
    bench.add("free: no lock, in a flow", Some(base), 1, "", move |iterations| {
        run(arbiter, visits(&Nothing, iterations, |_| {}));
    });
    let template = steps(&Mutex::new(mutex::Options::default()));
    bench.add("free: Mutex in a template", Some(base), STEPS, target, move |iterations| {
        (0..iterations).for_each(|_| run(arbiter, template.flow()));
    });
    let template = steps(&Nothing);
    bench.add("free: no lock, in a template", Some(base), STEPS, "", move |iterations| {
        (0..iterations).for_each(|_| run(arbiter, template.flow()));
    });
    let local = asyncsteps_core::sync::Mutex::default();
    bench.add("free: Mutex of one loop in a flow", Some(base), 1, "", move |iterations| {
        let flow = visits(&local, iterations, |_| {});
        run(arbiter, flow);
    });
}

/// Runs a flow to its end.
fn run(arbiter: &SystemRunner, flow: Flow) {
    arbiter.block_on(async { start_flow::<()>(flow).await.expect("it ends") });
}

/// Runs the flows of all owners to their ends.
fn run_all(arbiter: &SystemRunner, flow: impl Fn() -> Flow) {
    arbiter.block_on(async {
        let flows: Vec<FlowHandle> = (0..OWNERS).map(|_| start_flow(flow())).collect();
        for flow in flows {
            flow.await.expect("it ends");
        }
    });
}

/// Runs the tasks of all owners to their ends.
fn run_tasks<W: Future<Output = ()> + 'static>(arbiter: &SystemRunner, task: impl Fn() -> W) {
    arbiter.block_on(async {
        let tasks: Vec<_> = (0..OWNERS).map(|_| actix_rt::spawn(task())).collect();
        for task in tasks {
            task.await.expect("it ends");
        }
    });
}

fn contended<'a>(bench: &mut Bench<'a>, arbiter: &'a SystemRunner) {
    let semaphore = Arc::new(Semaphore::new(1));
    let base = bench.add("16 owners: tokio Semaphore", None, OWNERS, "", move |iterations| {
        run_tasks(arbiter, || {
            let semaphore = Arc::clone(&semaphore);
            async move {
                for _ in 0..iterations {
                    let permit = semaphore.acquire().await;
                    tokio::task::yield_now().await;
                    drop(permit);
                }
            }
        });
    });
    let mutex = Mutex::new(mutex::Options::default());
    bench.add("16 owners: Mutex in tasks", Some(base), OWNERS, "at most 1.3", move |iterations| {
        run_tasks(arbiter, || {
            let mutex = mutex.clone();
            async move {
                for _ in 0..iterations {
                    let guard = mutex.lock().await;
                    tokio::task::yield_now().await;
                    drop(guard);
                }
            }
        });
    });
    let mutex = Mutex::new(mutex::Options::default());
    bench.add("16 owners: Mutex in flows", Some(base), OWNERS, "at most 1.3", move |iterations| {
        run_all(arbiter, || visits(&mutex, iterations, let_others_run));
    });
    let semaphore = Arc::new(Semaphore::new(1));
    let id = "16 owners: tokio Semaphore in flows, by hand";
    bench.add(id, Some(base), OWNERS, "", move |iterations| {
        run_all(arbiter, || by_hand(&semaphore, iterations));
    });
}

/// Passes through a section that a semaphore guards, again and again.
fn by_hand(semaphore: &Arc<Semaphore>, count: u32) -> Flow {
    let semaphore = Arc::clone(semaphore);
    let mut flow = Flow::new();
    flow.repeat(count as usize, move |asi, _| {
        let (semaphore, inside) = (Arc::clone(&semaphore), Rc::new(Cell::new(None)));
        let enters = Rc::clone(&inside);
        asi.await_(async move {
            enters.set(semaphore.acquire_owned().await.ok());
            Ok::<_, Error>(())
        });
        let_others_run(asi);
        asi.add(move |_, ()| drop(inside.take()));
    });
    flow
}

/// Two threads that do the same work at the same time.
struct Pair([Arbiter; 2]);

impl Pair {
    fn run<W: Future<Output = ()>>(
        &self,
        arbiter: &SystemRunner,
        work: impl FnOnce(Contest) -> W + Clone + Send + 'static,
    ) {
        let contest = Contest::default();
        let ends = self.0.each_ref().map(|thread| {
            let (work, contest, (tell, told)) = (work.clone(), contest.clone(), oneshot::channel());
            thread.spawn_fn(move || {
                actix_rt::spawn(async move {
                    work(contest).await;
                    // the bench waits for it
                    let _ = tell.send(());
                });
            });
            told
        });
        arbiter.block_on(async {
            for end in ends {
                end.await.expect("it ends");
            }
        });
    }
}

/// Counts those who stand in the queue or have the lock.
#[derive(Clone, Default)]
struct Contest(Arc<(AtomicUsize, Notify)>);

impl Contest {
    /// Locks; from the moment when that has to wait, the other one may leave.
    async fn lock<L: Future>(&self, lock: L) -> L::Output {
        let (mut lock, mut counted) = (pin!(lock), false);
        poll_fn(|cx| {
            let polled = lock.as_mut().poll(cx);
            if !std::mem::replace(&mut counted, true) {
                self.add(1);
            }
            polled
        })
        .await
    }

    fn add(&self, more: usize) {
        let (count, both) = &*self.0;
        if count.fetch_add(more, Ordering::SeqCst) + more >= 2 {
            both.notify_one();
        }
    }

    /// Stays inside until the other one waits, then counts as gone.
    async fn stay(&self) {
        let (count, both) = &*self.0;
        while count.load(Ordering::SeqCst) < 2 {
            both.notified().await;
        }
        count.fetch_sub(1, Ordering::SeqCst);
    }

    /// From now on the other one waits for no flow.
    fn end(&self) {
        self.add(2);
    }
}

/// How often each owner has the lock in one iteration: starting the work counts for little.
const HANDOVERS: u32 = 100;

fn across<'a>(bench: &mut Bench<'a>, arbiter: &'a SystemRunner) {
    let pair = arbiter.block_on(async { Arc::new(Pair([Arbiter::new(), Arbiter::new()])) });
    let items = 2 * HANDOVERS;
    let (threads, lock) = (Arc::clone(&pair), Arc::new(tokio::sync::Mutex::new(())));
    let base = bench.add("two arbiters: tokio Mutex", None, items, "", move |iterations| {
        let lock = Arc::clone(&lock);
        threads.run(arbiter, move |contest| async move {
            for _ in 0..iterations * HANDOVERS {
                let guard = contest.lock(lock.lock()).await;
                contest.stay().await;
                drop(guard);
            }
            contest.end();
        });
    });
    let (threads, mutex) = (Arc::clone(&pair), Mutex::new(mutex::Options::default()));
    bench.add(
        "two arbiters: Mutex in tasks",
        Some(base),
        items,
        "at most 1.5",
        move |iterations| {
            let mutex = mutex.clone();
            threads.run(arbiter, move |contest| async move {
                for _ in 0..iterations * HANDOVERS {
                    let guard = contest.lock(mutex.lock()).await;
                    contest.stay().await;
                    drop(guard);
                }
                contest.end();
            });
        },
    );
    let (threads, mutex) = (pair, Mutex::new(mutex::Options::default()));
    bench.add(
        "two arbiters: Mutex in flows",
        Some(base),
        items,
        "at most 1.5",
        move |iterations| {
            let mutex = mutex.clone();
            threads.run(arbiter, move |contest| async move {
                let (over, waiting) = (contest.clone(), Waiting::new(&contest));
                let inside = waiting.clone();
                let count = iterations * HANDOVERS;
                let mut flow = visits(&mutex, count, move |asi| {
                    inside.enter();
                    let contest = contest.clone();
                    asi.await_(async move {
                        contest.stay().await;
                        Ok::<_, Error>(())
                    });
                });
                flow.observe(waiting);
                start_flow::<()>(flow).await.expect("it ends");
                over.end();
            });
        },
    );
}

/// Counts a flow into a contest when it stands in the queue: when the step that waits, whose name is
/// `lock`, has begun to. One that need not wait counts when it is inside.
#[derive(Clone)]
struct Waiting {
    contest: Contest,
    counted: Rc<Cell<bool>>,
}

impl Waiting {
    fn new(contest: &Contest) -> Self {
        Self { contest: contest.clone(), counted: Rc::default() }
    }

    fn enter(&self) {
        if !self.counted.take() {
            self.contest.add(1);
        }
    }
}

impl Observer for Waiting {
    fn begin(&mut self, _: StepRef) {}
    fn enter(&mut self, _: StepRef) {}

    fn leave(&mut self, step: StepRef) {
        if step.location.name() == Some("lock") && !self.counted.replace(true) {
            self.contest.add(1);
        }
    }

    fn end(&mut self, _: StepRef, _: StepEnd<'_>) {}
    fn cancel_failed(&mut self, _: StepRef, _: &Error) {}
}

fn entries<'a>(bench: &mut Bench<'a>, arbiter: &'a SystemRunner) {
    let quota = Quota::per_second(NonZeroU32::new(PLENTY).expect("not zero"));
    let governor = RateLimiter::direct(quota);
    let base = bench.add("entry: governor", None, 1, "", move |iterations| {
        for _ in 0..iterations {
            black_box(governor.check().is_ok());
        }
    });
    let period = parking_lot::Mutex::new((clock::now(), 0_u32));
    bench.add("entry: a period, by hand", Some(base), 1, "", move |iterations| {
        for _ in 0..iterations {
            let now = clock::now();
            let (began, entered) = &mut *period.lock();
            if now.saturating_since(*began) > Duration::from_secs(1) {
                (*began, *entered) = (now, 0);
            }
            *entered += 1;
            black_box(*entered < PLENTY);
        }
    });
    let options = throttle::Options { max: PLENTY, ..throttle::Options::default() };
    let throttle = arbiter.block_on(async { Throttle::start(options) });
    let outside = throttle.clone();
    bench.add("entry: Throttle in a task", Some(base), 1, "at most 3", move |iterations| {
        for _ in 0..iterations {
            black_box(outside.try_enter().is_ok());
        }
    });
    let template = steps(&throttle);
    bench.add("entry: Throttle in a template", Some(base), STEPS, "at most 3", move |iterations| {
        (0..iterations).for_each(|_| run(arbiter, template.flow()));
    });
    bench.add("entry: Throttle in a flow", Some(base), 1, "at most 5", move |iterations| {
        let flow = visits(&throttle, iterations, |_| {});
        run(arbiter, flow);
    });
    let template = steps(&Nothing);
    bench.add("entry: nothing, in a template", Some(base), STEPS, "", move |iterations| {
        (0..iterations).for_each(|_| run(arbiter, template.flow()));
    });
    bench.add("entry: nothing, in a flow", Some(base), 1, "", move |iterations| {
        run(arbiter, visits(&Nothing, iterations, |_| {}));
    });
}

/// How long the step in a limiter may take.
const LIMIT: Duration = Duration::from_secs(10);

fn limited_step(asi: &mut AsyncSteps) -> StepResult {
    asi.set_timeout(LIMIT);
    asi.success(black_box(1))
}

/// A template of such steps in a limiter.
fn limited<O: ISync + Clone + Send + Sync + 'static>(object: &O) -> Template {
    Template::build(|asi| {
        for _ in 0..STEPS {
            asi.sync(object, |asi, ()| limited_step(asi));
        }
    })
}

fn limiters<'a>(bench: &mut Bench<'a>, arbiter: &'a SystemRunner) {
    let second = Duration::from_secs(1);
    let mut service = arbiter.block_on(async {
        ServiceBuilder::new()
            .concurrency_limit(10)
            .rate_limit(u64::from(PLENTY), second)
            .timeout(LIMIT)
            .service_fn(|()| async { Ok::<_, std::convert::Infallible>(black_box(1)) })
    });
    let base = bench.add("limiter: tower", None, 1, "", move |iterations| {
        arbiter.block_on(async {
            for _ in 0..iterations {
                let ready = service.ready().await.expect("it never fails");
                black_box(ready.call(()).await.is_ok());
            }
        });
    });
    let options = limiter::Options {
        concurrent: 10,
        rate: PLENTY,
        period: second,
        ..limiter::Options::default()
    };
    let limiter = arbiter.block_on(async { Limiter::start(options) });
    for (id, template, target) in [
        ("limiter: Limiter in a template", limited(&limiter), "at most 1.5"),
        ("limiter: nothing, in a template", limited(&Nothing), ""),
    ] {
        bench.add(id, Some(base), STEPS, target, move |iterations| {
            (0..iterations).for_each(|_| {
                arbiter
                    .block_on(async { start_flow::<i32>(template.flow()).await.expect("it ends") });
            });
        });
    }
    bench.add("limiter: Limiter in a flow", Some(base), 1, "at most 1.5", move |iterations| {
        run(arbiter, visits(&limiter, iterations, |asi| drop(limited_step(asi))));
    });
    bench.add("limiter: nothing, in a flow", Some(base), 1, "", move |iterations| {
        run(arbiter, visits(&Nothing, iterations, |asi| drop(limited_step(asi))));
    });
}

fn detection<'a>(bench: &mut Bench<'a>, arbiter: &'a SystemRunner) {
    let mutex = Mutex::new(mutex::Options::default());
    for (id, has_lock, target) in [("nothing", false, "at most 1.1"), ("another lock", true, "")] {
        let mut base = None;
        for (how, enabled, target) in [("off", false, ""), ("on", true, target)] {
            let (mutex, id) = (mutex.clone(), format!("16 owners that have {id}: detection {how}"));
            let place = bench.add(id, base, OWNERS, target, move |iterations| {
                if enabled {
                    deadlock::enable();
                } else {
                    deadlock::disable();
                }
                run_all(arbiter, || {
                    if !has_lock {
                        return visits(&mutex, iterations, let_others_run);
                    }
                    let mutex = mutex.clone();
                    let mut flow = Flow::new();
                    flow.sync(&Mutex::new(mutex::Options::default()), move |asi, ()| {
                        visit(asi, mutex, iterations, let_others_run);
                    });
                    flow
                });
                deadlock::enable();
            });
            base = Some(place);
        }
    }
}

/// Heap bytes that stay after each of a million keys was locked by a flow.
fn heap_after_keys(arbiter: &SystemRunner) -> f64 {
    let mutex = Mutex::new(mutex::Options::default());
    let visit = |key: u32| {
        let mut flow = Flow::new();
        flow.sync(&mutex.key(key.to_string()), |_, ()| {});
        run(arbiter, flow);
    };
    visit(0);
    let info = measure(|| (0..1_000_000).for_each(visit));
    info.bytes_kept as f64
}
