//! Locks survive their owners: whatever ends flows on two arbiters, every lock comes free, no limit
//! is exceeded, no waiter is overtaken, no flow hangs, and no memory stays.

use std::cell::Cell;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use actix::Arbiter;
use asyncsteps_actors::flow::{FlowHandle, start_flow};
use asyncsteps_actors::sync::{Limiter, Load, Mutex, Throttle, deadlock};
use asyncsteps_core::sim::Random;
use asyncsteps_core::sync::{ISync, limiter, mutex, throttle};
use asyncsteps_core::{AsyncSteps, Flow, StepResult};
use tokio::sync::oneshot;

/// Flows on each of the two arbiters in each of two rounds: 100,000 in all.
const FLOWS: usize = 25_000;

/// Flows that live at the same time on each arbiter.
const BATCH: usize = 500;

/// Far more than the test takes; a flow that hangs fails the test instead of holding it up.
const AT_MOST: Duration = Duration::from_secs(120);

/// A lock, how many may be inside, and how many are.
#[derive(Clone)]
struct Watched<O> {
    object: O,
    max: usize,
    inside: Arc<AtomicUsize>,
    /// The most that were inside at once.
    most: Arc<AtomicUsize>,
    order: Arc<Order>,
}

/// In which order the flows of each arbiter were inside.
#[derive(Default)]
struct Order {
    /// The last one, by the number of its asking on its arbiter.
    last: [AtomicU64; 2],
    overtaken: AtomicUsize,
}

impl Order {
    /// New arbiters begin to count.
    fn start_again(&self) {
        self.last.iter().for_each(|last| last.store(0, Ordering::SeqCst));
    }

