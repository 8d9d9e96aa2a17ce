//! Deadlocks among mutexes: found, reported, and resolved by the newest wait or a time limit.
//!
//! What was found is counted per process, so tests look at their own mutexes in the reports.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::Arbiter;
use asyncsteps_actors::flow::{FlowHandle, start_flow};
use asyncsteps_actors::sync::deadlock::{self, Deadlock, DeadlockWait, Resource};
use asyncsteps_actors::sync::{Load, Mutex};
use asyncsteps_core::sync::mutex::Options;
use asyncsteps_core::{AsyncSteps, Completion, Error, Flow, codes};
use tokio::sync::{Barrier, oneshot};

/// The reports with a mutex of this name.
fn reports(name: &str) -> Vec<Arc<Deadlock>> {
    let mut reports = deadlock::last();
    reports.retain(|deadlock| deadlock.waits.iter().any(|wait| is_for(wait, name)));
    reports
}

/// Whether a wait is for a mutex of this name.
fn is_for(wait: &DeadlockWait, name: &str) -> bool {
    matches!(&wait.resource, Resource::Mutex { name: of, .. } if *of == name)
}

fn key(wait: &DeadlockWait) -> &str {
    let Resource::Mutex { key, .. } = &wait.resource else { panic!("{wait} is for no mutex") };
    key
}

/// How many waits for a mutex of this name are watched.
fn watched(name: &str) -> usize {
    deadlock::watched().iter().filter(|wait| is_for(wait, name)).count()
}

/// The keys of the only report with a mutex of this name, in the order of the cycle.
fn cycle(name: &str) -> String {
    let reports = reports(name);
    let [report] = &*reports else { panic!("{} reports", reports.len()) };
    report.waits.iter().map(key).collect::<Vec<_>>().join(" ")
}

fn mutex(name: &'static str) -> Mutex {
    Mutex::named(name, Options::default())
}

/// Lets all flows of this arbiter go as far as they can.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Takes the locks one inside of the other, with a pause for others in between.
fn nest(asi: &mut AsyncSteps, mut locks: std::vec::IntoIter<Mutex>) {
    if let Some(lock) = locks.next() {
        asi.sync(&lock, move |asi, ()| {
            asi.sleep(Duration::from_millis(1));
            asi.add(move |asi, ()| nest(asi, locks));
        });
    }
}

