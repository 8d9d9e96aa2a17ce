//! The actors of locks: whatever gets lost on the way leaves the lock free, and nothing is unlocked by
//! what does not hold it.

use std::sync::mpsc;
use std::time::Duration;

use actix::{Addr, Arbiter, MailboxError};
use asyncsteps_actors::flow::{FlowHandle, start_flow};
use asyncsteps_actors::sync::{
    Enter, Inspect, Limiter, Load, Lock, LockGuard, LockTicket, Mutex, MutexActor, Throttle,
    Unlock, UnlockError,
};
use asyncsteps_core::sync::{limiter, mutex, throttle};
use asyncsteps_core::{Flow, codes};
use tokio::sync::oneshot;

fn mutex() -> Mutex {
    Mutex::named("stock", mutex::Options::default())
}

async fn lock(address: &Addr<MutexActor>, key: &str) -> LockGuard {
    address.send(Lock::key(key)).await.expect("it answers").expect("its turn")
}

async fn unlock(address: &Addr<MutexActor>, ticket: &LockTicket) -> Result<(), UnlockError> {
    address.send(Unlock { ticket: ticket.clone() }).await.expect("it answers")
}

/// Lets others run until the mutex has this load.
async fn becomes(mutex: &Mutex, holders: usize, queued: usize) {
    for _ in 0..10_000 {
        let load = mutex.load();
        if (load.holders, load.queued) == (holders, queued) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it stays at {:?}", mutex.load());
}

/// A flow that says its name when it is inside.
fn says(mutex: &Mutex, name: &'static str, inside: &mpsc::Sender<&'static str>) -> Flow {
    let inside = inside.clone();
    let mut flow = Flow::new();
    flow.sync(mutex, move |_, ()| inside.send(name).expect("the test waits"));
    flow
}

#[actix::test]
async fn messages_and_direct_use_are_one_queue() {
    let mutex = mutex();
    let address = mutex.address();
    let (inside, entered) = mpsc::channel();
    let by_actor = address.send(Lock::default());
    let ticket = by_actor.await.expect("it answers").expect("its turn").into_ticket();
    assert!(mutex.try_lock().is_none(), "the lock that the actor gave out is the same one");

    let first = actix_rt::spawn(start_flow::<()>(says(&mutex, "flow", &inside)));
    becomes(&mutex, 1, 1).await;
    let (asked, says_message) = (address.clone(), inside.clone());
    let second = actix_rt::spawn(async move {
        let guard = lock(&asked, "").await;
        says_message.send("message").expect("the test waits");
        drop(guard);
    });
    becomes(&mutex, 1, 2).await;
    let (called, says_call) = (mutex.clone(), inside.clone());
    let third = actix_rt::spawn(async move {
        let guard = called.lock().await.expect("its turn");
        says_call.send("call").expect("the test waits");
        address.send(Unlock { ticket: guard.into_ticket() }).await
    });
    becomes(&mutex, 1, 3).await;
    let last = actix_rt::spawn(start_flow::<()>(says(&mutex, "last", &inside)));
    becomes(&mutex, 1, 4).await;

    assert_eq!(mutex.unlock(&ticket), Ok(()));
    first.await.expect("no panic").expect("it was inside");
    second.await.expect("no panic");
    assert_eq!(third.await.expect("no panic"), Ok(Ok(())));
    last.await.expect("no panic").expect("it was inside");
    assert_eq!(entered.try_iter().collect::<Vec<_>>(), ["flow", "message", "call", "last"]);
    assert_eq!(mutex.load(), Load::NONE);
}

#[actix::test]
async fn a_ticket_unlocks_once() {
    let mutex = mutex();
    let address = mutex.address();
    let ticket = lock(&address, "a").await.into_ticket();
    assert_eq!((ticket.key(), ticket.is_held()), ("a", true));
    assert_eq!(unlock(&address, &ticket).await, Ok(()));
    assert_eq!((mutex.load(), ticket.is_held()), (Load::NONE, false));
    assert_eq!(unlock(&address, &ticket).await, Err(UnlockError::NotHeld));
    assert_eq!(mutex.unlock(&ticket), Err(UnlockError::NotHeld));
    // the next holder is safe from it
    let next = lock(&address, "a").await;
    assert_eq!(unlock(&address, &ticket).await, Err(UnlockError::NotHeld));
    assert_eq!(mutex.load().holders, 1);
    drop(next);
}

#[actix::test]
async fn a_ticket_of_another_object_is_refused_and_its_lock_stays() {
    let (one, other) = (mutex(), mutex());
    let limiter = Limiter::start(limiter::Options { rate: 10, ..Default::default() });
    let (first, second) = (one.address(), other.address());
    let ticket = lock(&first, "").await.into_ticket();
    assert_eq!(unlock(&second, &ticket).await, Err(UnlockError::Foreign));
    let by_limiter = limiter.address().send(Unlock { ticket: ticket.clone() }).await;
    assert_eq!(by_limiter, Ok(Err(UnlockError::Foreign)));
    assert_eq!(one.load().holders, 1);
    assert_eq!(unlock(&first, &ticket).await, Ok(()));
    assert_eq!(unlock(&second, &ticket).await, Err(UnlockError::Foreign));

    let guard = limiter.address().send(Lock::default()).await.expect("it answers");
    let ticket = guard.expect("it is free").into_ticket();
    assert_eq!(unlock(&first, &ticket).await, Err(UnlockError::Foreign));
    let by_limiter = limiter.address().send(Unlock { ticket }).await;
    assert_eq!(by_limiter, Ok(Ok(())));
    assert_eq!(limiter.load().holders, 0);
}

#[actix::test]
async fn a_lock_is_free_again_when_its_guard_or_last_ticket_is_dropped() {
    let mutex = mutex();
    let address = mutex.address();
    drop(lock(&address, "").await);
    assert_eq!(mutex.load(), Load::NONE);
    let ticket = lock(&address, "").await.into_ticket();
    let copy = ticket.clone();
    drop(ticket);
    assert_eq!(mutex.load().holders, 1);
    // from a thread that knows nothing of actix
    std::thread::spawn(move || drop(copy)).join().expect("no panic");
    assert_eq!(mutex.load(), Load::NONE);
}

#[actix::test]
async fn a_lock_whose_answer_is_not_taken_is_free_again() {
    let mutex = mutex();
    let address = mutex.address();
    // given, but dropped before it was read
    let request = address.send(Lock::default());
    becomes(&mutex, 1, 0).await;
    drop(request);
    assert_eq!(mutex.load(), Load::NONE);
    // not given yet
    let held = lock(&address, "").await;
    let waiting = actix::spawn(address.send(Lock::default()));
    becomes(&mutex, 1, 1).await;
    waiting.abort();
    becomes(&mutex, 1, 0).await;
    drop(held);
    // not even handled yet
    drop(address.send(Lock::default()));
    tokio::task::yield_now().await;
    assert_eq!(mutex.load(), Load::NONE);
}

#[actix::test]
async fn an_unlock_by_message_admits_the_flow_that_waits() {
    let mutex = mutex();
    let address = mutex.address();
    let ticket = lock(&address, "apple").await.into_ticket();
    let mut flow = Flow::new();
    flow.sync(&mutex.key("apple"), |asi, ()| asi.success(42));
    let handle: FlowHandle<i32> = start_flow(flow);
    let report = address.send(Inspect).await.expect("it answers");
    assert_eq!((report.name, report.keys.len()), ("stock", 1));
    let key = &report.keys[0];
    assert_eq!((&*key.key, key.holders, key.queued), ("apple", 1, 1));
    assert_eq!(unlock(&address, &ticket).await, Ok(()));
    assert_eq!(handle.await.expect("its turn"), 42);
    assert_eq!(address.send(Inspect).await.expect("it answers").load(), Load::NONE);
}

#[actix::test]
async fn all_handles_and_keys_have_one_actor_while_it_has_an_address() {
    let mutex = mutex();
    let address = mutex.key("a").address();
    assert_eq!(address, mutex.clone().address());
    let guard = lock(&address, "a").await;
    drop(address);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    // its actor ended meanwhile, which is nothing to the lock
    assert_eq!(mutex.load().holders, 1);
    let ticket = guard.into_ticket();
    assert_eq!(unlock(&mutex.address(), &ticket).await, Ok(()));
}

#[test]
fn the_end_of_an_arbiter_loses_its_actors_and_no_lock() {
    actix_rt::System::new().block_on(async {
        let (mutex, arbiter) = (mutex(), Arbiter::new());
        let served = mutex.clone();
        let (tell, told) = oneshot::channel();
        arbiter.spawn_fn(move || drop(tell.send(served.address())));
        let address = told.await.expect("it starts there");
        let ticket = lock(&address, "").await.into_ticket();
        arbiter.stop();
        arbiter.join().expect("no panic");
        assert!(matches!(address.send(Lock::default()).await, Err(MailboxError::Closed)));
        let lost = address.send(Unlock { ticket: ticket.clone() }).await;
        assert_eq!(lost, Err(MailboxError::Closed));
        assert_eq!(mutex.load().holders, 1);
        // a new actor, here
        assert_eq!(unlock(&mutex.address(), &ticket).await, Ok(()));
        assert_eq!(mutex.load(), Load::NONE);
    });
}

#[actix::test]
async fn entries_by_message_count_and_are_reported() {
    tokio::time::pause();
    let period = Duration::from_millis(100);
    let throttle = Throttle::start(throttle::Options { max: 1, period, max_queue: Some(1) });
    let address = throttle.address();
    address.send(Enter::key("a")).await.expect("it answers").expect("the first one");
    let waiting = actix::spawn(address.send(Enter::key("a")));
    while throttle.load().queued == 0 {
        tokio::task::yield_now().await;
    }
    let refused = address.send(Enter::key("a")).await.expect("it answers");
    assert_eq!(refused.expect_err("one waits").code(), codes::DEFENSE_REJECTED);
    let report = address.send(Inspect).await.expect("it answers");
    assert_eq!((&*report.keys[0].key, report.keys[0].queued), ("a", 1));
    waiting.await.expect("no panic").expect("it answers").expect("the next period");
    tokio::time::sleep(2 * period).await;
    assert!(address.send(Inspect).await.expect("it answers").keys.is_empty());
    // the address does not keep the throttle alive
    drop(throttle);
    let error = address.send(Enter::default()).await.expect("it answers").expect_err("it is gone");
    assert_eq!(error.code(), codes::INTERNAL_ERROR);
}

#[actix::test]
async fn a_limiter_reports_holders_and_both_queues() {
    tokio::time::pause();
    let options = limiter::Options {
        concurrent: 2,
        max_queue: Some(1),
        rate: 1,
        period: Duration::from_millis(100),
        burst: Some(2),
    };
    let limiter = Limiter::start(options);
    let address = limiter.address();
    let guard = address.send(Lock::key("ann")).await.expect("it answers").expect("it is free");
    let others = [(); 2].map(|()| actix::spawn(address.send(Lock::key("ann"))));
    while limiter.load().queued < 2 {
        tokio::task::yield_now().await;
    }
    let report = address.send(Inspect).await.expect("it answers");
    assert_eq!(report.load(), Load { keys: 1, holders: 2, queued: 2 });
    drop(guard);
    for other in others {
        drop(other.await.expect("no panic").expect("it answers").expect("its turn"));
    }
    assert_eq!(limiter.load().holders, 0);
}
