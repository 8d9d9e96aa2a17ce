//! Detection can be switched off, for the whole process: so this test has a process of its own.

use std::time::Duration;

use asyncsteps_actors::flow::{FlowHandle, start_flow};
use asyncsteps_actors::sync::{Mutex, deadlock};
use asyncsteps_core::{Flow, codes};

fn nested(outer: &Mutex, inner: &Mutex) -> FlowHandle {
    let inner = inner.clone();
    let mut flow = Flow::new();
    flow.sync(outer, move |asi, ()| {
        asi.sleep(Duration::from_millis(1));
        asi.sync(&inner, |_, ()| {});
    });
    start_flow(flow)
}

#[actix::test]
async fn while_detection_is_off_flows_wait_until_something_ends_them() {
    tokio::time::pause();
    let (a, b) = (Mutex::new(Default::default()), Mutex::new(Default::default()));
    deadlock::disable();
    let (one, two) = (nested(&a, &b), nested(&b, &a));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(one.is_valid() && two.is_valid());
    assert_eq!((deadlock::count(), deadlock::watched().len()), (0, 0));
    one.cancel();
    assert!(one.await.is_err());
    two.await.expect("the other one is gone");

    deadlock::enable();
    let (one, two) = (nested(&a, &b), nested(&b, &a));
    let error = two.await.expect_err("the newest wait");
    assert_eq!((error.code(), deadlock::count()), (codes::INTERNAL_ERROR, 1));
    one.await.expect("the other one made room");
}
