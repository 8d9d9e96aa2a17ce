//! A result that was accepted completes its step, also if other events come in the same turn, and a
//! cancel takes effect before the next step.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use asyncsteps_core::{
    AsyncSteps, Canceller, Completion, Error, Flow, Outcome, Parallel, Progress, Stale, Template,
    codes,
};

use crate::flows::support::{Log, at, end, run, wait};

/// The handles of waiting steps, in the order in which these started.
type Handles = Rc<RefCell<Vec<Completion>>>;

/// A step that waits for one of the handles, and logs its cancel.
fn waiting(
    handles: &Handles,
    log: &Log,
    name: &'static str,
) -> impl FnOnce(&mut AsyncSteps, ()) + use<> {
    let (handles, log) = (Rc::clone(handles), log.clone());
    move |asi, ()| {
        asi.set_cancel(move |_| log.add(format_args!("x{name}")));
        handles.borrow_mut().push(asi.wait_external());
    }
}

/// Branches of a waiting step and one after it, and the log of what they did.
fn branches(count: usize) -> (Flow, Handles, Log) {
    const NAMES: [(&str, &str); 3] = [("1", "1+"), ("2", "2+"), ("3", "3+")];
    let (handles, log) = (Handles::default(), Log::default());
    let mut flow = Flow::new();
    flow.parallel(|p| {
        for (name, next) in &NAMES[..count] {
            let (handles, log) = (Rc::clone(&handles), log.clone());
            p.add(move |asi, ()| {
                let outer = log.clone();
                asi.set_cancel(move |_| outer.add(format_args!("x({name})")));
                asi.add(waiting(&handles, &log, name));
                asi.add(move |_, ()| log.add(next));
            });
        }
    });
    (flow, handles, log)
}

#[test]
fn branches_go_on_in_the_order_in_which_they_were_completed() {
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let (flow, handles, log) = branches(3);
        let mut execution = flow.execute();
        wait(&mut execution, 0);
        for at in order {
            handles.borrow()[at].success(()).expect("it waits");
        }
        end::<()>(&mut execution, 0).expect("all are complete");
        let expected = order.map(|at| format!("{}+", at + 1)).join(" ");
        assert_eq!(log.take(), expected);
    }
}

/// The handles of waiting steps, by the numbers of their branches.
type Numbered = Rc<RefCell<BTreeMap<usize, Completion>>>;

/// Branches that wait for their handles and then run this many steps, in which they log their number.
fn numbered(
    handles: &Numbered,
    log: &Log,
    count: usize,
    steps: usize,
) -> impl FnOnce(&mut Parallel) {
    let (handles, log) = (Rc::clone(handles), log.clone());
    move |p| {
        for number in 0..count {
            let (handles, log) = (Rc::clone(&handles), log.clone());
            p.add(move |asi, ()| {
                asi.add(move |asi, ()| {
                    handles.borrow_mut().insert(number, asi.wait_external());
                });
                asi.add(move |_, ()| log.add(number));
                for _ in 1..steps {
                    asi.add(|_, ()| {});
                }
            });
        }
    }
}

#[test]
fn branches_go_on_in_the_order_of_their_completions_also_if_timers_are_due() {
    // more arrivals than steps in a turn and fewer, and branches that go on in a later turn
    for (count, steps) in [(3, 1), (99, 1), (60, 3), (500, 1), (500, 4)] {
        let (handles, log) = (Numbered::default(), Log::default());
        let define = numbered(&handles, &log, count, steps);
        let timers = log.clone();
        let mut flow = Flow::new();
        flow.parallel(move |p| {
            define(p);
            for name in ["t1", "t2"] {
                let (woken, expired) = (timers.clone(), timers.clone());
                p.add(move |asi, ()| {
                    asi.add(|asi, ()| asi.wait_until(at(5)));
                    asi.add(move |_, ()| woken.add(name));
                    asi.add(|asi, ()| asi.set_timeout(Duration::from_millis(5)))
                        .on_error(|asi, _| asi.success(()));
                    asi.add(move |_, ()| expired.add(name));
                });
            }
        });
        let mut execution = flow.execute();
        wait(&mut execution, 0);
        let order: Vec<usize> = (0..count).map(|n| (n * 7 + 2) % count).collect();
        for (done, number) in order.iter().enumerate() {
            if done == count / 2 {
                // in this turn the timers are due; the branches of the first half go on in it or later
                let _ = execution.run(at(5), Waker::noop());
            }
            handles.borrow()[number].success(()).expect("it waits");
        }
        wait(&mut execution, 9);
        end::<()>(&mut execution, 20).expect("all are complete");
        let log = log.take();
        let went_on: Vec<&str> = log.split(' ').filter(|entry| !entry.starts_with('t')).collect();
        let expected: Vec<String> = order.iter().map(usize::to_string).collect();
        assert_eq!(went_on, expected, "{count} branches of {steps} steps");
        let timers: Vec<&str> = log.split(' ').filter(|entry| entry.starts_with('t')).collect();
        assert_eq!(timers, ["t1", "t2", "t1", "t2"]);
    }
}

