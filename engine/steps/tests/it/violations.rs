//! Every broken rule of the API ends in `InternalError` with the rule and the location of the step.

use std::time::Duration;

use asyncsteps_core::{AsyncSteps, Error, Flow, StepReturn, Template, codes, run_to_end};

/// The rule that the only step of a flow broke, as the error handler around it sees it.
fn broken_by<R: StepReturn>(body: impl FnOnce(&mut AsyncSteps) -> R + 'static) -> String {
    let mut flow = Flow::new();
    flow.add(move |asi, ()| body(asi)).named("culprit");
    rule(run_to_end::<()>(flow))
}

/// The rule that an error handler broke.
fn broken_by_handler<R: StepReturn>(
    handler: impl FnOnce(&mut AsyncSteps) -> R + 'static,
) -> String {
    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.error("First", ()))
        .on_error(move |asi, _| handler(asi))
        .named("culprit");
    rule(run_to_end::<()>(flow))
}

fn rule(result: Result<(), Error>) -> String {
    let error = result.expect_err("a rule was broken");
    assert_eq!(error.code(), codes::INTERNAL_ERROR, "{error}");
    assert!(!error.is_deliberate(), "{error}");
    let info = error.info().expect("it names the rule");
    let (rule, place) = info.split_once(", in the step ").expect("it names the step");
    assert!(place.starts_with("`culprit` at engine/steps/tests/it/violations.rs:"), "{place}");
    let at = error.location().expect("it has a place");
    assert_eq!((at.name(), at.file()), (Some("culprit"), file!()));
    rule.to_owned()
}

#[test]
fn a_step_with_sub_steps_neither_succeeds_nor_fails() {
    let success = "success after adding sub-steps";
    assert_eq!(
        broken_by(|asi| {
            asi.add(|_, ()| {});
            asi.success(())
        }),
        success
    );
    assert_eq!(
        broken_by(|asi| {
            asi.parallel(|_| {});
            asi.success(1)
        }),
        success
    );
    assert_eq!(
        broken_by(|asi| {
            asi.repeat(0, |_, _| {});
            asi.success(())
        }),
        success
    );
    assert_eq!(
        broken_by(|asi| {
            asi.success_step(1);
            asi.success(2)
        }),
        success
    );
    assert_eq!(
        broken_by(|asi| {
            asi.sleep(Duration::ZERO);
            asi.success(2)
        }),
        success
    );
    assert_eq!(
        broken_by(|asi| {
            asi.copy_from(&Template::build(|asi| {
                asi.add(|_, ()| {});
            }));
            asi.success(())
        }),
        success
    );
    assert_eq!(
        broken_by(|asi| {
            asi.add(|_, ()| {});
            asi.error("MyError", ())
        }),
        "error after adding sub-steps"
    );
    let ends: [fn(&mut AsyncSteps) -> asyncsteps_core::StepResult; 2] =
        [|asi| asi.break_loop(None), |asi| asi.continue_loop("OUTER")];
    for end in ends {
        assert_eq!(
            broken_by(move |asi| {
                let body = move |asi: &mut AsyncSteps, _| {
                    asi.add(|_, ()| {});
                    end(asi)
                };
                asi.repeat(2, body).label("OUTER").named("culprit");
            }),
            "the end of a loop after adding sub-steps"
        );
        assert_eq!(
            broken_by(move |asi| {
                asi.repeat(2, move |asi, _| {
                    let mut step = asi.add(|asi, ()| asi.error("First", ()));
                    step.named("culprit").on_error(move |asi, _| {
                        asi.add(|_, ()| {});
                        end(asi)
                    });
                })
                .label("OUTER");
            }),
            "the end of a loop after adding sub-steps"
        );
    }
}

#[test]
fn a_step_completes_once() {
    assert_eq!(
        broken_by(|asi| {
            asi.success(1)?;
            asi.success(2)
        }),
        "success was called twice"
    );
    assert_eq!(
        broken_by(|asi| {
            asi.success(())?;
            asi.error("MyError", ())
        }),
        "error after success"
    );
    assert_eq!(
        broken_by(|asi| {
            asi.success(())?;
            Err::<(), _>(Error::new("MyError"))?;
            Ok(())
        }),
        "error after success"
    );
    assert_eq!(
        broken_by(|asi| {
            asi.success(())?;
            asi.add(|_, ()| {});
            Ok(())
        }),
        "adding a sub-step after success"
    );
    assert_eq!(
        broken_by(|asi| {
            asi.success(())?;
            asi.break_loop(None)
        }),
        "the end of a loop after success"
    );
}

#[test]
fn a_broken_rule_is_not_hidden_by_what_follows_it() {
    assert_eq!(
        broken_by(|asi| {
            let _ = asi.success(1);
            let _ = asi.success(2);
            asi.error("Mine", ())
        }),
        "success was called twice"
    );
    assert_eq!(
        broken_by_handler(|asi| {
            asi.set_timeout(Duration::ZERO);
            asi.error("Mine", ())
        }),
        "set_timeout outside of a step body (add a step instead)"
    );
    assert_eq!(
        broken_by_handler(|asi| {
            asi.set_cancel(|_| {});
            Err::<(), _>(Error::new("Mine"))?;
            Ok(())
        }),
        "set_cancel outside of a step body (add a step instead)"
    );
    assert_eq!(
        broken_by_handler(|asi| {
            asi.set_cancel(|_| {});
            asi.success(())
        }),
        "set_cancel outside of a step body (add a step instead)"
    );
}

