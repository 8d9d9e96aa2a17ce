//! Limits hold exactly, in order, and cost nothing once they are over: seeded, in virtual time where
//! one thread is enough.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::Arbiter;
use asyncsteps_actors::flow::{FlowHandle, start_flow};
use asyncsteps_actors::sync::{Limiter, Load, Mutex, Registry, Throttle, deadlock};
use asyncsteps_core::sim::Random;
use asyncsteps_core::sync::{ISync, limiter, mutex, throttle};
use asyncsteps_core::{AsyncSteps, Error, Flow, codes};
use tokio::sync::{Barrier, oneshot};
use tokio::time::Instant;

/// Far more than a test takes; a flow that hangs fails the test instead of holding it up.
const AT_MOST: Duration = Duration::from_secs(120);

/// What happened at one object; flows are known by their numbers.
#[derive(Default)]
struct Record {
    asked: Vec<usize>,
    /// Callers that found the object full when they asked.
    found_full: Vec<usize>,
    rejected: Vec<usize>,
    gave_up: usize,
    entered: Vec<(usize, Instant)>,
    inside: usize,
    most_inside: usize,
}

impl Record {
    /// Callers enter in the order in which they asked, without those that gave up. Callers that are
    /// let in at the same time may run in any order.
    fn check_order(&self) {
        let place = |number| self.asked.iter().position(|asked| *asked == number);
        let mut entered: Vec<_> =
            self.entered.iter().map(|(number, time)| (*time, place(*number))).collect();
        entered.sort_unstable();
        assert!(entered.is_sorted_by_key(|(_, place)| *place), "some were overtaken");
    }
}

type Shared = Rc<RefCell<Record>>;

/// Is inside until it is dropped.
struct Inside(Shared);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.borrow_mut().inside -= 1;
    }
}

/// A visit of an object by flow `number`: it comes some time, asks, stays, and may lose patience.
fn visit<O>(
    object: &O,
    is_full: impl Fn(&O) -> bool + 'static,
    record: &Shared,
    (number, random): (usize, &mut Random),
) -> FlowHandle
where
    O: ISync + Clone + 'static,
{
    let (object, record) = (object.clone(), Rc::clone(record));
    let [come, stay, patience] =
        [2_000, 20, 400].map(|limit| Duration::from_millis(random.below(limit) as u64));
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.sleep(come);
    });
    flow.add({
        let record = Rc::clone(&record);
        move |asi, ()| {
            let mut now = record.borrow_mut();
            now.asked.push(number);
            if is_full(&object) {
                now.found_full.push(number);
            }
            drop(now);
            asi.set_timeout(patience);
            asi.sync(&object, move |asi, ()| {
                let mut now = record.borrow_mut();
                now.entered.push((number, Instant::now()));
                now.inside += 1;
                now.most_inside = now.most_inside.max(now.inside);
                drop(now);
                asi.stack(Inside(record));
                asi.sleep(stay);
            });
        }
    })
    .on_error(move |asi, error| {
        let mut now = record.borrow_mut();
        match error.code() {
            codes::DEFENSE_REJECTED => now.rejected.push(number),
            codes::TIMEOUT => now.gave_up += 1,
            _ => return Ok(()),
        }
        asi.success(())
    });
    start_flow(flow)
}

/// Flows that visit one object within two seconds.
const VISITS: usize = 400;