#[test]
fn what_a_timer_ends_goes_on_after_what_was_completed_before() {
    let (handles, log) = (Numbered::default(), Log::default());
    let (define, timer) = (numbered(&handles, &log, 2, 1), log.clone());
    let mut flow = Flow::new();
    flow.parallel(|p| {
        p.add(move |asi, ()| {
            asi.add(|asi, ()| asi.wait_until(at(5)));
            asi.add(move |_, ()| timer.add("t"));
        });
        define(p);
    });
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    for number in [1, 0] {
        handles.borrow()[&number].success(()).expect("it waits");
    }
    end::<()>(&mut execution, 5).expect("all are complete");
    assert_eq!(log.take(), "1 0 t");
}

#[test]
fn a_step_that_was_completed_before_a_cancel_is_complete() {
    for by_handle in [true, false] {
        let (flow, handles, log) = branches(2);
        let mut execution = flow.execute();
        let canceller = execution.canceller();
        wait(&mut execution, 0);
        let handles = handles.take();
        assert_eq!(handles[0].success(()), Ok(()));
        if by_handle {
            canceller.cancel();
            assert_eq!(handles[1].success(()), Err(Stale), "the cancel came before");
            assert!(matches!(run(&mut execution, 0), Progress::Done(Outcome::Cancelled)));
        } else {
            execution.cancel();
            assert_eq!(handles[1].success(()), Err(Stale));
        }
        assert_eq!(log.take(), "x(1) x2 x(2)");
    }
}

#[test]
fn a_step_that_was_completed_after_the_failure_of_a_sibling_is_complete() {
    let (flow, handles, log) = branches(2);
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    assert_eq!(handles.borrow()[0].error("Mine", ()), Ok(()));
    assert_eq!(handles.borrow()[1].success(()), Ok(()));
    let error = end::<()>(&mut execution, 0).expect_err("a branch failed");
    assert_eq!(error.code(), "Mine");
    assert_eq!(log.take(), "x1 x(1) x(2)", "the step of the second branch was over");
}

#[test]
fn a_step_that_was_completed_in_the_turn_of_a_failure_is_complete() {
    let (handles, log) = (Handles::default(), Log::default());
    let mut flow = Flow::new();
    let (given, inner) = (Rc::clone(&handles), log.clone());
    flow.parallel(|p| {
        p.add(waiting(&given, &inner, "1"));
        p.add(move |asi, ()| {
            assert_eq!(given.borrow()[0].success(()), Ok(()));
            asi.error("Mine", ())
        });
    });
    assert_eq!(end::<()>(&mut flow.execute(), 0).expect_err("it failed").code(), "Mine");
    assert_eq!(log.take(), "");
}

#[test]
fn a_result_in_the_turn_of_a_time_limit_comes_first() {
    let (handles, log) = (Handles::default(), Log::default());
    let mut flow = Flow::new();
    let (given, inner) = (Rc::clone(&handles), log.clone());
    flow.parallel(|p| {
        // its limit expires first, and its handler completes the other one
        let early = Rc::clone(&given);
        p.add(|asi, ()| {
            asi.add(|asi, ()| asi.set_timeout(Duration::from_millis(5)));
        })
        .on_error(move |asi, _| {
            assert_eq!(early.borrow()[0].success(()), Ok(()));
            asi.success(())
        });
        p.add(move |asi, ()| {
            asi.set_timeout(Duration::from_millis(5));
            waiting(&given, &inner, "2")(asi, ());
        })
        .on_error(|_, error| unreachable!("{error}"));
    });
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    end::<()>(&mut execution, 5).expect("the second branch was completed in time");
    assert_eq!(log.take(), "");
}

#[test]
fn a_result_in_the_turn_of_a_wake_up_comes_first() {
    let mut flow = Flow::new();
    let handle = Rc::new(RefCell::new(None));
    let given = Rc::clone(&handle);
    flow.add(move |asi, ()| {
        given.replace(Some(asi.completion()));
        asi.wait_until(at(5));
    });
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    handle.take().expect("it waits").success(7).expect("it waits");
    assert_eq!(end::<i32>(&mut execution, 5).expect("completed"), 7);
}

/// Runs a flow whose steps can cancel it; gives what they logged.
fn cancelled(define: impl FnOnce(&mut AsyncSteps, Canceller, Log)) -> String {
    let log = Log::default();
    let mut flow = Flow::new();
    let canceller = flow.canceller();
    define(flow.steps(), canceller, log.clone());
    let mut execution = flow.execute();
    assert!(matches!(run(&mut execution, 0), Progress::Done(Outcome::Cancelled)));
    log.take()
}