#[test]
fn an_error_handler_completes_once() {
    assert_eq!(
        broken_by_handler(|asi| {
            asi.add(|_, ()| {});
            asi.success(())
        }),
        "success after adding sub-steps"
    );
    assert_eq!(
        broken_by_handler(|asi| {
            asi.success(())?;
            asi.success(())
        }),
        "success was called twice"
    );
    assert_eq!(
        broken_by_handler(|asi| {
            asi.success(())?;
            asi.add(|_, ()| {});
            Ok(())
        }),
        "adding a sub-step after success"
    );
    assert_eq!(
        broken_by_handler(|asi| {
            asi.add(|_, ()| {});
            asi.error("Mine", ())
        }),
        "error after adding sub-steps"
    );
}

#[test]
fn an_error_handler_does_not_wait() {
    let rule = |what| format!("{what} outside of a step body (add a step instead)");
    assert_eq!(broken_by_handler(|asi| asi.set_timeout(Duration::MAX)), rule("set_timeout"));
    assert_eq!(broken_by_handler(|asi| asi.set_cancel(|_| {})), rule("set_cancel"));
    assert_eq!(broken_by_handler(|asi| drop(asi.wait_external())), rule("wait_external"));
    assert_eq!(broken_by_handler(|asi| asi.wait_only()), rule("wait_only"));
    assert_eq!(broken_by_handler(|asi| asi.wait_until(asi.now())), rule("wait_until"));
}

#[test]
fn the_end_of_a_loop_needs_a_loop() {
    assert_eq!(broken_by(|asi| asi.break_loop(None)), "break_loop is not inside a loop");
    assert_eq!(broken_by(|asi| asi.continue_loop(None)), "continue_loop is not inside a loop");
    assert_eq!(
        broken_by_handler(|asi| asi.break_loop("OUTER")),
        "break_loop(\"OUTER\") is not inside a loop with that label"
    );
    assert_eq!(
        broken_by(|asi| {
            asi.repeat(1, |asi, _| asi.continue_loop("OTHER")).label("OUTER").named("culprit");
        }),
        "continue_loop(\"OTHER\") is not inside a loop with that label"
    );
}

#[test]
fn a_branch_has_no_result() {
    let rule = "success with arguments in the step of a parallel branch";
    assert_eq!(
        broken_by(|asi| {
            asi.parallel(|p| {
                p.add(|asi, ()| asi.success(1)).named("culprit");
            });
        }),
        rule
    );
    assert_eq!(
        broken_by(|asi| {
            asi.parallel(|p| {
                let mut branch = p.add(|asi, ()| asi.error("MyError", ()));
                branch.on_error(|asi, _| asi.success(1)).named("culprit");
            });
        }),
        rule
    );
}

#[test]
fn a_missing_argument_is_a_violation() {
    let given = |give: fn(&mut AsyncSteps)| {
        broken_by(move |asi| {
            give(asi);
            asi.add(|_, _: (u8, String)| {}).named("culprit");
        })
    };
    let wants = "the step takes (u8, alloc::string::String) and was given ";
    assert_eq!(given(|_| {}), format!("{wants}nothing"));
    assert_eq!(
        given(|asi| {
            asi.success_step(1);
        }),
        format!("{wants}i32")
    );
    assert_eq!(
        given(|asi| {
            asi.success_step((300, "a"));
        }),
        format!("{wants}(i32, &str)")
    );
}

#[test]
fn an_error_that_was_not_raised_is_a_violation() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        let kept = asi.error("MyError", ());
        asi.state_mut().set("kept", kept);
    })
    .on_error(|asi, _| asi.success(()));
    flow.add(|asi, ()| {
        let kept = asi.state_mut().take::<asyncsteps_core::StepResult>("kept");
        kept.unwrap_or(Ok(()))
    })
    .named("culprit");
    assert_eq!(rule(run_to_end(flow)), "an error was returned that the callback did not raise");
}

#[test]
fn a_flow_being_configured_adds_steps_and_does_not_complete() {
    let mut flow = Flow::new();
    flow.steps().repeat(2, |asi, i| asi.state_mut().set("last", i));
    flow.steps().add(|asi, ()| asi.success(asi.state().get::<usize>("last").copied().unwrap_or(9)));
    assert_eq!(run_to_end::<usize>(flow).expect("nothing was broken"), 1);

    let mut flow = Flow::new();
    assert!(flow.steps().success(1).is_err());
    flow.add(|asi, ()| asi.success(2)).on_error(|asi, _| asi.success(3));
    let error = run_to_end::<i32>(flow).expect_err("a rule was broken");
    assert!(error.info().is_some_and(|info| info.starts_with("success outside of a callback")));
}

#[test]
fn a_callback_can_ask_what_it_raised() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        assert!(asi.raised().is_none());
        let _ = asi.error("First", "1");
        let _ = asi.error("Second", ());
        let raised = asi.raised().expect("it was raised");
        assert_eq!((raised.code(), raised.info()), ("First", Some("1")));
    })
    .on_error(|asi, _| asi.success(()));
    flow.steps().make_loop(|asi| {
        let _ = asi.break_loop(None);
        assert!(asi.raised().is_none() && asi.check().is_err());
    });
    run_to_end::<()>(flow).expect("nothing is left");
}