/// A flow that takes the locks of these keys one inside of the other.
fn nested(mutex: &Mutex, keys: &[&str]) -> Flow {
    let locks: Vec<Mutex> = keys.iter().map(|key| mutex.key(key)).collect();
    let mut flow = Flow::new();
    flow.add(move |asi, ()| nest(asi, locks.into_iter()));
    flow
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

/// The ends of flows that were started in this order.
async fn ends(flows: Vec<Flow>) -> Vec<Result<(), Error>> {
    let handles: Vec<FlowHandle> = flows.into_iter().map(start_flow).collect();
    let mut ends = Vec::new();
    for handle in handles {
        ends.push(handle.await);
    }
    ends
}

fn info(end: &Result<(), Error>) -> &str {
    let error = end.as_ref().expect_err("it is in a deadlock");
    assert_eq!(error.code(), codes::INTERNAL_ERROR);
    error.info().expect("it names the cycle")
}

#[actix::test]
async fn of_two_flows_the_newest_wait_fails_and_the_other_flow_goes_on() {
    tokio::time::pause();
    let mutex = mutex("two");
    let ends = ends(vec![nested(&mutex, &["a", "b"]), nested(&mutex, &["b", "a"])]).await;
    ends[0].as_ref().expect("the other one made room");
    let text = info(&ends[1]);
    for part in
        ["deadlock: flow ", "for mutex `two` key \"a\" (at actors", "), held by flow ", "key \"b\""]
    {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(cycle("two"), "a b");
    assert!(!reports("two")[0].left_to_limit);
    assert_eq!(mutex.load(), Load::NONE);
}

#[actix::test]
async fn three_flows_wait_in_a_circle() {
    tokio::time::pause();
    let mutex = mutex("three");
    let flows = [["a", "b"], ["b", "c"], ["c", "a"]].map(|keys| nested(&mutex, &keys));
    let ends = ends(flows.into()).await;
    assert_eq!(ends.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
    info(&ends[2]);
    assert_eq!(cycle("three"), "a b c");
}

#[actix::test]
async fn flows_that_queue_behind_a_deadlock_are_not_part_of_it() {
    tokio::time::pause();
    let mutex = mutex("behind");
    let ends = ends(vec![
        nested(&mutex, &["a", "b"]),
        nested(&mutex, &["b", "c"]),
        nested(&mutex, &["d", "a"]),
        nested(&mutex, &["b"]),
        nested(&mutex, &["c", "a"]),
        nested(&mutex, &["e", "c"]),
    ])
    .await;
    let failed: Vec<_> = ends.iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, false, false, false, true, false]);
    assert_eq!(cycle("behind"), "a b c");
    assert_eq!(mutex.load(), Load::NONE);
}

#[actix::test]
async fn entering_again_is_no_deadlock() {
    tokio::time::pause();
    let mutex = mutex("again");
    let ends = ends(vec![nested(&mutex, &["a", "a", "b"]), nested(&mutex, &["a", "b", "a"])]).await;
    assert!(ends.iter().all(Result::is_ok), "{ends:?}");
    assert!(reports("again").is_empty());
}

#[actix::test]
async fn a_branch_that_waits_for_a_lock_around_it_is_a_deadlock_by_itself() {
    let mutex = mutex("parent");
    let inner = mutex.clone();
    let mut flow = Flow::new();
    flow.sync(&mutex, move |asi, ()| {
        asi.parallel(move |p| {
            p.add(|asi, ()| {
                asi.set_cancel(|_| {});
            });
            p.add(move |asi, ()| {
                asi.add(move |asi, ()| {
                    asi.sync(&inner, |_, ()| unreachable!("its parent holds the lock"));
                });
            });
        });
    });
    let end = start_flow::<()>(flow).await;
    assert!(info(&end).contains("branch 2"), "{end:?}");
    assert_eq!(cycle("parent"), "");
    assert_eq!(mutex.load(), Load::NONE);
}

#[actix::test]
async fn what_a_branch_waits_for_holds_up_the_locks_around_it() {
    tokio::time::pause();
    let mutex = mutex("branched");
    let mut flow = Flow::new();
    let inner = mutex.key("b");
    flow.sync(&mutex.key("a"), move |asi, ()| {
        asi.sleep(Duration::from_millis(1));
        asi.parallel(move |p| {
            p.add(move |asi, ()| {
                asi.sync(&inner, |_, ()| {});
            });
        });
    });
    let ends = ends(vec![flow, nested(&mutex, &["b", "a"])]).await;
    ends[0].as_ref().expect("the other one made room");
    info(&ends[1]);
    assert_eq!(cycle("branched"), "a b");
}

/// A flow that is inside of a mutex until the test lets it go.
fn holder(mutex: &Mutex, inside: &Rc<RefCell<Vec<Completion>>>) -> FlowHandle {
    let inside = Rc::clone(inside);
    let mut flow = Flow::new();
    flow.sync(mutex, move |asi, ()| inside.borrow_mut().push(asi.wait_external()));
    start_flow(flow)
}

#[actix::test]
async fn with_room_for_two_both_holders_have_to_be_held_up() {
    tokio::time::pause();
    let wide = Mutex::named("wide", Options { max: 2, max_queue: None });
    let narrow = mutex("narrow");
    let inside = Rc::default();
    let other = holder(&wide, &inside);
    let both = |first: &Mutex, second: &Mutex| {
        let locks = vec![first.clone(), second.clone()];
        let mut flow = Flow::new();
        flow.add(move |asi, ()| nest(asi, locks.into_iter()));
        start_flow::<()>(flow)
    };
    let one = both(&wide, &narrow);
    let two = both(&narrow, &wide);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(one.is_valid() && two.is_valid());
    assert!(reports("wide").is_empty(), "the other holder may leave");
    inside.borrow_mut().remove(0).success(()).expect("it waits");
    other.await.expect("it leaves");
    two.await.expect("the other one made room");
    one.await.expect("it is next");

    let (one, again, two) = (both(&wide, &narrow), both(&wide, &narrow), both(&narrow, &wide));
    let ends = [one.await, again.await, two.await];
    assert_eq!(ends.iter().filter(|end| end.is_err()).count(), 1, "{ends:?}");
    assert_eq!(reports("wide").len(), 1);
    assert_eq!((wide.load(), narrow.load()), (Load::NONE, Load::NONE));
}

#[actix::test]
async fn a_deadlock_with_a_time_limit_is_reported_and_left_to_it() {
    tokio::time::pause();
    let mutex = mutex("limited");
    let (first, second) = (mutex.key("a"), mutex.key("b"));
    let mut limited = Flow::new();
    limited.add(move |asi, ()| {
        asi.set_timeout(Duration::from_millis(100));
        nest(asi, vec![first, second].into_iter());
    });
    let start = tokio::time::Instant::now();
    let ends = ends(vec![limited, nested(&mutex, &["b", "a"])]).await;
    assert_eq!(ends[0].as_ref().expect_err("its limit").code(), codes::TIMEOUT);
    ends[1].as_ref().expect("the other one made room");
    assert!(start.elapsed() >= Duration::from_millis(100));
    assert_eq!(cycle("limited"), "a b");
    assert!(reports("limited")[0].left_to_limit);
    assert_eq!(mutex.load(), Load::NONE);
}

#[actix::test]
async fn a_limit_of_a_step_with_policies_bounds_the_waits_inside_of_it() {
    type Waits = fn(&mut AsyncSteps, &Mutex, Duration);
    tokio::time::pause();
    let limit = Duration::from_millis(20);
    let forms: [(&'static str, Waits); 2] = [
        ("nested", |asi, mutex, limit| {
            let locks = vec![mutex.key("b")];
            asi.add(move |asi, ()| nest(asi, locks.into_iter())).timeout(limit);
        }),
        ("around", |asi, mutex, limit| {
            let inner = mutex.key("b");
            asi.add(move |asi, ()| {
                asi.run(async |()| Ok(())).locked(&inner);
            })
            .timeout(limit);
        }),
    ];
    for (name, add) in forms {
        let mutex = mutex(name);
        let (first, inner) = (mutex.key("a"), mutex.clone());
        let mut limited = Flow::new();
        limited.sync(&first, move |asi, ()| {
            asi.sleep(Duration::from_millis(1));
            asi.add(move |asi, ()| add(asi, &inner, limit));
        });
        let ends = ends(vec![limited, nested(&mutex, &["b", "a"])]).await;
        assert_eq!(ends[0].as_ref().expect_err("its limit").code(), codes::TIMEOUT, "{name}");
        ends[1].as_ref().expect("the limit made room");
        assert!(reports(name)[0].left_to_limit, "{name}");
    }
}

#[actix::test]
async fn the_limit_of_a_step_does_not_bound_the_wait_for_a_lock_of_its_own() {
    tokio::time::pause();
    let mutex = mutex("own");
    let (first, inner) = (mutex.key("a"), mutex.key("b"));
    let mut limited = Flow::new();
    limited.sync(&first, move |asi, ()| {
        asi.sleep(Duration::from_millis(1));
        asi.add(move |asi, ()| {
            asi.run(async |()| Ok(())).locked(&inner).timeout(Duration::from_millis(20));
        });
    });
    let ends = ends(vec![limited, nested(&mutex, &["b", "a"])]).await;
    let failed: Vec<_> = ends.iter().filter(|end| end.is_err()).collect();
    let [failed] = failed[..] else { panic!("one fails: {ends:?}") };
    info(failed);
    assert!(!reports("own")[0].left_to_limit);
}

#[actix::test]
async fn a_lock_outside_of_flows_is_supposed_to_come_free() {
    tokio::time::pause();
    let mutex = mutex("outside");
    let guard = mutex.key("a").lock().await.expect("it is free");
    let flow: FlowHandle = start_flow(nested(&mutex, &["b", "a"]));
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(watched("outside"), 1);
    drop(guard);
    flow.await.expect("its turn came");
    assert_eq!(watched("outside"), 0);
    assert!(reports("outside").is_empty());
}

#[actix::test]
async fn what_has_no_lock_is_not_watched() {
    let mutex = mutex("plain");
    let inside = Rc::default();
    let first = holder(&mutex, &inside);
    let second = holder(&mutex, &inside);
    settle().await;
    assert_eq!((mutex.load().queued, watched("plain")), (1, 0));
    drop((first, second));
}

#[test]
fn a_deadlock_across_two_arbiters_is_found() {
    actix_rt::System::new().block_on(async {
        let mutex = mutex("arbiters");
        let both_inside = Arc::new(Barrier::new(2));
        let ends = [["a", "b"], ["b", "a"]].map(|[first, second]| {
            let (first, second) = (mutex.key(first), mutex.key(second));
            let both_inside = Arc::clone(&both_inside);
            elsewhere(move || {
                let mut flow = Flow::new();
                flow.sync(&first, move |asi, ()| {
                    asi.await_(async move {
                        both_inside.wait().await;
                        Ok::<_, Error>(())
                    });
                    asi.sync(&second, |_, ()| {});
                });
                start_flow::<()>(flow)
            })
        });
        let mut failed = 0;
        for (arbiter, told) in ends {
            failed += usize::from(told.await.expect("it ends").is_err());
            arbiter.stop();
            arbiter.join().expect("no panic");
        }
        assert_eq!((failed, reports("arbiters").len()), (1, 1));
        assert_eq!((mutex.load(), watched("arbiters")), (Load::NONE, 0));
    });
}

/// SplitMix64: the same numbers for the same seed, for ever.
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    usize::try_from((mixed ^ (mixed >> 31)) >> 33).expect("31 bits")
}

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Three keys in a random order.
fn three_keys(state: &mut u64) -> [&'static str; 3] {
    let mut keys = KEYS;
    for at in 0..3 {
        keys.swap(at, at + random(state) % (KEYS.len() - at));
    }
    [keys[0], keys[1], keys[2]]
}

#[actix::test]
async fn locking_in_one_order_is_never_a_deadlock() {
    tokio::time::pause();
    let (mutex, mut state) = (mutex("ordered"), 1);
    let flows = (0..500).map(|_| {
        let mut keys = three_keys(&mut state);
        keys.sort_unstable();
        nested(&mutex, &keys)
    });
    let ends = ends(flows.collect()).await;
    assert!(ends.iter().all(Result::is_ok));
    assert!(reports("ordered").is_empty());
    assert_eq!((mutex.load(), watched("ordered")), (Load::NONE, 0));
}