#[test]
fn after_a_cancel_by_a_step_no_further_step_runs() {
    let by_step = cancelled(|asi, canceller, log| {
        asi.add(move |asi, ()| {
            asi.set_cancel(move |_| log.add("x"));
            canceller.cancel();
            asi.add(|_, ()| unreachable!("it is cancelled"));
        });
        asi.add(|_, ()| unreachable!("it is cancelled"));
    });
    assert_eq!(by_step, "x");
    let by_last_step = cancelled(|asi, canceller, _| {
        asi.add(move |asi, ()| {
            canceller.cancel();
            asi.success(1)
        });
    });
    assert_eq!(by_last_step, "");
    let by_iteration = cancelled(|asi, canceller, log| {
        asi.repeat(3, move |_, i| {
            log.add(i);
            canceller.cancel();
        });
    });
    assert_eq!(by_iteration, "0");
    let by_failing_step = cancelled(|asi, canceller, _| {
        asi.add(move |asi, ()| {
            canceller.cancel();
            asi.error("Mine", ())
        })
        .on_error(|_, _| unreachable!("no error handlers"));
    });
    assert_eq!(by_failing_step, "");
}

#[test]
fn after_a_cancel_by_a_handler_no_further_step_runs() {
    let by_error_handler = cancelled(|asi, canceller, log| {
        asi.add(move |asi, ()| {
            asi.set_cancel(move |_| log.add("x"));
            asi.add(|asi, ()| asi.error("Mine", ())).on_error(move |_, _| canceller.cancel());
        })
        .on_error(|_, _| unreachable!("no error handlers"));
    });
    assert_eq!(by_error_handler, "x");
    let by_cancel_handler = cancelled(|asi, canceller, _| {
        asi.add(move |asi, ()| {
            asi.set_cancel(move |_| canceller.cancel());
            asi.error("Mine", ())
        })
        .on_error(|_, _| unreachable!("no error handlers"));
    });
    assert_eq!(by_cancel_handler, "");
}

#[test]
fn a_step_of_a_template_can_cancel_its_flow() {
    let template = Template::build(|asi| {
        asi.add(|asi, ()| {
            if let Some(canceller) = asi.state_mut().take::<Canceller>("canceller") {
                canceller.cancel();
            }
        });
        asi.add(|_, ()| unreachable!("it is cancelled"));
    });
    let mut flow = template.flow();
    let canceller = flow.canceller();
    flow.state_mut().set("canceller", canceller);
    assert!(matches!(run(&mut flow.execute(), 0), Progress::Done(Outcome::Cancelled)));
}

#[test]
fn arrivals_are_received_in_turns_too() {
    let handles = Handles::default();
    let mut flow = Flow::new();
    flow.parallel(|p| {
        for _ in 0..1_000 {
            p.add(waiting(&handles, &Log::default(), ""));
        }
    });
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    handles.take().iter().for_each(|handle| handle.success(()).expect("it waits"));
    let turns = std::iter::from_fn(|| {
        let progress = execution.run(at(0), Waker::noop());
        matches!(progress, Progress::Ready).then_some(())
    });
    assert!(turns.count() >= 9, "one turn took them all");
    assert!(!execution.is_valid());
}

#[test]
fn errors_from_elsewhere_get_the_location_of_the_step_that_raises_them() {
    let raise: [fn(&mut AsyncSteps) -> asyncsteps_core::StepResult; 3] = [
        |asi| {
            let number = "x".parse::<u8>()?;
            asi.success(number)
        },
        |_| Err(Error::new("Mine"))?,
        |asi| {
            let handle = asi.wait_external();
            handle.fail(Error::new("Mine")).expect("it waits");
            Ok(())
        },
    ];
    for raise in raise {
        let mut flow = Flow::new();
        flow.add(move |asi, ()| raise(asi)).named("culprit");
        let error = end::<()>(&mut flow.execute(), 0).expect_err("it failed");
        assert_eq!(error.location().and_then(|place| place.name()), Some("culprit"));
    }
    let mut flow = Flow::new();
    flow.await_(async { "x".parse::<u8>() }).named("culprit");
    let error = end::<u8>(&mut flow.execute(), 0).expect_err("it failed");
    assert_eq!(error.location().and_then(|place| place.name()), Some("culprit"));
}

#[test]
fn a_timeout_names_the_step_that_had_the_limit() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.set_timeout(Duration::from_millis(5));
        asi.add(|asi, ()| asi.wait_only()).named("inside");
    })
    .named("owner");
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    let error = end::<()>(&mut execution, 7).expect_err("too late");
    assert_eq!((error.code(), error.info()), (codes::TIMEOUT, None));
    assert_eq!(error.limit(), Some(Duration::from_millis(5)));
    assert_eq!(error.location().and_then(|place| place.name()), Some("owner"));
    assert!(error.to_string().starts_with("Timeout: the limit of 5ms of the step `owner` at "));
}
