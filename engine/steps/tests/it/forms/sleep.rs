//! `asyncsteps_core::sleep` in async bodies is a timer of the flow.

use std::task::Waker;
use std::time::Duration;

use asyncsteps_core::{Flow, Progress, Retry, Time, codes, sleep};

use crate::forms::support::{fails, ms, run};

#[test]
fn a_body_sleeps_in_the_time_of_its_host() {
    let mut flow = Flow::new();
    flow.run(async |()| {
        sleep(ms(20)).await;
        sleep(Duration::ZERO).await;
        sleep(ms(30)).await;
        Ok(7)
    });
    let (result, end) = run::<i32>(flow);
    assert_eq!((result.unwrap(), end), (7, 50));
}

#[test]
fn branches_and_items_sleep_each_for_itself() {
    let mut flow = Flow::new();
    flow.parallel(|p| {
        for pause in [30, 10] {
            p.run(async move |()| {
                sleep(ms(pause)).await;
                Ok(())
            });
        }
    });
    flow.add(|asi, ()| {
        asi.each([50, 20, 40], 2, async |pause: u64| {
            sleep(ms(pause)).await;
            Ok(pause)
        });
    });
    let (result, end) = run::<Vec<u64>>(flow);
    // 20 makes room for 40 at the time 20
    assert_eq!((result.unwrap(), end), (vec![50, 20, 40], 30 + 60));
}

#[test]
fn a_time_limit_ends_a_sleep_and_a_retry_begins_a_new_one() {
    let mut flow = Flow::new();
    flow.run(async |()| {
        sleep(ms(500)).await;
        Ok(())
    })
    .timeout(ms(100))
    .retry(Retry::attempts(3).backoff(ms(10)));
    assert_eq!(fails(flow), (codes::TIMEOUT.to_owned(), 330));
}

#[test]
fn a_sleep_that_was_dropped_wakes_nothing() {
    let mut flow = Flow::new();
    flow.run(async |()| {
        let mut long = Box::pin(sleep(ms(500)));
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(long.as_mut().poll(cx)));
        assert!(polled.await.is_pending());
        drop(long);
        sleep(ms(5)).await;
        std::future::pending::<Result<(), asyncsteps_core::StepError>>().await
    })
    .timeout(ms(50));
    let mut execution = flow.execute();
    let at = |time| Time::ZERO + ms(time);
    for (now, next) in [(0, 5), (5, 50)] {
        assert!(matches!(execution.run(at(now), Waker::noop()), Progress::Waiting));
        assert_eq!(execution.deadline(), Some(at(next)));
    }
}

#[test]
fn a_sleep_outside_of_steps_says_so() {
    let polled = std::panic::catch_unwind(|| {
        let mut pause = Box::pin(sleep(ms(1)));
        pause.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())).is_ready()
    });
    let text = polled.expect_err("there is no flow");
    let text = text.downcast_ref::<&str>().expect("a text");
    assert_eq!(*text, "`asyncsteps::sleep` is polled outside of a step of a flow");
}
