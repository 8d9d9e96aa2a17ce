//! A completion that was accepted is not lost, whatever the body does meanwhile: its step takes it, or
//! fails because its body broke a rule. What is refused changes nothing.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{spawn, yield_now};
use std::time::Duration;

use asyncsteps_core::sync::Mutex;
use asyncsteps_core::{
    AsyncSteps, Completion, Error, Flow, Interrupter, Stale, StepResult, Template, codes,
};

use crate::flows::support::{end, wait};

/// Has another thread complete the step, before this returns.
fn complete(handle: Completion, result: i32) -> Result<(), Stale> {
    spawn(move || handle.success(result)).join().expect("no panic")
}

/// The info of the `InternalError` with which a flow of one step fails.
fn broken(body: impl FnOnce(&mut AsyncSteps) -> StepResult + 'static) -> String {
    let mut flow = Flow::new();
    flow.add(move |asi, ()| body(asi)).named("culprit");
    let error = end::<i32>(&mut flow.execute(), 0).expect_err("a rule was broken");
    assert_eq!(error.code(), codes::INTERNAL_ERROR, "{error}");
    assert_eq!(error.location().and_then(|place| place.name()), Some("culprit"));
    let info = error.info().expect("it names the rule");
    info.split_once(", in the step ").map_or(info, |(rule, _)| rule).to_owned()
}

#[test]
fn a_body_that_succeeds_after_its_step_was_completed_breaks_a_rule() {
    let rule = broken(|asi| {
        assert_eq!(complete(asi.wait_external(), 1), Ok(()));
        asi.success(2)
    });
    assert_eq!(rule, "success after an external completion");
    let rule = broken(|asi| {
        asi.completion().error("Mine", ()).expect("the step is in progress");
        asi.success(2)
    });
    assert_eq!(rule, "success after an external completion");
}

#[test]
fn a_completion_of_a_step_whose_sub_steps_do_not_wait_breaks_a_rule() {
    let adding: [fn(&mut AsyncSteps); 4] = [
        |asi| {
            asi.success_step(2);
        },
        |asi| {
            asi.repeat(2, |_, _| {});
        },
        |asi| {
            asi.copy_from(&Template::build(|asi| {
                asi.success_step(2);
            }));
        },
        |asi| {
            asi.parallel(|_| {});
        },
    ];
    for add in adding {
        let rule = broken(move |asi| {
            assert_eq!(complete(asi.wait_external(), 1), Ok(()));
            add(asi);
            Ok(())
        });
        assert_eq!(rule, "external completion of a step with sub-steps");
    }
    let rule = broken(|asi| {
        let handle = asi.wait_external();
        asi.add(move |asi, ()| {
            assert_eq!(complete(handle, 1), Ok(()));
            asi.success(2)
        });
        Ok(())
    });
    assert_eq!(rule, "external completion of a step with sub-steps");
    let rule = broken(|asi| {
        asi.repeat(1, |asi, _| {
            assert_eq!(complete(asi.wait_external(), 1), Ok(()));
            asi.add(|_, ()| {});
        })
        .named("culprit");
        Ok(())
    });
    assert_eq!(rule, "external completion of a step with sub-steps");
}

#[test]
fn the_step_whose_rule_was_broken_can_recover() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        assert_eq!(complete(asi.wait_external(), 1), Ok(()));
        asi.success_step(2);
    })
    .on_error(|asi, _| asi.success(3));
    assert_eq!(end::<i32>(&mut flow.execute(), 0).expect("it recovered"), 3);
}

#[test]
fn a_completion_of_a_step_that_does_not_wait_counts_while_its_body_runs() {
    let bodies: [fn(&mut AsyncSteps); 2] = [
        |asi| assert_eq!(complete(asi.completion(), 7), Ok(())),
        |asi| {
            let handle = asi.completion();
            drop(handle.clone());
            assert_eq!(complete(handle, 7), Ok(()));
        },
    ];
    for body in bodies {
        let mut flow = Flow::new();
        flow.add(move |asi, ()| body(asi));
        assert_eq!(end::<i32>(&mut flow.execute(), 0).expect("completed"), 7);
        let template = Template::build(move |asi| {
            asi.add(move |asi, ()| body(asi));
        });
        assert_eq!(end::<i32>(&mut template.flow().execute(), 0).expect("completed"), 7);
    }
    let mut flow = Flow::new();
    flow.sync(&Mutex::default(), |asi, ()| {
        assert_eq!(complete(asi.completion(), 7), Ok(()));
    });
    assert_eq!(end::<i32>(&mut flow.execute(), 0).expect("completed"), 7);
    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.completion().error("Mine", ()).expect("it is in progress"));
    assert_eq!(end::<()>(&mut flow.execute(), 0).expect_err("failed").code(), "Mine");
}

