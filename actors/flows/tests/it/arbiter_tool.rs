//! AsyncTool (FTN12 §2.6) on an arbiter, in virtual time.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_actors::tool::{ArbiterGone, ArbiterTool};
use asyncsteps_core::Flow;
use asyncsteps_core::tool::AsyncTool;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[actix::test]
async fn callbacks_run_by_time_and_can_be_taken_back() {
    tokio::time::pause();
    let tool = ArbiterTool::current();
    let log: Rc<RefCell<Vec<&str>>> = Rc::default();
    let adds = |line| {
        let log = Rc::clone(&log);
        move || log.borrow_mut().push(line)
    };
    tool.deferred(ms(20), adds("late"));
    let early = tool.deferred(ms(10), adds("early"));
    tool.immediate(adds("now"));
    let cancelled = [tool.deferred(ms(5), adds("no")), tool.immediate(adds("no"))];
    for handle in &cancelled {
        assert!(tool.is_valid(handle));
        tool.cancel(handle);
        assert!(!tool.is_valid(handle));
    }
    assert!(log.borrow().is_empty() && tool.is_same_thread());
    let start = tool.now();
    tokio::time::sleep(ms(30)).await;
    assert!(tool.now().saturating_since(start) >= ms(30));
    assert_eq!(*log.borrow(), ["now", "early", "late"]);
    assert!(!tool.is_valid(&early), "it ran");
}

#[actix::test]
async fn promises_of_flows_are_futures_there_too() {
    tokio::time::pause();
    let tool = ArbiterTool::current();
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.sleep(ms(3_600_000));
        asi.success_step("tea");
    });
    let promise = flow.promise::<String, _>(&tool);
    assert_eq!(promise.await.expect("nothing fails"), "tea");
}

#[actix::test]
async fn other_threads_reach_the_arbiter_until_it_is_gone() {
    let arbiter = actix_rt::Arbiter::new();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    arbiter.spawn_fn(move || {
        let remote = ArbiterTool::current().remote().expect("an arbiter");
        drop(sender.send((remote.is_same_thread(), remote)));
    });
    let (there, remote) = receiver.await.expect("it answers");
    assert!(there && !remote.is_same_thread());
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let inner = remote.clone();
    remote
        .immediate(move |tool| {
            tool.immediate(move || {
                let _ = sender.send(inner.is_same_thread());
            });
        })
        .expect("it is there");
    assert_eq!(receiver.await, Ok(true));
    arbiter.stop();
    arbiter.join().expect("no panic");
    assert_eq!(remote.immediate(|_| {}), Err(ArbiterGone));
}
