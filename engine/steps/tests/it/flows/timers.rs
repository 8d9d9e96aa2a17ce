//! Time limits and waits for a point in time (FTN12 §1.3, §2.2.2 `setTimeout`).

use std::time::Duration;

use asyncsteps_core::{AsyncSteps, Flow, codes};

use crate::flows::support::{Log, at, end, wait};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_limit_of_zero_expires_on_the_next_turn() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.set_timeout(Duration::ZERO));
    let mut execution = flow.execute();
    wait(&mut execution, 7);
    assert_eq!(execution.deadline(), Some(at(7)));
    assert_eq!(end::<()>(&mut execution, 7).expect_err("expired").code(), codes::TIMEOUT);
    assert_eq!(execution.deadline(), None);
}

#[test]
fn a_limit_of_zero_lets_a_step_complete_that_does_not_wait() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.set_timeout(Duration::ZERO);
        asi.add(|asi, ()| asi.success("in time"));
    });
    let mut execution = flow.execute();
    assert_eq!(end::<String>(&mut execution, 0).expect("nothing waits"), "in time");
    assert_eq!(execution.deadline(), None);
}

#[test]
fn a_later_limit_replaces_an_earlier_one() {
    for (first, second) in [(10, 20), (20, 10)] {
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            asi.set_timeout(ms(first));
            asi.set_timeout(ms(second));
        });
        let mut execution = flow.execute();
        wait(&mut execution, 0);
        assert_eq!(execution.deadline(), Some(at(second)));
        wait(&mut execution, second - 1);
        assert!(end::<()>(&mut execution, second).is_err());
    }
}

#[test]
fn the_longest_limit_never_expires() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.set_timeout(Duration::MAX));
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    wait(&mut execution, u64::MAX / 2_000_000);
}

#[test]
fn limits_expire_by_time_and_are_raised_in_the_innermost_step() {
    let log = Log::default();
    let nest = |asi: &mut AsyncSteps, log: &Log, outer: u64, inner: u64| {
        let (a, b) = (log.clone(), log.clone());
        asi.add(move |asi, ()| {
            asi.set_timeout(ms(outer));
            asi.add(move |asi, ()| {
                asi.set_timeout(ms(inner));
                asi.wait_only();
            })
            .on_error(move |_, error| a.add(format_args!("inner:{}", error.code())));
        })
        .on_error(move |asi, error| {
            b.add(format_args!("outer:{}", error.code()));
            asi.success(())
        });
    };
    for (outer, inner) in [(10, 20), (20, 10), (10, 10)] {
        let steps = log.clone();
        let mut flow = Flow::new();
        flow.add(move |asi, ()| nest(asi, &steps, outer, inner));
        let mut execution = flow.execute();
        wait(&mut execution, 0);
        assert!(end::<()>(&mut execution, 10).is_ok());
        assert_eq!(log.take(), "inner:Timeout outer:Timeout");
        assert_eq!(execution.deadline(), None);
    }
}

#[test]
fn an_inner_handler_may_recover_from_an_outer_limit_which_is_used_up() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.set_timeout(ms(10));
        asi.add(|asi, ()| asi.wait_only()).on_error(|asi, _| {
            assert_eq!(asi.error_info(), None, "a timeout has none");
            asi.success(())
        });
        asi.sleep(ms(100));
    });
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    wait(&mut execution, 10);
    assert_eq!(execution.deadline(), Some(at(110)));
    assert!(end::<()>(&mut execution, 110).is_ok());
}

#[test]
fn the_steps_that_replace_a_timed_one_have_no_limit() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.set_timeout(ms(10))).on_error(|asi, _| {
        asi.add(|asi, ()| asi.wait_only());
    });
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    wait(&mut execution, 10);
    assert_eq!(execution.deadline(), None);
    wait(&mut execution, 1000);
}

#[test]
fn a_busy_flow_times_out_too() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.set_timeout(ms(10));
        asi.make_loop(|asi| {
            asi.add(|_, ()| {});
        });
    });
    let mut execution = flow.execute();
    for now in 0..10 {
        let progress = execution.run(at(now), std::task::Waker::noop());
        assert!(matches!(progress, asyncsteps_core::Progress::Ready), "{progress:?}");
    }
    assert_eq!(end::<()>(&mut execution, 10).expect_err("expired").code(), codes::TIMEOUT);
}

#[test]
fn a_step_sleeps_until_its_time_and_gives_no_result() {
    let mut flow = Flow::new();
    flow.success_step(1);
    flow.add(|asi, n: i32| {
        asi.success_step(n);
        asi.sleep(ms(10));
        asi.add(|asi, args: asyncsteps_core::Args| asi.success(args.len()));
    });
    let mut execution = flow.execute();
    wait(&mut execution, 5);
    assert_eq!(execution.deadline(), Some(at(15)));
    wait(&mut execution, 14);
    assert_eq!(end::<usize>(&mut execution, 16).expect("it woke up"), 0);
}

#[test]
fn a_waiting_step_has_both_a_limit_and_a_time_to_wake_up() {
    for (limit, wake_up, expected) in [(10, 20, false), (20, 10, true), (10, 10, true)] {
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            asi.set_timeout(ms(limit));
            asi.wait_until(at(1000));
            asi.wait_until(at(wake_up));
        });
        let mut execution = flow.execute();
        wait(&mut execution, 0);
        assert_eq!(end::<()>(&mut execution, 10).is_ok(), expected);
        assert_eq!(execution.deadline(), None, "both are off");
    }
}

#[test]
fn an_earlier_completion_ends_the_sleep() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.wait_until(at(10));
        asi.completion().success("earlier").expect("it waits");
    });
    let mut execution = flow.execute();
    assert_eq!(end::<String>(&mut execution, 0).expect("completed"), "earlier");
    assert_eq!(execution.deadline(), None);
}

#[test]
fn a_step_with_sub_steps_completes_with_them() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.wait_until(at(10));
        asi.sleep(ms(20));
    });
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    wait(&mut execution, 10);
    assert!(end::<()>(&mut execution, 20).is_ok());
}
