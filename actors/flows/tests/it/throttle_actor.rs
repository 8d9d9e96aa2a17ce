//! Throttle and limiter, in virtual time: entries per period, order, limits, keys.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_actors::flow::{FlowHandle, start_flow};
use asyncsteps_actors::sync::{Enter, Inspect, Limiter, Load, Lock, Mutex, Registry, Throttle};
use asyncsteps_core::sync::{limiter, mutex, throttle};
use asyncsteps_core::{Flow, codes};
use expect_test::{Expect, expect};
use tokio::time::Instant;

const PERIOD: Duration = Duration::from_millis(100);

/// Who entered, and when, in tens of milliseconds.
#[derive(Clone)]
struct Entries(Rc<RefCell<Vec<String>>>, Instant);

impl Entries {
    fn new() -> Self {
        tokio::time::pause();
        Self(Rc::default(), Instant::now())
    }

    fn note(&self, what: &str) {
        // timers of tokio are up to two milliseconds late, in virtual time too
        let time = self.1.elapsed().as_millis() / 10 * 10;
        self.0.borrow_mut().push(format!("{what} at {time}"));
    }

    fn check(&self, expected: Expect) {
        expected.assert_eq(&self.0.borrow().join("\n"));
    }
}

fn throttle(max: u32, max_queue: Option<u32>) -> Throttle {
    Throttle::start(throttle::Options { max, period: PERIOD, max_queue })
}

fn enter(throttle: &Throttle, name: &'static str, entries: &Entries) -> FlowHandle {
    let entries = entries.clone();
    let mut flow = Flow::new();
    flow.sync(throttle, move |_, ()| entries.note(name));
    start_flow(flow)
}

