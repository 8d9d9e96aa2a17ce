//! Large and deep flows neither overflow the stack nor take quadratic time.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_core::sync::{Mutex, mutex};
use asyncsteps_core::{AsyncSteps, Completion, Flow, Template};

use crate::flows::support::{end, wait};

const BRANCHES: usize = 10_000;
const LEVELS: u32 = 100_000;

/// A step inside of a step, and so on; the innermost one waits.
fn descend(asi: &mut AsyncSteps, levels: u32) {
    if levels == 0 {
        return asi.set_timeout(Duration::from_millis(1));
    }
    asi.add(move |asi, ()| descend(asi, levels - 1));
}

/// A branch inside of a branch, and so on; the innermost one waits.
fn branch_off(asi: &mut AsyncSteps, levels: u32) {
    if levels == 0 {
        return asi.set_timeout(Duration::from_millis(1));
    }
    asi.parallel(move |p| {
        p.add(move |asi, ()| branch_off(asi, levels - 1));
    });
}

/// A template inside of a template, and so on; the innermost one waits.
fn copy_deeply(asi: &mut AsyncSteps, levels: u32) {
    let template = Template::build(|asi| {
        asi.add(|asi, levels: u32| {
            if levels == 0 {
                return asi.set_timeout(Duration::from_millis(1));
            }
            let own = asi.state().get::<Template>("own").cloned().expect("it was set");
            asi.success_step(levels - 1);
            asi.copy_from(&own);
        });
        asi.add(|_, ()| {});
    });
    asi.state_mut().set("own", template.clone());
    asi.success_step(levels);
    asi.copy_from(&template);
}

/// A loop inside of a loop, and so on; the innermost one leaves all.
fn spiral(asi: &mut AsyncSteps, levels: u32) {
    asi.make_loop(move |asi| match levels {
        0 => asi.break_loop("OUTERMOST"),
        _ => {
            spiral(asi, levels - 1);
            Ok(())
        }
    });
}

#[test]
fn deep_levels_are_left_by_an_error_or_a_drop() {
    for nest in [descend, branch_off, copy_deeply] {
        let deep = || {
            let mut flow = Flow::new();
            flow.add(move |asi, ()| nest(asi, LEVELS));
            flow.execute()
        };
        let mut execution = deep();
        wait(&mut execution, 0);
        assert_eq!(end::<()>(&mut execution, 1).expect_err("expired").code(), "Timeout");
        let mut execution = deep();
        wait(&mut execution, 0);
        drop(execution);
    }
}

#[test]
fn deep_loops_are_left_at_once() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.make_loop(|asi| spiral(asi, LEVELS)).label("OUTERMOST");
    });
    assert!(end::<()>(&mut flow.execute(), 0).is_ok());
}

#[test]
fn a_loop_under_many_levels_breaks_without_walking_over_them() {
    fn busy(asi: &mut AsyncSteps, levels: u32) {
        if levels > 0 {
            asi.add(move |asi, ()| busy(asi, levels - 1));
            return;
        }
        asi.repeat(LEVELS as usize, |asi, _| {
            asi.make_loop(|asi| asi.break_loop(None));
        });
    }
    let mut flow = Flow::new();
    flow.add(|asi, ()| busy(asi, LEVELS));
    assert!(end::<()>(&mut flow.execute(), 0).is_ok());
}

type Handles = Rc<RefCell<Vec<Completion>>>;

/// A flow with many waiting branches, each with a limit.
fn wide() -> (Flow, Handles) {
    let handles = Handles::default();
    let given = Rc::clone(&handles);
    let mut flow = Flow::new();
    flow.parallel(move |p| {
        for _ in 0..BRANCHES {
            let given = Rc::clone(&given);
            p.add(move |asi, ()| {
                asi.set_timeout(Duration::from_secs(1));
                given.borrow_mut().push(asi.wait_external());
            });
        }
    });
    (flow, handles)
}

#[test]
fn many_branches_complete_fail_and_are_cancelled() {
    let (flow, handles) = wide();
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    for handle in handles.take() {
        handle.success(()).expect("it waits");
    }
    assert!(end::<()>(&mut execution, 0).is_ok());

    let (flow, handles) = wide();
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    let last = handles.borrow_mut().pop().expect("there are many");
    last.error("Last", ()).expect("it waits");
    assert_eq!(end::<()>(&mut execution, 0).expect_err("one failed").code(), "Last");
    assert!(handles.borrow().iter().all(|handle| !handle.is_valid()));

    let (flow, handles) = wide();
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    drop(execution);
    assert!(handles.borrow().iter().all(|handle| !handle.is_valid()));
}

#[test]
fn many_owners_pass_a_mutex_on() {
    let mutex = Mutex::new(mutex::Options { max: 2, max_queue: None });
    let mut flow = Flow::new();
    flow.state_mut().set("entered", 0usize);
    let shared = mutex.clone();
    flow.parallel(move |p| {
        for _ in 0..BRANCHES {
            let mutex = shared.clone();
            p.add(move |asi, ()| {
                asi.sync(&mutex, |asi, ()| {
                    *asi.state_mut().get_mut::<usize>("entered").expect("it was set") += 1;
                    asi.sleep(Duration::ZERO);
                });
            });
        }
    });
    flow.add(|asi, ()| asi.success(asi.state().get::<usize>("entered").copied()));
    let mut execution = flow.execute();
    let entered = loop {
        match execution.run(asyncsteps_core::Time::ZERO, std::task::Waker::noop()) {
            asyncsteps_core::Progress::Done(outcome) => {
                break outcome.into_result::<Option<usize>>();
            }
            asyncsteps_core::Progress::Ready | asyncsteps_core::Progress::Waiting => {}
        }
    };
    assert_eq!(entered.expect("nothing fails"), Some(BRANCHES));
    assert_eq!((mutex.holders(), mutex.queued()), (0, 0));
}