#[test]
fn a_handle_is_stale_from_the_success_of_the_body_on() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        let handle = asi.wait_external();
        asi.success(2)?;
        assert!(!handle.is_valid());
        assert_eq!(complete(handle, 1), Err(Stale));
        assert_eq!(complete(asi.completion(), 1), Err(Stale), "made afterwards");
        Ok(())
    });
    assert_eq!(end::<i32>(&mut flow.execute(), 0).expect("nothing was broken"), 2);
}

#[test]
fn a_handle_made_by_a_handler_is_stale() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.set_cancel(|asi| assert_eq!(complete(asi.completion(), 1), Err(Stale)));
        asi.error("Mine", ())
    })
    .on_error(|asi, _| {
        assert_eq!(complete(asi.completion(), 2), Err(Stale));
        asi.success_step(3);
    });
    assert_eq!(end::<i32>(&mut flow.execute(), 0).expect("it recovered"), 3);
}

#[test]
fn a_handle_is_stale_as_soon_as_its_flow_is_cancelled() {
    let slot = Rc::new(RefCell::new(None));
    let given = Rc::clone(&slot);
    let mut flow = Flow::new();
    let canceller = flow.canceller();
    flow.add(move |asi, ()| drop(given.replace(Some(asi.wait_external()))));
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    let handle = slot.take().expect("the step waits");
    assert!(handle.is_valid());
    canceller.cancel();
    assert!(!handle.is_valid(), "the flow was cancelled");
    assert_eq!(handle.success(1), Err(Stale));
}

#[test]
fn an_interrupt_is_not_lost_when_its_step_ends_in_the_same_turn() {
    let interrupt = |interrupter: &Interrupter| interrupter.interrupt(Error::new("LockLost"));
    let mut by_sub_step = Flow::new();
    by_sub_step.add(move |asi, ()| {
        let interrupter = asi.interrupter();
        asi.add(move |_, ()| assert_eq!(interrupt(&interrupter), Ok(())));
    });
    let mut by_body = Flow::new();
    by_body.add(move |asi, ()| {
        assert_eq!(interrupt(&asi.interrupter()), Ok(()));
        asi.success(())
    });
    let mut implicit = Flow::new();
    implicit.add(move |asi, ()| {
        assert_eq!(interrupt(&asi.interrupter()), Ok(()));
    });
    for flow in [by_sub_step, by_body, implicit] {
        let error = end::<()>(&mut flow.execute(), 0).expect_err("it was interrupted");
        assert_eq!(error.code(), "LockLost");
    }
}

/// A thread that completes steps with 1 as soon as it gets their handles, and returns what each
/// completion said.
fn completer() -> (SyncSender<Completion>, Receiver<Result<(), Stale>>) {
    let (handles, given) = sync_channel::<Completion>(1);
    let (answers, said) = sync_channel(1);
    spawn(move || {
        while let Ok(handle) = given.recv() {
            if answers.send(handle.success(1)).is_err() {
                break;
            }
        }
    });
    (handles, said)
}

#[test]
fn no_round_of_a_race_loses_a_result_that_was_accepted() {
    let ends: [fn(&mut AsyncSteps) -> StepResult; 3] = [
        |asi| asi.success(2),
        |asi| {
            asi.success_step(2);
            Ok(())
        },
        |asi| {
            asi.set_timeout(Duration::from_secs(9));
            asi.add(|_, ()| yield_now());
            asi.success_step(2);
            Ok(())
        },
    ];
    let (handles, said) = completer();
    for round in 0..6_000 {
        let (give, finish) = (handles.clone(), ends[round % ends.len()]);
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            give.send(asi.wait_external()).expect("the thread waits for it");
            if round % 2 == 0 {
                yield_now();
            }
            finish(asi)
        });
        let result = end::<i32>(&mut flow.execute(), 0);
        match said.recv().expect("it answers") {
            Ok(()) => {
                let error = result.expect_err("its result was accepted beside that of the body");
                assert_eq!(error.code(), codes::INTERNAL_ERROR, "round {round}");
            }
            Err(Stale) => assert_eq!(result.expect("nothing was broken"), 2, "round {round}"),
        }
    }
}

#[test]
fn a_step_that_does_not_wait_takes_what_was_accepted_in_each_round_of_a_race() {
    let (handles, said) = completer();
    for round in 0..6_000 {
        let give = handles.clone();
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            give.send(asi.completion()).expect("the thread waits for it");
            if round % 2 == 0 {
                yield_now();
            }
        });
        flow.add(|asi, args: asyncsteps_core::Args| asi.success(args.len()));
        let taken = end::<usize>(&mut flow.execute(), 0).expect("no rule was broken");
        let accepted = said.recv().expect("it answers").is_ok();
        assert_eq!(taken, usize::from(accepted), "round {round}");
    }
}