    fn note(&self, Asking { arbiter, number }: Asking) {
        if self.last[arbiter].swap(number, Ordering::SeqCst) > number {
            self.overtaken.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Counts the flows of an arbiter in the order in which they ask for something.
#[derive(Clone, Copy)]
struct Asking {
    arbiter: usize,
    number: u64,
}

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

impl Asking {
    fn now(arbiter: usize) -> Self {
        ASKED.set(ASKED.get() + 1);
        Self { arbiter, number: ASKED.get() }
    }
}

impl<O> Watched<O> {
    fn new(object: O, max: usize) -> Self {
        Self { object, max, inside: Arc::default(), most: Arc::default(), order: Arc::default() }
    }

    fn check(&self) {
        assert_eq!(self.inside.load(Ordering::SeqCst), 0, "everybody left");
        let most = self.most.load(Ordering::SeqCst);
        assert!((1..=self.max).contains(&most), "{most} were inside of {}", self.max);
        // with room for several, one that was let in later may run earlier
        if self.max == 1 {
            assert_eq!(self.order.overtaken.load(Ordering::SeqCst), 0, "first come, first served");
        }
    }
}

/// Is inside until it is dropped.
struct Inside(Arc<AtomicUsize>);

impl Inside {
    fn enter<O>(watched: &Watched<O>) -> Self {
        let inside = watched.inside.fetch_add(1, Ordering::SeqCst) + 1;
        watched.most.fetch_max(inside, Ordering::SeqCst);
        Self(Arc::clone(&watched.inside))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Clone)]
struct Objects {
    /// The arbiter that uses this handle.
    arbiter: usize,
    mutexes: [Watched<Mutex>; 4],
    throttles: [Throttle; 2],
    limiters: [Watched<Limiter>; 2],
}

impl Objects {
    fn start() -> Self {
        let mutex = |max: u32, max_queue| {
            Watched::new(Mutex::new(mutex::Options { max, max_queue }), max as usize)
        };
        let throttle = |max| {
            let period = Duration::from_millis(1);
            Throttle::start(throttle::Options { max, period, max_queue: Some(100) })
        };
        let limiter = |concurrent: u32| {
            let options = limiter::Options {
                concurrent,
                max_queue: Some(50),
                rate: 1_000,
                period: Duration::from_millis(1),
                burst: None,
            };
            Watched::new(Limiter::start(options), concurrent as usize)
        };
        Self {
            arbiter: 0,
            mutexes: [mutex(1, None), mutex(1, Some(20)), mutex(3, None), mutex(8, Some(5))],
            throttles: [throttle(50), throttle(500)],
            limiters: [limiter(2), limiter(10)],
        }
    }

    /// Adds a section on one of the objects, which ends in one of many ways.
    fn add_section(&self, flow: &mut Flow, random: &mut Random) {
        let end = random.below(8);
        match random.below(8) {
            0..4 => self.add_watched(flow, &self.mutexes[random.below(4)], end),
            4..6 => {
                flow.sync(&self.throttles[random.below(2)], move |asi, ()| finish(asi, end));
            }
            _ => self.add_watched(flow, &self.limiters[random.below(2)], end),
        }
    }

    fn add_watched<O>(&self, flow: &mut Flow, watched: &Watched<O>, end: usize)
    where
        O: ISync + Clone + 'static,
    {
        let (watched, arbiter) = (watched.clone(), self.arbiter);
        flow.add(move |asi, ()| {
            let (asking, object) = (Asking::now(arbiter), watched.object.clone());
            asi.sync(&object, move |asi, ()| {
                watched.order.note(asking);
                asi.stack(Inside::enter(&watched));
                finish(asi, end)
            });
        });
    }

    /// Whether no section is entered, no flow waits, and no window is open.
    fn are_free(&self) -> bool {
        self.mutexes.iter().all(|watched| watched.object.load() == Load::NONE)
            && self.throttles.iter().all(|throttle| throttle.load() == Load::NONE)
            && self.limiters.iter().all(|watched| watched.object.load() == Load::NONE)
    }

    fn flow(&self, random: &mut Random) -> Flow {
        let mut flow = Flow::new();
        let limit = Duration::from_micros(random.below(3_000) as u64);
        for _ in 0..=random.below(2) {
            self.add_section(&mut flow, random);
        }
        if random.below(4) > 0 {
            return flow;
        }
        let objects = self.clone();
        let seed = random.number();
        let mut limited = Flow::new();
        limited.add(move |asi, ()| {
            asi.set_timeout(limit);
            let mut inner = Flow::new();
            objects.add_section(&mut inner, &mut Random::new(seed));
            let handle: FlowHandle = start_flow(inner);
            asi.await_(handle);
        });
        limited
    }
}

/// The ways a section ends.
fn finish(asi: &mut AsyncSteps, how: usize) -> StepResult {
    match how {
        0 => return asi.error("Failed", ()),
        1 => panic!("inside of a section"),
        2 => asi.set_timeout(Duration::from_micros(300)),
        3 => {
            asi.await_(async {
                tokio::task::yield_now().await;
                Ok::<_, std::io::Error>(())
            });
        }
        4 => {
            asi.parallel(|branches| {
                branches.add(|asi, ()| {
                    asi.set_cancel(|_| {});
                });
                branches.add(|asi, ()| asi.error("Failed", ()));
            });
        }
        _ => {}
    }
    Ok(())
}

/// Runs all flows of one arbiter; some are dropped, some cancelled, the others awaited.
async fn run(objects: Objects, seed: u64) {
    let mut random = Random::new(seed);
    for _ in 0..FLOWS / BATCH {
        let mut handles: Vec<FlowHandle> = Vec::with_capacity(BATCH);
        for _ in 0..BATCH {
            let handle = start_flow(objects.flow(&mut random));
            match random.below(10) {
                0 => drop(handle),
                1 => {
                    handle.cancel();
                    handles.push(handle);
                }
                _ => handles.push(handle),
            }
        }
        for handle in handles {
            // how it ended is not the question here
            let _ = handle.await;
        }
    }
}

/// Runs a round of flows on two arbiters and waits until their locks are free.
async fn round(objects: &Objects) {
    let arbiters: [(Arbiter, oneshot::Receiver<()>); 2] = [0, 1].map(|number| {
        let (tell, told) = oneshot::channel();
        let (arbiter, objects) = (Arbiter::new(), Objects { arbiter: number, ..objects.clone() });
        arbiter.spawn_fn(move || {
            actix::spawn(async move {
                run(objects, number as u64 + 1).await;
                // the test may have given up
                let _ = tell.send(());
            });
        });
        (arbiter, told)
    });
    for (arbiter, told) in arbiters {
        told.await.expect("the arbiter runs to its end");
        arbiter.stop();
        arbiter.join().expect("no panic leaves a flow");
    }
    for watched in &objects.mutexes {
        assert_eq!(watched.object.load(), Load::NONE);
        watched.order.start_again();
    }
    while !objects.are_free() {
        tokio::task::yield_now().await;
    }
}

/// Bytes of memory that the process uses.
fn memory() -> usize {
    const PAGE: usize = 4096;
    let text = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("resident pages") * PAGE
}

#[test]
fn every_lock_comes_free_whatever_ends_the_flows_on_two_arbiters() {
    std::panic::set_hook(Box::new(|_| {}));
    let system = actix::System::new();
    let outcome = system.block_on(async {
        let objects = Objects::start();
        let all = async {
            round(&objects).await;
            let before = memory();
            round(&objects).await;
            memory().saturating_sub(before)
        };
        (tokio::time::timeout(AT_MOST, all).await, objects)
    });
    let _ = std::panic::take_hook();
    let (grown, objects) = outcome;
    let grown = grown.expect("no flow hangs and every lock comes free");
    objects.mutexes.iter().for_each(Watched::check);
    objects.limiters.iter().for_each(Watched::check);
    assert!(deadlock::watched().is_empty());
    // a hundred bytes for each flow of the second round would be more
    assert!(grown < 4 << 20, "{grown} bytes stay");
}