#[actix::test]
async fn a_window_takes_max_entries_and_the_queue_follows_in_order() {
    let entries = Entries::new();
    let throttle = throttle(2, None);
    let flows = ["a", "b", "c", "d", "e"].map(|name| enter(&throttle, name, &entries));
    for flow in flows {
        flow.await.expect("each has its turn");
    }
    entries.check(expect![[r#"
        a at 0
        b at 0
        c at 100
        d at 100
        e at 200"#]]);
}

#[actix::test]
async fn the_first_entry_after_an_idle_time_opens_a_window() {
    let entries = Entries::new();
    let throttle = throttle(1, Some(0));
    for (pause, accepted) in [(0, true), (60, false), (60, true), (80, false), (40, true)] {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let entered = enter(&throttle, "entered", &entries).await;
        assert_eq!(entered.is_ok(), accepted);
        if let Err(error) = entered {
            assert_eq!(error.code(), codes::DEFENSE_REJECTED);
            assert_eq!(error.info(), Some("Throttle queue limit"));
        }
    }
    entries.check(expect![[r#"
        entered at 0
        entered at 120
        entered at 240"#]]);
}

#[actix::test]
async fn a_waiter_that_leaves_makes_room_for_the_next() {
    let entries = Entries::new();
    let throttle = throttle(1, None);
    let first = enter(&throttle, "a", &entries);
    let second = enter(&throttle, "b", &entries);
    let third = enter(&throttle, "c", &entries);
    first.await.expect("it is the first");
    drop(second);
    third.await.expect("it has the turn of the second");
    entries.check(expect![[r#"
        a at 0
        c at 100"#]]);
}

#[actix::test]
async fn keys_have_windows_of_their_own() {
    let entries = Entries::new();
    let throttle = throttle(1, None);
    let flows = [("x", "x1"), ("y", "y1"), ("x", "x2"), ("y", "y2")]
        .map(|(key, name)| enter(&throttle.key(key), name, &entries));
    for flow in flows {
        flow.await.expect("each has its turn");
    }
    entries.check(expect![[r#"
        x1 at 0
        y1 at 0
        x2 at 100
        y2 at 100"#]]);
}

#[actix::test]
async fn a_limiter_bounds_who_is_inside_and_how_many_enter() {
    let entries = Entries::new();
    let options = limiter::Options {
        concurrent: 2,
        max_queue: Some(2),
        rate: 3,
        period: PERIOD,
        burst: Some(2),
    };
    let limiter = Limiter::start(options);
    let flows = ["a", "b", "c", "d", "e"].map(|name| {
        let entries = entries.clone();
        let mut flow = Flow::new();
        flow.add(|asi, ()| asi.success(7));
        flow.sync(&limiter, move |asi, n: i32| {
            entries.note(name);
            asi.sleep(Duration::from_millis(30));
            asi.success_step(n);
        });
        start_flow::<i32>(flow)
    });
    let mut rejected = Vec::new();
    for (number, flow) in flows.into_iter().enumerate() {
        match flow.await {
            Ok(result) => assert_eq!(result, 7, "arguments pass in and results pass out"),
            Err(error) => rejected.push((number, error.code().to_owned())),
        }
    }
    assert_eq!(rejected, [(4, codes::DEFENSE_REJECTED.to_owned())]);
    entries.check(expect![[r#"
        a at 0
        b at 0
        c at 30
        d at 100"#]]);
}

#[actix::test]
async fn calls_and_messages_enter_by_the_same_queue_as_flows() {
    let entries = Entries::new();
    let throttle = throttle(1, Some(3));
    let address = throttle.address();
    assert!(throttle.try_enter().expect("its actor lives"));
    let flow = enter(&throttle, "flow", &entries);
    let message = async {
        address.send(Enter::default()).await.expect("it runs").expect("its turn");
        entries.note("message");
    };
    let call = async {
        throttle.enter().await.expect("its turn");
        entries.note("call");
    };
    let given_up = actix::spawn(address.send(Enter::key("other")));
    let both = async { tokio::join!(message, call) };
    let (end, _) = tokio::join!(flow, both);
    end.expect("its turn");
    given_up.await.expect("no panic").expect("it runs").expect("another key");
    assert!(!throttle.try_enter().expect("its actor lives"));
    // the message had to travel first
    entries.check(expect![[r#"
        flow at 100
        call at 200
        message at 300"#]]);
}

#[actix::test]
async fn a_call_or_message_that_is_dropped_gives_up_its_place() {
    tokio::time::pause();
    let throttle = throttle(1, None);
    let message = throttle.address().send(Enter::default());
    message.await.expect("it runs").expect("the first one");
    let call = actix::spawn(throttle.enter());
    let message = actix::spawn(throttle.address().send(Enter::default()));
    while throttle.load().queued < 2 {
        tokio::task::yield_now().await;
    }
    call.abort();
    message.abort();
    while throttle.load().queued > 0 {
        tokio::task::yield_now().await;
    }
    let load = throttle.address().send(Inspect).await.expect("it runs").load();
    assert_eq!(load, Load { keys: 1, ..Load::NONE });
    tokio::time::sleep(2 * PERIOD).await;
    assert_eq!(throttle.load(), Load::NONE);
}

#[actix::test]
async fn an_actor_of_a_limiter_answers_when_both_limits_allow_it() {
    tokio::time::pause();
    let options = limiter::Options {
        concurrent: 1,
        max_queue: Some(1),
        rate: 1,
        period: PERIOD,
        burst: None,
    };
    let limiter = Limiter::start(options);
    let address = limiter.address();
    let start = Instant::now();
    let guard = address.send(Lock::default()).await.expect("it runs").expect("it is free");
    drop(guard);
    let guard = address.send(Lock::default()).await.expect("it runs").expect("the next period");
    assert!(start.elapsed() >= PERIOD);
    let waiting = actix::spawn(address.send(Lock::default()));
    while limiter.load().queued == 0 {
        tokio::task::yield_now().await;
    }
    let error = address.send(Lock::default()).await.expect("it runs").expect_err("one waits");
    assert_eq!(error.code(), codes::DEFENSE_REJECTED);
    drop(guard);
    drop(waiting.await.expect("no panic").expect("it runs").expect("its turn"));
    let other = address.send(Lock::key("other")).await.expect("it runs").expect("another key");
    assert_eq!(address.send(Inspect).await.expect("it runs").load().holders, 1);
    drop(other);
}

/// The text of the panic that starting something raises.
fn refusal<T>(start: impl FnOnce() -> T + std::panic::UnwindSafe) -> String {
    let Err(payload) = std::panic::catch_unwind(start) else { panic!("it was not refused") };
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

#[test]
fn a_throttle_or_limiter_outside_of_actix_is_refused_with_what_to_do() {
    let text = "a throttle starts on an actix arbiter; elsewhere use `start_on`";
    assert_eq!(refusal(|| Throttle::start(throttle::Options::default())), text);
    assert_eq!(refusal(|| Limiter::start(limiter::Options::default())), text);
}

#[actix::test]
async fn limits_of_zero_are_refused() {
    let mutex = refusal(|| Mutex::new(mutex::Options { max: 0, max_queue: None }));
    assert_eq!(mutex, "the `max` of a mutex is 0: no flow could enter");
    let none = throttle::Options { max: 0, ..Default::default() };
    assert_eq!(
        refusal(|| Throttle::start(none)),
        "the `max` of a throttle is 0: no flow could enter"
    );
    let registry = Registry::new();
    let error = registry.define("none", none).expect_err("no flow could enter");
    assert_eq!(
        error.to_string(),
        "`none` cannot be defined: the `max` of a throttle is 0: no flow could enter"
    );
}