async fn visits<O>(object: &O, is_full: impl Fn(&O) -> bool + Clone + 'static, seed: u64) -> Record
where
    O: ISync + Clone + 'static,
{
    let (record, mut random) = (Shared::default(), Random::new(seed));
    let flows: Vec<_> = (0..VISITS)
        .map(|number| visit(object, is_full.clone(), &record, (number, &mut random)))
        .collect();
    for flow in flows {
        flow.await.expect("no other error");
    }
    record.take()
}

#[actix::test]
async fn a_mutex_keeps_its_limits_and_its_order() {
    tokio::time::pause();
    let (mut rejected, mut gave_up) = (0, 0);
    for seed in 0..20 {
        let max = if seed % 2 == 0 { 1 } else { 3 };
        let options = mutex::Options { max, max_queue: (seed % 3 > 0).then_some(4) };
        let mutex = Mutex::new(options);
        let is_full = move |mutex: &Mutex| {
            let Load { holders, queued, .. } = mutex.load();
            holders == max as usize && Some(queued) == options.max_queue.map(|limit| limit as usize)
        };
        let record = visits(&mutex, is_full, seed).await;
        assert_eq!(record.rejected, record.found_full, "seed {seed}");
        assert_eq!(record.most_inside, max as usize, "seed {seed}");
        if max == 1 {
            record.check_order();
        }
        rejected += record.rejected.len();
        gave_up += record.gave_up;
        assert_eq!(mutex.load(), Load::NONE, "seed {seed}");
    }
    assert!(rejected > 100 && gave_up > 100, "{rejected} rejected, {gave_up} gave up");
}

#[actix::test]
async fn a_throttle_keeps_its_limits_and_its_order() {
    tokio::time::pause();
    let period = Duration::from_millis(50);
    let (mut rejected, mut gave_up) = (0, 0);
    for seed in 0..20 {
        let (max, max_queue) = (8, (seed % 2 == 0).then_some(10));
        let options = throttle::Options { max, period, max_queue };
        let throttle = Throttle::start(options);
        let is_full = |throttle: &Throttle| throttle.load().queued == 10;
        let record = visits(&throttle, is_full, seed).await;
        record.check_order();
        let may_reject = |number| record.found_full.contains(number) && max_queue.is_some();
        assert!(record.rejected.iter().all(may_reject), "seed {seed}");
        // whatever the windows are, entries that are two windows apart are a period apart
        for pair in record.entered.windows(2 * max as usize + 1) {
            let (first, last) = (pair[0].1, pair[pair.len() - 1].1);
            assert!(last - first >= period, "seed {seed}: {:?}", last - first);
        }
        rejected += record.rejected.len();
        gave_up += record.gave_up;
        tokio::time::sleep(3 * period).await;
        assert_eq!(throttle.load(), Load::NONE, "seed {seed}");
    }
    assert!(rejected > 100 && gave_up > 100, "{rejected} rejected, {gave_up} gave up");
}

#[actix::test]
async fn a_limiter_keeps_the_limits_of_both() {
    tokio::time::pause();
    let period = Duration::from_millis(50);
    for seed in 0..10 {
        let options =
            limiter::Options { concurrent: 4, max_queue: Some(6), rate: 5, period, burst: Some(2) };
        let limiter = Limiter::start(options);
        let record = visits(&limiter, |limiter| limiter.load().holders == 4, seed).await;
        assert!((1..=4).contains(&record.most_inside), "seed {seed}");
        assert!(!record.rejected.is_empty());
        for pair in record.entered.windows(2 * 5 + 1) {
            assert!(pair[pair.len() - 1].1 - pair[0].1 >= period, "seed {seed}");
        }
        tokio::time::sleep(3 * period).await;
        assert_eq!(limiter.load(), Load::NONE, "seed {seed}");
    }
}

#[test]
fn a_million_keys_over_time_take_no_memory() {
    let system = actix_rt::System::new();
    let registry = system.block_on(async {
        tokio::time::pause();
        let registry = Registry::new();
        let period = Duration::from_millis(5);
        let rate = throttle::Options { period, ..throttle::Options::default() };
        registry.define("mails", rate).expect("it is new");
        let limits = limiter::Options { period, ..limiter::Options::default() };
        registry.define("client", limits).expect("it is new");
        registry
    });
    let visit = |keys: std::ops::Range<u32>| {
        system.block_on(async {
            for number in keys {
                let key = number.to_string();
                let stock = registry.mutex("stock", &key).expect("a mutex");
                let guard = stock.try_lock().expect("it is free");
                assert!(registry.mutex("stock", &key).expect("the same").try_lock().is_none());
                drop(guard);
                if number % 10 == 0 {
                    let mails = registry.throttle("mails", &key).expect("a throttle");
                    assert!(mails.try_enter().expect("its actor lives"));
                    drop(mails);
                    let mails = registry.throttle("mails", &key).expect("the same");
                    assert!(!mails.try_enter().expect("its actor lives"), "its window is open");
                    let client = registry.limiter("client", &key).expect("a limiter");
                    drop(client.lock().await.expect("the first in its period"));
                    client.lock().await.expect_err("the second");
                }
                if number % 1_000 == 0 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        });
    };
    visit(0..10_000);
    let heap = asyncsteps_counted_heap::measure(|| visit(10_000..1_010_000));
    assert!(heap.bytes_kept.abs() < 10_000, "{} bytes stay", heap.bytes_kept);
    let stock = registry.mutex("stock", "1").expect("a mutex");
    assert_eq!(stock.load(), Load::NONE);
    assert_eq!(registry.throttle("mails", "1").expect("a throttle").load(), Load::NONE);
}

#[actix::test]
async fn a_name_stands_for_one_kind_of_object() {
    let registry = Registry::new();
    registry.mutex("stock", "a").expect("the first use");
    let error = registry.throttle("stock", "a").expect_err("it is a mutex");
    assert_eq!(error.to_string(), "`stock` is a mutex, not a throttle");
    let error = registry.define("stock", limiter::Options::default()).expect_err("it is used");
    assert!(error.to_string().starts_with("`stock` is a mutex already"), "{error}");
    let two = mutex::Options { max: 2, max_queue: Some(0) };
    registry.define("pair", two).expect("it is new");
    let locks = [(); 2].map(|()| registry.mutex("pair", "x").expect("a mutex").try_lock());
    assert!(locks.iter().all(Option::is_some));
    assert!(registry.mutex("pair", "x").expect("a mutex").try_lock().is_none());
    assert!(registry.mutex("pair", "y").expect("a mutex").try_lock().is_some());
}

/// Starts work on an arbiter of its own; gives what comes of it.
fn elsewhere<T, W>(work: impl FnOnce() -> W + Send + 'static) -> (Arbiter, oneshot::Receiver<T>)
where
    T: Send + 'static,
    W: Future<Output = T> + 'static,
{
    let (arbiter, (tell, told)) = (Arbiter::new(), oneshot::channel());
    arbiter.spawn_fn(move || {
        actix_rt::spawn(async move {
            // the test may have failed meanwhile
            drop(tell.send(work().await));
        });
    });
    (arbiter, told)
}

/// Waits, at most as long as the test may take, until something is so.
async fn until(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(AT_MOST, wait).await.expect("it comes to pass");
}

#[test]
fn an_arbiter_that_dies_leaves_its_locks_and_its_places_to_others() {
    actix_rt::System::new().block_on(async {
        let mutex = Mutex::new(mutex::Options::default());
        let limits = limiter::Options {
            max_queue: None,
            rate: 1_000,
            period: Duration::from_millis(1),
            burst: None,
            ..limiter::Options::default()
        };
        let limiter = Limiter::start(limits);
        let (lock, limit) = (mutex.clone(), limiter.clone());
        let (arbiter, started) = elsewhere(move || async move {
            // one of each kind is inside for ever, the others wait
            for _ in 0..10 {
                let (mut one, mut other) = (Flow::new(), Flow::new());
                one.sync(&lock, |asi, ()| asi.wait_only());
                other.sync(&limit, |asi, ()| asi.wait_only());
                start_flow::<()>(one).detach();
                start_flow::<()>(other).detach();
            }
        });
        started.await.expect("no panic");
        let here: Vec<FlowHandle> = (0..5)
            .flat_map(|_| {
                let (mut one, mut other) = (Flow::new(), Flow::new());
                one.sync(&mutex, |_, ()| {});
                other.sync(&limiter, |_, ()| {});
                [start_flow(one), start_flow(other)]
            })
            .collect();
        until(|| mutex.load().queued == 14 && limiter.load().queued == 14).await;
        arbiter.stop();
        arbiter.join().expect("no panic");
        for flow in here {
            let end = tokio::time::timeout(AT_MOST, flow).await;
            end.expect("none hangs").expect("its turn came");
        }
        assert_eq!(mutex.load(), Load::NONE);
        until(|| limiter.load() == Load::NONE).await;
    });
}

#[test]
fn a_throttle_whose_actor_died_fails_those_who_wait_and_those_who_come() {
    actix_rt::System::new().block_on(async {
        let arbiter = Arbiter::new();
        let handle = arbiter.handle();
        let period = Duration::from_secs(3_600);
        let options = throttle::Options { max: 1, period, max_queue: None };
        let throttle = Throttle::start_on(&handle, options);
        let visit = |throttle: &Throttle| {
            let mut flow = Flow::new();
            flow.sync(throttle, |_, ()| {});
            start_flow::<()>(flow)
        };
        visit(&throttle).await.expect("the first one enters");
        let flow = visit(&throttle);
        let call = actix_rt::spawn(throttle.enter());
        until(|| throttle.load().queued == 2).await;
        arbiter.stop();
        arbiter.join().expect("no panic");
        for end in [flow.await, call.await.expect("no panic"), visit(&throttle.key("other")).await]
        {
            let error = end.expect_err("it would wait for ever");
            assert_eq!(error.code(), codes::INTERNAL_ERROR);
            assert_eq!(error.info(), Some("the actor of the throttle is gone"));
        }
        assert!(throttle.try_enter().is_err());

        let dead = Throttle::start_on(&handle, options);
        assert!(visit(&dead).await.is_err(), "its actor never lived");
    });
}

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Takes the locks one inside of the other, with a turn for others in between.
fn nest(asi: &mut AsyncSteps, mut locks: std::vec::IntoIter<Mutex>) {
    if let Some(lock) = locks.next() {
        asi.sync(&lock, move |asi, ()| {
            asi.relinquish();
            asi.add(move |asi, ()| nest(asi, locks));
        });
    }
}

#[test]
fn locking_in_any_order_on_two_arbiters_fails_some_and_leaves_none_waiting() {
    actix_rt::System::new().block_on(async {
        let mutex = Mutex::new(mutex::Options::default());
        let wide = Mutex::new(mutex::Options { max: 2, max_queue: None });
        let both = Arc::new(Barrier::new(2));
        let arbiters = [1, 2].map(|seed| {
            let (mutex, wide, both) = (mutex.clone(), wide.clone(), Arc::clone(&both));
            elsewhere(move || async move {
                let mut random = Random::new(seed);
                both.wait().await;
                let mut flows: Vec<FlowHandle> = Vec::new();
                for _ in 0..2_000 {
                    let mut keys = KEYS;
                    for at in 0..3 {
                        keys.swap(at, at + random.below(6 - at));
                    }
                    let lock = |key: &&str| if *key < "e" { &mutex } else { &wide }.key(key);
                    let locks: Vec<_> = keys[..3].iter().map(lock).collect();
                    let mut flow = Flow::new();
                    flow.add(move |asi, ()| nest(asi, locks.into_iter()));
                    flows.push(start_flow(flow));
                }
                let mut failed = Vec::new();
                for flow in flows {
                    failed.extend(flow.await.err());
                }
                failed
            })
        });
        let mut failed: Vec<Error> = Vec::new();
        for (arbiter, told) in arbiters {
            let told = tokio::time::timeout(AT_MOST, told).await;
            failed.extend(told.expect("none hangs").expect("no panic"));
            arbiter.stop();
            arbiter.join().expect("no panic");
        }
        assert!(!failed.is_empty(), "random orders run into deadlocks");
        for error in &failed {
            assert_eq!(error.code(), codes::INTERNAL_ERROR);
            assert!(error.info().is_some_and(|info| info.starts_with("deadlock: ")), "{error}");
        }
        assert_eq!(deadlock::count(), failed.len() as u64);
        assert_eq!((mutex.load(), wide.load()), (Load::NONE, Load::NONE));
        assert!(deadlock::watched().is_empty());
    });
}
