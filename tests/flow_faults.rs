//! Locks survive their owners: whatever ends flows on two arbiters, every lock comes free, no limit
//! is exceeded, and no flow hangs.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::Arbiter;
use asyncsteps::sync::{limiter, mutex, throttle};
use asyncsteps::{AsyncSteps, Flow, StepResult};
use asyncsteps_actors::flow::{FlowHandle, start_flow};
use asyncsteps_actors::sync::{Limiter, Load, Mutex, Throttle};
use tokio::sync::oneshot;

/// Flows on each of the two arbiters.
const FLOWS: usize = 50_000;

/// Flows that live at the same time on each arbiter.
const BATCH: usize = 500;

/// Far more than the test takes; a flow that hangs fails the test instead of holding it up.
const AT_MOST: Duration = Duration::from_secs(120);

/// SplitMix64: the same numbers for the same seed, for ever.
struct Random(Cell<u64>);

impl Random {
    fn below(&self, bound: u64) -> u64 {
        let state = self.0.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.0.set(state);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// A lock, how many may be inside, and how many are.
#[derive(Clone)]
struct Watched<O> {
    object: O,
    max: usize,
    inside: Arc<AtomicUsize>,
    /// The most that were inside at once.
    most: Arc<AtomicUsize>,
}

impl<O> Watched<O> {
    fn new(object: O, max: usize) -> Self {
        Self { object, max, inside: Arc::default(), most: Arc::default() }
    }

    fn check(&self) {
        assert_eq!(self.inside.load(Ordering::SeqCst), 0, "everybody left");
        let most = self.most.load(Ordering::SeqCst);
        assert!((1..=self.max).contains(&most), "{most} were inside of {}", self.max);
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
            mutexes: [mutex(1, None), mutex(1, Some(20)), mutex(3, None), mutex(8, Some(5))],
            throttles: [throttle(50), throttle(500)],
            limiters: [limiter(2), limiter(10)],
        }
    }

    /// Adds a section on one of the objects, which ends in one of many ways.
    fn add_section(&self, flow: &mut Flow, random: &Random) {
        let pick = |count: usize| usize::try_from(random.below(count as u64)).unwrap_or_default();
        let end = random.below(8);
        match random.below(8) {
            0..4 => {
                let watched = self.mutexes[pick(4)].clone();
                let object = watched.object.clone();
                flow.sync(&object, move |asi, ()| {
                    asi.stack(Inside::enter(&watched));
                    finish(asi, end)
                });
            }
            4..6 => {
                flow.sync(&self.throttles[pick(2)], move |asi, ()| finish(asi, end));
            }
            _ => {
                let watched = self.limiters[pick(2)].clone();
                let object = watched.object.clone();
                flow.sync(&object, move |asi, ()| {
                    asi.stack(Inside::enter(&watched));
                    finish(asi, end)
                });
            }
        }
    }

    fn flow(&self, random: &Random) -> Flow {
        let mut flow = Flow::new();
        let limit = Duration::from_micros(random.below(3_000));
        for _ in 0..=random.below(2) {
            self.add_section(&mut flow, random);
        }
        if random.below(4) > 0 {
            return flow;
        }
        let objects = self.clone();
        let seed = random.below(u64::MAX);
        let mut limited = Flow::new();
        limited.add(move |asi, ()| {
            asi.set_timeout(limit);
            let mut inner = Flow::new();
            objects.add_section(&mut inner, &Random(Cell::new(seed)));
            let handle: FlowHandle = start_flow(inner);
            asi.await_(handle);
        });
        limited
    }
}

/// The ways a section ends.
fn finish(asi: &mut AsyncSteps, how: u64) -> StepResult {
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
    let random = Random(Cell::new(seed));
    for _ in 0..FLOWS / BATCH {
        let mut handles: Vec<FlowHandle> = Vec::with_capacity(BATCH);
        for _ in 0..BATCH {
            let handle = start_flow(objects.flow(&random));
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

#[test]
fn every_lock_comes_free_whatever_ends_the_flows_on_two_arbiters() {
    std::panic::set_hook(Box::new(|_| {}));
    let system = actix::System::new();
    let outcome = system.block_on(async {
        let objects = Objects::start();
        let arbiters: [(Arbiter, oneshot::Receiver<()>); 2] = [1, 2].map(|seed| {
            let (tell, told) = oneshot::channel();
            let (arbiter, objects) = (Arbiter::new(), objects.clone());
            arbiter.spawn_fn(move || {
                actix::spawn(async move {
                    run(objects, seed).await;
                    // the test may have given up
                    let _ = tell.send(());
                });
            });
            (arbiter, told)
        });
        let all = async {
            for (arbiter, told) in arbiters {
                told.await.expect("the arbiter runs to its end");
                arbiter.stop();
                arbiter.join().expect("no panic leaves a flow");
            }
            for watched in &objects.mutexes {
                assert_eq!(watched.object.load(), Load::NONE);
            }
            objects
        };
        tokio::time::timeout(AT_MOST, all).await
    });
    let _ = std::panic::take_hook();
    let objects = outcome.expect("no flow hangs and every lock comes free");
    objects.mutexes.iter().for_each(Watched::check);
    objects.limiters.iter().for_each(Watched::check);
}
